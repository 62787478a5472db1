"""Predictions of a reader: an answer with its offsets in the text, alternatives, or no answer. Imports no torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

from catena.tasks.base import RankedPrediction


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
