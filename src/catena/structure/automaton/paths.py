r"""Distributions over the paths of an automaton.

.. math::  p(\pi) \propto \exp \Big( \lambda(p_\pi) + \sum_{e \in \pi} w(e) + \rho(q_\pi) \Big)

A path is represented as ``[first state, arc, arc, …]``, padded with -1. Its parts are its arcs. Marginals are expected
numbers of uses of each arc, which may exceed 1 in cycles.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import InitVar, dataclass, replace
from typing import ClassVar

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from catena.errors import DataError, ShapeError
from catena.kernels.automaton.ops import log_gradient
from catena.numerics import NEG_INF
from catena.shapes import broadcast_shapes, can_read_values, can_use_control_flow
from catena.structure.automaton.distance import invalid_totals, log_total
from catena.structure.automaton.failures import expand_failures
from catena.structure.automaton.path_search import (
    best_members,
    best_members_operator,
    random_members,
    random_members_operator,
)
from catena.structure.automaton.wfsa import EPSILON, LOG, Automaton
from catena.structure.backend import can_use_kernels
from catena.structure.base import StructuredDistribution, TopK
from catena.structure.checks import check_floating, check_tensors, validate_structures
from catena.structure.constraints import OnInfeasible, check_feasible, mask_scores
from catena.structure.semirings import Semiring


@dataclass(frozen=True, eq=False)
class PathConstraint:
    """Constraint on the arcs, start states and end states of paths. None allows everything.

    To constrain the strings of paths, use :func:`catena.structure.automaton.composition.intersect`.

    Args:
        arcs: ``arcs[..., i]`` is True if a path may use arc ``i``.
        initial: ``initial[..., q]`` is True if a path may start in state ``q``.
        final: ``final[..., q]`` is True if a path may end in state ``q``.
    """

    arcs: Bool[Tensor, "*batch arcs"] | None = None
    initial: Bool[Tensor, "*batch states"] | None = None
    final: Bool[Tensor, "*batch states"] | None = None

    @classmethod
    def labels(cls, machine: Automaton, allowed: Collection[int], side: str = "input") -> PathConstraint:
        """Constraint to arcs with one of these labels, or epsilon.

        Args:
            machine: the automaton.
            allowed: the allowed labels.
            side: ``"input"`` for labels that are read, ``"output"`` for labels that are written.
        """
        labels = machine.topology.input if side == "input" else machine.topology.output
        return cls(arcs=torch.from_numpy(np.isin(labels, [EPSILON, *allowed])))

    def __and__(self, other: PathConstraint) -> PathConstraint:
        """The constraint that allows what both allow."""
        pairs = ((self.arcs, other.arcs), (self.initial, other.initial), (self.final, other.final))
        return PathConstraint(*(a if b is None else b if a is None else a & b for a, b in pairs))

    def applied(self, weight: Tensor, initial: Tensor, final: Tensor) -> dict[str, Tensor]:
        """The score tensors that this constraint changes, with -inf where it forbids, by name."""
        changed = {"weight": (weight, self.arcs), "initial": (initial, self.initial), "final": (final, self.final)}
        return {name: mask_scores(name, x, mask) for name, (x, mask) in changed.items() if mask is not None}


@dataclass(frozen=True, eq=False, repr=False)
class PathDistribution(StructuredDistribution):
    """Distribution over the accepting paths of an automaton, acyclic or not.

    Structures are Int ``[*batch, t]``: the first state, then arcs, padded with -1. For an acyclic automaton ``t`` is
    fixed; for a cyclic one it is the length of the longest path of the result. Marginals are ``[*batch, arcs]``.

    Create one from a weighted automaton with :meth:`of`.

    Args:
        machine: the structure, without failure arcs. Its weights are not read.
        weight: ``weight[..., i]`` is the score of arc ``i``. The batch axes of the scores broadcast.
        initial: ``initial[..., q]`` is the score of starting in state ``q``.
        final: ``final[..., q]`` is the score of ending in state ``q``.
        constraint: the allowed arcs, start states and end states. The distribution is conditioned on it.
        on_infeasible: what to do if the constraint allows no path. ``"error"`` raises
            :class:`~catena.errors.ImpossibleError`; ``"-inf"`` sets log Z to -inf.

    Time O(arcs) for acyclic automata, and O(m³) for each component of m states with cycles.
    """

    machine: Automaton
    weight: Float[Tensor, "*#batch arcs"]
    initial: Float[Tensor, "*#batch states"]
    final: Float[Tensor, "*#batch states"]
    constraint: InitVar[PathConstraint | None] = None
    on_infeasible: InitVar[OnInfeasible] = "error"

    ranks: ClassVar[tuple[int, ...]] = (1, 1, 1)

    def __post_init__(self, constraint: PathConstraint | None, on_infeasible: OnInfeasible) -> None:
        check_tensors(self, "weight", "initial", "final")
        check_floating(self.score_tensors())
        self._check_fit()
        if constraint is not None:
            for name, scores in constraint.applied(self.weight, self.initial, self.final).items():
                object.__setattr__(self, name, scores)
            check_feasible(self, on_infeasible)

    def _check_fit(self) -> None:
        arcs, states = self.machine.n_arcs, self.machine.n_states
        for name, x, size, what in (
            ("weight", self.weight, arcs, "arc"),
            ("initial", self.initial, states, "state"),
            ("final", self.final, states, "state"),
        ):
            if x.dim() == 0 or x.shape[-1] != size:
                raise ShapeError(
                    f"{name} must have the shape [..., {size}], one score for each {what} of the machine, got "
                    f"{list(x.shape)}. Pass {size} scores on the last axis."
                )
            if x.device != self.weight.device:
                raise ShapeError(
                    f"{name} must be on the device of weight, {self.weight.device}, got {x.device}. Call "
                    f"{name}.to(weight.device)."
                )
        leads = [x.shape[:-1] for x in (self.weight, self.initial, self.final)]
        if not _broadcast(leads):
            raise ShapeError(
                "weight, initial and final must have batch axes that broadcast, got "
                f"{', '.join(str(list(lead)) for lead in leads)}. Use the same batch axes, or none for a common one."
            )
        if self.machine.topology.facts().has_failures:
            raise ShapeError(
                "machine must have no failure arcs, got one with failure arcs. Call PathDistribution.of(machine), or "
                "expand_failures(machine) first."
            )

    def given(self, constraint: PathConstraint, on_infeasible: OnInfeasible = "error") -> PathDistribution:
        """This distribution conditioned on ``constraint``.

        Args:
            constraint: the allowed arcs, start states and end states.
            on_infeasible: what to do if no path is allowed, as in the constructor.
        """
        return replace(self, constraint=constraint, on_infeasible=on_infeasible)

    @classmethod
    def of(cls, machine: Automaton) -> PathDistribution:
        """The distribution over the paths of an automaton in proportion to their weights. Failure arcs are expanded."""
        machine = expand_failures(machine).over(LOG)
        return cls(machine, machine.weight, machine.initial, machine.final)

    # --- interface ------------------------------------------------------------------------------------------

    @property
    def batch_shape(self) -> torch.Size:
        return broadcast_shapes(*(x.shape[:-1] for x in (self.weight, self.initial, self.final)))

    def score_tensors(self) -> tuple[Tensor, Tensor, Tensor]:
        return self.weight, self.initial, self.final

    def with_score_tensors(self, tensors: Sequence[Tensor | None]) -> PathDistribution:
        weight, initial, final = tensors
        assert weight is not None
        assert initial is not None
        assert final is not None
        return PathDistribution(self.machine, weight, initial, final)

    def extent(self) -> tuple[Shaped[Tensor, "..."], ...]:
        return self.machine.source, self.machine.target

    def from_parts(self, value: Tensor) -> PathDistribution:
        if value.dim() < 1 or value.shape[-1] != self.machine.n_arcs:
            raise ShapeError(
                f"value must end in the axis [arcs] = [{self.machine.n_arcs}], got {list(value.shape)}. Pass one value "
                "for each arc."
            )
        value = value.to(self.weight.dtype)
        nothing = value.new_zeros(self.machine.n_states)
        return PathDistribution(self.machine, value, nothing, nothing)

    def weighted(self, semiring: Semiring = LOG) -> Automaton:
        """The automaton with the scores of this distribution as weights, over any semiring."""
        weight, initial, final = self._spread_over(self.batch_shape).score_tensors()
        return self.machine.with_weights(weight, initial, final, LOG).over(semiring)

    def log_partition(self) -> Float[Tensor, "*batch"]:
        log_z = log_total(self.machine.topology, *self._single()._rows()).reshape(self.batch_shape)
        return self._narrow(log_z)

    def marginals(self) -> Float[Tensor, "*batch arcs"]:
        """``[..., i]`` is the expected number of uses of arc ``i``."""
        return self._spread_over(self.batch_shape).gradients([0])[1][0]

    def gradients(self, wanted: Sequence[int]) -> tuple[Float[Tensor, "*batch"], tuple[Tensor, ...]]:
        if not torch.compiler.is_compiling() or not can_use_kernels(self.weight, self.initial, self.final):
            return super().gradients(wanted)
        # torch.compile cannot trace torch.func through operators, but this operator computes the gradient itself.
        found = log_gradient(*self._rows(), self.machine.topology.graph_tensors)
        tensors = self.score_tensors()
        return self.log_partition(), tuple(
            found[i].reshape(*self.batch_shape, found[i].shape[-1]).sum_to_size(tensors[i].shape) for i in wanted
        )

    def spoiled(self) -> Bool[Tensor, "*batch"] | None:
        # The sum over all paths may diverge even if the best path exists, so log Z cannot be used here.
        given = [x.detach() for x in self.score_tensors() if x.numel()]
        if can_use_control_flow() and all(float(x.amax()) < torch.inf for x in given):
            return None
        return invalid_totals(self.machine.topology, *self._detached_rows()).reshape(self.batch_shape)

    def score(self, y: Int[Tensor, "*batch t"]) -> Float[Tensor, "*batch"]:
        y = self._checked(y)
        if can_read_values(y):
            return self._score(y)
        unknown = self._is_unknown(y)
        return torch.where(unknown, NEG_INF, self._score(torch.where(unknown[..., None], -1, y)))

    def _score(self, y: Int[Tensor, "*batch t"]) -> Float[Tensor, "*batch"]:
        begins, arcs = y[..., 0], y[..., 1:]
        real = arcs >= 0
        source, target = self.machine.source.to(y.device), self.machine.target.to(y.device)
        # One additional arc for the index -1 of padding.
        leads = torch.cat((target, target.new_zeros(1)))[arcs]
        here = torch.cat((begins[..., None], leads), dim=-1)
        broken = (real & (torch.cat((source, source.new_zeros(1)))[arcs] != here[..., :-1])).any(-1)
        broken = broken | (real[..., 1:] & ~real[..., :-1]).any(-1) | (begins < 0)
        last = here.gather(-1, real.sum(-1, keepdim=True))
        middle = torch.where(real, _picked(self.weight, arcs), 0.0).sum(-1)
        ends = _picked(self.initial, begins[..., None]) + _picked(self.final, last)
        return torch.where(broken, NEG_INF, middle + ends[..., 0])

    def parts(self, y: Int[Tensor, "*batch t"]) -> Float[Tensor, "*batch arcs"]:
        y = self._checked(y)
        n, arcs = self.machine.n_arcs, y[..., 1:]
        counts = self.weight.new_zeros(*y.shape[:-1], n + 1)
        places = torch.where((arcs < 0) | (arcs > n), n, arcs)
        counts = counts.scatter_add(-1, places, torch.ones_like(places, dtype=counts.dtype))[..., :-1]
        return counts if can_read_values(y) else torch.where(self._is_unknown(y)[..., None], torch.nan, counts)

    def _is_unknown(self, y: Int[Tensor, "*batch t"]) -> Bool[Tensor, "*batch"]:
        begins, arcs = y[..., 0], y[..., 1:]
        no_arc = (arcs < -1) | (arcs >= self.machine.n_arcs)
        return (begins < -1) | (begins >= self.machine.n_states) | no_arc.any(-1)

    def _checked(self, y: Int[Tensor, "*batch t"]) -> Int[Tensor, "*batch t"]:
        """Paths as int64, after a check of the ids where values can be read."""
        y = validate_structures(y, self.batch_shape, {"t": None})
        if y.shape[-1] == 0:
            raise ShapeError(f"y must have a first state on its last axis, got {list(y.shape)}. Use -1 for no path.")
        if can_read_values(y) and y.numel():
            least, most = (int(x) for x in y.aminmax())
            if least < -1 or most >= min(self.machine.n_states, self.machine.n_arcs):
                self._check_ids(y)
        return y

    def _check_ids(self, y: Int[Tensor, "*batch t"]) -> None:
        for name, ids, size in (
            ("the first state", y[..., 0], self.machine.n_states),
            ("an arc", y[..., 1:], self.machine.n_arcs),
        ):
            for wrong in ids[(ids < -1) | (ids >= size)][:1].tolist():
                raise DataError(
                    f"{name} of y must be from 0 to {size - 1}, or -1 for none, got {wrong}. Use the ids of this "
                    "automaton."
                )

    # --- searches -------------------------------------------------------------------------------------------

    def _argmax(self) -> Int[Tensor, "*batch t"]:
        return self._best(1)[0]

    def _topk(self, k: int) -> TopK:
        structures = self._best(k)
        return TopK(self._score(structures), structures)

    def _best(self, k: int) -> Int[Tensor, "k *batch t"]:
        rows, t, plain = self._detached_rows(), self.machine.topology, not can_use_kernels(self.weight)
        if can_use_control_flow():
            return self._unflattened(best_members(rows, t, k, plain))
        ends = (self.machine.source, self.machine.target)
        return self._unflattened(best_members_operator(*rows, *ends, k, t.facts().longest, plain))

    def _sample(self, n: int, generator: torch.Generator | None) -> Int[Tensor, "n *batch t"]:
        rows, t = self._detached_rows(), self.machine.topology
        size = (rows[0].shape[0],)
        if generator is None:  # with an explicit generator=None, torch.compile cannot trace symbolic sizes
            seeds = torch.randint(2**62, size)
        else:
            seeds = torch.randint(2**62, size, device=generator.device, generator=generator)
        if can_use_control_flow():
            return self._unflattened(random_members(rows, t, n, seeds))
        ends, plain = (self.machine.source, self.machine.target), not can_use_kernels(self.weight)
        return self._unflattened(random_members_operator(*rows, seeds, *ends, n, t.facts().longest, plain))

    def _unflattened(self, structures: Int[Tensor, "rows n t"]) -> Int[Tensor, "n *batch t"]:
        return structures.reshape(*self.batch_shape, *structures.shape[1:]).movedim(-2, 0).to(self.weight.device)

    def _rows(self) -> tuple[Tensor, Tensor, Tensor]:
        """Scores of arcs, start states and end states, each expanded to one batch axis."""
        batch = self.batch_shape
        rows = math.prod(batch)
        weight, initial, final = (
            x.expand(*batch, x.shape[-1]).reshape(rows, x.shape[-1]) for x in (self.weight, self.initial, self.final)
        )
        return weight, initial, final

    def _detached_rows(self) -> tuple[Tensor, Tensor, Tensor]:
        weight, initial, final = (x.detach() for x in self._rows())
        return weight, initial, final


def _broadcast(shapes: Sequence[Sequence[int]]) -> bool:
    """Whether the sizes of each axis, counted from the last, are equal or 1."""
    for axis in range(1, max(map(len, shapes)) + 1):
        sizes = [shape[-axis] for shape in shapes if len(shape) >= axis and shape[-axis] != 1]
        if any(size != sizes[0] for size in sizes):
            return False
    return True


def _picked(table: Tensor, ids: Tensor) -> Tensor:
    """Entries of the last axis of ``table``, broadcast to the axes of ``ids``; an arbitrary entry for ids of -1."""
    if table.shape[-1] == 0:
        return table.new_zeros(ids.shape)
    return table.expand(*ids.shape[:-1], table.shape[-1]).gather(-1, ids.clamp_min(0))
