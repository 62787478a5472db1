"""Prediction with a trained tagger. Needs only its own folder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from torch import nn

from catena.data.readers.brackets import read as read_brackets
from catena.data.readers.brackets import spoken
from catena.data.reading import ReadCounter
from catena.data.schemes import OUTSIDE, Span, split_tag
from catena.data.tokenize import Tokenizer
from catena.draw.picture import Picture
from catena.draw.trellis import draw_trellis
from catena.errors import DataError, FormatError, ImpossibleError
from catena.metrics.text import table_lines
from catena.randomness import Randomness
from catena.tasks.application import (
    DEFAULT_PREDICT_OPTIONS,
    DEFAULT_READ_OPTIONS,
    EvaluationReport,
    PairedPredictions,
    PredictOptions,
    Predictor,
    ReadOptions,
)
from catena.tasks.tag.config import TagConfig, TagDataConfig
from catena.tasks.tag.dataset import (
    SENTENCES,
    TaggedSentence,
    blocks_of_lines,
    from_rows,
    read_tagged_sentences,
    seen_format,
)
from catena.tasks.tag.distribution import TagDistribution, own_spans
from catena.tasks.tag.prediction import (
    FoundSpan,
    TagAnswer,
    TagPrediction,
    append_log_prob,
    as_columns,
    as_json,
    as_line,
    to_color_text,
    to_marked_text,
)
from catena.tasks.tag.scorer import NeuralScorer, Scorer, best_tags, plan_batches
from catena.tasks.tag.scoring import (
    TaggedPredictions,
    build_metric,
    compute_scores,
    default_metric,
    metric_signatures,
    report_lines,
)
from catena.tasks.words.sentences import Sentence

BLOCK_SENTENCES, BLOCK_WORDS = 1024, 65_536
"""Number of sentences and words that are read and tagged together in a stream."""
_UNSPECIFIED_TAGS = ("_", "?")
"""The placeholder for words without a given tag in a file of given tags."""
_HEAD = 20
"""Number of lines of standard input that are checked for one word per line."""
_DRAWN = 40
"""Maximum number of words in a picture."""


class TagPredictor(Predictor):
    """A tagger with its tokenizer and tag set."""

    supported_options: ClassVar[frozenset[str]] = frozenset({"n_best", "samples", "confidence", "scores", "constraint"})
    formats: ClassVar[tuple[str, ...]] = ("conll", "text", "color", "tsv", "jsonl")

    def __init__(self, config: TagConfig, scorer: Scorer, tokenizer: Tokenizer) -> None:
        self.config, self.scorer, self.tokenizer = config, scorer, tokenizer
        self.tagging = scorer.tagging

    def find_network(self) -> nn.Module | None:
        return self.scorer.model if isinstance(self.scorer, NeuralScorer) else None

    @property
    def tags(self) -> tuple[str, ...]:
        """The tags of the model, in its own scheme."""
        return self.tagging.names.names

    @property
    def _column(self) -> str:
        return self.config.data.label_column or "upos"

    # --- prediction ---------------------------------------------------------------------------------------------------

    def predict(self, items: Sequence[Any], options: PredictOptions = DEFAULT_PREDICT_OPTIONS) -> list[TagPrediction]:
        """Tags for sentences, each of them a text, a list of words, or a sentence with its columns."""
        if isinstance(items, str):
            raise DataError(f"predict must get a list of sentences, got one text: {items!r:.60}. Put it in a list.")
        return list(self.predict_stream(items, options))

    def predict_stream(
        self, items: Iterable[Any], options: PredictOptions = DEFAULT_PREDICT_OPTIONS
    ) -> Iterator[TagPrediction]:
        self.check(options)
        given = None if options.constraint is None else self._given_tags(Path(options.constraint))
        draws = Randomness(options.seed)
        for number, block in enumerate(_blocks(self.sentence(item) for item in items)):
            known = None if given is None else [self._next_given(given, sentence) for sentence in block]
            yield from self._predicted(block, known, options, draws, number)
        if given is not None and (left := next(given, None)) is not None:
            raise DataError(f"{left.place}: the file of given tags has more sentences than the input. Remove the rest.")

    def sentence(self, item: Any) -> Sentence:
        """The words of an item; a text is split into words, or into characters for word segmentation."""
        if isinstance(item, TaggedSentence):
            return item.sentence
        if isinstance(item, Sentence):
            return item
        if isinstance(item, str):
            words = "".join(item.split()) if self.config.data.segment else self.tokenizer.tokens(item)
            return Sentence(tuple(words))
        if isinstance(item, Sequence) and all(isinstance(word, str) for word in item):
            return Sentence(tuple(item))
        raise DataError(
            f"a sentence must be a text or a list of words, got {type(item).__name__}: {item!r:.60}. Pass one of these."
        )

    def _predicted(
        self,
        block: Sequence[Sentence],
        known: Sequence[np.ndarray] | None,
        options: PredictOptions,
        draws: Randomness,
        number: int,
    ) -> list[TagPrediction]:
        found = [_nothing(options) for _ in block]
        filled = [i for i, sentence in enumerate(block) if len(sentence)]
        for part in plan_batches([len(block[i]) for i in filled], self.config.evaluation.tokens_at_once):
            rows = [filled[i] for i in part]
            sentences = [block[i] for i in rows]
            distribution = self.scorer.distribution(sentences)
            if known is not None:
                distribution = self._conditioned(distribution, [known[i] for i in rows], sentences)
            seed = draws.number("samples", number * BLOCK_SENTENCES + rows[0])
            for i, one in zip(rows, self._answers(distribution, sentences, options, seed), strict=True):
                found[i] = one
        return found

    def _answers(
        self, distribution: TagDistribution, sentences: Sequence[Sentence], options: PredictOptions, seed: int
    ) -> list[TagPrediction]:
        """The predictions of some sentences, with the given options."""
        import torch

        answers: list[list[tuple[list[str], float | None]]]
        if options.samples:
            drawn = distribution.samples(options.samples, torch.Generator().manual_seed(seed))
            answers = [list(some) for some in drawn]
        elif options.n_best > 1 or options.scores:
            answers = [list(some) for some in distribution.n_best(options.n_best)]
        else:
            answers = [[(tags, None)] for tags in distribution.best()]
        several = options.n_best > 1 or options.samples > 0
        ranked = self._ranked(distribution, sentences, answers, options.confidence)
        made = []
        for sentence, some in zip(sentences, ranked, strict=True):
            first = some[0]
            further = tuple(some) if several else ()
            made.append(
                TagPrediction(
                    sentence.words, first.tags, first.spans, first.log_prob, first.probabilities, further, options
                )
            )
        return made

    def _ranked(
        self,
        distribution: TagDistribution,
        sentences: Sequence[Sentence],
        answers: list[list[tuple[list[str], float | None]]],
        confidence: bool,
    ) -> list[list[TagAnswer]]:
        """The tag sequences of each sentence in the scheme of the files, with probabilities if ``confidence``."""
        chances = distribution.tag_probabilities() if confidence else None
        made: list[list[TagAnswer]] = [[] for _ in sentences]
        for rank in range(max(len(some) for some in answers)):
            with_one = [i for i, some in enumerate(answers) if rank < len(some)]
            spans: list[list[Span]] = [[] for _ in sentences]
            for i in with_one:
                spans[i] = own_spans(self.tagging, answers[i][rank][0])
            of_spans = distribution.span_probabilities(spans) if confidence else [None] * len(sentences)
            for i in with_one:
                sentence, (tags, log_prob) = sentences[i], answers[i][rank]
                shown = self.tagging.shown(sentence.words, tags)
                sure = None if chances is None else self._confidences(sentence, tags, shown, chances[i])
                found = self._spans(sentence, spans[i], of_spans[i])
                made[i].append(TagAnswer(tuple(shown), found, log_prob, sure))
        return made

    def _spans(
        self, sentence: Sentence, spans: Sequence[Span], chances: Sequence[float] | None
    ) -> tuple[FoundSpan, ...]:
        between = "" if self.config.data.segment else " "
        return tuple(
            FoundSpan(*span, between.join(sentence.words[span.begin : span.end]), chances[i] if chances else None)
            for i, span in enumerate(spans)
        )

    def _confidences(
        self, sentence: Sentence, own: Sequence[str], shown: Sequence[str], chances: np.ndarray
    ) -> tuple[float, ...]:
        """The probability of each tag shown: the sum over the model's tags that are shown the same way."""
        files = self.tagging.files
        if files is not None and (files == self.tagging.own or files.scheme == "iob1"):
            ids = self.tagging.names.ids(own)  # in iob1 the previous word decides how a tag is written
            return tuple(float(chances[i, q]) for i, q in enumerate(ids))
        alike = self.tagging.allowed(sentence.words, shown)
        return tuple(float(p) for p in np.minimum((chances * alike).sum(1), 1.0))

    # --- given tags ---------------------------------------------------------------------------------------------------

    def _given_tags(self, path: Path) -> Iterator[TaggedSentence]:
        format = "text" if self.config.data.segment else seen_format(path, self.config.data.encoding).format
        data = self.config.data.model_copy(update={"format": format if format in ("conllu", "text") else "columns"})
        return read_tagged_sentences(data, (), path)

    def _next_given(self, given: Iterator[TaggedSentence], sentence: Sentence) -> np.ndarray:
        """The tags that the words of a sentence may have, from the next sentence of the file."""
        if not len(sentence):
            return np.ones((0, len(self.tagging.names)), bool)
        one = next(given, None)
        if one is None:
            raise DataError("The file of given tags has fewer sentences than the input. Add one for each sentence.")
        if one.sentence.words != sentence.words:
            raise DataError(
                f"{one.place} must have the words of the input, {' '.join(sentence.words[:6])!r}, got "
                f"{' '.join(one.sentence.words[:6])!r}. Use the same words in both files."
            )
        try:
            return self.tagging.allowed(sentence.words, [None if tag in _UNSPECIFIED_TAGS else tag for tag in one.tags])
        except DataError as error:
            raise DataError(f"{one.place}: {error}") from None

    def _conditioned(
        self, distribution: TagDistribution, known: Sequence[np.ndarray], sentences: Sequence[Sentence]
    ) -> TagDistribution:
        try:
            return distribution.given(known)
        except ImpossibleError as error:
            raise ImpossibleError(
                f"{error} The first sentence of the batch begins {' '.join(sentences[0].words[:6])!r}. Given tags need "
                f"to fit the scheme of the model."
            ) from None

    # --- files --------------------------------------------------------------------------------------------------------

    def read_inputs(self, path: Path, reading: ReadOptions = DEFAULT_READ_OPTIONS) -> Iterator[Any]:
        """The sentences of a file: lines of text, to be split into words, one word per line, or trees."""
        format = reading.format or seen_format(path, reading.encoding).format
        if format in SENTENCES:
            data = apply_read_options(self.config.data, reading, format)
            yield from read_tagged_sentences(data, self.config.model.columns, path, tagged=False)
        elif format == "brackets":
            yield from (spoken(tree) for tree in read_brackets(path, encoding=reading.encoding))
        elif format == "text" or reading.format is None:
            yield from (text.text for text in _lines(path, reading.encoding))
        else:
            raise FormatError(
                f"--input-format must be text, columns, conllu or brackets, got {format!r}. Use one of these."
            )

    def items_of_lines(self, lines: Iterator[str]) -> Iterator[Any]:
        """Each line is a text, or, if the first lines have tabs, a word."""
        first = list(islice(lines, 1))
        while first and (not first[-1].strip() or first[-1].startswith("#")) and len(first) < _HEAD:
            found = list(islice(lines, 1))
            if not found:
                break
            first += found
        if not any("\t" in line for line in first) or self.config.data.segment:
            yield from chain(first, lines)
            return
        data, columns = self.config.data, self.config.model.columns
        for example in blocks_of_lines(chain(first, lines)):
            yield from_rows(data, columns, example, tagged=False)

    def judge(self, path: Path, reading: ReadOptions = DEFAULT_READ_OPTIONS) -> TaggedPredictions:
        """Tag a file that has gold tags."""
        tally = ReadCounter()
        data = apply_read_options(self.config.data, reading, reading.format)
        examples = read_tagged_sentences(data, self.config.model.columns, path, tally)
        right: list[tuple[str, ...]] = []
        found: list[list[str]] = []
        while block := list(islice(examples, BLOCK_SENTENCES)):
            sentences = [one.sentence for one in block]
            found += best_tags(self.scorer, sentences, self.config.evaluation.tokens_at_once)
            right += [tuple(self.tagging.mended(one.tags)) for one in block]
        if not right:
            raise DataError(f"{path} has no sentence to score: {tally.counts(0).sentence('')}. Check the file.")
        return TaggedPredictions(right, found, tally.counts(len(right)).sentence(""))

    def evaluate(self, path: Path, reading: ReadOptions = DEFAULT_READ_OPTIONS) -> EvaluationReport:
        judged = self.judge(path, reading)
        scores = compute_scores(self.tagging, judged.right, judged.found)
        lines = report_lines(judged, scores, self.tagging)
        return EvaluationReport(scores, metric_signatures(self.tagging, judged), tuple(lines))

    def answers(
        self, path: Path, metric: str | None = None, reading: ReadOptions = DEFAULT_READ_OPTIONS
    ) -> PairedPredictions:
        judged = self.judge(path, reading)
        measure = build_metric(metric or default_metric(self.tagging), self.tagging)
        return PairedPredictions(measure, list(judged.right), [tuple(tags) for tags in judged.found])

    # --- reports ------------------------------------------------------------------------------------------------------

    def describe(self, top: int) -> list[str]:
        names, tagging = self.tagging.names, self.tagging
        how = "edits of lemmas" if tagging.lemmas else tagging.own.scheme if tagging.own else "plain tags"
        often = Counter(dict(zip(names.names, names.counts, strict=True))).most_common(top)
        return [
            f"a tagger of kind {self.config.model.kind}: {len(names)} tags ({how})",
            "tags: " + ", ".join(f"{name} {count:,}" for name, count in often),
            *self.scorer.describe(top),
        ]

    def write(self, prediction: TagPrediction, item: Any, format: str) -> str:
        between = "" if self.config.data.segment else " "
        if format == "conll":
            return as_columns(prediction, item, self._column)
        if format == "jsonl":
            return as_json(prediction, self.tagging.own is not None)
        if format == "tsv":
            return as_line(prediction)
        if format == "color":
            kinds = {split_tag(name)[1] for name in self.tags} if self.tagging.own else set(self.tags)
            return to_color_text(prediction, sorted(kinds - {""}), between)
        answers = prediction.answers or (TagAnswer(prediction.tags, prediction.spans, prediction.log_prob),)
        if self.config.data.segment:
            return "\n".join(append_log_prob(_cut_text(prediction.words, answer), answer) for answer in answers)
        return "\n".join(append_log_prob(to_marked_text(prediction.words, one.tags, one.spans), one) for one in answers)

    def picture(self, item: Any, options: PredictOptions = DEFAULT_PREDICT_OPTIONS) -> Picture:
        """A trellis: the possible tags of each word, sized by probability, and the best path."""
        words, tags, chances = self._trellis(item)
        shown = [i for i in range(len(self.tags)) if chances[:, i].max() >= 0.01 or self.tags[i] in tags]
        names = [self.tags[i] for i in shown]
        return draw_trellis(words, names, chances[:, shown].clip(0, 1), path=tags)

    def sketch(self, item: Any, options: PredictOptions = DEFAULT_PREDICT_OPTIONS) -> str:
        words, tags, chances = self._trellis(item)
        rows = [["word", "tag", "probability", "next"]]
        for i, word in enumerate(words):
            own = self.tagging.names.id(tags[i])
            order = [q for q in np.argsort(-chances[i], kind="stable") if q != own]
            other = f"{self.tags[order[0]]} {chances[i, order[0]]:.3f}" if order else ""
            rows.append([word, tags[i], f"{chances[i, own]:.3f}", other])
        return "\n".join(table_lines(rows))

    def _trellis(self, item: Any) -> tuple[list[str], list[str], np.ndarray]:
        sentence = self.sentence(item)
        if not len(sentence):
            raise DataError("A sentence without words has no tags to draw. Give at least one word.")
        distribution = self.scorer.distribution([sentence])
        n = min(len(sentence), _DRAWN)
        return list(sentence.words[:n]), distribution.best()[0][:n], distribution.tag_probabilities()[0][:n]


