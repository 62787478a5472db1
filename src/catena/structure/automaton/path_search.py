"""The k best paths and random paths of weighted graphs, row by row.

A row has the scores of one automaton: of its arcs, start states and end states, as float64 on the CPU, none of them nan
or +inf. A path is ``[first state, arc, arc, …]``. Inside ``torch.vmap`` and ``torch.compile``, where tensor values
cannot be read, the searches are custom operators.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from catena.kernels.automaton.ops import fold_rows
from catena.kernels.common.ops import as_int64_array, torch_operator
from catena.numerics import NEG_INF
from catena.structure.automaton.distance import useful_distances
from catena.structure.automaton.segments import IntArray
from catena.structure.automaton.topology import ANY_LENGTH, Topology
from catena.structure.automaton.wfsa import LOG, Automaton
from catena.structure.backend import use_backend
from catena.structure.semirings import MaxSemiring

MAX = MaxSemiring()

_Scores = tuple[Tensor, Tensor, Tensor]
"""Rows of scores of arcs, start states and end states: ``[rows, arcs]``, ``[rows, states]``, ``[rows, states]``."""


def best_members(scores: _Scores, t: Topology, k: int, plain: bool) -> Int[Tensor, "rows n t"]:
    """The k best paths of each row, best first, padded with -1; rows of -1 if there are fewer than k."""
    search = _best_paths if plain else _best_path if k == 1 else _top_paths
    return _stacked([_table(search(*row, t, k)) for row in _rows(scores)], k, t.facts().longest)


def random_members(scores: _Scores, t: Topology, n: int, seeds: Int[Tensor, " rows"]) -> Int[Tensor, "rows n t"]:
    """n random paths of each row in proportion to their weights; -1 if there is no path. Each row has its own seed."""
    rows = zip(_rows(scores), seeds.tolist(), strict=True)
    found = [_sampled(*row, t, n, torch.Generator().manual_seed(seed)) for row, seed in rows]
    return _stacked(found, n, t.facts().longest)


def _rows(scores: _Scores) -> list[_Scores]:
    tensors = [x.detach().double().cpu().contiguous() for x in scores]
    return list(zip(*(x.unbind(0) for x in tensors), strict=True))


def _stacked(found: Sequence[IntArray], n: int, longest: int) -> Tensor:
    """Rows of paths as one tensor, padded with -1."""
    if longest == ANY_LENGTH:
        longest = max((paths.shape[1] for paths in found), default=1)
    structures = np.full((len(found), n, longest), -1, np.int64)
    for row, paths in enumerate(found):
        structures[row, : len(paths), : paths.shape[1]] = paths
    return torch.from_numpy(structures)


def _table(paths: Sequence[Sequence[int]]) -> IntArray:
    """Paths of one row as a table, padded with -1."""
    found = np.full((len(paths), max(map(len, paths), default=1)), -1, np.int64)
    for row, path in zip(found, paths, strict=True):
        row[: len(path)] = path
    return found


# --- the best paths -----------------------------------------------------------------------------------------


def _best_path(weight: Tensor, initial: Tensor, final: Tensor, t: Topology, k: int) -> list[list[int]]:
    """The single best path, by a kernel."""
    found = scored_best(weight.numpy(), initial.numpy(), final.numpy(), t)
    return [path.tolist() for _, path in found or ()]


def _top_paths(weight: Tensor, initial: Tensor, final: Tensor, t: Topology, k: int) -> list[list[int]]:
    """The k best paths, like :func:`_best_paths`, by a kernel."""
    return [path.tolist() for _, path in scored_paths(weight.numpy(), initial.numpy(), final.numpy(), t, k) or ()]


def scored_best(
    weight: IntArray, initial: IntArray, final: IntArray, t: Topology
) -> list[tuple[float, IntArray]] | None:
    """:func:`scored_paths` for k = 1."""
    from catena.kernels.automaton.ops import best_path, over_useful

    graph = t.graph_arrays
    found = over_useful(partial(best_path, graph=graph), (weight, initial, final), graph)
    if found is None:
        return None
    last, score, arcs = found
    first = t.source[arcs[:1]] if len(arcs) else np.array([last])
    return [(score, np.append(first, arcs))] if last >= 0 else []


def scored_paths(
    weight: IntArray, initial: IntArray, final: IntArray, t: Topology, k: int
) -> list[tuple[float, IntArray]] | None:
    """The k best paths with their scores, by a kernel. A path is the first state followed by the arcs.

    None if a path without a score of -inf reads a score of nan or +inf.
    """
    from catena.kernels.automaton.cpu import top_paths
    from catena.kernels.automaton.ops import distances, over_useful

    def search(weight: IntArray, initial: IntArray, final: IntArray) -> Any:
        onward, _ = distances(weight, final, t.graph_arrays, best=True, backwards=True)
        return top_paths(weight, initial, final, t.target, t.graph.out_starts, t.graph.out_arcs, onward, k)

    found = over_useful(search, (weight, initial, final), t.graph_arrays)
    if found is None:
        return None
    arcs, bounds, scores = found
    edges = itertools.pairwise(bounds.tolist())
    return [(score, arcs[low:high][::-1]) for score, (low, high) in zip(scores.tolist(), edges, strict=True)]


def _best_paths(weight: Tensor, initial: Tensor, final: Tensor, t: Topology, k: int) -> list[list[int]]:
    """The k best paths, best first: A* with the exact score of the best completion. Time O(k (arcs + log))."""
    machine, best_onward = useful_distances(Automaton.trusted(t, weight, initial, final, MAX), backwards=True)
    onward, begins = best_onward.tolist(), machine.initial.tolist()
    arcs, starts = t.graph.out_arcs.tolist(), t.graph.out_starts.tolist()
    target, scores, ends = t.target.tolist(), machine.weight.tolist(), machine.final.tolist()
    ticket = itertools.count()
    # (minus the score of the whole path, ticket, score so far, state or -1 at the end, path as nested pairs)
    heap: list[tuple[float, int, float, int, Any]] = [
        (-(begin + onward[q]), next(ticket), begin, q, (None, q))
        for q, begin in enumerate(begins)
        if begin + onward[q] > NEG_INF
    ]
    heapq.heapify(heap)
    visits = [0] * t.n_states
    found: list[list[int]] = []
    while heap and len(found) < k:
        _, _, so_far, q, path = heapq.heappop(heap)
        if q < 0:
            found.append(_unnested(path))
            continue
        visits[q] += 1
        if visits[q] > k:
            continue
        if ends[q] > NEG_INF:
            heapq.heappush(heap, (-(so_far + ends[q]), next(ticket), so_far + ends[q], -1, path))
        for arc in arcs[starts[q] : starts[q + 1]]:
            moved = so_far + scores[arc]
            if moved + onward[target[arc]] > NEG_INF:
                heapq.heappush(heap, (-(moved + onward[target[arc]]), next(ticket), moved, target[arc], (path, arc)))
    return found


def _unnested(path: Any) -> list[int]:
    found = []
    while path is not None:
        path, arc = path
        found.append(arc)
    return found[::-1]


# --- random paths -------------------------------------------------------------------------------------------


def _sampled(
    weight: Tensor, initial: Tensor, final: Tensor, t: Topology, n: int, generator: torch.Generator
) -> IntArray:
    """n paths, each step sampled in proportion to the weight of all completions. Rows are padded with -1."""
    machine, log_onward = useful_distances(Automaton.trusted(t, weight, initial, final, LOG), backwards=True)
    onward = log_onward.numpy()
    weights, ends = machine.weight.numpy(), machine.final.numpy()
    begins = np.cumsum(_shares(machine.initial.numpy() + onward))
    if n == 0 or not len(begins) or begins[-1] == 0:
        return np.full((n, 1), -1, np.int64)
    state = _choices(begins, np.zeros(n), np.full(n, begins[-1]), generator)
    # For each state its arcs, followed by its end; running sums over all of them.
    order = np.append(t.graph.out_arcs, np.full(t.n_states, -1))
    owner = np.append(t.source[t.graph.out_arcs], np.arange(t.n_states))
    by_owner = np.argsort(owner, kind="stable")
    arc, owner = order[by_owner], owner[by_owner]
    ways = np.where(arc < 0, ends[owner], np.append(weights + onward[t.target], 0.0)[arc])
    reach = np.cumsum(_shares(ways, onward[owner]))
    edges = np.searchsorted(owner, np.arange(t.n_states + 1))
    before = np.append(0.0, reach)[edges]
    columns, going = [state], np.arange(n)
    while len(going):
        taken = arc[_choices(reach, before[state], before[state + 1], generator)]
        going, taken = going[taken >= 0], taken[taken >= 0]
        column = np.full(n, -1, np.int64)
        column[going] = taken
        columns.append(column)
        state = t.target[taken]
    return np.stack(columns[:-1], axis=1)


def _shares(x: IntArray, whole: IntArray | float | None = None) -> IntArray:
    """exp(x - whole), 0 if either is -inf; ``whole`` is the maximum by default."""
    whole = x.max(initial=NEG_INF) if whole is None else whole
    with np.errstate(invalid="ignore"):
        return np.where(np.isneginf(x) | np.isneginf(whole), 0.0, np.exp(x - whole))


def _choices(reach: IntArray, low: IntArray, high: IntArray, generator: torch.Generator) -> IntArray:
    """For each interval from ``low`` to ``high`` of the running sums, an index sampled in proportion to its weight."""
    drawn = low + torch.rand(len(low), dtype=torch.float64, generator=generator).numpy() * (high - low)
    place = np.searchsorted(reach, drawn, side="right")
    # Rounding may move a sample to the end of its interval: then use the last index with nonzero weight.
    return np.minimum(place, np.searchsorted(reach, high, side="left"))


# --- custom operators ---------------------------------------------------------------------------------------


@torch_operator("lattice_best_members")
def best_members_operator(
    weight: Tensor, initial: Tensor, final: Tensor, source: Tensor, target: Tensor, k: int, longest: int, plain: bool
) -> Tensor:
    """:func:`best_members` of an automaton whose arcs have these sources and targets."""
    with use_backend("reference" if plain else "auto"):
        found = best_members((weight, initial, final), _topology(source, target, initial), k, plain)
    return found.to(weight.device)


@torch_operator("lattice_random_members")
def random_members_operator(
    weight: Tensor, initial: Tensor, final: Tensor, seeds: Tensor, source: Tensor, target: Tensor, n: int,
    longest: int, plain: bool,
) -> Tensor:  # fmt: skip
    """:func:`random_members` of an automaton whose arcs have these sources and targets."""
    with use_backend("reference" if plain else "auto"):
        found = random_members((weight, initial, final), _topology(source, target, initial), n, seeds)
    return found.to(weight.device)


def _topology(source: Tensor, target: Tensor, initial: Tensor) -> Topology:
    ends = as_int64_array(source), as_int64_array(target)
    return Topology(*ends, *ends, initial.shape[-1])  # labels are not read


def _fake_members(weight: Tensor, n: int, longest: int) -> Tensor:
    # The length of paths in a cyclic automaton depends on the result: torch.compile breaks the graph there.
    length = torch.library.get_ctx().new_dynamic_size(min=1) if longest == ANY_LENGTH else longest
    return weight.new_empty((weight.shape[0], n, length), dtype=torch.int64)


@best_members_operator.register_fake
def _(
    weight: Tensor, initial: Tensor, final: Tensor, source: Tensor, target: Tensor, k: int, longest: int, plain: bool
) -> Tensor:
    return _fake_members(weight, k, longest)


@random_members_operator.register_fake
def _(
    weight: Tensor, initial: Tensor, final: Tensor, seeds: Tensor, source: Tensor, target: Tensor, n: int,
    longest: int, plain: bool,
) -> Tensor:  # fmt: skip
    return _fake_members(weight, n, longest)


fold_rows(best_members_operator, 3)
fold_rows(random_members_operator, 4)
