"""Predictions of regression."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from catena.tasks.base import Prediction


@dataclass(frozen=True)
class ValuePrediction(Prediction):
    """A predicted number with its uncertainty. Prints as the number.

    Args:
        value: the mean of the predicted Gaussian.
        std: its standard deviation.
        low: the lower end of the interval of the chosen probability.
        high: the upper end.
        text: the input text or the path of the file; None if the model reads numbers only.
        numbers: the input numbers by column; nan where one was missing.
    """

    value: float
    std: float
    low: float
    high: float
    text: str | None = None
    numbers: Mapping[str, float] = field(default_factory=dict)

    @property
    def missing(self) -> tuple[str, ...]:
        """The columns without a number, for which the mean of the training data was used."""
        return tuple(name for name, number in self.numbers.items() if number != number)

    def __str__(self) -> str:
        return f"{self.value:.6g}"

    def to_dict(self) -> dict[str, Any]:
        inputs: dict[str, Any] = {} if self.text is None else {"text": self.text}
        if self.numbers:
            inputs["numbers"] = dict(self.numbers)
        return {**inputs, "value": self.value, "std": self.std, "low": self.low, "high": self.high}

    def to_rows(self) -> list[dict[str, Any]]:
        found = {"value": self.value, "std": self.std, "low": self.low, "high": self.high}
        text = {} if self.text is None else {"text": self.text}
        return [{**found, **{f"number {name}": number for name, number in self.numbers.items()}, **text}]
