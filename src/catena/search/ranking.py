"""How the hypotheses of a beam are ranked, and when it may stop: normalizers of length and rules of stopping."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from catena.errors import ConfigError

# --- length ---------------------------------------------------------------------------------------------------

LengthPenalty = Callable[[int], float]
"""What the log-probability of so many steps, the end among them, is divided by. It must not fall with the length."""


def no_length_penalty(length: int) -> float:
    """log p itself, which prefers short hypotheses."""
    return 1.0


def average_length_penalty(length: int) -> float:
    """The mean log-probability of a step."""
    return float(length)


def gnmt_length_penalty(alpha: float) -> LengthPenalty:
    """((5 + length) / 6)^alpha, between the other two. Wu et al. (2016), eq. 14."""
    if alpha < 0:
        raise ConfigError(f"alpha of a length normalizer must not be below 0, but it is {alpha}")
    return lambda length: ((5.0 + length) / 6.0) ** alpha


# --- when to stop -------------------------------------------------------------------------------------------


class SearchProgress(NamedTuple):
    """How far each row of a search, and each of ``k`` hypotheses that are still on its beam, has come."""

    n_finished: Int[Tensor, "b 1"]
    kept: Float[Tensor, "b k"]
    """What the hypothesis must beat to be returned: -inf while too few are finished in its row, or in its group."""
    within_reach: Float[Tensor, "b k"]
    """The hypothesis cannot score better than this, however it goes on."""


Stop = Callable[[SearchProgress], Bool[Tensor, "b #k"]]
"""Which hypotheses are given up, singly or all of a row. A row without others is done."""


def stop_when_optimal(progress: SearchProgress) -> Bool[Tensor, "b k"]:
    """As soon as an unfinished hypothesis cannot beat the finished ones that are returned."""
    return progress.kept >= progress.within_reach


def stop_at_max_length(progress: SearchProgress) -> Bool[Tensor, "b 1"]:
    """Never before the maximum length."""
    return torch.zeros_like(progress.n_finished, dtype=torch.bool)


def stop_after(n: int) -> Stop:
    """As soon as ``n`` hypotheses are finished. Fast, and may miss better ones that are longer."""
    return lambda progress: progress.n_finished >= n
