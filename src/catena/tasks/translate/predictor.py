"""Predictor of a trained translator or an ensemble of translators."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import cycle, islice
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import torch

from catena import config as configs
from catena.checkpoint import CONFIG, open_checkpoint
from catena.data.corpus import CorpusBuilder
from catena.data.pairing import sources_of_lines
from catena.data.vocabulary import UNK, UNK_SYMBOL
from catena.errors import ConfigError, DataError
from catena.registry import did_you_mean
from catena.search.config import BaseSearchConfig, GreedyConfig, RankingConfig
from catena.search.hypothesis import Hypothesis
from catena.seq2seq.build import build_encoder_decoder
from catena.tasks.application import (
    DEFAULT_PREDICT_OPTIONS,
    DEFAULT_READ_OPTIONS,
    EvaluationReport,
    PairedPredictions,
    PredictOptions,
    Predictor,
    ReadOptions,
)
from catena.tasks.items import listed_texts
from catena.tasks.looks import AttentionMaps, draw, sketch
from catena.tasks.searching import best_search, drawn_search, truncation_warning, with_max_length
from catena.tasks.translate.batches import pair_log_probs
from catena.tasks.translate.candidate_vocabulary import Candidates
from catena.tasks.translate.config import LIKELIHOODS, TRANSLATIONS, TranslateConfig
from catena.tasks.translate.dataset import EncodedPairs, ReferenceTexts, headers
from catena.tasks.translate.encoding import PairEncoding, TranslationSource
from catena.tasks.translate.exported import export_model
from catena.tasks.translate.inputs import about_sources, read_pairs_with, read_sources, resolve_data
from catena.tasks.translate.lexicon import find_candidates, load_candidates
from catena.tasks.translate.picture import translation_attention
from catena.tasks.translate.scoring import (
    build_metric,
    build_report,
    likelihood_measure,
    likelihood_scores,
    missing_packages,
)
from catena.tasks.translate.search import STEP, EnsembleModel, HypothesisAttention, TranslationSearch
from catena.tasks.translate.text_constraints import TranslationConstraints, read_constraints
from catena.tasks.translate.translated import Translation, TranslationResult, copy_unknown_words
from catena.tasks.written import score_cell, unknown_input_warning

if TYPE_CHECKING:
    from catena.draw.picture import Picture

BLOCK = 2048
"""Number of texts of a stream that are sorted by length and translated together."""
_NOTHING = TranslationConstraints()
GUESSED = unknown_input_warning("text", "word")
_NO_ATTENTION = "this model has no attention (model.attention = 'none'), so there is no alignment to show"


class TranslatePredictor(Predictor):
    """A trained translator with its encoding, or an ensemble of translators.

    Args:
        config: the config of the first model.
        models: models with the same target vocabulary; the first one provides the alignments.
        candidates: candidate target tokens of each source; None for the full vocabulary.
    """

    reads_columns: ClassVar[tuple[str, ...]] = ("source_column", "target_column")
    supported_options: ClassVar[frozenset[str]] = frozenset(
        {
            "n_best",
            "samples",
            "scores",
            "alignment",
            "constraint",
            "beam_size",
            "length_penalty",
            "max_length",
            "layer",
            "head",
            "word",
            "within",
        }
    )
    formats: ClassVar[tuple[str, ...]] = ("text", "tsv", "jsonl")
    reads_targets = True

    def __init__(
        self, config: TranslateConfig, models: Sequence[EnsembleModel], candidates: Candidates | None = None
    ) -> None:
        self.config, self.members = config, list(models)
        self.searcher = TranslationSearch(models, config.writing, candidates, config.longest)

    @property
    def encoding(self) -> PairEncoding:
        return self.members[0].encoding

    def searching(self, options: PredictOptions) -> TranslatePredictor:
        """This predictor with the search of the options."""
        self.check(options)
        bound = self if options.max_length is None else self._up_to(options.max_length)
        config = bound.config.model_copy(update={"search": bound._search(options)})
        return TranslatePredictor(config, self.members, self.searcher.candidates)

    def _up_to(self, max_length: int) -> TranslatePredictor:
        """This predictor with at most ``max_length`` tokens per translation, for sources of any length."""
        writing = self.config.writing.model_copy(update={"extra": max_length})
        changes = {"search": with_max_length(self.config.search, max_length), "writing": writing}
        return TranslatePredictor(self.config.model_copy(update=changes), self.members, self.searcher.candidates)

    def together(self, others: Sequence[Predictor]) -> TranslatePredictor:
        """An ensemble of this model and others, which averages their probabilities at every step."""
        members = list(self.members)
        for number, other in enumerate(others, start=2):
            if not isinstance(other, TranslatePredictor):
                raise ConfigError(
                    f"The models of an ensemble must all be of task 'translate', got {other.task_name!r} as model "
                    f"{number}. Remove it."
                )
            mine, theirs = self.encoding.target.vocabulary, other.encoding.target.vocabulary
            if mine.symbols != theirs.symbols:
                raise ConfigError(
                    f"The models of an ensemble need the same target vocabulary; that of model {number} "
                    f"({len(theirs):,} tokens) differs from that of the first ({len(mine):,} tokens). Train them on "
                    f"the same pairs with the same options and different seeds, as with --seeds 3."
                )
            mine_copies, copies = members[0].copies, other.members[0].copies
            if copies != mine_copies or (copies and other.config.tokenizer != self.config.tokenizer):
                raise ConfigError(
                    f"An ensemble with a copy model needs only copy models with the same tokenizer; model {number} is "
                    f"of kind {other.config.model.kind!r} and does not match the first. Remove one of the two."
                )
            members += other.members
        return TranslatePredictor(self.config, members, self.searcher.candidates)

    @property
    def networks(self) -> list[torch.nn.Module]:
        return [member.model for member in self.members]

    def export(self, to: str, folder: Path, quantization: str | None = None) -> None:
        """Export the model to CTranslate2 or ONNX, with its tokenizer and vocabulary."""
        export_model(to, self.members[0].model, self.encoding, folder, quantization)

    # --- translating --------------------------------------------------------------------------------------------------

    def predict(
        self, items: Sequence[str], options: PredictOptions = DEFAULT_PREDICT_OPTIONS
    ) -> list[TranslationResult]:
        """The translations of each text, best first."""
        texts = listed_texts(items)
        return self._predict(texts, options, self._constraints(options, len(texts)))

    def predict_stream(
        self, items: Iterable[str], options: PredictOptions = DEFAULT_PREDICT_OPTIONS
    ) -> Iterator[TranslationResult]:
        waiting = iter(listed_texts(items) if isinstance(items, str) else items)
        listed = self._constraints(options, None)
        constraints = cycle(listed) if len(listed) == 1 else iter(listed)
        read = 0
        while block := list(islice(waiting, BLOCK)):
            own = list(islice(constraints, len(block)))
            if len(own) < len(block):
                raise DataError(_uneven(options, len(listed), f"{read + len(block):,} or more"))
            yield from self._predict(listed_texts(block, read), options.after(read), own)
            read += len(block)
        if len(listed) > 1 and next(constraints, None) is not None:
            raise DataError(_uneven(options, len(listed), f"{read:,}"))

    def texts(self, items: Sequence[str], how: BaseSearchConfig | None = None) -> list[str]:
        """The best translation of each text; the config has the default search."""
        found = self._translations(items, how or self.config.search, [_NOTHING] * len(items), DEFAULT_PREDICT_OPTIONS)
        return [listed[0].text if listed else "" for listed in found]

    def _constraints(self, options: PredictOptions, n: int | None) -> list[TranslationConstraints]:
        if options.constraint is None:
            return [_NOTHING] * (1 if n is None else n)
        found = read_constraints(Path(options.constraint))
        if n is None:
            return found
        if len(found) not in (1, n):
            raise DataError(_uneven(options, len(found), f"{n:,}"))
        return found * n if len(found) == 1 else found

    def _predict(
        self, items: Sequence[str], options: PredictOptions, constraints: Sequence[TranslationConstraints]
    ) -> list[TranslationResult]:
        self.check(options)
        bound = self if options.max_length is None else self._up_to(options.max_length)
        found = bound._translations(items, bound._search(options), constraints, options)
        answers = []
        for text, listed in zip(items, found, strict=True):
            tokens = tuple(self.encoding.source.tokenizer.tokens(text))
            answers.append(TranslationResult(text, tokens, tuple(listed), options, self._knows(tokens)))
        return answers

    def _knows(self, tokens: Sequence[str]) -> bool:
        """Whether any alphanumeric token is in the vocabulary, or the model can copy it."""
        alphanumeric = [token for token in tokens if any(map(str.isalnum, token))] or tokens
        known = self.encoding.source.vocabulary.ids(alphanumeric)
        return any(id != UNK for id in known) or (bool(tokens) and self.members[0].copies)

    def _search(self, options: PredictOptions) -> BaseSearchConfig:
        """The search of the config, changed by the options."""
        how = self.config.search
        if options.samples:
            return drawn_search(how, options.samples)
        if options.beam_size == 1 and options.n_best == 1 and options.length_penalty is None:
            return GreedyConfig.model_validate(how.limits())
        own = getattr(how, "n_best", 1)
        if options.beam_size is None and options.n_best == own and options.length_penalty is None:
            return how
        found = best_search(how, options.n_best, options.beam_size)
        if not isinstance(how, RankingConfig):
            found = found.model_copy(update={"normalize": "gnmt"})
        if options.length_penalty is not None:
            found = found.model_copy(update={"normalize": "gnmt", "alpha": options.length_penalty})
        return found

    def _translations(
        self,
        items: Sequence[str],
        how: BaseSearchConfig,
        constraints: Sequence[TranslationConstraints],
        options: PredictOptions,
    ) -> list[list[Translation]]:
        """The translations of each text; none for a text without tokens."""
        coded = [[member.code(text) for member in self.members] for text in items]
        filled = [i for i, text in enumerate(items) if text.strip() and len(coded[i][0]) > 1]
        found = self.searcher.find([coded[i] for i in filled], how, [constraints[i] for i in filled], options.seed)
        rows = [(i, one) for i, listed in zip(filled, found, strict=True) for one in listed]
        copying = self.config.writing.unknown == "copy"
        looked: list[HypothesisAttention | None] = [None] * len(rows)
        if options.scores or options.alignment or copying:
            sources, ones = [coded[i] for i, _ in rows], [one for _, one in rows]
            own = [constraints[i] for i, _ in rows]
            looked = list(self.searcher.look(sources, ones, own, attention=options.alignment or copying))
        listed_by: list[list[Translation]] = [[] for _ in items]
        for (i, one), seen in zip(rows, looked, strict=True):
            listed_by[i].append(self._translation(coded[i][0], one, seen, options))
        return listed_by

    def _translation(
        self, source: TranslationSource, one: Hypothesis, seen: HypothesisAttention | None, options: PredictOptions
    ) -> Translation:
        tokens = self.encoding.tokens(one.ids, source.new)
        steps = len(tokens) + one.finished
        log_probs = seen.log_probs[:steps] if seen is not None and options.scores else None
        attention = tuple(x[:, :steps] for x in seen.attention) if seen is not None and options.alignment else None
        written = tokens
        if seen is not None and self.config.writing.unknown == "copy" and UNK_SYMBOL in tokens:
            written = copy_unknown_words(tokens, source.tokens, seen.attention)
        parts = one.log_prob, one.score, log_probs, attention, one.finished
        return Translation(self.encoding.text(written), tuple(tokens), *parts)

    # --- reading ------------------------------------------------------------------------------------------------------

    def read_inputs(self, path: Path, reading: ReadOptions = DEFAULT_READ_OPTIONS) -> Iterator[str]:
        """The sources of a file of pairs, table or JSON lines, or the lines of a plain text file."""
        return read_sources(path, reading, self.config.data)

    def about_inputs(self, path: Path, reading: ReadOptions = DEFAULT_READ_OPTIONS) -> list[str]:
        """A report line if the file has a header row, which is not translated."""
        return about_sources(path, reading, self.config.data)

    def items_of_lines(self, lines: Iterator[str]) -> Iterator[str]:
        """The source of each line, which ends at a tab if there is one, or starts after it if columns are swapped.

        A header line is skipped.
        """
        return sources_of_lines(lines, self.config.data.swap)

    def pairs(self, path: Path, reading: ReadOptions = DEFAULT_READ_OPTIONS) -> ReferenceTexts:
        """The nonempty pairs of a file, or of two parallel files if ``reading.target`` is set."""
        return read_pairs_with(path, reading, self.config.data)

    # --- evaluation ---------------------------------------------------------------------------------------------------

    def evaluate(self, path: Path, reading: ReadOptions = DEFAULT_READ_OPTIONS) -> EvaluationReport:
        texts = self.pairs(path, reading)
        named = self.config.evaluation.metrics
        usual = ("bleu", "bleu_lowercase", "chrf", "ter")
        wanted = dict.fromkeys((*named, *(usual if not named or any(name in usual for name in named) else ())))
        lost, missing = missing_packages([*wanted], self.config.evaluation)
        names = [name for name in wanted if name not in lost]
        log_probs, tokens = self._likelihood(texts)
        found = self._translations(texts.sources, self.config.search, [_NOTHING] * len(texts), DEFAULT_PREDICT_OPTIONS)
        given = [listed[0].text if listed else "" for listed in found]
        unknown = sum(int((member.code(text).ids == 1).sum()) for member in self.members[:1] for text in texts.sources)
        heading = f"{len(texts):,} pairs, {sum(tokens):,} target tokens; {unknown:,} unknown source tokens"
        if cut := sum(bool(listed) and not listed[0].finished for listed in found):
            heading += f"; {cut:,} translation{'s' * (cut > 1)} truncated at the maximum length"
        if reading.target is None:
            heading += "".join(
                f"; {line}" for line in headers([(str(path), None)], resolve_data(path, reading, self.config.data))
            )
        likelihood = likelihood_scores(float(sum(log_probs)), sum(tokens)) if len(self.members) == 1 else {}
        report = build_report(self.config.evaluation, names, texts.targets, given, likelihood, heading)
        return replace(report, lines=(*report.lines, missing)) if missing else report

    @torch.no_grad()
    def _likelihood(self, texts: ReferenceTexts) -> tuple[list[float], list[int]]:
        """log p(target | source) of each pair under the first model, and the number of its target tokens."""
        builder = CorpusBuilder()
        for source, target in zip(texts.sources, texts.targets, strict=True):
            builder.add(self.encoding.source.tokenizer.tokens(source))
            builder.add(self.encoding.target.tokenizer.tokens(target))
        pairs = EncodedPairs(builder.finish(), builder.tokens, self.encoding)
        member, rows = self.members[0], np.arange(len(texts))
        found = pair_log_probs(member.model, pairs, rows, self.config.batches, member.copies)
        return found.tolist(), pairs.lengths[:, 1].tolist()

    def answers(
        self, path: Path, metric: str | None = None, reading: ReadOptions = DEFAULT_READ_OPTIONS
    ) -> PairedPredictions:
        metric = metric or self.config.training.metric or self.config.metric
        known = (*TRANSLATIONS, *LIKELIHOODS)
        if metric not in known:
            raise DataError(f"Unknown metric {metric!r} of a translator: {did_you_mean(metric, known)}")
        texts = self.pairs(path, reading)
        if metric in LIKELIHOODS:
            log_probs, tokens = self._likelihood(texts)
            return PairedPredictions(
                likelihood_measure(metric), list(zip(texts.targets, tokens, strict=True)), log_probs
            )
        return PairedPredictions(build_metric(metric, self.config.evaluation), texts.targets, self.texts(texts.sources))

    # --- output -------------------------------------------------------------------------------------------------------

    def describe(self, top: int) -> list[str]:
        model, encoding = self.members[0].model, self.encoding
        sizes = (
            f"{len(encoding.source.vocabulary):,} source tokens and {len(encoding.target.vocabulary):,} target tokens"
        )
        if encoding.joint:
            sizes = f"{len(encoding.source.vocabulary):,} tokens for both sides"
        vocabulary = encoding.target.vocabulary
        frequent = sorted(range(len(vocabulary)), key=lambda i: -vocabulary.counts[i])[:top]
        return [
            f"a translator of kind {self.config.model.kind} over {self.config.tokenizer.kind}: {sizes}",
            f"{sum(p.numel() for p in model.parameters()):,} parameters",
            f"most frequent target tokens: {' '.join(encoding.target.shown(vocabulary.tokens(frequent)))}",
        ]

    def format_for(self, options: PredictOptions) -> str:
        """The default output format: text, or tsv if several translations, scores or alignments are requested."""
        return "tsv" if options.beyond() & {"n_best", "samples", "scores", "alignment"} else "text"

    def write(self, prediction: TranslationResult, item: str, format: str) -> str:
        if format == "text":
            return "\n".join(one.text for one in prediction.translations) or ""
        if format == "jsonl":
            return json.dumps(prediction.as_json(), ensure_ascii=False)
        lines = []
        for one in prediction.listed():
            fields = [" ".join(item.split("\t")), " ".join(one.text.split("\t"))]
            if prediction.options.scores:
                fields.append(score_cell(one.log_prob))
            if prediction.options.alignment:
                source, target = self.encoding.source.tokenizer, self.encoding.target.tokenizer
                links = ((source.shown(a), target.shown(b)) for a, b in prediction.links(one))
                fields.append(" ".join(f"{a}|{b}" for a, b in links))
            lines.append("\t".join(fields))
        return "\n".join(lines)

    def remarks(self, prediction: TranslationResult) -> list[str]:
        """Warnings about truncated translations, unknown texts and missing alignments."""
        writing, longest = self.config.writing, self.config.longest
        own = (
            f"the maximum length ({writing.ratio:g} * source tokens + {writing.extra}, rounded up to a multiple of "
            f"{STEP}, at most {min(self.config.search.max_length, longest or self.config.search.max_length):,})"
        )
        words = truncation_warning("translation", prediction.options.max_length, own)
        said = [GUESSED] if prediction.translations and not prediction.known else []
        if any(one.attention == () for one in prediction.translations):
            said.append(_NO_ATTENTION)
        return [*said, *[words] * sum(not one.finished for one in prediction.translations)]

    def looks(self, item: str, options: PredictOptions = DEFAULT_PREDICT_OPTIONS) -> AttentionMaps:
        """The attention weights for a text by layer and head.

        The weights are those from the translation to the text, or within one of them if the option ``within`` is set.
        """
        found = self.predict([item], replace(options, alignment=True, n_best=1))[0]
        if not found.translations:
            raise DataError(f"The translation of {item!r} is empty, so there is nothing to draw. Use another text.")
        looks = translation_attention(self.members[0], found, options.within)
        if not looks.layers:
            kind = f"This model of kind {self.config.model.kind!r}"
            if options.within is not None:
                raise DataError(f"{kind} has no self-attention within its {options.within}. Use a Transformer.")
            raise DataError(f"{kind} has no attention to its source to draw. Train one with model.attention.")
        return looks

    def picture(self, item: str, options: PredictOptions = DEFAULT_PREDICT_OPTIONS) -> Picture:
        """A heat map of the attention weights of each target token (rows) over the source tokens (columns)."""
        return draw(self.looks(item, options), options)

    def sketch(self, item: str, options: PredictOptions = DEFAULT_PREDICT_OPTIONS) -> str:
        """The heat map as text for a terminal."""
        return sketch(self.looks(item, options), options)


def _uneven(options: PredictOptions, lines: int, texts: str) -> str:
    return (
        f"{options.constraint} must have 1 line, or one line for each of the {texts} texts, got {lines:,} lines. Leave "
        f"the line of a text empty if it has no constraint."
    )


def load_predictor(folder: Path, device: torch.device) -> TranslatePredictor:
    """Load a trained translator from a run folder or checkpoint folder."""
    checkpoint = open_checkpoint(folder)
    config = configs.load(TranslateConfig, checkpoint.folder / CONFIG)
    encoding = PairEncoding.load(checkpoint.folder)
    model = build_encoder_decoder(config.model, encoding.sides(encoding.target.vocabulary.counts))
    checkpoint.load_into(model)
    candidates = None
    if config.writing.candidates:
        table = load_candidates(checkpoint.folder, len(encoding.source.vocabulary))
        candidates = find_candidates(config, encoding, table)
    return TranslatePredictor(config, [EnsembleModel(model.to(device).eval(), encoding)], candidates)
