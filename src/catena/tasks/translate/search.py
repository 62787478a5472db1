"""Search for translations: candidates, copied words, ensembles, attention maps, and export to other formats."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from catena.data.batches import pad
from catena.data.special_tokens import BEGIN_SYMBOL, END_SYMBOL, UNK_SYMBOL
from catena.data.vocabulary import UNK
from catena.errors import ConfigError, TooLongError
from catena.kernels.linear.int8_weight import Int8Weight
from catena.search.config import BaseSearchConfig
from catena.search.hypothesis import Hypothesis
from catena.search.stepper import Stepper
from catena.seq2seq.base import EncoderDecoder, Source
from catena.seq2seq.recurrent import RecurrentEncoderDecoder
from catena.seq2seq.transformer import TransformerSeq2Seq
from catena.tasks.attention_maps import AttentionMaps
from catena.tasks.text_search import HypothesisDetails, SearchModel, TextSearch
from catena.tasks.translate.candidates import Candidates, CandidateStepper, restrict_output
from catena.tasks.translate.config import OutputTextConfig, TranslateOptions
from catena.tasks.translate.data import TranslationExample
from catena.tasks.translate.encoding import PairEncoding, TranslationSource, build_batch
from catena.tasks.translate.predict import TranslationPrediction, copy_unknown_words, mean_weights, most_attended

MAX_SOURCE_TOKENS = 100_000
"""Largest number of source tokens; the time of attention grows with its square."""


@dataclass(frozen=True, eq=False)
class EnsembleModel(SearchModel[TranslationSource]):
    """A network with its encoding, one of an ensemble."""

    network: EncoderDecoder
    encoding: PairEncoding

    @property
    def copies(self) -> bool:
        """Whether the network can copy source tokens."""
        return bool(getattr(self.network, "copies", False))

    def code(self, text: str) -> TranslationSource:
        """An encoded source."""
        return self.encoding.code(self.encoding.source.tokenizer.tokens(text))

    def batch(self, sources: Sequence[TranslationSource]) -> Source:
        """Padded sources on the device of the network."""
        return build_batch(sources, self.network.device, self.copies)


class TranslationSearch(TextSearch[TranslationSource]):
    """Searches for translations with one or more models.

    Args:
        models: the models; the first one provides the attention weights and the target vocabulary.
        settings: length limits and output vocabulary.
        candidates: candidate target tokens of each source; None for the full vocabulary.
        longest: the longest source and target of the models; None if there is no limit.
    """

    def __init__(
        self,
        models: Sequence[EnsembleModel],
        settings: OutputTextConfig,
        candidates: Candidates | None = None,
        longest: int | None = None,
    ) -> None:
        super().__init__(models, models[0].encoding.target, settings, longest)
        self.translators, self.encoding, self.candidates = list(models), models[0].encoding, candidates

    # --- translations -------------------------------------------------------------------------------------------------

    def translate(
        self, examples: Sequence[TranslationExample], config: BaseSearchConfig, options: TranslateOptions
    ) -> list[list[TranslationPrediction]]:
        """The translations of each text, best first; an empty one for a text without tokens."""
        copies = self.settings.unknown == "copy"
        coded = [[model.code(example.source) for model in self.translators] for example in examples]
        filled = [i for i, example in enumerate(examples) if example.source.strip() and len(coded[i][0]) > 1]
        constraints = [examples[i].constraints for i in filled]
        found = self.search([coded[i] for i in filled], config, constraints, options.seed)
        rows = [(i, one) for i, listed in zip(filled, found, strict=True) for one in listed]
        details: list[HypothesisDetails | None] = [None] * len(rows)
        if options.scores or options.alignment or copies:
            sources, own = [coded[i] for i, _ in rows], [examples[i].constraints for i, _ in rows]
            attends = options.alignment or copies
            details = list(self.details(sources, [one for _, one in rows], own, attends))
        ranked: list[list[TranslationPrediction]] = [[] for _ in examples]
        for (i, one), detail in zip(rows, details, strict=True):
            ranked[i].append(self._prediction(examples[i].source, coded[i][0], one, detail, options))
        for i, example in enumerate(examples):
            if not ranked[i]:
                ranked[i].append(self._empty(example.source, coded[i][0].tokens[:-1], options))
        return ranked

    def _prediction(
        self,
        text: str,
        source: TranslationSource,
        one: Hypothesis,
        details: HypothesisDetails | None,
        options: TranslateOptions,
    ) -> TranslationPrediction:
        tokens = self.encoding.tokens(one.ids, source.new)
        written, words = tokens, source.tokens[:-1]
        read, shown = self.encoding.source.shown(words), self.encoding.target.shown(tokens)
        made = TranslationPrediction(
            text, tuple(read), "", tuple(shown), one.log_prob, one.score, not one.finished, self._knows(words)
        )
        made = replace(made, ids=tuple(one.ids))
        if details is not None:
            steps = len(tokens) + one.finished
            attention = tuple(layer[:, :steps] for layer in details.attention)
            if self.settings.unknown == "copy" and UNK_SYMBOL in tokens:
                written = copy_unknown_words(tokens, source.tokens, details.attention)
            if options.scores:
                made = replace(made, log_probs=details.log_probs[:steps])
            if options.alignment:
                made = replace(made, attention=attention, links=_links(read, shown, attention))
        return replace(made, translation=self.encoding.text(written))

    def _empty(self, text: str, words: tuple[str, ...], options: TranslateOptions) -> TranslationPrediction:
        """The prediction for a text without tokens."""
        return TranslationPrediction(
            text,
            tuple(self.encoding.source.shown(words)),
            known=self._knows(words),
            log_probs=() if options.scores else None,
            attention=() if options.alignment else None,
            links=() if options.alignment else None,
        )

    def _knows(self, tokens: Sequence[str]) -> bool:
        """Whether any alphanumeric token is in the vocabulary, or the model can copy it."""
        alphanumeric = [token for token in tokens if any(map(str.isalnum, token))] or tokens
        known = self.encoding.source.vocabulary.ids(alphanumeric)
        return any(id != UNK for id in known) or (bool(tokens) and self.translators[0].copies)

    # --- hooks of the search ------------------------------------------------------------------------------------------

    def check_lengths(self, sources: Sequence[Sequence[TranslationSource]], lengths: Sequence[int]) -> None:
        most = max(range(len(sources)), key=lengths.__getitem__, default=0)
        if not sources or lengths[most] <= min(self.longest or MAX_SOURCE_TOKENS, MAX_SOURCE_TOKENS):
            return
        limit = f"at most {MAX_SOURCE_TOKENS:,} tokens"
        if self.longest is not None and self.longest < MAX_SOURCE_TOKENS:
            limit = f"at most {self.longest:,} tokens (model.max_length)"
        begins = " ".join(sources[most][0].tokens[:5])[:60]
        raise TooLongError(
            f"A text must have {limit}, got {lengths[most]:,}. Split the text that starts with {begins!r} into "
            f"sentences."
        )

    def stepper(self, sources: Sequence[Sequence[TranslationSource]], is_constrained: bool) -> Stepper[Any]:
        """The stepper to search; with constraints it uses the full vocabulary."""
        if self.candidates is None or is_constrained:
            return super().stepper(sources, is_constrained)
        allowed = self.candidates.allowed([coded[0].ids for coded in sources])
        steppers: list[Stepper[Any]] = []
        for k, model in enumerate(self.models):
            device = model.network.device
            with restrict_output(model.network, allowed.any(dim=0).nonzero()[:, 0].to(device)):
                stepper = model.network.stepper(model.batch([coded[k] for coded in sources]))
            # Restrict each model separately: probabilities normalized over a batch's candidates cannot be averaged.
            steppers.append(CandidateStepper(stepper, allowed.to(device)))
        return self.combine(steppers)

    def restricts(self, is_constrained: bool) -> bool:
        return super().restricts(is_constrained) or (self.candidates is not None and not is_constrained)


def _links(
    source: Sequence[str], target: Sequence[str], attention: Sequence[np.ndarray]
) -> tuple[tuple[str, str], ...]:
    """The aligned tokens."""
    if not attention:
        return ()
    return tuple((source[s], target[t]) for s, t in most_attended(mean_weights(attention), len(target)))


# --- attention maps ---------------------------------------------------------------------------------------------------


@torch.no_grad()
def map_attention(model: EnsembleModel, prediction: TranslationPrediction, within: str | None) -> AttentionMaps:
    """The attention weights of a translation.

    Args:
        model: the model that attends.
        prediction: the translation, made with alignments.
        within: ``"source"`` or ``"target"`` for self-attention; None for attention to the source.
    """
    encoding, network = model.encoding, model.network
    read = (*prediction.source_tokens, END_SYMBOL)
    written = (*prediction.tokens, *([] if prediction.truncated else [END_SYMBOL]))
    if within is None:
        return AttentionMaps(prediction.attention or (), written, read)
    coded = model.code(prediction.source)
    source = model.batch([coded])
    if within == "source":
        layers = _of_first(network.source_attention(source), len(read))
        return AttentionMaps(layers, read, read, "read", "attended to")
    targets, lengths = (x.to(network.device) for x in pad([np.array([*prediction.ids, encoding.end])]))
    layers = _of_first(network.target_attention(source, targets, lengths), len(written))
    return AttentionMaps(layers, written, (BEGIN_SYMBOL, *written)[: len(written)], "written", "after")


def _of_first(layers: Sequence[Tensor], n: int) -> tuple[np.ndarray, ...]:
    return tuple(weights[0, :, :n, :n].float().cpu().numpy() for weights in layers)


# --- other formats ----------------------------------------------------------------------------------------------------


def export_model(
    to: str, model: EncoderDecoder, encoding: PairEncoding, folder: Path, quantization: str | None = None
) -> None:
    """Export a model to a new folder.

    The input of an exported model is the tokens of a source followed by the end symbol.

    Args:
        to: ``"ctranslate2"`` or ``"onnx"``.
        model: the model to export.
        encoding: its tokenizers and vocabularies.
        folder: the folder to create.
        quantization: quantization type of CTranslate2, such as ``"int8"``.
    """
    if any(isinstance(weight, Int8Weight) for weight in model.parameters()):
        raise ConfigError("A model with 8-bit weights cannot be exported. Load it without quantization.")
    if to == "ctranslate2":
        from catena.export.ctranslate2 import SpecialTokenNames, to_ctranslate2

        if not isinstance(model, TransformerSeq2Seq):
            cure = "Pass --to onnx" if isinstance(model, RecurrentEncoderDecoder) else "Train a Transformer"
            raise ConfigError(f"CTranslate2 supports only Transformers. {cure}.")
        source, target = encoding.source.vocabulary, encoding.target.vocabulary
        tokens = SpecialTokenNames(source.tokens(range(len(source))), target.tokens(range(len(target))), UNK_SYMBOL)
        to_ctranslate2(model, tokens, folder, quantization)
    elif to == "onnx":
        from catena.export.onnx import to_onnx

        if quantization is not None:
            raise ConfigError(
                f"--quantization applies only to ctranslate2, got {quantization!r}. Remove it, or pass --to "
                f"ctranslate2."
            )
        to_onnx(model, folder)
    else:
        raise ConfigError(f"--to must be ctranslate2 or onnx, got {to!r}. Pass one of the two.")
    encoding.save(folder)
