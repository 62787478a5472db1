"""Totals of weighted graphs on the CPU: the log-sum-exp or the best of all paths, with its gradient in one
pass.

Rows are weights over one and the same graph: ``weight[r, i]`` of arc ``i``, ``initial[r, q]`` and
``final[r, q]`` of state ``q``. The graph comes as a list of integer tensors, :data:`GRAPH`, which
:func:`catena.kernels.lattice_graph.analysed` makes. Time O(arcs), and O(m³) for each component of m states
with a cycle (O(m · arcs) for the best).

The operators have no derivative of their own: they return it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from catena.errors import DivergentSumError
from catena.kernels.lattice_loops import log_distances, log_slopes, max_distances, traced
from catena.kernels.threads import in_row_blocks

GRAPH = ("source", "target", "component", "order", "bounds", "cyclic", "in_starts", "in_arcs", "out_starts", "out_arcs")
"""The integer tensors of a graph, in this order."""

Slopes = tuple[Tensor, Tensor, Tensor, Tensor]


def distances(weight: Any, begins: Any, graph: Sequence[Any], best: bool, backwards: bool) -> tuple[Any, Any]:
    """Distances to (or from) every state and, if the ``best`` are wanted, the arc that each ends (begins)
    with.

    All are arrays of numpy; ``begins`` are the initial weights, or the final ones if ``backwards``.
    """
    source, target, component, order, bounds, cyclic, in_starts, in_arcs, out_starts, out_arcs = graph
    if backwards:
        source, in_starts, in_arcs = target, out_starts, out_arcs
        order, bounds = order[::-1].copy(), len(order) - bounds[::-1]
        cyclic = cyclic[::-1].copy()
    found, through = np.empty(len(begins)), np.empty(len(begins) if best else 0, np.int64)
    arguments = (weight, begins, source, in_starts, in_arcs, component, order, bounds, cyclic, found)
    wrong = max_distances(*arguments, through) if best else log_distances(*arguments)
    if wrong >= 0:
        raise DivergentSumError(
            f"the sum over the paths of this machine diverges at state {wrong}: the cycles through it weigh "
            + ("more than one, so that no path is the best" if best else "one or more in all")
        )
    return found, through


def _log_row(weight: Any, initial: Any, final: Any, graph: Sequence[Any]) -> tuple[float, Any]:
    there, _ = distances(weight, initial, graph, best=False, backwards=False)
    return _log_add(there + final), there


def _log_add(x: Any) -> float:
    top = x.max(initial=-np.inf)
    return float(top if np.isinf(top) else top + np.log(np.exp(x - top).sum()))


def _arrays(graph: Sequence[Tensor]) -> list[Any]:
    return [x.numpy() for x in graph]


def _wide(*tensors: Tensor) -> list[Any]:
    return [x.detach().double().contiguous().numpy() for x in tensors]


def log_values(weight: Tensor, initial: Tensor, final: Tensor, arrays: Sequence[Any]) -> Tensor:
    """The log of the summed weights of all paths, for each row, over a graph of arrays. No gradient."""
    wide = _wide(weight, initial, final)
    log_z = np.empty(len(wide[0]))

    def run(low: int, high: int) -> None:
        for r in range(low, high):
            log_z[r], _ = _log_row(wide[0][r], wide[1][r], wide[2][r], arrays)

    in_row_blocks(run, len(log_z), 20 * weight.numel())
    return torch.from_numpy(log_z).to(weight.dtype)


def best_values(weight: Tensor, initial: Tensor, final: Tensor, arrays: Sequence[Any]) -> Tensor:
    """The score of the best path, for each row, over a graph of arrays. No gradient."""
    wide = _wide(weight, initial, final)
    best = np.empty(len(wide[0]))
    for r in range(len(best)):
        there, _ = distances(wide[0][r], wide[1][r], arrays, best=True, backwards=False)
        best[r] = (there + wide[2][r]).max(initial=-np.inf)
    return torch.from_numpy(best).to(weight.dtype)


@torch.library.custom_op("catena::lattice_log_value", mutates_args=())
def log_value(weight: Tensor, initial: Tensor, final: Tensor, graph: Sequence[Tensor]) -> Tensor:
    """:func:`log_values` as an operator."""
    return log_values(weight, initial, final, _arrays(graph))


@torch.library.custom_op("catena::lattice_log_total", mutates_args=())
def log_total(
    weight: Tensor, initial: Tensor, final: Tensor, graph: Sequence[Tensor]
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The log of the summed weights of all paths, and its gradient by weights, initial and final weights."""
    arrays, wide = _arrays(graph), _wide(weight, initial, final)
    log_z = np.empty(len(wide[0]))
    slopes = [np.empty_like(x) for x in wide]

    def run(low: int, high: int) -> None:
        for r in range(low, high):
            mine = wide[0][r], wide[1][r], wide[2][r]
            log_z[r], there = _log_row(*mine, arrays)
            onward, _ = distances(mine[0], mine[2], arrays, best=False, backwards=True)
            log_slopes(*mine, arrays[0], arrays[1], there, onward, log_z[r], *(x[r] for x in slopes))

    in_row_blocks(run, len(log_z), 40 * weight.numel())
    results = [torch.from_numpy(x).to(weight.dtype) for x in (log_z, *slopes)]
    return results[0], results[1], results[2], results[3]


