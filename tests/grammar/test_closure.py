"""Unbounded sums: unit chains against matrix inversion, empty phrases against roots computed by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catena.errors import DivergentSumError
from catena.grammar.binary import binary
from catena.grammar.cfg import Nonterminal
from catena.grammar.closure import BEST, SUM, UnitStep, close_chains, connected_parts, lehmann
from catena.grammar.epsilon_removal import close, empty_weights
from catena.grammar.files import parse_grammar
from catena.grammar.parse import CFGParser

SYMBOLS = tuple(Nonterminal(c) for c in "ABCDEFG")


def empties(text: str) -> dict[str, float]:
    """Return the weight of the empty string for each symbol."""
    halves = binary(parse_grammar(text))
    return {s.name: math.exp(x) for s, x in zip(halves.symbols, empty_weights(halves, SUM), strict=True)}


@st.composite
def steps(draw: st.DrawFn, least: float = 0.01, most: float = 0.12) -> list[UnitStep]:
    pairs = st.tuples(st.integers(0, 6), st.integers(0, 6))
    weights = st.floats(least, most)
    return [UnitStep(a, b, math.log(draw(weights))) for a, b in draw(st.lists(pairs, max_size=20))]


def matrix(found: list[UnitStep]) -> np.ndarray:
    table = np.zeros((7, 7))
    for a, b, x in found:
        table[a, b] += math.exp(x)
    return table


@given(steps())
def test_chains_equal_matrix_inverse(found: list[UnitStep]) -> None:
    table = matrix(found)
    wanted = np.linalg.inv(np.eye(7) - table) - np.eye(7)
    chains = close_chains(SYMBOLS, found, SUM)
    got = np.zeros((7, 7))
    got[chains.left, chains.below] = np.exp(chains.log_weight)
    np.testing.assert_allclose(got, wanted, atol=1e-12)


@given(steps(most=1.0))
def test_best_chains_are_best_of_all_walks(found: list[UnitStep]) -> None:
    best = np.zeros((7, 7))
    for a, b, x in found:
        best[a, b] = max(best[a, b], math.exp(x))
    walks, power = best.copy(), best.copy()
    for _ in range(7):
        power = (power[:, :, None] * best[None]).max(axis=1)
        walks = np.maximum(walks, power)
    chains = close_chains(SYMBOLS, found, BEST)
    got = np.zeros((7, 7))
    got[chains.left, chains.below] = np.exp(chains.log_weight)
    np.testing.assert_allclose(got, walks, rtol=1e-12)


def test_extreme_weights_neither_vanish_nor_overflow() -> None:
    chain = [UnitStep(0, 1, -800.0), UnitStep(1, 2, -900.0), UnitStep(0, 3, 700.0), UnitStep(3, 4, 500.0)]
    chains = close_chains(SYMBOLS, chain, SUM)
    got = dict(
        zip(zip(chains.left.tolist(), chains.below.tolist(), strict=True), chains.log_weight.tolist(), strict=True)
    )
    assert got[0, 2] == -1700.0
    assert got[0, 4] == 1200.0


def test_cycle_sums_to_geometric_series() -> None:
    closure = lehmann(np.log(np.array([[0.25]])), SUM)
    assert closure is not None
    assert math.exp(closure[0, 0]) == pytest.approx(0.25 / 0.75, rel=1e-15)
    assert lehmann(np.array([[0.0]]), SUM) is None
    assert lehmann(np.array([[0.0]]), BEST) is not None
    assert lehmann(np.array([[0.1]]), BEST) is None


def test_components_are_in_topological_order() -> None:
    edges = {0: [1], 1: [2], 2: [1, 3], 3: [4], 4: [3], 5: [5, 0]}
    assert [sorted(part) for part in connected_parts(edges)] == [[3, 4], [1, 2], [0], [5]]
    line = {n: [n + 1] for n in range(50_000)}
    assert len(connected_parts(line)) == 50_001


def test_linear_system_of_empty_phrases_is_exact() -> None:
    found = empties("S -> S A [0.5] | 'x' [0.25] | '' [0.25]\nA -> '' [0.5] | 'a' [0.5]")
    assert found["A"] == 0.5
    assert found["S"] == pytest.approx(0.25 / (1 - 0.25), rel=1e-15)


@pytest.mark.parametrize("p", [0.1, 0.3, 0.49, 0.51, 0.9])
def test_quadratic_system_of_empty_phrases_has_its_least_root(p: float) -> None:
    found = empties(f"S -> S S [{p}] | '' [{1 - p}]")
    # x = p x² + 1 - p has the roots 1 and (1 - p) / p; rounding of 1 - p moves them slightly.
    assert found["S"] == pytest.approx(min(1.0, (1 - p) / p), rel=1e-13)


def test_double_root_is_exact() -> None:
    assert empties("S -> S S [0.5] | '' [0.5]")["S"] == 1.0
    cubic = empties("S -> S S S [0.25] | '' [0.5] | 'a' [0.25]")["S"]
    roots = np.roots([0.25, 0, -1, 0.5])
    assert cubic == pytest.approx(min(x.real for x in roots if x.real > 0), rel=1e-13)


def test_systems_of_several_components() -> None:
    found = empties("S -> A B [1] | S S [0.1]\nA -> A A [0.3] | B [0.2] | '' [0.5]\nB -> '' [0.5] | 'b' [0.5]")
    a = (1 - math.sqrt(1 - 4 * 0.3 * 0.6)) / 0.6
    s = (1 - math.sqrt(1 - 4 * 0.1 * a * 0.5)) / 0.2
    assert found["A"] == pytest.approx(a, rel=1e-14)
    assert found["S"] == pytest.approx(s, rel=1e-14)


@pytest.mark.parametrize(
    "text",
    [
        "S -> S [1] | 'a' [1]",
        "S -> A [0.5] | 'a' [1]\nA -> B [4]\nB -> S [0.5] | 'b' [1]",
        "S -> S S [1] | '' [1]",
        "S -> S S [0.5] | '' [0.51]",
        "S -> S A [1] | 'a' [1]\nA -> '' [1] | 'x' [1]",
        "S -> A S [0.7] | A [0.1] | A A [0.2] | 's' [1]\nA -> S [1] | '' [0.3] | S S [3]",
    ],
)
def test_infinite_sum_raises(text: str) -> None:
    with pytest.raises(
        DivergentSumError, match=r"back to itself .* weight of 1 or more, so the weights .* an infinite sum"
    ):
        close(binary(parse_grammar(text)), SUM)


def test_best_weight_diverges_only_for_cycles_above_1() -> None:
    close(binary(parse_grammar("S -> S [1] | A [3] | 'a' [1]\nA -> S [0.3333333333333333]")), BEST)
    for text in ("S -> S [1.5] | 'a' [1]", "S -> S S [2] | '' [1]", "S -> A S [1] | 's' [1]\nA -> '' [1.01]"):
        with pytest.raises(DivergentSumError, match=r"weight of more than 1, so there is no best parse"):
            close(binary(parse_grammar(text)), BEST)


def test_cycles_that_no_sentence_uses_are_harmless() -> None:
    text = "S -> 'a' [1] | E S [0.1]\nE -> E E [0.5] | '' [0.5]\nX -> X [5] | 'x' [1]\nS -> Z [1]\nZ -> Z [3]"
    grammar = parse_grammar(text)
    close(binary(grammar), BEST)
    # E is empty with probability 1, so S = 1 + S / 10 at "a".
    assert CFGParser(grammar).log_total("a") == pytest.approx(-math.log(0.9), abs=1e-12)


@pytest.mark.parametrize("weight", [0.038, 0.063, 0.088, 0.5, 0.713])
def test_double_roots_lost_by_rounding_are_still_found(weight: float) -> None:
    """x = a x² + 1 / 4a has one solution, 1 / 2a, and none if 1 / 4a is rounded up."""
    grammar = parse_grammar(f"S -> S S [{weight!r}] | '' [{1 / (4 * weight)!r}]")
    assert CFGParser(grammar).log_total("") == pytest.approx(-math.log(2 * weight), abs=1e-6)
