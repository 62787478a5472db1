r"""Answers from many paragraphs: retrieval of the best k, then reading with one softmax over all of them.

.. math::  p(w, i, j) \propto \exp(\alpha (s_{wi} + e_{wj}) + \beta\, r_{w})

where r is the retrieval score of the paragraph of window w. The weights are fitted on development questions (see
:mod:`catena.tasks.read.calibration`); by default only the logits count.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from catena.data.readers.questions import QuestionExample
from catena.errors import DataError
from catena.tasks.read.answers import AnswerFinder, AnswerList, WindowLogits, find_sentence
from catena.tasks.read.calibration import MixtureWeights, fit_mixture, score_candidates
from catena.tasks.read.data import ReadingTexts
from catena.tasks.read.ranking import Paragraph, ParagraphRanker

_BLOCK = 256
"""Number of questions that are read in one block."""


@dataclass(frozen=True)
class FolderAnswer:
    """An answer with its paragraph and sentence.

    ``paragraph.text[start:end] == text``, and the same characters of the file begin at ``paragraph.start + start``.
    """

    text: str
    paragraph: Paragraph
    start: int
    end: int
    sentence: str
    probability: float
    text_probability: float


@dataclass(frozen=True)
class FolderAnswers:
    """The best answers to a question, the probability of no answer, and the paragraphs that were read."""

    answers: tuple[FolderAnswer, ...]
    no_answer_probability: float
    no_answer_margin: float
    has_answer: bool
    paragraphs: tuple[int, ...]
    """The indices of the paragraphs, best first by retrieval."""

    @property
    def text(self) -> str:
        """The best answer, or "" for no answer."""
        return self.answers[0].text if self.has_answer and self.answers else ""


class FolderReader:
    """Answers questions from paragraphs.

    Args:
        finder: the model that reads.
        paragraphs: the paragraphs.
        ranker: ranks the same paragraphs.
        k: the number of paragraphs that are read for a question.
        weights: weights of logits and retrieval scores.
    """

    def __init__(
        self,
        finder: AnswerFinder,
        paragraphs: Sequence[Paragraph],
        ranker: ParagraphRanker,
        k: int = 5,
        weights: MixtureWeights | None = None,
    ) -> None:
        if not paragraphs:
            raise DataError("paragraphs must not be empty, got none. Read a file with text.")
        self.finder, self.paragraphs, self.ranker = finder, list(paragraphs), ranker
        self.k, self.weights = k, weights or MixtureWeights()

    def answer(self, questions: Sequence[str]) -> Iterator[FolderAnswers]:
        """The answers to each question, in order. Reads blocks of questions, so that memory is bounded."""
        for question, read in zip(questions, self._read(questions), strict=True):
            best = max(read.scores.values())  # 0 for the best paragraph, so that no answer is comparable to one text
            bias = {source: self.weights.retrieval * (score - best) for source, score in read.scores.items()}
            found = self.finder.choose(read.encoded, read.logits, bias, self.weights.spans, question)
            yield self._with_paragraphs(found, read)

    def fit(self, examples: Sequence[QuestionExample]) -> MixtureWeights:
        """Fit the weights on development questions with answers in these paragraphs, and use them.

        A question counts if a correct answer is among the best spans of the retrieved paragraphs.
        """
        most = self.finder.options.max_answer
        tables = [
            score_candidates(read.encoded, read.logits, example.references, read.scores, most)
            for example, read in zip(examples, self._read([e.question for e in examples]), strict=True)
        ]
        self.weights = fit_mixture([table for table in tables if table is not None])
        return self.weights

    def _read(self, questions: Sequence[str]) -> Iterator[_ReadQuestion]:
        for low in range(0, len(questions), _BLOCK):
            block = list(questions[low : low + _BLOCK])
            scores, indices = self.ranker.rank(block, self.k)
            distinct = np.unique(indices)
            encoded = ReadingTexts(self.finder.encoding, [self.paragraphs[i].text for i in distinct], block)
            places = np.searchsorted(distinct, indices)
            logits = self.finder.read(encoded, [(i, row.tolist()) for i, row in enumerate(places)])
            for i, row in enumerate(places.tolist()):
                by_source = dict(zip(row, scores[i].tolist(), strict=True))
                yield _ReadQuestion(encoded, logits[i], by_source, distinct, tuple(indices[i].tolist()))

    def _with_paragraphs(self, found: AnswerList, read: _ReadQuestion) -> FolderAnswers:
        answers = []
        for answer in found.answers:
            paragraph = self.paragraphs[read.distinct[answer.source]]
            first, last = find_sentence(paragraph.text, answer.start, answer.end)
            answers.append(
                FolderAnswer(
                    answer.text,
                    paragraph,
                    answer.start,
                    answer.end,
                    paragraph.text[first:last],
                    answer.probability,
                    answer.text_probability,
                )
            )
        return FolderAnswers(
            tuple(answers), found.no_answer_probability, found.no_answer_margin, found.has_answer, read.retrieved
        )


class _ReadQuestion(NamedTuple):
    """The logits of the paragraphs of a question. Sources are indices into ``distinct``."""

    encoded: ReadingTexts
    logits: list[WindowLogits]
    scores: dict[int, float]
    distinct: np.ndarray
    retrieved: tuple[int, ...]