def _nothing(options: PredictOptions) -> TagPrediction:
    """The prediction for a sentence without words."""
    empty = TagAnswer((), probabilities=() if options.confidence else None)
    several = options.n_best > 1 or options.samples > 0
    return TagPrediction((), (), probabilities=empty.probabilities, answers=(empty,) * several, options=options)


def apply_read_options(data: TagDataConfig, reading: ReadOptions, format: str | None) -> TagDataConfig:
    """The data config of training with the user's read options applied."""
    changes = {key: value for key, value in vars(reading).items() if value is not None}
    return data.model_copy(update={**changes, "format": format or data.format})


def _lines(path: Path, encoding: str | None) -> Iterator[Any]:
    from catena.data.readers.text import read

    return read(path, encoding=encoding)


def _blocks(sentences: Iterator[Sentence]) -> Iterator[list[Sentence]]:
    """Sentences in lists of bounded size, for constant memory."""
    block: list[Sentence] = []
    words = 0
    for sentence in sentences:
        block.append(sentence)
        words += len(sentence)
        if len(block) >= BLOCK_SENTENCES or words >= BLOCK_WORDS:
            yield block
            block, words = [], 0
    if block:
        yield block


def _cut_text(characters: Sequence[str], answer: TagAnswer) -> str:
    """Text with blanks between its words, and the word tags after them if the model has some."""
    words = []
    for span in answer.spans:
        words.append(span.text + (f"/{span.kind}" if span.kind else ""))
    if not answer.spans and any(tag != OUTSIDE for tag in answer.tags):
        return "".join(characters)
    return " ".join(words)
