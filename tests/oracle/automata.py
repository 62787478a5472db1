"""Machines as lists of arcs, their paths one by one, and sums of infinitely many in exact fractions.

Imports nothing of catena. Scores are log-weights; label 0 is epsilon, -1 a failure arc.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

Labels = tuple[int, ...]


@dataclass(frozen=True)
class Plain:
    """A machine: arcs (source, target, input, output, score), initial and final scores of its states."""

    arcs: tuple[tuple[int, int, int, int, float], ...]
    initial: tuple[float, ...]
    final: tuple[float, ...]


@dataclass(frozen=True)
class Path:
    start: int
    arcs: tuple[int, ...]
    read: Labels
    written: Labels
    score: float


def paths(machine: Plain, longest: int) -> Iterator[Path]:
    """Every path of at most ``longest`` arcs, impossible ones left out."""

    def onward(state: int, score: float, taken: Labels, start: int) -> Iterator[Path]:
        if machine.final[state] > -math.inf:
            read = tuple(machine.arcs[i][2] for i in taken if machine.arcs[i][2] != 0)
            written = tuple(machine.arcs[i][3] for i in taken if machine.arcs[i][3] != 0)
            yield Path(start, taken, read, written, score + machine.final[state])
        if len(taken) == longest:
            return
        for i, (source, target, _, _, weight) in enumerate(machine.arcs):
            if source == state and weight > -math.inf:
                yield from onward(target, score + weight, (*taken, i), start)

    for start, begin in enumerate(machine.initial):
        if begin > -math.inf:
            yield from onward(start, begin, (), start)


def log_add(scores: Sequence[float]) -> float:
    top = max(scores, default=-math.inf)
    if top == -math.inf:
        return top
    return top + math.log(math.fsum(math.exp(s - top) for s in scores))


def table(found: Iterator[Path] | Sequence[Path], plus: Callable[[Sequence[float]], float]) -> dict:
    """The weight of every (read, written) pair."""
    lists: dict[tuple[Labels, Labels], list[float]] = {}
    for path in found:
        lists.setdefault((path.read, path.written), []).append(path.score)
    return {key: plus(scores) for key, scores in lists.items()}


# --- sums of infinitely many paths --------------------------------------------------------------------------


def matrix(machine: Plain) -> list[list[Fraction]]:
    n = len(machine.initial)
    W = [[Fraction(0)] * n for _ in range(n)]
    for source, target, _, _, score in machine.arcs:
        W[source][target] += Fraction(math.exp(score))
    return W


def useful(machine: Plain) -> Plain:
    """The machine with -inf for each score on no accepting path without a score of -inf."""
    states = range(len(machine.initial))
    arcs = [(s, t) for s, t, _, _, w in machine.arcs if w != -math.inf]
    there = {q for q in states if machine.initial[q] != -math.inf}
    onward = {q for q in states if machine.final[q] != -math.inf}
    for _ in states:
        there |= {t for s, t in arcs if s in there}
        onward |= {s for s, t in arcs if t in onward}
    kept = [(*arc[:4], arc[4] if arc[0] in there and arc[1] in onward else -math.inf) for arc in machine.arcs]
    on = there & onward
    edges = [[x if q in on else -math.inf for q, x in enumerate(edge)] for edge in (machine.initial, machine.final)]
    return Plain(tuple(kept), tuple(edges[0]), tuple(edges[1]))


def inverse(M: Sequence[Sequence[Fraction]]) -> list[list[Fraction]]:
    """By Gauss and Jordan, in exact fractions."""
    n = len(M)
    rows = [[*row, *(Fraction(int(i == j)) for j in range(n))] for i, row in enumerate(M)]
    for k in range(n):
        pivot = next(i for i in range(k, n) if rows[i][k] != 0)
        rows[k], rows[pivot] = rows[pivot], rows[k]
        rows[k] = [x / rows[k][k] for x in rows[k]]
        for i in range(n):
            if i != k:
                rows[i] = [x - rows[i][k] * y for x, y in zip(rows[i], rows[k], strict=True)]
    return [row[n:] for row in rows]


def closure(W: Sequence[Sequence[Fraction]]) -> list[list[Fraction]]:
    """(I - W)^-1."""
    return inverse([[Fraction(int(i == j)) - x for j, x in enumerate(row)] for i, row in enumerate(W)])


def powers_vanish(W: Sequence[Sequence[Fraction]], doublings: int = 24) -> bool | None:
    """Whether W^(2^k) converges to 0; None if that cannot be decided."""
    M = [[float(x) for x in row] for row in W]
    n = len(M)
    for _ in range(doublings):
        M = [[math.fsum(M[i][k] * M[k][j] for k in range(n)) for j in range(n)] for i in range(n)]
        size = max((max(row) for row in M), default=0.0)
        if size < 1e-12:
            return True
        if size > 1e12:
            return False
    return None


def exact_log_total(machine: Plain) -> float:
    """The log of the sum over all paths, which must converge."""
    star = closure(matrix(machine))
    n = len(star)
    total = sum(
        (
            Fraction(math.exp(machine.initial[i])) * star[i][j] * Fraction(math.exp(machine.final[j]))
            for i in range(n)
            for j in range(n)
        ),
        Fraction(0),
    )
    return math.log(total) if total else -math.inf


def floyd_warshall(W: Sequence[Sequence[float]]) -> list[list[float]]:
    """Least costs between all pairs, 0 from each to itself."""
    n = len(W)
    D = [[min(x, 0.0) if i == j else x for j, x in enumerate(row)] for i, row in enumerate(W)]
    for k, i, j in itertools.product(range(n), repeat=3):
        D[i][j] = min(D[i][j], D[i][k] + D[k][j])
    return D


# --- failure arcs -------------------------------------------------------------------------------------------


def failing_score(machine: Plain, string: Labels) -> float:
    """The score of a string in an acceptor with failure arcs, by their definition. No epsilons."""

    def onward(state: int, rest: Labels) -> list[float]:
        fail = [(t, w) for s, t, label, _, w in machine.arcs if s == state and label == -1]
        if not rest:
            if machine.final[state] > -math.inf:
                return [machine.final[state]]
            return [w + x for t, w in fail for x in onward(t, rest)]
        here = [(t, w) for s, t, label, _, w in machine.arcs if s == state and label == rest[0]]
        if here:
            return [w + x for t, w in here for x in onward(t, rest[1:])]
        return [w + x for t, w in fail for x in onward(t, rest)]

    return log_add([b + x for q, b in enumerate(machine.initial) if b > -math.inf for x in onward(q, string)])


def backoff_score(log_probs: dict, backoffs: dict, history: Labels, word: int) -> float:
    """log p(word | history) of a back-off model."""
    if (*history, word) in log_probs:
        return log_probs[(*history, word)]
    if not history:
        return -math.inf
    return backoffs.get(history, 0.0) + backoff_score(log_probs, backoffs, history[1:], word)


# --- edits --------------------------------------------------------------------------------------------------


def alignments(x: str, y: str, insert: float, delete: float, substitute: float, match: float) -> list[float]:
    """The score of every way to edit ``x`` into ``y``."""
    if not x and not y:
        return [0.0]
    found = []
    if x:
        found += [delete + s for s in alignments(x[1:], y, insert, delete, substitute, match)]
    if y:
        found += [insert + s for s in alignments(x, y[1:], insert, delete, substitute, match)]
    if x and y:
        step = match if x[0] == y[0] else substitute
        found += [step + s for s in alignments(x[1:], y[1:], insert, delete, substitute, match)]
    return found
