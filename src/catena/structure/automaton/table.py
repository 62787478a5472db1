r"""Deterministic machines as tables that are stepped through many states at once.

.. math::  (q, i) \mapsto (q', w), \qquad  q \mapsto \rho(q)

A table answers what a search asks of a machine that constrains it: which ids may follow in each of n states, with
what scores (``scores_of``), where they lead (``follow``), and which states may end (``final``). It knows ids, not
labels: id ``i`` stands for ``labels[i]`` of the machine. State -1 is that of strings which the machine does not read:
nothing follows, and it never ends.
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
from catena.structure.automaton.segments import distinct
from catena.structure.automaton.topology import IntArray
from catena.structure.automaton.weights import nonzero
from catena.structure.automaton.wfsa import EPSILON, FAILURE, LOG, Automaton


@dataclass(frozen=True, eq=False)
class TransitionTable:
    """The arcs of a deterministic acceptor, in compressed rows.

    Args:
        starts: the arcs of state ``q`` are at ``starts[q] … starts[q + 1]``.
        ids: ``ids[i]`` is what arc ``i`` reads; rising inside a state.
        targets: ``targets[i]`` is where it leads.
        scores: ``scores[i]`` is its log-weight.
        final: ``final[q]`` is the log-weight of ending in state ``q``, failures followed; -inf where it may not.
        fails: ``fails[q]`` is the state that ``q`` fails to, where an id has no arc; -1 for none.
        fail_scores: ``fail_scores[q]`` is the log-weight of doing so.
        begin: the state of the empty string; -1 if the machine reads nothing.
        begin_score: its log-weight.
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
        """The table of a deterministic acceptor, with or without failure arcs, which stay as they are.

        Gradients flow to its weights. ``expand_failures`` before makes rows whole, and ``connect`` leaves out states
        from which no end is in reach.

        Args:
            labels: ``labels[i]`` is the label of id ``i``; by default ``i + 1``. Arcs with other labels are left out.
        """
        machine = machine.over(LOG)
        begins = _checked(machine)
        t = machine.topology
        names = np.arange(1, t.input.max(initial=0) + 1) if labels is None else np.asarray(labels, np.int64)
        if names.ndim != 1 or names.min(initial=1) < 0:
            raise ShapeError(
                f"labels must be a list of labels, 0 for an id that is never read, got {names.tolist()[:20]}. Give the "
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
        """(ids, targets, scores) of the arcs of one state, its failure arc aside. Views: nothing is copied."""
        here = slice(*self.starts[state : state + 2].tolist())
        return self.ids[here], self.targets[here], self.scores[here]

    def scores_of(self, states: Int[Tensor, " n"]) -> Float[Tensor, "n v"]:
        """The log-weight of every id after every state, failures followed; -inf where it cannot be read."""
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
        """The states after reading one id each, failures followed, and what it weighs; -1 and -inf where it cannot."""
        at, paid = states, self.scores.new_zeros(len(states))
        known = (ids >= 0) & (ids < self.v)  # others would be taken for ids of the states before and after
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
        return torch.cat((self.final, never))[states]  # -1 finds the last

    @cached_property
    def _keys(self) -> Tensor:
        """(state, id) of each arc as one number, rising."""
        source = torch.repeat_interleave(torch.arange(self.n_states, device=self.ids.device), self.starts.diff())
        return source * self.v + self.ids

    def _arcs_of(self, states: Tensor) -> tuple[Tensor, Tensor]:
        """(place among the states, arc) of all arcs of these states."""
        here = states.clamp_min(0)
        counts = torch.where(states >= 0, self.starts[here + 1] - self.starts[here], 0)
        row = torch.repeat_interleave(torch.arange(len(states), device=states.device), counts)
        before = counts.cumsum(0) - counts
        return row, self.starts[here][row] + torch.arange(len(row), device=states.device) - before[row]


def _tensor(x: IntArray, machine: Automaton) -> Tensor:
    return torch.from_numpy(x).to(machine.device)


def _checked(machine: Automaton) -> IntArray:
    """The initial states of a machine: one at most, if the machine may become a table."""
    t = machine.topology
    if machine.weight.dim() > 1:
        raise ShapeError(
            f"a table is made of one machine, but this one has batch axes {list(machine.weight.shape[:-1])}"
        )
    if not machine.is_acceptor:
        raise ShapeError("a table is made of an acceptor, but this machine is a transducer: project(machine, 'input')")
    begins = np.flatnonzero(nonzero(machine.semiring, machine.initial))
    real = t.input != FAILURE
    several = distinct(t.source[real], t.input[real])[0].shape[1] < real.sum()
    if len(begins) > 1 or several or (t.input == EPSILON).any():
        raise ShapeError(
            "a table is made of a deterministic machine, but this one has several initial states, epsilons or several "
            "arcs with one label: determinize(machine)"
        )
    return begins
