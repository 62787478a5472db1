"""Small steps that all structures take with tensors: slopes of a function, blanked rows, numbers to draw by."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import torch
from jaxtyping import Float
from torch import Tensor

from catena.numerics import NEVER


def value_and_slopes(function: Callable[..., Tensor], inputs: Sequence[Tensor]) -> tuple[Tensor, tuple[Tensor, ...]]:
    """A function's value and the gradients of its sum. torch.func composes with vmap, no_grad and itself."""
    value, pull = cast(Any, torch.func.vjp(function, *inputs))
    return value, pull(torch.ones_like(value))


def blanked(members: Tensor, spoilt: Tensor, front: int = 0) -> Tensor:
    """Members with -1 for all of a row that is spoilt; ``front`` axes come before those of the batch."""
    behind = members.dim() - front - spoilt.dim()
    return torch.where(spoilt.reshape(*spoilt.shape, *(1 for _ in range(behind))), -1, members)


def over_rows(rows: Tensor, slopes: Tensor, rank: int) -> Tensor:
    """Marked rows, to be laid over slopes with ``rank`` axes behind the batch; all of them where rows share them."""
    if slopes.shape[: slopes.dim() - rank] != rows.shape:
        return rows.any()
    return rows.reshape(*rows.shape, *(1 for _ in range(rank)))


def or_zero(x: Tensor) -> Tensor:
    """Scores with 0 in place of -inf: the difference of two that are -inf would be nan."""
    return torch.where(x == NEVER, 0.0, x)


def or_zeros(x: Tensor | None, like: Tensor) -> Tensor:
    """A tensor that may be left out, as zeros where it is."""
    return torch.zeros_like(like) if x is None else x


def uniform_numbers(*shape: int, generator: torch.Generator | None) -> Float[Tensor, "..."]:
    """Numbers from 0 to 1 to draw members by."""
    if generator is None:  # asked for by name, torch.compile cannot trace sizes that are symbols
        return torch.rand(shape, dtype=torch.float64)
    return torch.rand(shape, dtype=torch.float64, generator=generator)
