"""Exact match and F1 of the answers of a reader, as in the official SQuAD scripts. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

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
from catena.tasks.base import EvaluationResult
from catena.tasks.read.config import METRICS

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
