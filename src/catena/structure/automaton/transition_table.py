r"""Deterministic automata as tables that step through a batch of states.

.. math::  (q, i) \mapsto (q', w), \qquad  q \mapsto \rho(q)

A search that is constrained by an automaton needs the scores of all ids in each of n states (``scores_of``), the next
states (``follow``) and the final scores (``final_of``). A table uses ids, not labels: id ``i`` is ``labels[i]`` of the
automaton. State -1 is the state of strings that the automaton does not accept: no id follows, and it cannot end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from catena.errors import ShapeError
from catena.numerics import NEG_INF
from catena.structure.automaton.failures import failed_finals, failure_targets, failure_weights
from catena.structure.automaton.segments import IntArray, distinct
from catena.structure.automaton.weights import nonzero
from catena.structure.automaton.wfsa import EPSILON, FAILURE, LOG, Automaton


@dataclass(frozen=True, eq=False)
class TransitionTable:
    """The arcs of a deterministic acceptor, in compressed rows. Build one with :meth:`of`.

    Args:
        starts: the arcs of state ``q`` are at ``starts[q] … starts[q + 1]``.
        ids: ``ids[i]`` is the id that arc ``i`` reads, in ascending order within a state.
        targets: ``targets[i]`` is the state that arc ``i`` enters.
        scores: ``scores[i]`` is the log-weight of arc ``i``.
        final: ``final[q]`` is the log-weight of ending in state ``q``, including by failure arcs; -inf if it cannot.
        fails: ``fails[q]`` is the target of the failure arc of ``q``; -1 if it has none.
        fail_scores: ``fail_scores[q]`` is the log-weight of the failure arc of ``q``.
        begin: the start state; -1 if the automaton accepts no string.
        begin_score: the log-weight of the start state.
        v: the number of ids.
    """

    starts: Int[Tensor, " edges"]
    ids: Int[Tensor, " arcs"]
    targets: Int[Tensor, " arcs"]
    scores: Float[Tensor, " arcs"]
    final: Float[Tensor, " states"]
    fails: Int[Tensor, " states"]
    fail_scores: Float[Tensor, " states"]
    begin: int
    begin_score: Float[Tensor, ""]
    v: int

    @classmethod
    def of(cls, machine: Automaton, labels: Sequence[int] | None = None) -> TransitionTable:
        """The table of a deterministic acceptor, with or without failure arcs, which are kept.

        Gradients flow to its weights. Call ``expand_failures`` before to get complete rows, and ``connect`` to remove
        states from which no end is reachable.

        Args:
            machine: the acceptor, without batch axes.
            labels: ``labels[i]`` is the label of id ``i``; by default ``i + 1``. Arcs with other labels are omitted.
        """
        machine = machine.over(LOG)
        begins = _checked(machine)
        t = machine.topology
        names = np.arange(1, t.input.max(initial=0) + 1) if labels is None else np.asarray(labels, np.int64)
        if names.ndim != 1 or names.min(initial=1) < 0:
            raise ShapeError(
                f"labels must be a list of labels, 0 for an id that is never read, got {names.tolist()[:20]}. Pass the "
                "label of each id."
            )
        number = np.full(max(t.input.max(initial=0), names.max(initial=0)) + 1, -1, np.int64)
        number[names] = np.arange(len(names))
        read = np.where(t.input > EPSILON, number[np.maximum(t.input, 0)], -1)
        arcs = np.flatnonzero(read >= 0)
        arcs = arcs[np.lexsort((read[arcs], t.source[arcs]))]
        starts = np.searchsorted(t.source[arcs], np.arange(t.n_states + 1))
        fails, failing = failure_targets(machine)
        chain = failure_weights(machine, fails, failing)
        failing_at_all = len(chain) > 1
        places = torch.from_numpy(arcs)
        return cls(
            starts=_tensor(starts, machine),
            ids=_tensor(read[arcs], machine),
            targets=_tensor(t.target[arcs], machine),
            scores=machine.weight[places],
            final=failed_finals(machine, fails, chain) if failing_at_all else machine.final,
            fails=_tensor(fails, machine),
            fail_scores=chain[1] if failing_at_all else torch.zeros_like(machine.final),
            begin=int(begins[0]) if len(begins) else -1,
            begin_score=machine.initial[begins[0]] if len(begins) else machine.initial.new_full((), NEG_INF),
            v=len(names),
        )

    @property
    def n_states(self) -> int:
        return self.final.shape[0]

    def row(self, state: int) -> tuple[Int[Tensor, " k"], Int[Tensor, " k"], Float[Tensor, " k"]]:
        """Views of (ids, targets, scores) of the arcs of one state, without its failure arc."""
        here = slice(*self.starts[state : state + 2].tolist())
        return self.ids[here], self.targets[here], self.scores[here]

    def scores_of(self, states: Int[Tensor, " n"]) -> Float[Tensor, "n v"]:
        """The log-weight of every id in every state, including by failure arcs; -inf if it cannot be read."""
        n, at = len(states), states
        rows = self.scores.new_full((n, self.v), NEG_INF)
        known = torch.zeros(n, self.v, dtype=torch.bool, device=states.device)
        paid = self.scores.new_zeros(n)
        while bool((at >= 0).any()):
            row, arc = self._arcs_of(at)
            ids = self.ids[arc]
            new = ~known[row, ids]
            row, arc, ids = row[new], arc[new], ids[new]
            rows = rows.index_put((row, ids), paid[row] + self.scores[arc])
            known[row, ids] = True
            paid = paid + torch.where(at >= 0, self.fail_scores[at], 0.0)
            at = torch.where(at >= 0, self.fails[at], -1)
        return rows

    def follow(
        self, states: Int[Tensor, " n"], ids: Int[Tensor, " n"]
    ) -> tuple[Int[Tensor, " n"], Float[Tensor, " n"]]:
        """The states after reading one id each, including by failure arcs, and the log-weights.

        State -1 and log-weight -inf if the id cannot be read.
        """
        at, paid = states, self.scores.new_zeros(len(states))
        known = (ids >= 0) & (ids < self.v)  # ids out of range would match keys of other states
        target, score = torch.full_like(states, -1), self.scores.new_full((len(states),), NEG_INF)
        while len(self.ids) and bool((at >= 0).any()):
            wanted = at * self.v + ids
            place = torch.searchsorted(self._keys, wanted).clamp_max(len(self._keys) - 1)
            found = (at >= 0) & known & (self._keys[place] == wanted)
            target = torch.where(found, self.targets[place], target)
            score = torch.where(found, paid + self.scores[place], score)
            going = (at >= 0) & ~found
            paid = paid + torch.where(going, self.fail_scores[at], 0.0)
            at = torch.where(going, self.fails[at], -1)
        return target, score

    def final_of(self, states: Int[Tensor, " n"]) -> Float[Tensor, " n"]:
        """The log-weight of ending in each state; -inf in state -1."""
        never = self.final.new_full((1,), NEG_INF)
        return torch.cat((self.final, never))[states]  # index -1 is the appended entry

    @cached_property
    def _keys(self) -> Tensor:
        """(state, id) of each arc as one integer, in ascending order."""
        source = torch.repeat_interleave(torch.arange(self.n_states, device=self.ids.device), self.starts.diff())
        return source * self.v + self.ids

    def _arcs_of(self, states: Tensor) -> tuple[Tensor, Tensor]:
        """(index of the state in ``states``, arc) of all arcs of these states."""
        here = states.clamp_min(0)
        counts = torch.where(states >= 0, self.starts[here + 1] - self.starts[here], 0)
        row = torch.repeat_interleave(torch.arange(len(states), device=states.device), counts)
        before = counts.cumsum(0) - counts
        return row, self.starts[here][row] + torch.arange(len(row), device=states.device) - before[row]


def _tensor(x: IntArray, machine: Automaton) -> Tensor:
    return torch.from_numpy(x).to(machine.device)


def _checked(machine: Automaton) -> IntArray:
    """The initial states of an automaton, at most one, after a check that it can be converted to a table."""
    t = machine.topology
    if machine.weight.dim() > 1:
        raise ShapeError(
            f"machine must have no batch axes in a table, got {list(machine.weight.shape[:-1])}. Build one table for "
            "each automaton."
        )
    if not machine.is_acceptor:
        raise ShapeError("machine must be an acceptor, got a transducer. Call project(machine, 'input').")
    begins = np.flatnonzero(nonzero(machine.semiring, machine.initial))
    real = t.input != FAILURE
    several = distinct(t.source[real], t.input[real])[0].shape[1] < real.sum()
    if len(begins) > 1 or several or (t.input == EPSILON).any():
        raise ShapeError(
            "machine must be deterministic, got several initial states, epsilons or several arcs with one label. Call "
            "determinize(machine)."
        )
    return begins
