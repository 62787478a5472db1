"""Ranking of beam hypotheses: length penalties and stopping rules."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from catena.errors import ConfigError

# --- length penalties -----------------------------------------------------------------------------------------

LengthPenalty = Callable[[int], float]
"""The divisor of a log-probability by the number of steps, including the end. It must not decrease with the length."""


def no_length_penalty(length: int) -> float:
    """log p, which prefers short hypotheses."""
    return 1.0


def average_length_penalty(length: int) -> float:
    """The length: hypotheses are ranked by their mean log-probability of a step."""
    return float(length)


def gnmt_length_penalty(alpha: float) -> LengthPenalty:
    """((5 + length) / 6)^alpha, between the other two. Wu et al. (2016), eq. 14.

    Args:
        alpha: strength, at least 0; 0 gives 1 for every length.
    """
    if alpha < 0:
        raise ConfigError(f"alpha must be at least 0, got {alpha}. Use a value such as 0.6.")
    return lambda length: ((5.0 + length) / 6.0) ** alpha


# --- stopping rules -----------------------------------------------------------------------------------------


class SearchProgress(NamedTuple):
    """The progress of each row of a search, and of each of the ``k`` hypotheses on its beam."""

    n_finished: Int[Tensor, "b 1"]
    kept: Float[Tensor, "b k"]
    """The score to beat to be returned: -inf while too few are finished in the row, or in the group."""
    within_reach: Float[Tensor, "b k"]
    """The upper bound of the score of every continuation of the hypothesis."""


Stop = Callable[[SearchProgress], Bool[Tensor, "b #k"]]
"""Which hypotheses are given up, singly or all of a row. A row without any left is done."""


def stop_when_optimal(progress: SearchProgress) -> Bool[Tensor, "b k"]:
    """Stop as soon as no unfinished hypothesis can beat the finished ones that are returned."""
    return progress.kept >= progress.within_reach


def stop_at_max_length(progress: SearchProgress) -> Bool[Tensor, "b 1"]:
    """Never stop before the maximum length."""
    return torch.zeros_like(progress.n_finished, dtype=torch.bool)


def stop_after(n: int) -> Stop:
    """Stop as soon as ``n`` hypotheses are finished. Fast, but may miss better ones that are longer.

    Args:
        n: number of finished hypotheses.
    """
    return lambda progress: progress.n_finished >= n
