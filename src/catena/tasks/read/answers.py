"""Answers of a model to questions about texts: windows, one joint softmax, n best distinct texts, no answer.

The text of an answer is always ``text[start:end]`` of its source, in characters.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import regex
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from catena.data.batches import BatchPlan
from catena.data.config import BatchConfig
from catena.metrics.reading import normalize_answer
from catena.numerics import NEG_INF
from catena.tasks.read.data import ReadingTexts, WindowRows
from catena.tasks.read.encoding import ReadingEncoding, TokenWindow
from catena.tasks.read.model import AnswerLogits, BiDAF
from catena.tasks.read.spans import SpanDistribution, SpanScore, argmax_spans, owned_spans, score_spans

_FEWEST_SPANS = 20
"""Number of spans that are examined at first."""
_SENTENCE_END = regex.compile(
    r"[.!?…]+[\p{Pf}\p{Pe}\"']*(?=\s+[\p{Lu}\p{Lt}\p{Lo}\p{N}\p{Pi}\p{Ps}\"'])|[。！？]|\n\s*\n"
)


@dataclass(frozen=True)
class ReadingOptions:
    """How texts are read and answers chosen.

    Args:
        max_answer: the maximum number of tokens of an answer.
        window: the maximum number of tokens that are read as one text.
        stride: the distance between two windows of a longer text.
        n_best: the number of answers with different texts.
        no_answer_threshold: there is no answer if the score of no answer exceeds the best span's by more than this;
            0 compares probabilities.
        scale: the factor of the logits, the inverse of a temperature.
    """

    max_answer: int = 17
    window: int = 400
    stride: int = 200
    n_best: int = 1
    no_answer_threshold: float = 0.0
    scale: float = 1.0


@dataclass(frozen=True)
class Answer:
    """A span of a text as the answer, ``text == source[start:end]``.

    ``text_probability`` adds the probabilities of other spans with the same normalized text, among the examined ones.
    """

    text: str
    source: int
    """The index of the text among those that were read."""
    start: int
    end: int
    probability: float
    text_probability: float
    score: float


@dataclass(frozen=True)
class AnswerList:
    """The best answers to one question, in descending order of probability, and the probability of no answer."""

    answers: tuple[Answer, ...]
    no_answer_probability: float
    no_answer_margin: float
    """The score of no answer minus the score of the best span, or the log-odds of no answer if words count too; -inf
    for models without such a score."""
    has_answer: bool

    @property
    def text(self) -> str:
        """The best answer, or "" for no answer."""
        return self.answers[0].text if self.has_answer and self.answers else ""


@dataclass(frozen=True, eq=False)
class WindowLogits:
    """The logits of one window of a text on the CPU."""

    source: int
    window: TokenWindow
    start: Float[Tensor, " t"]
    end: Float[Tensor, " t"]
    no_answer: float


class BestAnswer(NamedTuple):
    """The best span of a question, ``text == source[start:end]``, and the scores of the span and of no answer."""

    text: str
    score: float
    no_answer: float
    source: int = 0
    """The index of the text among those that were read."""
    start: int = 0
    end: int = 0

    @property
    def no_answer_margin(self) -> float:
        """The score of no answer minus the score of the span."""
        return self.no_answer - self.score if self.no_answer > NEG_INF else NEG_INF


NoAnswerFn = Callable[[str, str, int, int, float], float]
"""The log-odds of no answer from a question, a text, the start and the end of the best span in characters, and the
score of no answer minus that of the span."""


class ReadingAttention(NamedTuple):
    """The attention between the tokens of a text and of a question."""

    text: list[str]
    question: list[str]
    to_question: Float[np.ndarray, "t s"]
    """``[t, j]`` is the weight of question token j for text token t; rows sum to 1."""
    to_text: Float[np.ndarray, " t"]
    """The weight of each text token for the question as a whole; the weights sum to 1."""


class _Place(NamedTuple):
    """A window of a text that is read for a question."""

    group: int
    question: int
    text: int
    window: TokenWindow


class AnswerFinder:
    """Finds the answers to questions with a model.

    Args:
        model: a trained model.
        encoding: its tokenizer and vocabularies.
        options: how texts are read.
        batch_size: the number of tokens that are read in one batch, including padding.
        no_answer: the log-odds of no answer; by the scores of the model only if None.
    """

    def __init__(
        self,
        model: BiDAF,
        encoding: ReadingEncoding,
        options: ReadingOptions | None = None,
        batch_size: int = 40_000,
        no_answer: NoAnswerFn | None = None,
    ) -> None:
        self.model, self.encoding = model, encoding
        self.options = options or ReadingOptions()
        self.batch_size, self.no_answer = batch_size, no_answer

    def find(self, question: str, texts: Sequence[str], biases: Sequence[float] | None = None) -> AnswerList:
        """The answers to a question from all texts together.

        Args:
            question: the question.
            texts: where to search.
            biases: a score for each text that is added to its spans, such as the weighted score of retrieval.
        """
        encoded = ReadingTexts(self.encoding, texts, [question])
        logits = self.read(encoded, [(0, range(len(texts)))])[0]
        return self.choose(encoded, logits, None if biases is None else dict(enumerate(biases)), question=question)

    @torch.no_grad()
    def attend(self, question: str, text: str) -> ReadingAttention:
        """The attention of a text to a question, without windows, for pictures.

        Args:
            question: the question.
            text: the text, which must fit into memory as a whole.
        """
        encoded = ReadingTexts(self.encoding, [text], [question])
        one = np.zeros(1, np.int64)
        device = next(self.model.parameters()).device
        batch = encoded.batch(WindowRows(one, one, one, encoded.contexts.lengths), device)
        self.model.eval()
        flow = self.model(batch.tokens, batch.context, batch.question).flow
        tokens, words = (self.encoding.tokenize(side)[0] for side in (text, question))
        weights = flow.query_weights[0].cpu().numpy()
        return ReadingAttention(tokens, words, weights, flow.context_weights[0].cpu().numpy())

    @torch.no_grad()
    def read(self, encoded: ReadingTexts, pairs: Sequence[tuple[int, Sequence[int]]]) -> list[list[WindowLogits]]:
        """The logits of all windows of the given texts for each question.

        Args:
            encoded: texts and questions.
            pairs: each the index of a question and the indices of the texts to read for it.
        """
        places = self._places(encoded, pairs)
        found: list[list[WindowLogits]] = [[] for _ in pairs]
        order: list[list[int]] = [[] for _ in pairs]
        for rows, logits in self._run(encoded, places):
            start, end = logits.start.cpu(), logits.end.cpu()
            for i, (row, none) in enumerate(zip(rows.tolist(), _no_answer(logits).tolist(), strict=True)):
                n = places[row].window.end - places[row].window.first
                window = WindowLogits(places[row].text, places[row].window, start[i, :n], end[i, :n], none)
                found[places[row].group].append(window)
                order[places[row].group].append(row)
        return [[logits[i] for i in np.argsort(rows)] for logits, rows in zip(found, order, strict=True)]

    @torch.no_grad()
    def find_best(self, encoded: ReadingTexts, pairs: Sequence[tuple[int, Sequence[int]]]) -> list[BestAnswer]:
        """The best answer to each question, searched in batches on the device of the model.

        The same answers as those of :meth:`read` and :meth:`choose`, without probabilities and alternatives.

        Args:
            encoded: texts and questions.
            pairs: each the index of a question and the indices of the texts to read for it.
        """
        places = self._places(encoded, pairs)
        best = [BestAnswer("", NEG_INF, math.inf)] * len(pairs)
        for rows, logits in self._run(encoded, places):
            windows = [places[row].window for row in rows.tolist()]
            start, end = logits.start, logits.end
            low, high, first = (torch.tensor(column, device=start.device) for column in _limits(windows))
            scores = score_spans(start, end, self.options.max_answer)
            owned = owned_spans(low, high, first, start.shape[1], self.options.max_answer)
            top = argmax_spans(scores.masked_fill(~owned, NEG_INF))
            columns = zip(rows.tolist(), *(x.tolist() for x in (*top, _no_answer(logits))), strict=True)
            for row, i, j, score, none in columns:
                place = places[row]
                before = best[place.group]
                none = min(none, before.no_answer)
                best[place.group] = before._replace(no_answer=none)
                if score > before.score:
                    at, to = encoded.locate(place.text, place.window.first + i, place.window.first + j)
                    best[place.group] = BestAnswer(encoded.texts[place.text][at:to], score, none, place.text, at, to)
        return best

    def _places(self, encoded: ReadingTexts, pairs: Sequence[tuple[int, Sequence[int]]]) -> list[_Place]:
        o = self.options
        return [
            _Place(group, question, text, window)
            for group, (question, texts) in enumerate(pairs)
            for text in texts
            for window in encoded.windows(text, o.window, o.stride, o.max_answer)
        ]

    def _run(
        self, encoded: ReadingTexts, places: Sequence[_Place]
    ) -> Iterator[tuple[Int[np.ndarray, " b"], AnswerLogits]]:
        """Row numbers and logits, batch by batch."""
        columns = [(p.question, p.text, p.window.first, p.window.end - p.window.first) for p in places]
        everything = WindowRows(*np.array(columns, np.int64).reshape(-1, 4).T)
        config = BatchConfig(batch_size=self.batch_size, batch_by="tokens")
        device = next(self.model.parameters()).device
        self.model.eval()
        for rows in BatchPlan.by_length(everything.lengths, config):
            batch = encoded.batch(everything.take(rows), device)
            yield rows, self.model(batch.tokens, batch.context, batch.question)

    def choose(
        self,
        encoded: ReadingTexts,
        logits: Sequence[WindowLogits],
        biases: Mapping[int, float] | None = None,
        scale: float | None = None,
        question: str | None = None,
    ) -> AnswerList:
        """The best answers from the logits of all windows of a question.

        Args:
            encoded: the texts.
            logits: the logits of the windows.
            biases: a score for the spans of each text, by its index; 0 if omitted.
            scale: the factor of the logits; the one of the options if omitted.
            question: the question, for ``no_answer``.
        """
        scale = self.options.scale if scale is None else scale
        distribution = span_distribution(logits, self.options.max_answer, biases, scale)
        margin = self._decide(encoded, logits, distribution, scale, question)
        n = _FEWEST_SPANS
        while True:
            spans = distribution.top(n)
            found = self._group(encoded, logits, distribution, spans)
            if len(found) >= self.options.n_best or len(spans) < n:
                return self._listed(found, distribution, margin)
            n *= 4

    def _decide(
        self,
        encoded: ReadingTexts,
        logits: Sequence[WindowLogits],
        distribution: SpanDistribution,
        scale: float,
        question: str | None,
    ) -> float:
        """The margin of no answer. Log-odds by words become the probability of no answer in the distribution."""
        best = distribution.top(1)
        if distribution.no_answer == NEG_INF or not best:
            return distribution.no_answer
        margin = distribution.no_answer - best[0].score
        if self.no_answer is None or question is None:
            return margin
        window = logits[best[0].window]
        at = window.window.first
        start, end = encoded.locate(window.source, at + best[0].first, at + best[0].last)
        odds = self.no_answer(question, encoded.texts[window.source], start, end, margin / scale)
        distribution.set_no_answer_odds(odds)
        return odds

    def _group(
        self,
        encoded: ReadingTexts,
        logits: Sequence[WindowLogits],
        distribution: SpanDistribution,
        spans: Sequence[SpanScore],
    ) -> dict[str, list[Answer]]:
        """Answers by normalized text, each group and each list in descending order of score."""
        found: dict[str, list[Answer]] = {}
        for span in spans:
            source, at = logits[span.window].source, logits[span.window].window.first
            start, end = encoded.locate(source, at + span.first, at + span.last)
            text = encoded.texts[source][start:end]
            p = distribution.probability(span.score)
            found.setdefault(normalize_answer(text) or text, []).append(
                Answer(text, source, start, end, p, p, span.score)
            )
        return found

    def _listed(self, found: dict[str, list[Answer]], distribution: SpanDistribution, margin: float) -> AnswerList:
        answers = []
        for same in list(found.values())[: self.options.n_best]:
            total = min(1.0, sum(answer.probability for answer in same))
            answers.append(Answer(**{**vars(same[0]), "text_probability": total}))
        has_answer = bool(answers) and margin <= self.options.no_answer_threshold
        return AnswerList(tuple(answers), distribution.no_answer_probability, margin, has_answer)


def _no_answer(logits: AnswerLogits) -> Float[Tensor, " b"]:
    """The score of no answer of each window: the sum of both logits, -inf for models without them."""
    if logits.no_answer is None:
        return torch.full((len(logits.start),), NEG_INF)
    return logits.no_answer.sum(1)


def _limits(windows: Sequence[TokenWindow]) -> tuple[list[int], list[int], list[int]]:
    return [w.low for w in windows], [w.high for w in windows], [w.first for w in windows]


def span_distribution(
    logits: Sequence[WindowLogits],
    max_answer: int,
    biases: Mapping[int, float] | None = None,
    scale: float = 1.0,
) -> SpanDistribution:
    """One distribution over the spans of all windows.

    The score of no answer is the smallest of the windows: there is no answer only if no window has one.

    Args:
        logits: the logits of the windows.
        max_answer: the maximum number of tokens of a span.
        biases: a score for the spans of each text, by its index; 0 if omitted.
        scale: the factor of the logits.
    """
    t = max((len(window.start) for window in logits), default=0)
    if not t:
        return SpanDistribution(torch.full((0, 0, max_answer), NEG_INF))

    def padded(rows: list[Tensor]) -> Tensor:
        return torch.stack([F.pad(row, (0, t - len(row)), value=NEG_INF) for row in rows])

    scores = score_spans(padded([w.start for w in logits]), padded([w.end for w in logits]), max_answer)
    low, high, first = (torch.tensor(column) for column in _limits([w.window for w in logits]))
    scores = scores.masked_fill(~owned_spans(low, high, first, t, max_answer), NEG_INF)
    bias = torch.tensor([(biases or {}).get(w.source, 0.0) for w in logits], dtype=scores.dtype)
    return SpanDistribution(scale * scores, bias, scale * min(w.no_answer for w in logits))


def split_sentences(text: str) -> list[tuple[int, int]]:
    """Start and end of each sentence in characters, without those that are blank."""
    breaks = [match.end() for match in _SENTENCE_END.finditer(text)]
    spans = zip([0, *breaks], [*breaks, len(text)], strict=True)
    return [(start, end) for start, end in spans if text[start:end].strip()]


def find_sentence(text: str, start: int, end: int) -> tuple[int, int]:
    """Start and end of the sentence or sentences around the characters ``start`` up to ``end``, without blanks."""
    breaks = [match.end() for match in _SENTENCE_END.finditer(text)]
    first = max((at for at in breaks if at <= start), default=0)
    last = min((at for at in breaks if at >= end), default=len(text))
    inside = text[first:last]
    return first + len(inside) - len(inside.lstrip()), first + len(inside.rstrip())
