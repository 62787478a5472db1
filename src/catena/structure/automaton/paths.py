r"""The paths of a machine as a distribution that answers every question.

.. math::  p(\pi) \propto \exp \Big( \lambda(p_\pi) + \sum_{e \in \pi} w(e) + \rho(q_\pi) \Big)

A path is compact as ``[first state, arc, arc, …]``, -1 beyond its end. Its parts are its arcs; marginals are
how often each arc is expected, which cycles may bring above 1.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Collection, Sequence
from dataclasses import InitVar, dataclass, replace
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from catena.errors import ShapeError
from catena.numerics import NEVER
from catena.structure.automaton.distance import distances, total
from catena.structure.automaton.failures import expand_failures
from catena.structure.automaton.topology import Array, Topology
from catena.structure.automaton.value import EPSILON, LOG, Automaton
from catena.structure.backend import kernels_serve
from catena.structure.base import Structured, TopK
from catena.structure.checks import check_floating, check_tensors, checked_members
from catena.structure.constraints import Impossible, check_possible, forbid
from catena.structure.semirings import Max, Semiring

MAX = Max()


@dataclass(frozen=True, eq=False)
class PathConstraint:
    """Which arcs, beginnings and ends a path may have; True = allowed, and what is None allows all.

    Constraints on strings are machines themselves: :func:`catena.structure.automaton.compose.intersect`.

    Args:
        arcs: ``arcs[..., i]`` is True where a path may take arc ``i``.
        initial: ``initial[..., q]`` is True where a path may begin in state ``q``.
        final: ``final[..., q]`` is True where a path may end in state ``q``.
    """

    arcs: Bool[Tensor, "*batch arcs"] | None = None
    initial: Bool[Tensor, "*batch states"] | None = None
    final: Bool[Tensor, "*batch states"] | None = None

    @classmethod
    def labels(cls, machine: Automaton, allowed: Collection[int], side: str = "input") -> PathConstraint:
        """Only arcs that read (or, with ``side="output"``, write) one of these labels, or epsilon."""
        labels = machine.topology.input if side == "input" else machine.topology.output
        return cls(arcs=torch.from_numpy(np.isin(labels, [EPSILON, *allowed])))

    def __and__(self, other: PathConstraint) -> PathConstraint:
        """What both allow."""
        pairs = ((self.arcs, other.arcs), (self.initial, other.initial), (self.final, other.final))
        return PathConstraint(*(a if b is None else b if a is None else a & b for a, b in pairs))

    def applied(self, weight: Tensor, initial: Tensor, final: Tensor) -> dict[str, Tensor]:
        """The scores that this constraint changes, with -inf where it forbids."""
        changed = {"weight": (weight, self.arcs), "initial": (initial, self.initial), "final": (final, self.final)}
        return {name: forbid(name, x, mask) for name, (x, mask) in changed.items() if mask is not None}


@dataclass(frozen=True, eq=False)
class Paths(Structured):
    """A distribution over the accepting paths of a machine, acyclic or not.

    Members are Int ``[*batch, t]``: the first state, then arcs, -1 beyond the end. For an acyclic machine
    ``t`` is fixed; for a cyclic one it is as long as the longest of the paths that are answered. Marginals
    are ``[*batch, arcs]``.

    Args:
        machine: the structure; failure arcs must have been made plain. Its weights are not read.
        weight: ``weight[..., i]`` is the score of arc ``i``.
        initial: ``initial[..., q]`` is the score of beginning in state ``q``.
        final: ``final[..., q]`` is the score of ending in state ``q``.
        constraint: the arcs, beginnings and ends that are allowed; the distribution is conditioned on it.
        impossible: what to do when the constraint allows no path: raise an error, or let log Z be -inf.

    Time O(arcs) for acyclic machines, and O(m³) for each component of m states with cycles.
    """

    machine: Automaton
    weight: Float[Tensor, "*batch arcs"]
    initial: Float[Tensor, "*#batch states"]
    final: Float[Tensor, "*#batch states"]
    constraint: InitVar[PathConstraint | None] = None
    impossible: InitVar[Impossible] = "error"

    ranks: ClassVar[tuple[int, ...]] = (1, 1, 1)

    def __post_init__(self, constraint: PathConstraint | None, impossible: Impossible) -> None:
        check_tensors(self, "weight", "initial", "final")
        check_floating(self.score_tensors())
        if constraint is not None:
            for name, scores in constraint.applied(self.weight, self.initial, self.final).items():
                object.__setattr__(self, name, scores)
            check_possible(self, impossible)

    def given(self, constraint: PathConstraint, impossible: Impossible = "error") -> Paths:
        """This distribution conditioned on a constraint."""
        return replace(self, constraint=constraint, impossible=impossible)

    @classmethod
    def of(cls, machine: Automaton) -> Paths:
        """The paths of a machine, in proportion to their weights. Failure arcs are made plain."""
        machine = expand_failures(machine).over(LOG)
        return cls(machine, machine.weight, machine.initial, machine.final)

    # --- what it says of itself -----------------------------------------------------------------------------

    @property
    def batch_shape(self) -> torch.Size:
        return self.weight.shape[:-1]

    def score_tensors(self) -> tuple[Tensor | None, ...]:
        return self.weight, self.initial, self.final

    def with_score_tensors(self, tensors: Sequence[Tensor | None]) -> Paths:
        weight, initial, final = tensors
        assert weight is not None
        assert initial is not None
        assert final is not None
        return Paths(self.machine, weight, initial, final)

    def extent(self) -> tuple[Shaped[Tensor, "..."], ...]:
        return self.machine.source, self.machine.target

    def from_parts(self, value: Tensor) -> Paths:
        if value.dim() < 1 or value.shape[-1] != self.machine.n_arcs:
            raise ShapeError(
                f"a value of these paths must end in the axis of arcs, {self.machine.n_arcs}, but its shape is "
                f"{list(value.shape)}"
            )
        value = value.to(self.weight.dtype)
        nothing = value.new_zeros(self.machine.n_states)
        return Paths(self.machine, value, nothing, nothing)

    def weighted(self, semiring: Semiring = LOG) -> Automaton:
        """The machine with these weights."""
        batch = self.batch_shape
        initial, final = (x.expand(*batch, x.shape[-1]) for x in (self.initial, self.final))
        return self.machine.with_weights(self.weight, initial, final, LOG).over(semiring)

    def log_partition(self) -> Float[Tensor, "*batch"]:
        log_z = total(self.weighted())
        return torch.where(log_z == torch.inf, torch.nan, log_z)  # as for every score that is no number

    def marginals(self) -> Float[Tensor, "*batch arcs"]:
        """``[..., i]`` is how often arc ``i`` is expected."""
        return self.gradients([0])[1][0]

    def score(self, y: Int[Tensor, "*batch t"]) -> Float[Tensor, "*batch"]:
        y = checked_members(y, self.batch_shape, {"t": None})
        a, n = self.machine.n_arcs, self.machine.n_states
        unknown = (y[..., 1:] >= a).any(-1) | (y[..., 0] >= n)
        begins, arcs = y[..., 0].clamp(-1, n - 1), y[..., 1:].clamp(-1, a - 1)
        real = arcs >= 0
        source, target = self.machine.source.to(y.device), self.machine.target.to(y.device)
        # One more arc, for the places beyond the end.
        leads = torch.cat((target, target.new_zeros(1)))[arcs]
        here = torch.cat((begins[..., None], leads), dim=-1)
        broken = (real & (torch.cat((source, source.new_zeros(1)))[arcs] != here[..., :-1])).any(-1)
        broken = broken | (real[..., 1:] & ~real[..., :-1]).any(-1) | (begins < 0)
        last = here.gather(-1, real.sum(-1, keepdim=True)).clamp_min(0)
        middle = torch.where(real, _picked(self.weight, arcs.clamp_min(0)), 0.0).sum(-1) if arcs.shape[-1] else 0.0
        ends = _picked(self.initial, begins.clamp_min(0)[..., None]) + _picked(self.final, last)
        return torch.where(broken | unknown, NEVER, middle + ends[..., 0])

    def parts(self, y: Int[Tensor, "*batch t"]) -> Float[Tensor, "*batch arcs"]:
        arcs = checked_members(y, self.batch_shape, {"t": None})[..., 1:]
        counts = self.weight.new_zeros(*y.shape[:-1], self.machine.n_arcs + 1)
        places = torch.where((arcs >= 0) & (arcs < self.machine.n_arcs), arcs, self.machine.n_arcs)
        return counts.scatter_add(-1, places, torch.ones_like(places, dtype=counts.dtype))[..., :-1]

    # --- members --------------------------------------------------------------------------------------------

    def _argmax(self) -> Int[Tensor, "*batch t"]:
        return self._topk(1).members[0]

    def _topk(self, k: int) -> TopK:
        search = _best_paths
        if kernels_serve(self.weight):
            search = _best_path if k == 1 else _top_paths
        found = [search(*row, self.machine.topology, k) for row in self._rows()]
        longest = self._longest(itertools.chain.from_iterable(found))
        members = np.full((k, len(found), longest), -1, np.int64)
        for row, paths in enumerate(found):
            for n, path in enumerate(paths):
                members[n, row, : len(path)] = path
        answer = torch.from_numpy(members).reshape(k, *self.batch_shape, longest).to(self.weight.device)
        return TopK(self.score(answer), answer)

    def _sample(self, n: int, generator: torch.Generator | None) -> Int[Tensor, "n *batch t"]:
        drawn = [_drawn(*row, self.machine.topology, n, generator) for row in self._rows()]
        longest = self._longest(row for paths in drawn for row in paths[:1])
        members = np.full((n, len(drawn), longest), -1, np.int64)
        for row, paths in enumerate(drawn):
            members[:, row, : paths.shape[1]] = paths
        return torch.from_numpy(members).reshape(n, *self.batch_shape, longest).to(self.weight.device)

    def _longest(self, paths: Any) -> int:
        if self.machine.is_acyclic:
            return int(self.machine.topology.graph.level.max(initial=0)) + 1
        return max((len(path) for path in paths), default=1)

    def _rows(self) -> list[tuple[Tensor, Tensor, Tensor]]:
        """Weights, initial and final weights of each of the batch, in float64."""
        batch = self.batch_shape
        tensors = [x.detach().double().cpu() for x in (self.weight, self.initial, self.final)]
        flat = [x.expand(*batch, x.shape[-1]).reshape(batch.numel(), x.shape[-1]).contiguous() for x in tensors]
        return list(zip(*(x.unbind(0) for x in flat), strict=True))


def _picked(table: Tensor, ids: Tensor) -> Tensor:
    """Entries of the last axis of ``table``, which lacks the axes of ``ids`` in front."""
    return table.expand(*ids.shape[:-1], table.shape[-1]).gather(-1, ids)


def _best_path(weight: Tensor, initial: Tensor, final: Tensor, t: Topology, k: int) -> list[list[int]]:
    """The best path alone, by a compiled loop."""
    from catena.kernels.lattice import best_path

    last, _, arcs = best_path(weight.numpy(), initial.numpy(), final.numpy(), t.graph_arrays)
    first = int(t.source[arcs[0]]) if len(arcs) else last
    return [[first, *arcs.tolist()]] if last >= 0 else []


def _top_paths(weight: Tensor, initial: Tensor, final: Tensor, t: Topology, k: int) -> list[list[int]]:
    """What :func:`_best_paths` finds, by a compiled loop."""
    return [path.tolist() for _, path in scored_paths(weight.numpy(), initial.numpy(), final.numpy(), t, k)]


def scored_paths(weight: Array, initial: Array, final: Array, t: Topology, k: int) -> list[tuple[float, Array]]:
    """The k best paths, each the first state and then the arcs, with their scores, by a compiled loop."""
    from catena.kernels.lattice import distances as compiled
    from catena.kernels.lattice_top import top_paths

    onward, _ = compiled(weight, final, t.graph_arrays, best=True, backwards=True)
    found, bounds, scores = top_paths(weight, initial, final, t.target, t.graph.out_starts, t.graph.out_arcs, onward, k)
    edges = itertools.pairwise(bounds.tolist())
    return [(score, found[low:high][::-1]) for score, (low, high) in zip(scores.tolist(), edges, strict=True)]


def _best_paths(weight: Tensor, initial: Tensor, final: Tensor, t: Topology, k: int) -> list[list[int]]:
    """The k best paths, best first: A* with the exact score of the best way onward. Time O(k (arcs + log))."""
    onward = distances(Automaton.trusted(t, weight, initial, final, MAX), backwards=True).tolist()
    arcs, starts = t.graph.out_arcs.tolist(), t.graph.out_starts.tolist()
    target, scores, ends = t.target.tolist(), weight.tolist(), final.tolist()
    ticket = itertools.count()
    # (minus the score of the whole, ticket, score so far, state or -1 at the end, path as nested pairs)
    heap: list[tuple[float, int, float, int, Any]] = [
        (-(begin + onward[q]), next(ticket), begin, q, (None, q))
        for q, begin in enumerate(initial.tolist())
        if begin + onward[q] > NEVER
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
        if ends[q] > NEVER:
            heapq.heappush(heap, (-(so_far + ends[q]), next(ticket), so_far + ends[q], -1, path))
        for arc in arcs[starts[q] : starts[q + 1]]:
            moved = so_far + scores[arc]
            if moved + onward[target[arc]] > NEVER:
                heapq.heappush(heap, (-(moved + onward[target[arc]]), next(ticket), moved, target[arc], (path, arc)))
    return found


def _unnested(path: Any) -> list[int]:
    found = []
    while path is not None:
        path, arc = path
        found.append(arc)
    return found[::-1]


def _drawn(
    weight: Tensor, initial: Tensor, final: Tensor, t: Topology, n: int, generator: torch.Generator | None
) -> Array:
    """n paths, each step drawn in proportion to the weight of all ways onward. Rows padded with -1."""
    onward = distances(Automaton.trusted(t, weight, initial, final, LOG), backwards=True).numpy()
    begins = np.cumsum(_shares(initial.numpy() + onward))
    if not len(begins) or begins[-1] == 0:
        return np.full((n, 1), -1, np.int64)
    state = _choices(begins, np.zeros(n), np.full(n, begins[-1]), generator)
    # For each state its arcs and, after them, its end; running sums over all of them.
    order = np.append(t.graph.out_arcs, np.full(t.n_states, -1))
    owner = np.append(t.source[t.graph.out_arcs], np.arange(t.n_states))
    by_owner = np.argsort(owner, kind="stable")
    arc, owner = order[by_owner], owner[by_owner]
    ways = np.where(arc < 0, final.numpy()[owner], np.append(weight.numpy() + onward[t.target], 0.0)[arc])
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


def _shares(x: Array, whole: Array | float | None = None) -> Array:
    """exp(x - whole), 0 where either is -inf; ``whole`` is the greatest of all if omitted."""
    whole = x.max(initial=NEVER) if whole is None else whole
    with np.errstate(invalid="ignore"):
        return np.where(np.isneginf(x) | np.isneginf(whole), 0.0, np.exp(x - whole))


def _choices(reach: Array, low: Array, high: Array, generator: torch.Generator | None) -> Array:
    """For each stretch from ``low`` to ``high`` of the running sums a place, drawn in proportion to what it adds."""
    drawn = low + torch.rand(len(low), dtype=torch.float64, generator=generator).numpy() * (high - low)
    place = np.searchsorted(reach, drawn, side="right")
    # Rounding may carry a draw to the very end of its stretch: then the last place that adds anything.
    return np.minimum(place, np.searchsorted(reach, high, side="left"))
