"""Forward-mode and second derivatives of operators over rows.

The ``jvp`` of an operator is derived from its backward function, which reads its inputs from ``ctx``. Here it gets the
same inputs without their tangents, so that one function serves both modes and any nesting of them
(``torch.func.hessian``, ``jacfwd`` of ``jacfwd``). The second derivative of a log-partition function is computed with
its reference implementation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from typing import Any, cast

import torch
from torch import Tensor
from torch.autograd import forward_ad

from catena.numerics import without_nan
from catena.shapes import can_use_control_flow


def is_transformed() -> bool:
    """Whether code runs inside torch.func or with dual tensors: derivatives that ``requires_grad`` does not show."""
    return torch._C._are_functorch_transforms_active() or forward_ad._current_level >= 0


@contextmanager
def saved_without_tangents(ctx: Any) -> Iterator[tuple[Any, ...]]:
    """The tensors that were saved for a ``jvp``, whose code belongs inside the ``with`` block.

    torch turns forward mode off in a ``jvp``, so that the derivative of an outer ``jvp`` would be 0; here it is on.
    """
    with forward_ad._set_fwd_grad_enabled(True):
        yield tuple(None if x is None else forward_ad.unpack_dual(x).primal for x in ctx.saved_tensors)


class _Inputs:
    """What a backward function reads from its context: saved tensors, and constants."""

    def __init__(self, ctx: Any, saved: tuple[Any, ...]) -> None:
        self._ctx = ctx
        self.saved_tensors = saved

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ctx, name)


def value_jvp(backward: Callable[..., Any], n_results: int) -> Callable[..., Any]:
    """The ``jvp`` of an operator whose first result is one value per row and whose other results have no derivative.

    The derivative of a value is the inner product of its gradient with the tangents, row by row.
    """

    def jvp(ctx: Any, *tangents: Tensor | None) -> Any:
        with saved_without_tangents(ctx) as saved:
            rows = saved[0].shape[0]
            inputs = _Inputs(ctx, tuple(None if x is None else _per_row(x, rows) for x in saved))
            gradients = backward(inputs, saved[0].new_ones(rows), *[None] * (n_results - 1))
            terms = [
                (gradient * _per_row(tangent, rows)).flatten(1).sum(1)
                for gradient, tangent in zip(gradients, tangents, strict=True)
                if gradient is not None and tangent is not None
            ]
            moved = reduce(torch.add, terms)
        return moved if n_results == 1 else (moved, *[None] * (n_results - 1))

    return jvp


def gradient_jvp(backward: Callable[..., Any], call: Callable[..., Any]) -> Callable[..., Any]:
    """The ``jvp`` of an operator that multiplies the gradient of each row's value by a scale, its first argument.

    It is linear in the scale. Its derivative by the scores is a Hessian, which is symmetric, so the backward function
    multiplies it by the tangents.
    """

    def jvp(ctx: Any, d_scale: Tensor | None, *tangents: Tensor | None) -> Any:
        with saved_without_tangents(ctx) as saved:
            scale, *others = saved
            arguments = [torch.zeros_like(scale) if d_scale is None else d_scale, *others]
            for place, constant in sorted(ctx.constants.items()):
                arguments.insert(place, constant)
            found = call(*arguments)
            by_scale = (found,) if isinstance(found, Tensor) else found
            given = tuple(torch.zeros_like(x) if t is None else t for x, t in zip(by_scale, tangents, strict=False))
            by_scores = backward(_Inputs(ctx, saved), *given)[1 : 1 + len(by_scale)]
            moved = tuple(x if h is None else x + h for x, h in zip(by_scale, by_scores, strict=True))
        return moved[0] if isinstance(found, Tensor) else moved

    return jvp


def _per_row(x: Tensor, rows: int) -> Tensor:
    """A tensor that consecutive rows share, repeated for each row."""
    return x if x.shape[0] == rows else x.repeat_interleave(rows // x.shape[0], 0)


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
