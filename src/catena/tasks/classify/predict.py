"""Predictions of a classifier."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from catena.tasks.base import Prediction


@dataclass(frozen=True)
class ClassPrediction(Prediction):
    """The labels of a text, best first, with the probability of every class. Prints as its labels.

    Args:
        text: the input.
        labels: the predicted labels; one, unless the model predicts several or a threshold excludes all.
        probabilities: the probability of each class, in descending order.
        multilabel: whether a text may have several labels.
        n_best: number of classes to show in tables, if it was set.
        scores: whether log-probabilities are shown.
        separator: written between several labels.
        key: the name of the input in JSON and tables: "text" or "file".
    """

    text: str
    labels: tuple[str, ...]
    probabilities: dict[str, float]
    multilabel: bool = field(default=False, repr=False)
    n_best: int = field(default=1, repr=False)
    scores: bool = field(default=False, repr=False)
    separator: str = field(default=", ", repr=False)
    key: str = field(default="text", repr=False)

    @property
    def label(self) -> str | None:
        """The first label; None if there is none."""
        return self.labels[0] if self.labels else None

    @property
    def probability(self) -> float:
        """The probability of the label, or of the most probable class if no label is predicted."""
        return self.probabilities[self.labels[0]] if self.labels else max(self.probabilities.values())

    @property
    def log_prob(self) -> float:
        """The natural logarithm of the probability."""
        return math.log(self.probability) if self.probability > 0 else -math.inf

    def __str__(self) -> str:
        return self.separator.join(self.labels)

    def to_dict(self) -> dict[str, Any]:
        row: dict[str, Any] = {self.key: self.text}
        if self.multilabel:
            row["labels"] = list(self.labels)
        else:
            row |= {"label": self.label, "probability": self.probability}
        if self.scores:
            row["log_prob"] = self.log_prob
        if self.n_best > 1:
            row["n_best"] = [{"label": label, "probability": p} for label, p in self._ranked()]
        return {**row, "probabilities": self.probabilities}

    def to_rows(self) -> list[dict[str, Any]]:
        if self.n_best > 1:
            pairs = self._ranked()
        else:
            pairs = [(self.separator.join(self.labels), self.probability)]
        rows = []
        for label, probability in pairs:
            row: dict[str, Any] = {"label": label, "probability": probability}
            if self.scores:
                row["log_prob"] = math.log(probability) if probability > 0 else -math.inf
            rows.append({**row, self.key: self.text})
        return rows

    def _ranked(self) -> list[tuple[str, float]]:
        return list(self.probabilities.items())[: self.n_best]
