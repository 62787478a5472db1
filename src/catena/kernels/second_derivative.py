"""The second derivative of a sum over structures, through its plain program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import torch
from torch import Tensor

from catena.numerics import without_nan
from catena.shapes import can_use_control_flow


def second_derivative(
    log_partition: Callable[..., Tensor], scale: Tensor, scores: Sequence[Tensor], grads: Sequence[Tensor]
) -> tuple[Tensor, ...]:
    """Pull ``grads`` back through the function from scale and scores to the gradient of Σ scale × log Z by the scores.

    Args:
        log_partition: the plain program, from scores to log Z of each row; differentiable any number of times.
        scale: one factor for each row.
        scores: tensors with rows, or groups of consecutive rows, on the first axis. A score that is not read may be
            nan. A row that reads nan or +inf has the derivative nan.
        grads: one tensor for each of the scores.

    Returns:
        The gradients by the scale and by the scores.
    """
    spoiled = None
    if not (can_use_control_flow() and all(float(x.detach().amax()) < torch.inf for x in scores if x.numel())):
        spoiled = ~(log_partition(*(x.detach() for x in scores)) < torch.inf)
        scores = [without_nan(x) for x in scores]  # a product with an unread nan would be nan

    def gradient(scale: Tensor, *scores: Tensor) -> Any:
        return cast(Any, torch.func.vjp(log_partition, *scores))[1](scale)

    found = cast(Any, torch.func.vjp(gradient, scale, *scores))[1](tuple(grads))
    return found if spoiled is None else tuple(torch.where(_over(spoiled, x), torch.nan, x) for x in found)


def _over(rows: Tensor, x: Tensor) -> Tensor:
    """Marks of rows, in the shape of a tensor that groups of rows share."""
    if x.shape[0] != rows.shape[0]:
        rows = rows.unflatten(0, (x.shape[0], -1)).any(1)
    return rows.reshape(-1, *(1 for _ in x.shape[1:]))
