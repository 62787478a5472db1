r"""Weighted automata as steppers: the exact p(next | prefix) of the strings of an automaton.

.. math::  p(w \mid y_{<t}) \propto \sum_{q} \alpha_{t}(q) \sum_{q \xrightarrow{w} r} \mathrm{weight} \cdot \beta(r)

α is the weight of all paths that read the prefix, β the weight of all paths to the end, cycles included. Combined with
a model by :class:`LogLinear` it is a soft constraint.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from catena.errors import ConfigError, ImpossibleError
from catena.numerics import NEG_INF, log_sum_exp, safe_log
from catena.search.stepper import Stepper
from catena.structure.automaton.distance import distances
from catena.structure.automaton.epsilon import remove_epsilon
from catena.structure.automaton.rational import connect, project
from catena.structure.automaton.wfsa import EPSILON, LOG, Automaton, check_numbers, check_one_machine


class AutomatonStepper(Stepper[Tensor]):
    """The distribution over the strings that an automaton accepts, proportional to their weights.

    A state holds, for each row, the probability of every automaton state given the prefix. Time and memory of a step
    O(rows × arcs).

    Args:
        machine: the automaton, without batch axes; the sum of its weights must be finite. Epsilon and failure arcs are
            removed first.
        v: the size of the vocabulary.
        end: the id of the end, whose weights are the final weights; it is never a label.
        labels: the automaton's label of each id, 0 for an id that it never reads; by default the id plus 1.
    """

    def __init__(self, machine: Automaton, v: int, end: int, labels: Sequence[int] | None = None) -> None:
        check_one_machine("AutomatonStepper", machine)
        if not 0 <= end < v:
            raise ConfigError(f"end must be an id below v = {v}, got {end}. Pass the id that ends a sequence.")
        self.v, self.end = v, end
        machine = _restricted(connect(remove_epsilon(project(machine.over(LOG).detach(), "input"))), v, end, labels)
        check_numbers("AutomatonStepper", machine)
        topology = machine.topology
        after = distances(machine, backwards=True).double()
        total = log_sum_exp(machine.initial.double() + after, dim=0)
        if not total > NEG_INF:
            raise ImpossibleError(
                f"machine must accept a string of the {v} ids, got an automaton without one. Use ids + 1 as its labels."
            )
        self._source, self._target, self._ids = (
            torch.from_numpy(np.ascontiguousarray(x)).to(machine.device)
            for x in (topology.source, topology.target, topology.input - 1)
        )
        # After pushing weights to the initial states, they are the probabilities of arcs given their states.
        self._arcs = (machine.weight.double() + after[self._target] - after[self._source]).exp()
        self._ends = (machine.final.double() - after).exp()
        self._begins = (machine.initial.double() + after - total).exp()

    @property
    def device(self) -> torch.device:
        return self._arcs.device

    def start(self, n: int) -> Float[Tensor, "n q"]:
        return self._begins.expand(n, -1)

    def log_probs(self, state: Float[Tensor, "n q"]) -> Float[Tensor, "n v"]:
        p = state.new_zeros(len(state), self.v).index_add(1, self._ids, state[:, self._source] * self._arcs)
        p[:, self.end] = state @ self._ends
        return safe_log(p)

    def advance(self, state: Float[Tensor, "n q"], ids: Int[Tensor, " n"]) -> Float[Tensor, "n q"]:
        taken = state[:, self._source] * self._arcs * (self._ids == ids[:, None])
        reached = torch.zeros_like(state).index_add(1, self._target, taken)
        mass = reached.sum(dim=1, keepdim=True)
        return reached / torch.where(mass == 0, 1.0, mass)

    def select(self, state: Float[Tensor, "n q"], rows: Int[Tensor, " m"]) -> Float[Tensor, "m q"]:
        return state[rows]

    def join(self, states: Sequence[Float[Tensor, "_ q"]]) -> Float[Tensor, "n q"]:
        return torch.cat(list(states))


def _restricted(machine: Automaton, v: int, end: int, labels: Sequence[int] | None) -> Automaton:
    """The automaton with ids + 1 as labels, without the arcs whose label is not an id or is the end."""
    t = machine.topology
    given = np.arange(1, v + 1) if labels is None else np.asarray(labels, np.int64)
    read = given[given != EPSILON]
    if given.shape != (v,) or len(np.unique(read)) < len(read) or read.min(initial=1) < 1:
        raise ConfigError(
            f"labels must be {v} different labels above 0, one for each id (0 for an id that is never read), got "
            f"{given.tolist()[:20]}. Give {v} labels."
        )
    ids = {int(label): id for id, label in enumerate(given) if label > 0 and id != end}
    of_arcs = np.array([ids.get(int(label), -1) for label in t.input], np.int64)
    kept = of_arcs >= 0
    source, target, read = (torch.from_numpy(x[kept]) for x in (t.source, t.target, of_arcs + 1))
    weight = machine.weight[torch.from_numpy(kept)]
    return connect(Automaton(source, target, read, read, weight, machine.initial, machine.final, LOG))