@torch.library.custom_op("catena::lattice_max_total", mutates_args=())
def max_total(
    weight: Tensor, initial: Tensor, final: Tensor, graph: Sequence[Tensor]
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The score of the best path, and how often it takes each arc, beginning and end."""
    arrays, wide = _arrays(graph), _wide(weight, initial, final)
    best = np.full(len(wide[0]), -np.inf)
    counts = [np.zeros_like(x) for x in wide]
    for r in range(len(best)):
        state, score, path = best_path(wide[0][r], wide[1][r], wide[2][r], arrays)
        best[r] = score
        if state >= 0:
            np.add.at(counts[0][r], path, 1.0)
            counts[1][r, arrays[0][path[0]] if len(path) else state] = 1.0
            counts[2][r, state] = 1.0
    results = [torch.from_numpy(x).to(weight.dtype) for x in (best, *counts)]
    return results[0], results[1], results[2], results[3]


def best_path(weight: Any, initial: Any, final: Any, graph: Sequence[Any]) -> tuple[int, float, Any]:
    """(last state, score, arcs) of the best path; (-1, -inf, none) where there is no path."""
    there, through = distances(weight, initial, graph, best=True, backwards=False)
    ends = there + final
    state = int(ends.argmax()) if len(ends) else -1
    if state < 0 or ends[state] == -np.inf:
        return -1, -np.inf, np.empty(0, np.int64)
    path = np.empty(len(ends), np.int64)
    return state, float(ends[state]), path[: traced(graph[0], through, state, path)]


@log_value.register_fake
def _(weight: Tensor, initial: Tensor, final: Tensor, graph: Sequence[Tensor]) -> Tensor:
    return weight.new_empty(weight.shape[0])


def _fake(weight: Tensor, initial: Tensor, final: Tensor, graph: Sequence[Tensor]) -> Slopes:
    rows, *slopes = (weight.new_empty(x) for x in (weight.shape[:1], weight.shape, initial.shape, final.shape))
    return rows, slopes[0], slopes[1], slopes[2]


log_total.register_fake(_fake)
max_total.register_fake(_fake)


def _fold_rows(op: Any) -> None:
    """vmap makes more rows; the graph is never mapped over."""

    def rule(info: Any, dims: Any, weight: Tensor, initial: Tensor, final: Tensor, graph: Any) -> Any:
        n = info.batch_size
        given = zip((weight, initial, final), dims[:3], strict=True)
        folded = [(x.expand(n, *x.shape) if dim is None else x.movedim(dim, 0)).flatten(0, 1) for x, dim in given]
        results = op(*folded, graph)
        if isinstance(results, Tensor):
            return results.unflatten(0, (n, -1)), 0
        return tuple(x.unflatten(0, (n, -1)) for x in results), tuple(0 for _ in results)

    op.register_vmap(rule)


for _op in (log_value, log_total, max_total):
    _fold_rows(_op)
