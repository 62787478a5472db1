"""Compared with a stranger: OpenFst through pynini. Run in the environment of the peers, with ``-m peers``."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from catena.errors import DivergentSumError
from catena.structure.automaton.build import edit_model, from_string
from catena.structure.automaton.composition import compose
from catena.structure.automaton.determinization import determinize
from catena.structure.automaton.distance import distances, total
from catena.structure.automaton.epsilon import remove_epsilon
from catena.structure.automaton.minimization import minimize
from catena.structure.automaton.openfst import from_openfst, to_openfst
from catena.structure.automaton.rational import closure, concatenate, connect, invert, project, reverse, union
from catena.structure.automaton.search import best_paths, best_strings
from catena.structure.automaton.text import from_text, to_text
from catena.structure.automaton.wfsa import Automaton
from catena.structure.semirings import LogSemiring, TropicalSemiring
from tests.oracle.automata import Plain, log_add, matrix, paths, powers_vanish, table
from tests.structure.automaton.machines import built, listed, plain_machines, same_tables

pytestmark = pytest.mark.peers
pynini = pytest.importorskip("pynini")
pywrapfst = pytest.importorskip("pywrapfst")

LIGHT = st.sampled_from([-0.5, -1.0, -1.25, -2.0, -3.5])
"""Numbers that float32 holds exactly, so that both sides start from the same machine."""

TOLERANCE = 2e-5
small = plain_machines(most_states=4, most_arcs=6, scores=LIGHT)
acyclic = plain_machines(most_states=4, most_arcs=6, scores=LIGHT, acyclic=True)
acceptors = plain_machines(most_states=4, most_arcs=7, scores=LIGHT, acyclic=True, acceptor=True, labels=(1, 2))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fst")


def theirs(machine: Automaton, folder: Path) -> Any:
    """The machine as pynini reads it from our file."""
    path = folder / "ours.fst"
    path.write_bytes(to_openfst(machine))
    return pynini.Fst.read(str(path))


def ours(fst: Any, folder: Path) -> Automaton:
    """The machine as we read it from pynini's file."""
    path = folder / "theirs.fst"
    fst.write(str(path))
    return from_openfst(path.read_bytes()).machine


def narrow(plain: Plain, semiring: Any = None) -> Automaton:
    return built(plain, semiring or TropicalSemiring(), torch.float32)


def strings(machine: Automaton, plus: Callable, longest: int = 8) -> dict:
    return table(paths(listed(machine), longest), plus)


@settings(max_examples=40)
@given(plain=small)
def test_files_are_read_and_written_by_both(folder: Path, plain: Plain) -> None:
    for machine in (narrow(plain), narrow(plain, LogSemiring()), built(plain)):
        fst = theirs(machine, folder)
        assert fst.verify()
        again = ours(fst, folder)
        assert to_openfst(again) == to_openfst(machine)
        assert from_text(fst.print(), semiring=machine.semiring).n_arcs == again.n_arcs
    compiler = pywrapfst.Compiler(acceptor=narrow(plain).is_acceptor)
    compiler.write(to_text(narrow(plain)))
    expected = from_text(to_text(narrow(plain)), narrow(plain).is_acceptor, semiring=TropicalSemiring())
    assert same_tables(strings(ours(compiler.compile(), folder), max, 4), strings(expected, max, 4), TOLERANCE)


@settings(max_examples=40)
@given(a=acyclic, b=acyclic)
def test_composition(folder: Path, a: Plain, b: Plain) -> None:
    for semiring, plus in ((TropicalSemiring(), max), (LogSemiring(), log_add)):
        mine, yours = narrow(a, semiring), narrow(b, semiring)
        fst = pynini.compose(theirs(mine, folder).arcsort("olabel"), theirs(yours, folder).arcsort("ilabel"))
        found = compose(mine, yours)
        assert same_tables(strings(found, plus, 12), strings(ours(fst, folder), plus, 14), TOLERANCE)


