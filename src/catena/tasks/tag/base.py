"""Taggers of any kind as a task: reading, prediction, evaluation and pictures. Imports no torch."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from catena.data.examples import SourceLocation, Text
from catena.data.reading import ReadCounter
from catena.data.schemes import Span, split_tag
from catena.data.tokenize import align_tokens, build_tokenizer
from catena.draw.picture import Picture
from catena.draw.trellis import draw_trellis
from catena.errors import DataError, ImpossibleError
from catena.metrics.measure import Metric
from catena.metrics.text_table import table_lines
from catena.randomness import Randomness
from catena.tasks.base import BaseTask, EvaluationResult, by_length, first_ranked
from catena.tasks.tag.config import TagConfig, TagOptions
from catena.tasks.tag.data import TaggedSentence, detect_tag_format, read_tagged_sentences, training_format
from catena.tasks.tag.distribution import TagDistribution, own_spans
from catena.tasks.tag.predict import TagEvaluation, TagPrediction, TagSpan, tag_metrics
from catena.tasks.tag.tag_set import TagSet
from catena.tasks.word_inputs.sentences import Sentence

_UNSPECIFIED_TAGS = ("_", "?")
"""The placeholder for words without a given tag in a file of given tags."""
_MOST_WORDS = 40
"""Maximum number of words in a picture."""

_Ranked = list[tuple[list[str], float | None]]
"""Tag sequences of a sentence with their log-probabilities, best first."""


class TagTask(BaseTask[TagConfig, TaggedSentence, TagPrediction, TagOptions]):
    """A tagger of any kind: a distribution over the tags of each sentence."""

    name = "tag"
    detects_inputs = True
    options_class = TagOptions
    formats = ("conll", "text", "color", "tsv", "csv", "jsonl")
    tags: TagSet

    @abstractmethod
    def distribution(self, examples: Sequence[TaggedSentence]) -> TagDistribution:
        """The distribution over the tags of some nonempty sentences, as one batch."""

    # --- reading ------------------------------------------------------------------------------------------------------

    @classmethod
    def read(
        cls, config: TagConfig, path: Path, counter: ReadCounter, *, gold: bool = True
    ) -> Iterator[TaggedSentence]:
        for example in read_tagged_sentences(config, path, counter, gold=gold):
            if len(example.sentence) or not gold:
                yield example
            else:
                counter.drop("empty", example.location, "")

    @classmethod
    def describe_file(cls, config: TagConfig, path: Path) -> str:
        found = training_format(config.data, path)
        return f"{path.name} is {found.format}: {found.why}"

    def to_example(self, item: Any) -> TaggedSentence:
        """The words of an item; a text is split into words, or into characters for word segmentation."""
        if isinstance(item, TaggedSentence):
            return item
        location = SourceLocation("input", 0)
        if isinstance(item, str):
            segment = self.config.data.segment
            words = "".join(item.split()) if segment else build_tokenizer(self.config.tokenizer).tokens(item)
            return TaggedSentence(Sentence(tuple(words)), (), location, Text(item, location))
        if isinstance(item, Sentence):
            return TaggedSentence(item, (), location)
        if isinstance(item, Sequence) and all(isinstance(word, str) for word in item):
            return TaggedSentence(Sentence(tuple(item)), (), location)
        raise DataError(
            f"a sentence must be a text or a list of words, got {type(item).__name__}: {item!r:.60}. Pass one of these."
        )

    @classmethod
    def split_key(cls, example: TaggedSentence) -> str:
        return " ".join(example.sentence.words)

    # --- prediction ---------------------------------------------------------------------------------------------------

    def predict_stream(self, items: Iterable[Any], options: TagOptions | None = None) -> Iterator[TagPrediction]:
        if options is None or options.constraint is None:
            yield from super().predict_stream(items, options)
            return
        given = self._read_given(options.constraint)
        examples = (self._with_given(self.to_example(item), given) for item in items)
        yield from super().predict_stream(examples, options)
        if (left := next(given, None)) is not None:
            raise DataError(
                f"{left.location}: the file of given tags has more sentences than the input. Remove the rest."
            )

    def predict_examples(self, examples: Sequence[TaggedSentence], options: TagOptions) -> list[TagPrediction]:
        generator = Randomness(options.seed)

        def predict(index: np.ndarray) -> list[TagPrediction]:
            chosen = [examples[i] for i in index]
            if not len(chosen[0].sentence):
                return [self._prediction(one, [], (), None, options, options.missing_score) for one in chosen]
            distribution = self.distribution(chosen)
            if options.constraint is not None:
                distribution = self._conditioned(distribution, chosen)
            seed = generator.number("samples", int(index[0]))
            return self._predict_batch(distribution, chosen, options, seed)

        lengths = [len(one.sentence) for one in examples]
        filled = np.flatnonzero(lengths)
        found = dict(
            zip(filled.tolist(), self._by_length(np.take(lengths, filled), lambda i: predict(filled[i])), strict=True)
        )
        empty = [i for i in range(len(examples)) if i not in found]
        found |= dict(zip(empty, predict(np.array(empty)), strict=True)) if empty else {}
        return [found[i] for i in range(len(examples))]

    def _by_length(self, lengths: np.ndarray, predict: Any) -> list[Any]:
        return by_length(lengths, self.config.evaluation.tokens_at_once, predict)

    def _predict_batch(
        self, distribution: TagDistribution, examples: Sequence[TaggedSentence], options: TagOptions, seed: int
    ) -> list[TagPrediction]:
        """The predictions of a batch, with its distribution."""
        ranked: list[_Ranked]
        if options.samples:
            import torch

            ranked = [list(some) for some in distribution.samples(options.samples, torch.Generator().manual_seed(seed))]
        elif options.n_best > 1 or options.scores:
            ranked = [list(some) for some in distribution.n_best(options.n_best)]
        else:
            ranked = [[(tags, None)] for tags in distribution.best()]
        probabilities = distribution.tag_probabilities() if options.confidence else None
        made: list[list[TagPrediction]] = [[] for _ in examples]
        for rank in range(max(map(len, ranked))):
            rows = [i for i, some in enumerate(ranked) if rank < len(some)]
            spans = [own_spans(self.tags, some[rank][0]) if rank < len(some) else [] for some in ranked]
            of_spans = distribution.span_probabilities(spans) if options.confidence else None
            for i in rows:
                tags, log_prob = ranked[i][rank]
                sure = None if probabilities is None else probabilities[i]
                known = [(span, of_spans[i][j] if of_spans else None) for j, span in enumerate(spans[i])]
                made[i].append(self._prediction(examples[i], tags, known, sure, options, log_prob))
        return [first_ranked(some, options.several) for some in made]

    def _prediction(
        self,
        example: TaggedSentence,
        own: Sequence[str],
        spans: Sequence[tuple[Span, float | None]],
        probabilities: np.ndarray | None,
        options: TagOptions,
        log_prob: float | None = None,
    ) -> TagPrediction:
        words = example.sentence.words
        tags = tuple(self.tags.shown(words, own))
        confidence: tuple[float, ...] | None = None
        if options.confidence:
            confidence = () if probabilities is None else self._confidences(words, own, tags, probabilities)
        text = example.example.text if isinstance(example.example, Text) else None
        offsets = align_tokens(text, words) if text is not None and self.tags.own is not None else None
        between = "" if self.config.data.segment else " "
        prediction = TagPrediction(
            words,
            tags,
            None if self.tags.own is None else tuple(_span(*pair, words, between, offsets) for pair in spans),
            log_prob,
            confidence,
            text=text,
            column=self.config.data.tags_column or "upos",
            between=between,
            kinds=self._kinds(),
            example=example,
        )
        return replace(prediction, n_best=(prediction,)) if options.several and not words else prediction

    def _kinds(self) -> tuple[str, ...]:
        names = self.tags.names.names
        return tuple(sorted({split_tag(name)[1] for name in names} - {""} if self.tags.own else names))

    def _confidences(
        self, words: Sequence[str], own: Sequence[str], shown: Sequence[str], probabilities: np.ndarray
    ) -> tuple[float, ...]:
        """The probability of each tag shown: the sum over the model's tags that are shown the same way."""
        files = self.tags.files
        if files is not None and (files == self.tags.own or files.scheme == "iob1"):
            ids = self.tags.names.ids(own)  # in iob1 the previous word decides how a tag is written
            return tuple(float(probabilities[i, q]) for i, q in enumerate(ids))
        same = self.tags.allowed(words, shown)
        return tuple(float(p) for p in np.minimum((probabilities * same).sum(1), 1.0))

    # --- given tags ---------------------------------------------------------------------------------------------------

    def _read_given(self, path: Path) -> Iterator[TaggedSentence]:
        data = self.config.data
        format = "text" if data.segment else detect_tag_format(path, data.encoding).format
        data = data.model_copy(update={"input_format": format if format in ("conllu", "text") else "columns"})
        return read_tagged_sentences(self.config.model_copy(update={"data": data}), path, ReadCounter())

    def _with_given(self, example: TaggedSentence, given: Iterator[TaggedSentence]) -> TaggedSentence:
        """The sentence with the tags of the next sentence of the file of given tags."""
        words = example.sentence.words
        if not words:
            return example
        one = next(given, None)
        if one is None:
            raise DataError("The file of given tags has fewer sentences than the input. Add one for each sentence.")
        if one.sentence.words != words:
            raise DataError(
                f"{one.location} must have the words of the input, {' '.join(words[:6])!r}, got "
                f"{' '.join(one.sentence.words[:6])!r}. Use the same words in both files."
            )
        return replace(example, tags=one.tags, location=one.location)

    def _conditioned(self, distribution: TagDistribution, examples: Sequence[TaggedSentence]) -> TagDistribution:
        allowed = []
        for one in examples:
            tags = [None if tag in _UNSPECIFIED_TAGS else tag for tag in one.tags]
            try:
                allowed.append(self.tags.allowed(one.sentence.words, tags))
            except DataError as error:
                raise DataError(f"{one.location}: {error}") from None
        try:
            return distribution.given(allowed)
        except ImpossibleError as error:
            raise ImpossibleError(
                f"{error} The first sentence of the batch begins {' '.join(examples[0].sentence.words[:6])!r}. Given "
                f"tags need to fit the scheme of the model."
            ) from None

    # --- evaluation ---------------------------------------------------------------------------------------------------

    def all_metrics(self) -> Mapping[str, Metric]:
        return tag_metrics(self.tags)

    def evaluate_examples(self, examples: Sequence[TaggedSentence]) -> EvaluationResult:
        lengths = np.array([len(one.sentence) for one in examples])
        best = self._by_length(lengths, lambda index: self.distribution([examples[i] for i in index]).best())
        return self.compare(examples, best)

    def compare(self, examples: Sequence[TaggedSentence], best: Sequence[Sequence[str]]) -> TagEvaluation:
        """Compare the model's best tags with the gold tags."""
        predicted = [self.tags.shown(one.sentence.words, tags) for one, tags in zip(examples, best, strict=True)]
        return TagEvaluation(self.tags, [tuple(self.tags.mended(one.tags)) for one in examples], predicted)

    # --- reports ------------------------------------------------------------------------------------------------------

    def describe(self, top: int) -> list[str]:
        names = self.tags.names
        often = Counter(dict(zip(names.names, names.counts, strict=True))).most_common(top)
        return [
            f"a tagger of kind {self.config.model.kind}: {len(names)} tags ({self.tags.describe_scheme()})",
            "tags: " + ", ".join(f"{name} {count:,}" for name, count in often),
        ]

    def draw(self, example: TaggedSentence, options: TagOptions) -> Picture:
        """A trellis: the possible tags of each word, sized by probability, and the best path."""
        words, tags, probabilities = self._trellis(example)
        names = self.tags.names.names
        shown = [i for i in range(len(names)) if probabilities[:, i].max() >= 0.01 or names[i] in tags]
        return draw_trellis(words, [names[i] for i in shown], probabilities[:, shown].clip(0, 1), path=tags)

    def draw_text(self, example: TaggedSentence, options: TagOptions) -> str:
        words, tags, probabilities = self._trellis(example)
        rows = [["word", "tag", "probability", "next"]]
        names = self.tags.names
        for i, word in enumerate(words):
            own = names.id(tags[i])
            order = [q for q in np.argsort(-probabilities[i], kind="stable") if q != own]
            other = f"{names.names[order[0]]} {probabilities[i, order[0]]:.3f}" if order else ""
            rows.append([word, tags[i], f"{probabilities[i, own]:.3f}", other])
        return "\n".join(table_lines(rows))

    def _trellis(self, example: TaggedSentence) -> tuple[list[str], list[str], np.ndarray]:
        if not len(example.sentence):
            raise DataError("A sentence without words has no tags to draw. Give at least one word.")
        distribution = self.distribution([example])
        n = min(len(example.sentence), _MOST_WORDS)
        return list(example.sentence.words[:n]), distribution.best()[0][:n], distribution.tag_probabilities()[0][:n]


def _span(
    span: Span,
    probability: float | None,
    words: Sequence[str],
    between: str,
    offsets: Sequence[tuple[int, int]] | None,
) -> TagSpan:
    text = between.join(words[span.begin : span.end])
    start_char = offsets[span.begin][0] if offsets else None
    end_char = offsets[span.end - 1][1] if offsets else None
    return TagSpan(span.begin, span.end, span.kind, text, start_char, end_char, probability)
