"""Torch operators from loops over dependency trees: log Z, arc probabilities, derivatives and searches.

Rows of the batch are on the first axis: ``arcs[b, h, m]``, node 0 is the root; ``lengths[b]`` words. Padding and
impossible arcs (``h = m`` or ``m = 0``) are not read. Loops compute in float64 for every dtype of the scores. The
second derivative is computed with the reference implementation.

Labels are summed out before (:func:`sum_labels`), and nothing of their number is kept.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from catena.kernels.common.derivatives import saved_without_tangents
from catena.kernels.common.ops import as_array, as_lengths, fold_vmap, torch_operator
from catena.kernels.common.sums import RowSums
from catena.kernels.common.threads import in_row_blocks
from catena.numerics import NEG_INF, log_sum_exp, masked_softmax, without_nan

_Loop = Callable[..., None]
_Reference = Callable[[Tensor, Tensor, bool], Tensor]
_Best = Callable[[Tensor, Tensor, bool], Tensor]
_Top = Callable[[Tensor, Tensor, bool, int], tuple[Tensor, Tensor, Tensor]]


def arc_sums(name: str, loops: tuple[_Loop, _Loop], reference: _Reference) -> RowSums:
    """log Z and arc probabilities of rows of trees, for arcs, lengths and whether there is a single root.

    The first loop writes log Z and, if requested, the probabilities of the arcs of the rows ``low`` to ``high``, and
    whether they are exact; the second repeats rows that are not, at any range of scores.
    """

    def sum_rows(keep: bool, arcs: Tensor, lengths: Tensor, single_root: bool) -> tuple[Tensor, Tensor]:
        b, n, _ = arcs.shape
        wrong = rows_without_numbers(arcs, lengths)
        arcs = arcs if wrong is None else torch.where(wrong[:, None, None], NEG_INF, arcs)
        log_z = torch.empty(b, dtype=torch.float64)
        exact = torch.empty(b, dtype=torch.bool)
        marginals = torch.zeros(arcs.shape if keep else (1, 1, 1), dtype=arcs.dtype)
        arrays = (as_array(arcs.detach()), as_lengths(lengths, n - 1), single_root)
        results = (keep, log_z.numpy(), marginals.numpy(), exact.numpy())
        for loop in loops:
            in_row_blocks(partial(_call, loop, arrays, results), b, b * n**3 * (2 if keep else 1))
            if exact.all():
                break
        if wrong is not None:
            log_z[wrong] = torch.nan
            marginals[wrong if keep else slice(0)] = torch.nan
        return log_z.to(arcs.dtype), marginals

    def kept(arcs: Tensor, *others: Any) -> tuple[Tensor]:
        return (torch.empty_like(arcs, memory_format=torch.contiguous_format),)

    return RowSums(name, reference, 1, sum_rows=sum_rows, kept=kept, n_kept=1)


def _call(loop: _Loop, arrays: tuple[Any, ...], results: tuple[Any, ...], low: int, high: int) -> None:
    loop(*arrays, low, high, *results)


def sum_labels(labels: Tensor) -> Tensor:
    """log Σ exp over the last axis, -inf where all are; only ``labels`` themselves are kept for the backward pass."""
    if torch.compiler.is_compiling():  # it does not trace functions that have a jvp
        return log_sum_exp(labels, -1)
    summed: Tensor = _LabelSum.apply(labels)
    return summed


class _LabelSum(torch.autograd.Function):
    @staticmethod
    def forward(labels: Tensor) -> Tensor:
        return log_sum_exp(labels, -1)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def vmap(info: Any, dims: tuple[int], labels: Tensor) -> tuple[Tensor, int]:
        return _LabelSum.apply(labels.movedim(dims[0], 0)), 0

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor) -> Tensor:
        with saved_without_tangents(ctx) as (labels,):
            return (masked_softmax(labels) * tangent).sum(-1)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        # A label of nan on an arc that is not read must not reach the gradient; on one that is, grad is nan itself.
        return grad[..., None] * masked_softmax(without_nan(*ctx.saved_tensors))


def possible_arcs(arcs: Tensor, lengths: Tensor) -> Tensor:
    """Scores with -inf wherever there is no arc."""
    nodes = torch.arange(arcs.shape[-1], device=arcs.device)
    real = nodes <= lengths[:, None]
    arc = real[:, :, None] & real[:, None, :] & (nodes[:, None] != nodes) & (nodes > 0)
    return torch.where(arc, arcs, NEG_INF)


def rows_without_numbers(arcs: Tensor, lengths: Tensor) -> Tensor | None:
    """Where a score that is read is nan or +inf, with which the loops would never end or read beyond their tables.

    None where there is no such score anywhere: then all was looked at once.
    """
    if arcs.numel() == 0 or float(arcs.amax()) < torch.inf:
        return None
    return ~(possible_arcs(arcs, lengths).flatten(1).amax(1) < torch.inf)


def search_operators(
    name: str, best_rows: Callable[..., None], top_rows: Callable[..., None], power: int
) -> tuple[_Best, _Top]:
    """The functions ``best`` and ``top`` of rows of trees, from loops whose work grows by a power of the length."""

    @torch_operator(f"{name}_best")
    def best(arcs: Tensor, lengths: Tensor, single_root: bool) -> Tensor:
        """The heads of the best tree of each row, ``[b, t]``."""
        b, n, _ = arcs.shape
        arrays = as_arrays(arcs, lengths, single_root)
        heads = np.full((b, n - 1), -1)
        in_row_blocks(lambda low, high: best_rows(*arrays, low, high, heads), b, b * n**power)
        return torch.from_numpy(heads)

    @torch_operator(f"{name}_top")
    def top(arcs: Tensor, lengths: Tensor, single_root: bool, k: int) -> tuple[Tensor, Tensor, Tensor]:
        """Heads and ranks of labels of the ``k`` best trees of each row, ``[b, k, t]``, and how many there are.

        ``arcs`` are ``[b, n, n, j]``: for every arc the scores with its ``j`` best labels, best first.
        """
        b, n, *_ = arcs.shape
        arrays = as_arrays(arcs, lengths, single_root)
        heads = torch.full((b, k, n - 1), -1)
        labels = torch.full((b, k, n - 1), -1)
        found = torch.empty(b, dtype=torch.int64)
        results = (heads.numpy(), labels.numpy(), found.numpy())
        in_row_blocks(lambda low, high: top_rows(*arrays, low, high, *results), b, 4 * b * n**power * k)
        return heads, labels, found

    register_searches(best, top)
    return best, top


def register_searches(best: Any, top: Any) -> None:
    """Register the shapes and the vmap rules of the two operators of :func:`search_operators`."""

    @best.register_fake
    def _(arcs: Tensor, lengths: Tensor, single_root: bool) -> Tensor:
        return lengths.new_empty((arcs.shape[0], arcs.shape[1] - 1))

    @top.register_fake
    def _(arcs: Tensor, lengths: Tensor, single_root: bool, k: int) -> Any:
        shape = (arcs.shape[0], k, arcs.shape[1] - 1)
        return lengths.new_empty(shape), lengths.new_empty(shape), lengths.new_empty(shape[0])

    fold_vmap(best)
    fold_vmap(top)


def as_arrays(arcs: Tensor, lengths: Tensor, single_root: bool) -> tuple[Any, Any, bool]:
    """The input of the loops. No tree is found where scores are nan or +inf."""
    from catena.kernels.common.vector_math import are_below_inf  # imports Numba, which a cold prediction avoids

    array = np.ascontiguousarray(arcs.detach().numpy(), np.float64)
    if not are_below_inf(array.reshape(-1)):
        wrong = rows_without_numbers(arcs if arcs.dim() == 3 else arcs.amax(-1), lengths)
        if wrong is not None:
            array = np.where(wrong.numpy().reshape(-1, *(1 for _ in arcs.shape[1:])), NEG_INF, array)
    return array, as_lengths(lengths, arcs.shape[1] - 1), single_root
