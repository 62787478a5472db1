"""Small random machines, as the oracle and as catena hold them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from hypothesis import strategies as st

from catena.structure.automaton.build import from_arcs
from catena.structure.automaton.wfsa import Automaton
from catena.structure.semirings import LogSemiring, Semiring
from tests.oracle.automata import Plain

SCORES = st.one_of(st.sampled_from([-1.0, -0.5, 0.0]), st.floats(-4, 1), st.just(-math.inf))


@st.composite
def plain_machines(
    draw: st.DrawFn,
    most_states: int = 4,
    most_arcs: int = 7,
    labels: Sequence[int] = (0, 1, 2),
    acyclic: bool = False,
    acceptor: bool = False,
    scores: st.SearchStrategy[float] = SCORES,
) -> Plain:
    n = draw(st.integers(1, most_states))
    arcs = []
    for _ in range(draw(st.integers(0, most_arcs))):
        source, target = draw(st.integers(0, n - 1)), draw(st.integers(0, n - 1))
        if acyclic:
            if source == target:
                continue
            source, target = min(source, target), max(source, target)
        read = draw(st.sampled_from(labels))
        written = read if acceptor else draw(st.sampled_from(labels))
        arcs.append((source, target, read, written, draw(scores)))
    edge = st.one_of(scores, st.just(-math.inf))
    initial = [draw(edge) for _ in range(n)]
    final = [draw(edge) for _ in range(n)]
    initial[0], final[-1] = draw(scores), draw(scores)
    return Plain(tuple(arcs), tuple(initial), tuple(final))


def built(plain: Plain, semiring: Semiring | None = None, dtype: torch.dtype = torch.float64) -> Automaton:
    """The oracle's machine as catena's."""
    initial, final = dict(enumerate(plain.initial)), dict(enumerate(plain.final))
    return from_arcs(plain.arcs, initial, final, semiring or LogSemiring(), len(plain.initial), dtype)


def listed(machine: Automaton) -> Plain:
    """Catena's machine as the oracle's."""
    machine = machine.over(LogSemiring())
    columns = (machine.source, machine.target, machine.input, machine.output, machine.weight.double())
    arcs = tuple(zip(*(x.tolist() for x in columns), strict=True))
    return Plain(arcs, tuple(machine.initial.double().tolist()), tuple(machine.final.double().tolist()))


def near(found: float, expected: float, tolerance: float = 1e-9) -> bool:
    if math.isinf(found) or math.isinf(expected):
        return found == expected
    return abs(found - expected) <= tolerance * max(1.0, abs(expected))


def same_tables(found: dict, expected: dict, tolerance: float = 1e-9) -> bool:
    """Whether two tables of weights agree; what is missing weighs nothing."""
    keys = found.keys() | expected.keys()
    return all(near(found.get(k, -math.inf), expected.get(k, -math.inf), tolerance) for k in keys)
