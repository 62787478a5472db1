"""Totals of weighted graphs on the CPU: log-sum-exp or maximum over all paths, with gradients.

Rows are weights over one and the same graph: ``weight[r, i]`` of arc ``i``, ``initial[r, q]`` and
``final[r, q]`` of state ``q``. The graph comes as a list of integer tensors, :data:`GRAPH`, which
:func:`catena.kernels.automaton.cpu_graph.analyze_graph` makes. Time O(arcs), and O(m³) for each component of m states
with a cycle (O(m · arcs) for the best).

A score counts if it lies on a path that no score of -inf interrupts. If one that counts is nan or +inf, the result of
its row and its gradient are nan; a cycle diverges only if its scores count.

The operators have no derivative of their own: they return it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from catena.errors import DivergentSumError
from catena.kernels.automaton.cpu import INVALID, log_distances, log_slopes, max_distances, trace_path
from catena.kernels.automaton.cpu_graph import invalid_states, useful_scores
from catena.kernels.common.ops import torch_operator
from catena.kernels.common.threads import in_row_blocks

GRAPH = ("source", "target", "component", "order", "bounds", "cyclic", "in_starts", "in_arcs", "out_starts", "out_arcs")
"""The integer tensors of a graph, in this order."""

_Slopes = tuple[Tensor, Tensor, Tensor, Tensor]
T = TypeVar("T")


class InvalidScoreError(ArithmeticError):
    """A score is nan or +inf. Raised and caught below the public functions."""


def distances(weight: Any, begins: Any, graph: Sequence[Any], best: bool, backwards: bool) -> tuple[Any, Any]:
    """Distances to (or from) every state and, with ``best``, the last (first) arc of each best path.

    All are arrays of numpy; ``begins`` are the initial weights, or the final ones if ``backwards``. Raises
    InvalidScoreError if one of the scores is nan or +inf.
    """
    source, target, component, order, bounds, cyclic, in_starts, in_arcs, out_starts, out_arcs = graph
    if backwards:
        source = target
        in_starts = out_starts
        in_arcs = out_arcs
        bounds = len(order) - bounds[::-1]
        order = order[::-1].copy()
        cyclic = cyclic[::-1].copy()
    found = np.empty(len(begins))
    through = np.empty(len(begins) if best else 0, np.int64)
    arguments = (weight, begins, source, in_starts, in_arcs, component, order, bounds, cyclic, found)
    wrong = max_distances(*arguments, through) if best else log_distances(*arguments)
    if wrong == INVALID:
        raise InvalidScoreError
    if wrong >= 0:
        raise DivergentSumError(
            f"the sum over the paths of this machine diverges at state {wrong}: the cycles through it weigh "
            + ("more than one, so that no path is the best" if best else "one or more in all")
        )
    return found, through


def distances_or_nan(weight: Any, begins: Any, graph: Sequence[Any], best: bool, backwards: bool) -> Any:
    """Distances to (or from) every state; nan where a path with no score of -inf reads one of nan or +inf."""
    try:
        return distances(weight, begins, graph, best, backwards)[0]
    except InvalidScoreError:
        source, target, _, _, _, _, *by_target, out_starts, out_arcs = graph
        ways = (target, source, *by_target) if backwards else (source, target, out_starts, out_arcs)
        invalid = invalid_states(weight, begins, *ways).astype(bool)
        weight, begins = (np.where(x < np.inf, x, -np.inf) for x in (weight, begins))
        return np.where(invalid, np.nan, distances(weight, begins, graph, best, backwards)[0])


def over_useful(run: Callable[..., T], scores: Sequence[Any], graph: Sequence[Any]) -> T | None:
    """``run(weight, initial, final)``; None if a score that counts is nan or +inf.

    Scores that do not count are replaced by -inf only if a sum diverges or a score is invalid.
    """
    try:
        return run(*scores)
    except (DivergentSumError, InvalidScoreError):
        scores = useful_scores(*scores, *graph[:2], *graph[6:])
    return run(*scores) if all(x.max(initial=-np.inf) < np.inf for x in scores) else None


def _ended(there: Any, final: Any) -> Any:
    with np.errstate(invalid="ignore"):  # -inf and +inf add up to nan, which is noticed
        return there + final


def _checked(total: float) -> float:
    if not total < np.inf:
        raise InvalidScoreError
    return total


def _log_row(weight: Any, initial: Any, final: Any, graph: Sequence[Any]) -> tuple[float, Any]:
    there, _ = distances(weight, initial, graph, best=False, backwards=False)
    return _checked(_log_add(_ended(there, final))), there


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
    log_z = np.full(len(wide[0]), np.nan)

    def run(low: int, high: int) -> None:
        for r in range(low, high):
            found = over_useful(partial(_log_row, graph=arrays), [x[r] for x in wide], arrays)
            if found is not None:
                log_z[r] = found[0]

    in_row_blocks(run, len(log_z), 20 * weight.numel())
    return torch.from_numpy(log_z).to(weight.dtype)


def best_values(weight: Tensor, initial: Tensor, final: Tensor, arrays: Sequence[Any]) -> Tensor:
    """The score of the best path, for each row, over a graph of arrays. No gradient."""
    wide = _wide(weight, initial, final)
    best = np.full(len(wide[0]), np.nan)

    def score(weight: Any, initial: Any, final: Any) -> float:
        there, _ = distances(weight, initial, arrays, best=True, backwards=False)
        return _checked(float(_ended(there, final).max(initial=-np.inf)))

    for r in range(len(best)):
        found = over_useful(score, [x[r] for x in wide], arrays)
        if found is not None:
            best[r] = found
    return torch.from_numpy(best).to(weight.dtype)


@torch_operator("lattice_log_value")
def log_value(weight: Tensor, initial: Tensor, final: Tensor, graph: Sequence[Tensor]) -> Tensor:
    """:func:`log_values` as an operator."""
    return log_values(weight, initial, final, _arrays(graph))


@torch_operator("lattice_log_total")
def log_total(
    weight: Tensor, initial: Tensor, final: Tensor, graph: Sequence[Tensor]
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The log of the summed weights of all paths, and its gradient by weights, initial and final weights."""
    arrays = _arrays(graph)
    wide = _wide(weight, initial, final)
    log_z = np.full(len(wide[0]), np.nan)
    gradients = [np.full_like(x, np.nan) for x in wide]

    def sum_row(r: int, weight: Any, initial: Any, final: Any) -> None:
        total, there = _log_row(weight, initial, final, arrays)
        onward, _ = distances(weight, final, arrays, best=False, backwards=True)
        results = (x[r] for x in gradients)
        log_slopes(weight, initial, final, arrays[0], arrays[1], there, onward, total, *results)
        log_z[r] = total

    def run(low: int, high: int) -> None:
        for r in range(low, high):
            over_useful(partial(sum_row, r), [x[r] for x in wide], arrays)

    in_row_blocks(run, len(log_z), 40 * weight.numel())
    results = [torch.from_numpy(x).to(weight.dtype) for x in (log_z, *gradients)]
    return results[0], results[1], results[2], results[3]


