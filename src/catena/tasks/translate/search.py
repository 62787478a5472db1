"""Search for translations: batches of similar length, steppers, candidates and constraints."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from catena.data.batches import pad
from catena.data.vocabulary import UNK, UNK_SYMBOL
from catena.errors import DataError
from catena.search.build import search, wrap_stepper
from catena.search.combine import Ensemble
from catena.search.config import BaseSearchConfig, RankingConfig
from catena.search.constrained import Constrained
from catena.search.forbid_ids import ForbidIds
from catena.search.hypothesis import Hypotheses, Hypothesis
from catena.search.stepper import Stepper
from catena.search.text_constraints import TextConstraints
from catena.seq2seq.base import EncoderDecoder, Source
from catena.tasks.translate.candidates import Candidates, CandidateStepper, restrict_output
from catena.tasks.translate.config import OutputTextConfig, TranslateOptions
from catena.tasks.translate.data import TranslationExample
from catena.tasks.translate.encoding import PairEncoding, TranslationSource, build_batch
from catena.tasks.translate.predict import TranslationPrediction, copy_unknown_words, mean_weights, most_attended

STEP = 32
"""Length limits are rounded up to a multiple of this, so that sources of similar length are in one batch."""
MAX_SOURCE_TOKENS = 100_000
"""Largest number of source tokens; the time of attention grows with its square."""
BATCH_TOKENS = {"cpu": 1200, "cuda": 24_000}
"""Number of source tokens in a batch by device type, with padding."""
_SCORED_TOGETHER = 16
"""Number of hypotheses whose token log-probabilities and attention weights are computed together."""


@dataclass(frozen=True, eq=False)
class EnsembleModel:
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


@dataclass(frozen=True, eq=False)
class HypothesisDetails:
    """Token log-probabilities and attention weights of a translation.

    Args:
        log_probs: log-probability of each target token; the end symbol is last.
        attention: weights ``[head, t, s]`` of each layer that attends to the source.
    """

    log_probs: tuple[float, ...]
    attention: tuple[np.ndarray, ...]


class TranslationSearch:
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
        self.models, self.settings, self.candidates, self.longest = list(models), settings, candidates, longest

    @property
    def encoding(self) -> PairEncoding:
        return self.models[0].encoding

    # --- translations -------------------------------------------------------------------------------------------------

    def translate(
        self, examples: Sequence[TranslationExample], config: BaseSearchConfig, options: TranslateOptions
    ) -> list[list[TranslationPrediction]]:
        """The translations of each text, best first; an empty one for a text without tokens."""
        copies = self.settings.unknown == "copy"
        coded = [[model.code(example.source) for model in self.models] for example in examples]
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
        made = TranslationPrediction(
            text, words, "", tuple(tokens), one.log_prob, one.score, not one.finished, self._knows(words)
        )
        if details is not None:
            steps = len(tokens) + one.finished
            attention = tuple(layer[:, :steps] for layer in details.attention)
            if self.settings.unknown == "copy" and UNK_SYMBOL in tokens:
                written = copy_unknown_words(tokens, source.tokens, details.attention)
            if options.scores:
                made = replace(made, log_probs=details.log_probs[:steps])
            if options.alignment:
                made = replace(made, attention=attention, links=self._links(words, tokens, attention))
        return replace(made, translation=self.encoding.text(written))

    def _links(
        self, source: Sequence[str], target: Sequence[str], attention: Sequence[np.ndarray]
    ) -> tuple[tuple[str, str], ...]:
        """The aligned tokens in readable form."""
        if not attention:
            return ()
        positions = most_attended(mean_weights(attention), len(target))
        read, written = self.encoding.source.shown(source), self.encoding.target.shown(target)
        return tuple((read[s], written[t]) for s, t in positions)

    def _empty(self, text: str, words: tuple[str, ...], options: TranslateOptions) -> TranslationPrediction:
        """The prediction for a text without tokens."""
        return TranslationPrediction(
            text,
            words,
            known=self._knows(words),
            log_probs=() if options.scores else None,
            attention=() if options.alignment else None,
            links=() if options.alignment else None,
        )

    def _knows(self, tokens: Sequence[str]) -> bool:
        """Whether any alphanumeric token is in the vocabulary, or the model can copy it."""
        alphanumeric = [token for token in tokens if any(map(str.isalnum, token))] or tokens
        known = self.encoding.source.vocabulary.ids(alphanumeric)
        return any(id != UNK for id in known) or (bool(tokens) and self.models[0].copies)

    # --- searching ----------------------------------------------------------------------------------------------------

    @torch.no_grad()
    def search(
        self,
        sources: Sequence[Sequence[TranslationSource]],
        config: BaseSearchConfig,
        constraints: Sequence[TextConstraints],
        seed: int = 0,
    ) -> Hypotheses:
        """The hypotheses of each source, best first; ``sources[i][k]`` is source ``i`` encoded for model ``k``."""
        found: Hypotheses = [[] for _ in sources]
        generator = torch.Generator().manual_seed(seed)
        for rows, limit in self._batches(sources, config, constraints):
            coded = [sources[row] for row in rows]
            limited = config.model_copy(update={"max_length": limit})
            listed = self._search(coded, limited, constraints[rows[0]], generator)
            for row, hypotheses in zip(rows, listed, strict=True):
                found[row] = hypotheses
        return found

    def limit(self, length: int, config: BaseSearchConfig) -> int:
        """The largest number of steps for a source of ``length`` tokens, with its end symbol."""
        wanted = STEP * math.ceil((self.settings.ratio * length + self.settings.extra) / STEP)
        return max(min(wanted, config.max_length, self.longest or wanted), config.min_length + 1)

    def _batches(
        self,
        sources: Sequence[Sequence[TranslationSource]],
        config: BaseSearchConfig,
        constraints: Sequence[TextConstraints],
    ) -> Iterator[tuple[list[int], int]]:
        """Batches of rows of similar length with the same limit and constraints, longest first."""
        capacity = BATCH_TOKENS.get(self.models[0].network.device.type, BATCH_TOKENS["cuda"])
        lengths = [max(map(len, coded)) for coded in sources]
        self._check_lengths(sources, lengths)
        limits = [self.limit(length, config) for length in lengths]
        kinds = {constraint: number for number, constraint in enumerate(dict.fromkeys(constraints))}
        keys = [
            (kinds[constraint], -limit, -length)
            for constraint, limit, length in zip(constraints, limits, lengths, strict=True)
        ]
        rows: list[int] = []
        for row in sorted(range(len(sources)), key=keys.__getitem__):
            if rows and (keys[row][:2] != keys[rows[0]][:2] or (len(rows) + 1) * lengths[rows[0]] > capacity):
                yield rows, limits[rows[0]]
                rows = []
            rows.append(row)
        if rows:
            yield rows, limits[rows[0]]

    def _check_lengths(self, sources: Sequence[Sequence[TranslationSource]], lengths: Sequence[int]) -> None:
        most = max(range(len(sources)), key=lengths.__getitem__, default=0)
        if not sources or lengths[most] <= min(self.longest or MAX_SOURCE_TOKENS, MAX_SOURCE_TOKENS):
            return
        limit = f"at most {MAX_SOURCE_TOKENS:,} tokens"
        if self.longest is not None and self.longest < MAX_SOURCE_TOKENS:
            limit = f"at most {self.longest:,} tokens (model.max_length)"
        begins = " ".join(sources[most][0].tokens[:5])[:60]
        raise DataError(
            f"A text must have {limit}, got {lengths[most]:,}. Split the text that starts with {begins!r} into "
            f"sentences."
        )

    def _search(
        self,
        sources: Sequence[Sequence[TranslationSource]],
        config: BaseSearchConfig,
        constraints: TextConstraints,
        generator: torch.Generator,
    ) -> Hypotheses:
        stepper = wrap_stepper(config, self._stepper(sources, bool(constraints)))
        state = stepper.start(len(sources))
        if not constraints:
            return search(config, stepper, state, generator)
        target = self.encoding.target
        if stepper.v != len(target.vocabulary):
            raise DataError("A copy model does not support constraints. Use a model of another kind.")
        if isinstance(config, RankingConfig):  # a beam slot for every number of satisfied phrases
            size = max(config.beam_size, config.beam_size * (1 + len(constraints.include)) // 2)
            config = config.model_copy(update={"beam_size": size})
        acceptor = constraints.acceptor(target.tokenizer, target.vocabulary)
        constrained = Constrained(stepper, acceptor, config.max_length)
        return search(config, constrained, constrained.after(state, len(sources)), generator)

    @property
    def _avoids_unknown(self) -> bool:
        return self.settings.unknown == "avoid" and not self.encoding.target.tokenizer.symbols

    def _stepper(self, sources: Sequence[Sequence[TranslationSource]], is_constrained: bool) -> Stepper[Any]:
        """The stepper to search; with constraints it uses the full vocabulary."""
        candidates = None if is_constrained else self.candidates
        allowed = None if candidates is None else candidates.allowed([coded[0].ids for coded in sources])
        steppers: list[Stepper[Any]] = []
        for k, model in enumerate(self.models):
            device = model.network.device
            with ExitStack() as stack:
                if allowed is not None:
                    ids = allowed.any(dim=0).nonzero()[:, 0].to(device)
                    stack.enter_context(restrict_output(model.network, ids))
                stepper = model.network.stepper(model.batch([coded[k] for coded in sources]))
            # Restrict each model separately: probabilities normalized over a batch's candidates cannot be averaged.
            steppers.append(stepper if allowed is None else CandidateStepper(stepper, allowed.to(device)))
        stepper = steppers[0] if len(steppers) == 1 else Ensemble(steppers)
        return ForbidIds(stepper, [UNK]) if self._avoids_unknown else stepper

    # --- scores and attention of hypotheses ---------------------------------------------------------------------------

    @torch.no_grad()
    def details(
        self,
        sources: Sequence[Sequence[TranslationSource]],
        hypotheses: Sequence[Hypothesis],
        constraints: Sequence[TextConstraints],
        attention: bool,
    ) -> list[HypothesisDetails]:
        """Token log-probabilities of one hypothesis per source, and the attention of the first model."""
        details: list[HypothesisDetails] = [HypothesisDetails((), ()) for _ in hypotheses]
        lengths = [len(coded[0]) + len(one.ids) for coded, one in zip(sources, hypotheses, strict=True)]
        for is_constrained in (False, True):
            rows = [row for row, constraint in enumerate(constraints) if bool(constraint) == is_constrained]
            rows.sort(key=lambda row: -lengths[row])
            for low in range(0, len(rows), _SCORED_TOGETHER):
                some = rows[low : low + _SCORED_TOGETHER]
                coded, own = [sources[row] for row in some], [hypotheses[row] for row in some]
                for row, one in zip(some, self._details(coded, own, is_constrained, attention), strict=True):
                    details[row] = one
        return details

    def _details(
        self,
        sources: Sequence[Sequence[TranslationSource]],
        hypotheses: Sequence[Hypothesis],
        is_constrained: bool,
        attention: bool,
    ) -> Iterator[HypothesisDetails]:
        ended = [np.array([*one.ids, self.encoding.end], np.int64) for one in hypotheses]
        first = self.models[0]
        targets, lengths = (x.to(first.network.device) for x in pad(ended))
        log_probs = self._log_probs(sources, targets, lengths, is_constrained).double().cpu()
        layers: list[Tensor] = []
        if attention:
            source = first.batch([coded[0] for coded in sources])
            layers = [weights.float().cpu() for weights in first.network.attention(source, targets, lengths)]
        for i, (ids, coded) in enumerate(zip(ended, sources, strict=True)):
            own = tuple(weights[i, :, : len(ids), : len(coded[0])].numpy() for weights in layers)
            yield HypothesisDetails(tuple(log_probs[i, : len(ids)].tolist()), own)

    def _log_probs(
        self, sources: Sequence[Sequence[TranslationSource]], targets: Tensor, lengths: Tensor, is_constrained: bool
    ) -> Float[Tensor, "b t"]:
        """Log-probability of each token as in the search, normalized over the allowed tokens."""
        if self._avoids_unknown or (self.candidates is not None and not is_constrained):
            return self._stepper(sources, is_constrained).token_log_probs(targets, lengths)
        each: list[Tensor] = []
        for k, model in enumerate(self.models):
            source, device = model.batch([coded[k] for coded in sources]), model.network.device
            own = model.network.token_log_probs(source, targets.to(device), lengths.to(device))
            each.append(own.to(targets.device))
        return torch.logsumexp(torch.stack(each), dim=0) - math.log(len(each))
