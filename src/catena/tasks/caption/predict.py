"""Predictions of a model of captions. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from jaxtyping import Float

from catena.tasks.base import RankedPrediction


@dataclass(frozen=True, eq=False)
class CaptionPrediction(RankedPrediction):
    """The caption of a picture. Prints as the caption.

    Args:
        file: the picture.
        caption: the caption.
        tokens: its tokens.
        log_prob: log p(caption | picture), including its end symbol unless it is truncated.
        score: the score by which the search ranked it.
        truncated: whether it was cut at the maximum length.
        log_probs: log-probability of each token, and of the end symbol unless it is truncated; None without ``scores``.
        attention: ``attention[t, i]`` is the weight of part i of the picture for token t; None without ``attention``.
        n_best: the n best or sampled captions, if several were requested.
    """

    file: str
    caption: str
    tokens: tuple[str, ...]
    log_prob: float
    score: float
    truncated: bool = False
    log_probs: tuple[float, ...] | None = None
    attention: Float[np.ndarray, "t s"] | None = field(default=None, repr=False)
    n_best: tuple[Self, ...] = ()

    def __str__(self) -> str:
        return self.caption

    def input_fields(self) -> dict[str, Any]:
        return {"file": self.file}

    def output_fields(self) -> dict[str, Any]:
        row: dict[str, Any] = {"caption": self.caption, "tokens": list(self.tokens)}
        row |= {"log_prob": self.log_prob, "score": self.score, "truncated": self.truncated}
        if self.log_probs is not None:
            row["log_probs"] = list(self.log_probs)
        if self.attention is not None:
            row["attention"] = np.round(self.attention.astype(np.float64), 4).tolist()
        return row

    def to_rows(self) -> list[dict[str, Any]]:
        return [
            {"file": self.file, "caption": one.caption} | ({} if one.log_probs is None else {"log_prob": one.log_prob})
            for one in self.ranked
        ]
