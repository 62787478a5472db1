"""Predictions of a transducer: targets with scores and alignments. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

from catena.tasks.base import RankedPrediction


@dataclass(frozen=True)
class TransductionPrediction(RankedPrediction):
    """The best target of a source. Prints as the target.

    Args:
        source: the source text.
        target: the target; empty for a blank text.
        log_prob: log p(target | source); None if the model has no probabilities, or knows no symbol of the source.
        truncated: whether the target was cut at the maximum length, so that it has no end symbol.
        known: whether the model knows any symbol of the source; if not, the target is a guess.
        alignment: pieces of the source and the aligned pieces of the target, if requested.
        n_best: the n best predictions, if several were requested.
        scores: whether log-probabilities are shown in tables.
    """

    source: str
    target: str = ""
    log_prob: float | None = None
    truncated: bool = False
    known: bool = False
    alignment: tuple[tuple[str, str], ...] | None = None
    n_best: tuple[Self, ...] = ()
    scores: bool = field(default=False, repr=False)

    def __str__(self) -> str:
        return self.target

    def input_fields(self) -> dict[str, Any]:
        return {"source": self.source, "known": self.known}

    def output_fields(self) -> dict[str, Any]:
        row: dict[str, Any] = {"target": self.target, "log_prob": self.log_prob, "truncated": self.truncated}
        return row if self.alignment is None else {**row, "alignment": [list(pair) for pair in self.alignment]}

    def to_rows(self) -> list[dict[str, Any]]:
        rows = []
        for one in self.ranked:
            row: dict[str, Any] = {"source": self.source, "target": one.target}
            if self.scores:
                row["log_prob"] = one.log_prob
            if one.alignment is not None:
                row["alignment"] = " ".join(f"{_cell(a)}|{_cell(b)}" for a, b in one.alignment)
            rows.append(row)
        return rows


def _cell(piece: str) -> str:
    """A piece without blanks; _ if it is empty."""
    return piece.replace(" ", "+") or "_"
