"""Torch operators of loops that search for dependency trees. Arguments are as in ``arc_sums``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from catena.kernels.arc_sums import rows_without_numbers
from catena.kernels.ops import fold_vmap, torch_operator
from catena.kernels.threads import in_row_blocks
from catena.numerics import NEG_INF

_Best = Callable[[Tensor, Tensor, bool], Tensor]
_Top = Callable[[Tensor, Tensor, bool, int], tuple[Tensor, Tensor, Tensor]]


def search_operators(
    name: str, best_rows: Callable[..., None], top_rows: Callable[..., None], power: int
) -> tuple[_Best, _Top]:
    """The functions ``best`` and ``top`` of rows of trees, from loops whose work grows by a power of the length."""

    @torch_operator(f"{name}_best")
    def best(arcs: Tensor, lengths: Tensor, single_root: bool) -> Tensor:
        """The heads of the best tree of each row, ``[b, t]``."""
        b, n, _ = arcs.shape
        arrays, heads = as_arrays(arcs, lengths, single_root), torch.full((b, n - 1), -1)
        in_row_blocks(lambda low, high: best_rows(*arrays, low, high, heads.numpy()), b, b * n**power)
        return heads

    @torch_operator(f"{name}_top")
    def top(arcs: Tensor, lengths: Tensor, single_root: bool, k: int) -> tuple[Tensor, Tensor, Tensor]:
        """Heads and ranks of labels of the ``k`` best trees of each row, ``[b, k, t]``, and how many there are.

        ``arcs`` are ``[b, n, n, j]``: for every arc the scores with its ``j`` best labels, best first.
        """
        b, n, *_ = arcs.shape
        arrays = as_arrays(arcs, lengths, single_root)
        heads, labels = torch.full((b, k, n - 1), -1), torch.full((b, k, n - 1), -1)
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
    wrong = rows_without_numbers(arcs if arcs.dim() == 3 else arcs.amax(-1), lengths)
    if wrong is not None:
        arcs = torch.where(wrong.reshape(-1, *(1 for _ in arcs.shape[1:])), NEG_INF, arcs)
    lengths = lengths.clamp(0, arcs.shape[1] - 1).contiguous()
    return arcs.detach().double().contiguous().numpy(), lengths.numpy(), single_root
