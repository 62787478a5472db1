"""Predictions of a pointer network."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

from catena.tasks.base import RankedPrediction
from catena.tasks.point.items import PointItem


@dataclass(frozen=True)
class PointPrediction(RankedPrediction):
    """The output positions of a set. Prints as the positions.

    Args:
        item: the set.
        positions: the output positions, counted from 0; None for an empty set.
        log_prob: the log-probability of the output.
        truncated: whether the output reached the maximum number of steps before its end symbol.
        n_best: the n best predictions, if several were requested.
        scores: whether log-probabilities are shown in tables.
    """

    item: PointItem
    positions: tuple[int, ...] | None
    log_prob: float | None = None
    truncated: bool = False
    n_best: tuple[Self, ...] = ()
    scores: bool = field(default=False, repr=False)

    def __str__(self) -> str:
        return " ".join(map(str, self.positions or ()))

    def input_fields(self) -> dict[str, Any]:
        return {self.item.kind: self.item.things}

    def output_fields(self) -> dict[str, Any]:
        positions = None if self.positions is None else list(self.positions)
        return {"positions": positions, "log_prob": self.log_prob, "truncated": self.truncated}

    def to_rows(self) -> list[dict[str, Any]]:
        rows = []
        for one in self.ranked:
            row: dict[str, Any] = {self.item.kind: self.item.text(), "positions": str(one)}
            rows.append({**row, "log_prob": one.log_prob} if self.scores else row)
        return rows

    def to_text(self, format: str) -> str:
        return str(self)
