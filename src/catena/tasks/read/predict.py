"""Predictions of a reader, and their evaluation: an answer with its offsets, or no answer. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, Self

import regex

from catena.metrics.measure import Metric
from catena.metrics.reading import (
    AnswerReport,
    AnswerUnit,
    SquadVersion,
    answer_f1_measure,
    answer_report,
    exact_match_measure,
)
from catena.tasks.base import EvaluationResult, RankedPrediction
from catena.tasks.read.config import METRICS


@dataclass(frozen=True, kw_only=True)
class ReadPrediction(RankedPrediction):
    """The answer to a question. Prints as the answer, or as nothing if there is none.

    Args:
        question: the question.
        answer: a part of the text; None if the text has no answer.
        probability: the probability of this part of the text, or of no answer; None for a blank text.
        text_probability: the probability of all parts of the text that say the same as the answer.
        start_char: the index of the first character of the answer in the text, or in ``file`` if there is one.
        end_char: the index after its last character.
        sentence: the sentence around the answer.
        file: the file that has the answer, if several texts were read.
        no_answer_probability: the probability of no answer; None for a model that always answers.
        id: the id of the question, if it was read from a file.
        n_best: the n best predictions, if several were requested.
    """

    question: str
    answer: str | None = None
    probability: float | None = None
    text_probability: float | None = None
    start_char: int | None = None
    end_char: int | None = None
    sentence: str | None = None
    file: str | None = None
    no_answer_probability: float | None = None
    id: str | None = None
    n_best: tuple[Self, ...] = field(default=(), repr=False)

    def __str__(self) -> str:
        return self.answer or ""

    def to_dict(self) -> dict[str, Any]:
        row: dict[str, Any] = {} if self.id is None else {"id": self.id}
        row |= {"question": self.question, **self.output_fields()}
        if self.no_answer_probability is not None:
            row["no_answer_probability"] = self.no_answer_probability
        return {**row, "n_best": [one.output_fields() for one in self.n_best]} if self.n_best else row

    def output_fields(self) -> dict[str, Any]:
        row: dict[str, Any] = {
            "answer": self.answer,
            "probability": self.probability,
            "text_probability": self.text_probability,
            "start_char": self.start_char,
            "end_char": self.end_char,
            "sentence": self.sentence,
        }
        return row if self.file is None else {**row, "file": self.file}

    def to_rows(self) -> list[dict[str, Any]]:
        return [
            {
                **({} if self.id is None else {"id": self.id}),
                "answer": one.answer,
                "probability": one.probability,
                "question": self.question,
                "sentence": one.sentence,
                **({} if one.file is None else {"file": one.file}),
            }
            for one in self.ranked
        ]

    def to_text(self, format: str) -> str:
        return str(self)


def rank_predictions(
    spans: Sequence[ReadPrediction], question: str, n_best: int, *, has_answer: bool, no_answer: float | None
) -> ReadPrediction:
    """The first of some answers, or no answer, with all of them if several were requested.

    Args:
        spans: the answers in descending order of probability.
        question: the question.
        n_best: the number of predictions; with more than 1, no answer counts as one of them if it is the first.
        has_answer: whether the first span is predicted, rather than no answer.
        no_answer: the probability of no answer; None for a model that always answers.
    """
    none = ReadPrediction(question=question, probability=no_answer)
    ranked = tuple(spans if has_answer else (none, *spans))[:n_best]
    return replace(ranked[0], no_answer_probability=no_answer, n_best=ranked if n_best > 1 else ())


# --- evaluation -------------------------------------------------------------------------------------------------------


_LETTER = regex.compile(r"\p{L}")
_UNSPACED = regex.compile(r"[\p{Han}\p{Hiragana}\p{Katakana}]")


def choose_unit(references: Sequence[Sequence[str]]) -> AnswerUnit:
    """Characters if most letters of the references are Chinese or Japanese, otherwise words."""
    text = "".join(answer for answers in references for answer in answers)
    return "characters" if 2 * len(_UNSPACED.findall(text)) > len(_LETTER.findall(text)) else "words"


@dataclass(frozen=True, eq=False)
class ReadEvaluation(EvaluationResult):
    """Predicted answers and the references of some questions.

    Args:
        references: the correct answers of each question; none if it has no answer.
        answers: the predicted answer of each question, "" for no answer.
        script: the SQuAD script whose rules apply; ``auto`` is 2.0 if some question has no answer, otherwise 1.1.
        unit: the unit of F1; ``auto`` is characters for Chinese and Japanese, otherwise words.
    """

    references: list[tuple[str, ...]]
    answers: list[str]
    script: Literal["auto", "1.1", "2.0"] = "auto"
    unit: Literal["auto", "words", "characters"] = "auto"
    counts: str = ""

    @cached_property
    def _version(self) -> SquadVersion:
        if self.script != "auto":
            return self.script
        return "1.1" if all(self.references) else "2.0"

    @cached_property
    def _unit(self) -> AnswerUnit:
        return choose_unit(self.references) if self.unit == "auto" else self.unit

    @cached_property
    def _metrics(self) -> dict[str, Metric]:
        measures = {"f1": answer_f1_measure, "exact_match": exact_match_measure}
        return {name: measures[name](self._version, self._unit) for name in METRICS}

    def metrics(self) -> Mapping[str, Metric]:
        return self._metrics

    def pairs(self, name: str) -> tuple[Sequence[Any], Sequence[Any]]:
        return self.references, self.answers

    def groups(self) -> AnswerReport:
        """The scores of questions with and without an answer."""
        return answer_report(self.references, self.answers, self._version, self._unit)

    def details(self) -> list[str]:
        if all(self.references):
            return []
        report = self.groups()
        return [
            f"with an answer: {report.n_answerable:,} questions, f1 {report.answerable_f1:.4f}, exact_match "
            f"{report.answerable_exact_match:.4f}",
            f"without an answer: {report.n_unanswerable:,} questions, correct {report.unanswerable_accuracy:.4f}",
        ]

    def details_dict(self) -> dict[str, Any]:
        return {"groups": self.groups().to_dict()}
