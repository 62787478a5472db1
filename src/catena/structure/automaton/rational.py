"""Union, concatenation, closure, reversal, inversion, projection and trimming of automata. All are differentiable.

Weights of strings are exact: union adds weights, concatenation sums over all ways to split the string in two, closure
over all ways to split it into any number of pieces.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from catena._lazy import LazyModule
from catena.structure.automaton.failures import expand_failures
from catena.structure.automaton.segments import IntArray
from catena.structure.automaton.topology import Topology
from catena.structure.automaton.weights import nonzero
from catena.structure.automaton.wfsa import EPSILON, Automaton, check_same_batch, check_same_semiring

_graph = LazyModule("catena.kernels.automaton.cpu_graph")


def union(*machines: Automaton) -> Automaton:
    """The automaton that gives each string the sum of its weights in all automata.

    Args:
        machines: automata over the same semiring.
    """
    semiring = check_same_semiring(*machines)
    check_same_batch(*machines)
    joined = _side_by_side(machines)
    initial, final = (torch.cat([getattr(m, name) for m in machines], dim=-1) for name in ("initial", "final"))
    weight = torch.cat([m.weight for m in machines], dim=-1)
    return Automaton.trusted(joined, weight, initial, final, semiring)


def concatenate(a: Automaton, b: Automaton) -> Automaton:
    """The automaton that accepts a string of ``a`` followed by a string of ``b``.

    Args:
        a: the first automaton.
        b: the second, over the same semiring.
    """
    semiring = check_same_semiring(a, b)
    check_same_batch(a, b)
    a, b = expand_failures(a), expand_failures(b)
    ends, begins = np.flatnonzero(nonzero(semiring, a.final)), np.flatnonzero(nonzero(semiring, b.initial))
    hub = a.n_states + b.n_states
    silent_source = np.append(ends, np.full(len(begins), hub))
    silent_target = np.append(np.full(len(ends), hub), begins + a.n_states)
    weight = [a.weight, b.weight, a.final[..., torch.from_numpy(ends)], b.initial[..., torch.from_numpy(begins)]]
    topology = _with_silent_arcs(_side_by_side((a, b)), silent_source, silent_target, hub + 1)
    initial = torch.cat((a.initial, _zeros(a, b.n_states + 1)), dim=-1)
    final = torch.cat((_zeros(b, a.n_states), b.final, _zeros(b, 1)), dim=-1)
    return Automaton.trusted(topology, torch.cat(weight, dim=-1), initial, final, semiring)


def closure(machine: Automaton, at_least_one: bool = False) -> Automaton:
    """The automaton that accepts any number of strings of the given one in sequence (Kleene star).

    If the automaton accepts the empty string, all its repetitions are counted too. Their sum is exact, or
    :func:`catena.structure.automaton.distance.total` raises that it diverges.

    Args:
        machine: the automaton.
        at_least_one: require at least one string (Kleene plus).
    """
    machine = expand_failures(machine)
    semiring, n = machine.semiring, machine.n_states
    ends = np.flatnonzero(nonzero(semiring, machine.final))
    begins = np.flatnonzero(nonzero(semiring, machine.initial))
    weight = [
        machine.weight,
        machine.initial[..., torch.from_numpy(begins)],
        machine.final[..., torch.from_numpy(ends)],
    ]
    one, lead = semiring.one((*semiring.shape(machine.initial)[:-1], 1), machine.initial), _zeros(machine, n)
    silent_source = np.append(np.full(len(begins), n), ends)
    silent_target = np.append(begins, np.full(len(ends), n))
    topology = _with_silent_arcs(machine.topology, silent_source, silent_target, n + 1)
    initial = torch.cat((machine.initial, _zeros(machine, 1)) if at_least_one else (lead, one), dim=-1)
    return Automaton.trusted(topology, torch.cat(weight, dim=-1), initial, torch.cat((lead, one), dim=-1), semiring)


def reverse(machine: Automaton) -> Automaton:
    """The automaton that gives each string the weight of the reversed string.

    Args:
        machine: the automaton.
    """
    machine = expand_failures(machine)
    t = machine.topology
    topology = Topology(t.target, t.source, t.input, t.output, t.n_states)
    return Automaton.trusted(topology, machine.weight, machine.final, machine.initial, machine.semiring)


def invert(machine: Automaton) -> Automaton:
    """The transducer with input and output exchanged.

    Args:
        machine: the transducer.
    """
    if not machine.is_acceptor:
        machine = expand_failures(machine)
    t = machine.topology
    topology = Topology(t.source, t.target, t.output, t.input, t.n_states)
    return Automaton.trusted(topology, machine.weight, machine.initial, machine.final, machine.semiring)


def project(machine: Automaton, side: str) -> Automaton:
    """The acceptor of the input or output strings of a transducer, with weights summed.

    Args:
        machine: the transducer.
        side: ``"input"`` or ``"output"``.
    """
    if not machine.is_acceptor:
        machine = expand_failures(machine)
    t = machine.topology
    if side not in ("input", "output"):
        raise ValueError(f"side must be 'input' or 'output', got {side!r}. Use one of the two.")
    labels = t.input if side == "input" else t.output
    topology = Topology(t.source, t.target, labels, labels, t.n_states)
    return Automaton.trusted(topology, machine.weight, machine.initial, machine.final, machine.semiring)


def connect(machine: Automaton) -> Automaton:
    """The automaton without states and arcs that are on no accepting path.

    Args:
        machine: the automaton.
    """
    machine = expand_failures(machine)
    semiring, t = machine.semiring, machine.topology
    begins, ends = (nonzero(semiring, x).astype(np.int64) for x in (machine.initial, machine.final))
    alive = nonzero(semiring, machine.weight)
    kept = _graph.useful(t.source[alive], t.target[alive], begins, ends).astype(bool)
    return restrict_states(machine, kept, alive)


def single_start_state(machine: Automaton) -> Automaton:
    """An equivalent automaton whose only initial state is state 0, of weight one."""
    semiring = machine.semiring
    begins = np.flatnonzero(nonzero(semiring, machine.initial))
    one = semiring.one((*semiring.shape(machine.initial)[:-1], 1), machine.initial)
    if len(begins) == 1 and begins[0] == 0 and bool((machine.initial[..., :1] == one).all()):
        return machine
    machine = expand_failures(machine)
    t, new = machine.topology, np.zeros(len(begins), np.int64)
    shifted = Topology(t.source + 1, t.target + 1, t.input, t.output, t.n_states + 1)
    topology = _with_silent_arcs(shifted, new, begins + 1, t.n_states + 1)
    weight = torch.cat((machine.weight, machine.initial[..., torch.from_numpy(begins)]), dim=-1)
    initial = torch.cat((one, _zeros(machine, t.n_states)), dim=-1)
    return Automaton.trusted(
        topology, weight, initial, torch.cat((_zeros(machine, 1), machine.final), dim=-1), semiring
    )


def restrict_states(machine: Automaton, states: IntArray, arcs: IntArray | None = None) -> Automaton:
    """Only the states where ``states`` is True, and the arcs between them (where ``arcs`` is True)."""
    t = machine.topology
    kept = states[t.source] & states[t.target]
    kept = kept if arcs is None else kept & arcs
    number = np.cumsum(states) - 1
    topology = Topology(
        number[t.source[kept]], number[t.target[kept]], t.input[kept], t.output[kept], int(states.sum())
    )
    initial, final = (x[..., torch.from_numpy(states)] for x in (machine.initial, machine.final))
    return Automaton.trusted(topology, machine.weight[..., torch.from_numpy(kept)], initial, final, machine.semiring)


def _side_by_side(machines: tuple[Automaton, ...]) -> Topology:
    shifts = np.cumsum([0, *(m.n_states for m in machines)])
    parts = [m.topology for m in machines]
    source, target = (
        np.concatenate([getattr(t, name) + shift for t, shift in zip(parts, shifts[:-1], strict=True)])
        for name in ("source", "target")
    )
    read, written = (np.concatenate([getattr(t, name) for t in parts]) for name in ("input", "output"))
    return Topology(source, target, read, written, int(shifts[-1]))


def _with_silent_arcs(t: Topology, source: IntArray, target: IntArray, n_states: int) -> Topology:
    silent = np.full(len(source), EPSILON, np.int64)
    return Topology(
        np.append(t.source, source), np.append(t.target, target), np.append(t.input, silent),
        np.append(t.output, silent), n_states,
    )  # fmt: skip


def _zeros(machine: Automaton, n: int) -> Tensor:
    return machine.semiring.zero((*machine.semiring.shape(machine.initial)[:-1], n), machine.initial)