@torch_operator("lattice_max_total")
def max_total(
    weight: Tensor, initial: Tensor, final: Tensor, graph: Sequence[Tensor]
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The score of the best path, and how often it takes each arc, beginning and end."""
    arrays = _arrays(graph)
    wide = _wide(weight, initial, final)
    best = np.full(len(wide[0]), np.nan)
    counts = [np.full_like(x, np.nan) for x in wide]
    for r in range(len(best)):
        found = over_useful(partial(best_path, graph=arrays), [x[r] for x in wide], arrays)
        if found is None:
            continue
        state, best[r], path = found
        for x in counts:
            x[r] = 0.0
        if state >= 0:
            np.add.at(counts[0][r], path, 1.0)
            counts[1][r, arrays[0][path[0]] if len(path) else state] = 1.0
            counts[2][r, state] = 1.0
    results = [torch.from_numpy(x).to(weight.dtype) for x in (best, *counts)]
    return results[0], results[1], results[2], results[3]


def best_path(weight: Any, initial: Any, final: Any, graph: Sequence[Any]) -> tuple[int, float, Any]:
    """(last state, score, arcs) of the best path; (-1, -inf, none) where there is no path.

    Raises InvalidScoreError if a score is nan or +inf.
    """
    there, through = distances(weight, initial, graph, best=True, backwards=False)
    ends = _ended(there, final)
    state = int(ends.argmax()) if len(ends) else -1
    if state < 0 or _checked(ends[state]) == -np.inf:
        return -1, -np.inf, np.empty(0, np.int64)
    path = np.empty(len(ends), np.int64)
    return state, float(ends[state]), path[: trace_path(graph[0], through, state, path)]


@log_value.register_fake
def _(weight: Tensor, initial: Tensor, final: Tensor, graph: Sequence[Tensor]) -> Tensor:
    return weight.new_empty(weight.shape[0])


def _fake(weight: Tensor, initial: Tensor, final: Tensor, graph: Sequence[Tensor]) -> _Slopes:
    rows, *gradients = (weight.new_empty(x) for x in (weight.shape[:1], weight.shape, initial.shape, final.shape))
    return rows, gradients[0], gradients[1], gradients[2]


@torch_operator("lattice_log_gradient")
def log_gradient(
    weight: Tensor, initial: Tensor, final: Tensor, graph: Sequence[Tensor]
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradient of :func:`log_value` alone."""
    _, *gradients = log_total(weight, initial, final, graph)
    return gradients[0], gradients[1], gradients[2]


log_total.register_fake(_fake)
max_total.register_fake(_fake)
log_gradient.register_fake(lambda *arguments: _fake(*arguments)[1:])


def _keep_inputs(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(*inputs[:3], *inputs[3])


def _log_backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
    weight, initial, final, *graph = ctx.saved_tensors
    gradients = log_gradient(weight, initial, final, graph)
    return *(grad[:, None] * x for x in gradients), [None for _ in graph]


def _keep_counts(ctx: Any, inputs: Any, output: _Slopes) -> None:
    ctx.mark_non_differentiable(*output[1:])
    ctx.save_for_backward(*output[1:])


def _max_backward(ctx: Any, grad: Tensor, *_: Any) -> tuple[Any, ...]:
    return *(grad[:, None] * x for x in ctx.saved_tensors), [None for _ in GRAPH]


# For torch.compile. In plain code and in torch.func, catena.structure.automaton.distance differentiates.
log_value.register_autograd(_log_backward, setup_context=_keep_inputs)
max_total.register_autograd(_max_backward, setup_context=_keep_counts)


@torch_operator("lattice_invalid_rows")
def invalid_rows(weight: Tensor, initial: Tensor, final: Tensor, graph: Sequence[Tensor]) -> Tensor:
    """True for each row of which a score that counts is nan or +inf."""
    arrays = _arrays(graph)
    rows = zip(*_wide(weight, initial, final), strict=True)

    def is_invalid(row: Sequence[Any]) -> bool:
        return not all(x.max(initial=-np.inf) < np.inf for x in row)

    found = [is_invalid(row) and is_invalid(useful_scores(*row, *arrays[:2], *arrays[6:])) for row in rows]
    return torch.tensor(found, dtype=torch.bool, device=weight.device)


@invalid_rows.register_fake
def _(weight: Tensor, initial: Tensor, final: Tensor, graph: Sequence[Tensor]) -> Tensor:
    return weight.new_empty(weight.shape[0], dtype=torch.bool)


def fold_rows(op: Any, n_tensors: int) -> None:
    """Give an operator its vmap rule: more rows of its first tensors. The others, of the graph, are never mapped."""

    def rule(info: Any, dims: Any, *arguments: Any) -> Any:
        n = info.batch_size
        given = zip(arguments[:n_tensors], dims, strict=False)
        folded = [(x.expand(n, *x.shape) if dim is None else x.movedim(dim, 0)).flatten(0, 1) for x, dim in given]
        results = op(*folded, *arguments[n_tensors:])
        if isinstance(results, Tensor):
            return results.unflatten(0, (n, -1)), 0
        return tuple(x.unflatten(0, (n, -1)) for x in results), tuple(0 for _ in results)

    op.register_vmap(rule)


for _op in (log_value, log_total, max_total, log_gradient, invalid_rows):
    fold_rows(_op, 3)
