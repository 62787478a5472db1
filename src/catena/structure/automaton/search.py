"""The best paths and the best strings of an automaton, as labels.

Many paths may read the same string. In the max and tropical semirings the best strings are the strings of the best
paths, each string once. In the log semiring they are the most probable strings, where the weight of a string sums all
its paths. That is a harder problem, whose cost may grow exponentially, so there is a limit.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from catena.errors import LimitError
from catena.numerics import NEG_INF
from catena.structure.automaton.distance import distances
from catena.structure.automaton.epsilon import remove_epsilon
from catena.structure.automaton.failures import expand_failures
from catena.structure.automaton.path_search import scored_best, scored_paths
from catena.structure.automaton.paths import PathDistribution
from catena.structure.automaton.rational import connect, project
from catena.structure.automaton.segments import IntArray
from catena.structure.automaton.wfsa import (
    EPSILON,
    LOG,
    Automaton,
    check_numbers,
    check_one_machine,
    not_numbers,
)
from catena.structure.backend import can_use_kernels
from catena.structure.checks import check_count
from catena.structure.semirings import LogSemiring, MaxSemiring

_MOST_SETS = 1_000_000

_States = dict[int, float]
_Plus = Callable[[float, float], float]


class ScoredPath(NamedTuple):
    """A path or a string with its score (log-weight).

    Args:
        input: the labels it reads, without epsilon.
        output: the labels it writes, without epsilon.
        score: its score.
    """

    input: tuple[int, ...]
    output: tuple[int, ...]
    score: float


def best_paths(machine: Automaton, n: int = 1) -> list[ScoredPath]:
    """The n paths of largest weight, best first, as the labels they read and write; fewer if there are fewer.

    Args:
        machine: the automaton.
        n: number of paths.
    """
    check_count("n", n, 1)
    check_one_machine("best_paths", machine)
    machine = expand_failures(machine.detach()).over(LOG)
    t = machine.topology
    found = []
    for score, arcs in _best(machine, n):
        labels = t.input[arcs].tolist(), t.output[arcs].tolist()
        read, written = (tuple(label for label in side if label != EPSILON) for side in labels)
        found.append(ScoredPath(read, written, score))
    return found


def _best(machine: Automaton, n: int) -> list[tuple[float, IntArray]]:
    """(score, arcs) of the best paths of an automaton over the log semiring."""
    if can_use_kernels(machine.weight):
        tensors = (machine.weight, machine.initial, machine.final)
        weight, initial, final = (x.double().contiguous().numpy() for x in tensors)
        search = partial(scored_paths, k=n) if n > 1 else scored_best
        found = search(weight, initial, final, machine.topology)
        if found is None:
            raise not_numbers("best_paths")
        return [(score, path[1:]) for score, path in found]
    top = PathDistribution.of(machine).topk(n)
    if bool(top.scores.isnan().any()):
        raise not_numbers("best_paths")
    rows = zip(top.scores.tolist(), top.structures.tolist(), strict=True)
    return [(score, np.array([i for i in row[1:] if i >= 0], np.int64)) for score, row in rows if score > NEG_INF]


def best_strings(machine: Automaton, n: int = 1, side: str = "input", limit: int = _MOST_SETS) -> list[ScoredPath]:
    """The n distinct strings of largest weight that an automaton reads or writes, best first.

    A* over sets of states: a prefix is ranked by the weight of all its completions, which bounds the weight of every
    string that starts with it.

    Args:
        machine: the automaton.
        n: the number of strings.
        side: ``"input"`` for strings that are read, ``"output"`` for strings that are written.
        limit: largest number of prefixes; raises :class:`LimitError` if there are more.
    """
    check_count("n", n, 1)
    check_one_machine("best_strings", machine)
    adds = not isinstance(machine.semiring, MaxSemiring) and isinstance(machine.semiring, LogSemiring)
    machine = machine.detach().over(LogSemiring() if adds else MaxSemiring())
    machine = connect(remove_epsilon(project(machine, side)))
    check_numbers("best_strings", machine)
    onward = distances(machine, backwards=True).tolist()
    final, arcs = machine.final.tolist(), _outgoing(machine)
    ticket = itertools.count()
    plus: _Plus = _log_add if adds else max
    begin = {q: w for q, w in enumerate(machine.initial.tolist()) if w > NEG_INF}
    heap: list[tuple[float, int, tuple[int, ...], _States | None]] = []
    if begin:
        heap.append((-_worth(begin, onward, plus), next(ticket), (), begin))
    found: list[ScoredPath] = []
    while heap and len(found) < n:
        bound, number, string, states = heapq.heappop(heap)
        if number > limit:
            raise LimitError(
                f"The {n} best strings were not found within limit={limit} prefixes. Raise limit, or search the "
                "strings of the best paths with machine.over(MaxSemiring())."
            )
        if states is None:
            found.append(ScoredPath(string, string, -bound))
            continue
        end = _worth(states, final, plus)
        if end > NEG_INF:
            heapq.heappush(heap, (-end, next(ticket), string, None))
        for label, reached in _followed(states, arcs, plus).items():
            heapq.heappush(heap, (-_worth(reached, onward, plus), next(ticket), (*string, label), reached))
    return found


def _outgoing(machine: Automaton) -> list[list[tuple[int, int, float]]]:
    arcs: list[list[tuple[int, int, float]]] = [[] for _ in range(machine.n_states)]
    t = machine.topology
    for source, target, label, weight in zip(
        t.source.tolist(), t.target.tolist(), t.input.tolist(), machine.weight.tolist(), strict=True
    ):
        arcs[source].append((label, target, weight))
    return arcs


def _followed(states: _States, arcs: Sequence[Sequence[tuple[int, int, float]]], plus: _Plus) -> dict[int, _States]:
    """For each label the states that it leads to, with their weights so far."""
    found: dict[int, _States] = {}
    for q, so_far in states.items():
        for label, target, weight in arcs[q]:
            reached = found.setdefault(label, {})
            reached[target] = plus(reached.get(target, NEG_INF), so_far + weight)
    return found


def _worth(states: _States, values: Sequence[float], plus: _Plus) -> float:
    whole = NEG_INF
    for q, so_far in states.items():
        whole = plus(whole, so_far + values[q])
    return whole


def _log_add(a: float, b: float) -> float:
    low, high = (a, b) if a < b else (b, a)
    return high if low == NEG_INF else high + math.log1p(math.exp(low - high))
