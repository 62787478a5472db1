"""Forward-mode derivatives of operators over rows, derived from their backward functions.

A backward function reads its inputs from ``ctx``. Here it gets the same inputs without their tangents, so that one
function serves both modes and any nesting of them (``torch.func.hessian``, ``jacfwd`` of ``jacfwd``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import reduce
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad


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