@settings(max_examples=40)
@given(plain=acceptors)
def test_determinization_and_minimization(folder: Path, plain: Plain) -> None:
    fst = pynini.determinize(pynini.epsnormalize(theirs(narrow(plain), folder)).rmepsilon())
    found = determinize(narrow(plain))
    assert same_tables(strings(found, max), strings(ours(fst, folder), max), TOLERANCE)
    smallest = minimize(found)
    assert smallest.n_states == fst.minimize().num_states()
    assert same_tables(strings(smallest, max), strings(ours(fst, folder), max), TOLERANCE)


@settings(max_examples=40)
@given(plain=small)
def test_shortest_distance_and_epsilon_removal(folder: Path, plain: Plain) -> None:
    machine = connect(narrow(plain))
    assume(machine.n_states > 0)
    fst = theirs(machine, folder)
    mine = ours(fst, folder)
    found = distances(mine).tolist()
    assert found == pytest.approx([float(w) for w in pynini.shortestdistance(fst)], abs=1e-5)
    assume(powers_vanish(matrix(listed(mine))))
    logs = from_openfst(to_openfst(machine.over(LogSemiring()))).machine
    exact = distances(logs).tolist()
    theirs_approximate = [-float(w) for w in pynini.shortestdistance(theirs(logs, folder), delta=1e-9)]
    assert exact == pytest.approx(theirs_approximate, abs=1e-3)
    cleaned = ours(theirs(mine, folder).rmepsilon(), folder)
    assert same_tables(strings(remove_epsilon(mine), max, 3), strings(cleaned, max, 3), TOLERANCE)


@settings(max_examples=30)
@given(plain=acyclic, n=st.integers(1, 5))
def test_n_best_paths_and_strings(folder: Path, plain: Plain, n: int) -> None:
    machine = narrow(plain)
    assume(connect(machine).n_states > 0)
    fst = pynini.shortestpath(theirs(machine, folder), nshortest=n)
    expected = sorted((p.score for p in paths(listed(ours(fst, folder)), 12)), reverse=True)
    assert [f.score for f in best_paths(machine, n)] == pytest.approx(expected, abs=1e-5)
    projected = project(machine, "input")
    clean = pynini.epsnormalize(theirs(projected, folder)).rmepsilon()
    unique = pynini.shortestpath(clean, nshortest=n, unique=True)
    expected = sorted((p.score for p in paths(listed(ours(unique, folder)), 12)), reverse=True)
    assert [f.score for f in best_strings(machine, n)] == pytest.approx(expected, abs=1e-5)


@settings(max_examples=25)
@given(a=acyclic, b=acyclic)
def test_rational_operations(folder: Path, a: Plain, b: Plain) -> None:
    x, y = narrow(a), narrow(b)
    f, g = theirs(x, folder), theirs(y, folder)
    for mine, yours in (
        (union(x, y), pynini.union(f, g)),
        (concatenate(x, y), pynini.concat(f, g)),
        (reverse(x), pynini.reverse(f)),
        (invert(x), pynini.invert(f)),
        (project(x, "output"), f.copy().project("output")),
    ):
        assert same_tables(strings(mine, max, 12), strings(ours(yours, folder), max, 14), TOLERANCE)
    star = closure(connect(x))
    theirs_star = ours(theirs(connect(x), folder).closure(), folder)
    assert same_tables(strings(remove_epsilon(star), max, 2), strings(remove_epsilon(theirs_star), max, 2), TOLERANCE)


def test_cyclic_sums_are_exact_here_and_approximate_there(folder: Path) -> None:
    x, letters = from_string("catenacatenacatenacatenacatena"), "abcdefghijklmnopqrstuvwxyz"
    machine = compose(x, edit_model(letters, -4.0, -4.0, -4.0))
    w = math.exp(-4.0)
    exact = 30 * math.log(1 + 26 * w) - 31 * math.log1p(-26 * w)
    assert total(machine).item() == pytest.approx(exact, rel=1e-13)
    backwards = pynini.shortestdistance(theirs(machine, folder), reverse=True)
    assert abs(-float(backwards[0]) - exact) > 1e-4
    with pytest.raises(DivergentSumError):
        total(compose(x, edit_model(letters)))
