"""Predictions of a model of texts with an agenda."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

from catena.tasks.base import RankedPrediction
from catena.tasks.compose.data import SEPARATOR, Composition


@dataclass(frozen=True)
class CompositionPrediction(RankedPrediction):
    """The text that was generated for a goal and its items. Prints as the text.

    Args:
        example: the goal and its items.
        text: the generated text; None if there is neither a goal nor an item.
        log_prob: the log-probability of the text.
        truncated: whether the text reached the maximum length before its end.
        mentioned: for each item, whether the text mentions it.
        n_best: the n best or sampled predictions, if several were requested.
        scores: whether log-probabilities are shown in tables.
    """

    example: Composition
    text: str | None = None
    log_prob: float | None = None
    truncated: bool = False
    mentioned: tuple[bool, ...] = ()
    n_best: tuple[Self, ...] = ()
    scores: bool = field(default=False, repr=False)

    def __str__(self) -> str:
        return self.text or ""

    def input_fields(self) -> dict[str, Any]:
        return {"goal": self.example.goal, "items": list(self.example.items)}

    def output_fields(self) -> dict[str, Any]:
        row: dict[str, Any] = {"text": self.text, "log_prob": self.log_prob, "truncated": self.truncated}
        if self.text is None:
            return row
        pairs = list(zip(self.example.items, self.mentioned, strict=True))
        row["mentioned"] = [item for item, is_mentioned in pairs if is_mentioned]
        row["left_out"] = [item for item, is_mentioned in pairs if not is_mentioned]
        return row

    def to_rows(self) -> list[dict[str, Any]]:
        rows = []
        for one in self.ranked:
            items = f" {SEPARATOR} ".join(self.example.items)
            row: dict[str, Any] = {"goal": self.example.goal, "items": items, "text": str(one)}
            rows.append({**row, "log_prob": one.log_prob} if self.scores else row)
        return rows
