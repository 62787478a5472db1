"""Search in word lattices, compared with the enumeration of all paths."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch

from catena.data.vocabulary import Vocabulary
from catena.errors import ConfigError, DataError
from catena.lm.base import SPECIALS
from catena.lm.ngram.model import NgramModel
from catena.niche.correction.lattice import LatticeEdge, LatticeSearch
from catena.search.stepper import Stepper
from catena.search.table_stepper import TableStepper
from tests.oracle.spelling import lattice_paths

LETTERS = "abcd"


def trigrams() -> NgramModel:
    vocabulary = Vocabulary(LETTERS, specials=SPECIALS)
    rng = np.random.default_rng(0)
    return NgramModel.train_ids([rng.integers(4, 8, n).tolist() for n in (3, 6, 2, 8, 5, 9)], vocabulary, order=3)


def bigrams() -> TableStepper:
    torch.manual_seed(1)
    return TableStepper(torch.randn(9, 8, dtype=torch.float64).log_softmax(dim=1), end=3)


def random_lattice(seed: int, n: int = 5) -> list[LatticeEdge]:
    """Edges of one to three ids between nodes at most two apart; each node leads to the next."""
    rng = np.random.default_rng(seed)
    edges = []
    for start in range(n):
        for k in range(int(rng.integers(1, 4))):
            end = min(n, start + (1 if k == 0 else int(rng.integers(1, 3))))
            ids = tuple(rng.integers(4, 8, int(rng.integers(1, 4))).tolist())
            edges.append(LatticeEdge(start, end, ids, float(rng.normal()), text=f"{start}.{k}"))
    return edges


def enumerated(stepper: Stepper, edges: list[LatticeEdge], lm_weight: float) -> list[tuple[float, tuple[str, ...]]]:
    """Every path with its score, by reading its ids one after another."""
    last, scored = max(edge.end for edge in edges), []
    for path in lattice_paths([(edge.start, edge.end) for edge in edges], last):
        score, state = sum(edges[e].score for e in path), stepper.start(1)
        for id in [id for e in path for id in edges[e].ids] + [stepper.end]:
            score += lm_weight * float(stepper.log_probs(state)[0, id])
            state = stepper.advance(state, torch.tensor([id]))
        scored.append((score, tuple(edges[e].text for e in path)))
    return sorted(scored, reverse=True)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize(("make", "context"), [(trigrams, 2), (trigrams, None), (bigrams, 1), (bigrams, None)])
def test_search_with_a_wide_beam_equals_enumeration(
    make: Callable[[], Stepper], context: int | None, seed: int
) -> None:
    stepper, edges, weight = make(), random_lattice(seed), 0.7
    expected = enumerated(stepper, edges, weight)
    found = LatticeSearch(stepper, beam_size=1000, lm_weight=weight, context=context).search(edges)
    total = math.log(math.fsum(math.exp(score) for score, _ in expected))
    assert tuple(edge.text for edge in found[0].edges) == expected[0][1]
    assert found[0].score == pytest.approx(expected[0][0], abs=1e-5)
    assert found[0].probability == pytest.approx(math.exp(expected[0][0] - total), rel=1e-4)
    if context is None:
        assert [path.score for path in found] == pytest.approx([score for score, _ in expected][: len(found)], abs=1e-5)
        assert [tuple(edge.text for edge in path.edges) for path in found] == [texts for _, texts in expected][
            : len(found)
        ]


def test_merged_paths_count_in_the_probability_of_the_best() -> None:
    stepper = trigrams()
    edges = [LatticeEdge(0, 1, (4,)), LatticeEdge(0, 1, (5,)), *(LatticeEdge(i, i + 1, (6,)) for i in range(1, 4))]
    expected = enumerated(stepper, edges, 1.0)
    (best,) = LatticeSearch(stepper, beam_size=10, context=2).search(edges)
    assert len(expected) == 2
    assert best.probability == pytest.approx(1 / (1 + math.exp(expected[1][0] - expected[0][0])), rel=1e-4)


def test_narrow_beam_keeps_the_best_paths_of_each_node() -> None:
    stepper, edges = bigrams(), random_lattice(3)
    exact = LatticeSearch(stepper, beam_size=1000, context=1).search(edges)[0]
    narrow = LatticeSearch(stepper, beam_size=1, context=1).search(edges)
    assert len(narrow) == 1
    assert narrow[0].score <= exact.score + 1e-9


def test_least_log_prob_of_an_edge_replaces_smaller_ones() -> None:
    table = torch.full((9, 8), -math.inf)
    table[:, 4], table[:, 3] = math.log(0.9), math.log(0.1)
    stepper = TableStepper(table, end=3)
    impossible = LatticeEdge(0, 1, (5,), min_log_prob=-2.0)
    (path,) = LatticeSearch(stepper).search([impossible])
    assert path.score == pytest.approx(-2.0 + math.log(0.1))
    best, other = LatticeSearch(stepper).search([impossible, LatticeEdge(0, 1, (4,))])
    assert (best.edges[0].ids, other.edges[0].ids) == ((4,), (5,))


def test_lattice_without_edges_is_the_empty_text() -> None:
    stepper = trigrams()
    (path,) = LatticeSearch(stepper).search([])
    assert path.edges == ()
    assert path.score == pytest.approx(float(stepper.log_probs(stepper.start(1))[0, stepper.end]))


@pytest.mark.parametrize(
    ("edges", "problem"),
    [
        ([LatticeEdge(0, 0, (4,))], "An edge must lead forward"),
        ([LatticeEdge(0, 1, ())], "An edge must lead forward and have ids"),
        (
            [LatticeEdge(0, 1, (4,)), LatticeEdge(0, 3, (4,))],
            "An edge must leave every node except the last, got none at 1",
        ),
    ],
)
def test_invalid_lattices_raise(edges: list[LatticeEdge], problem: str) -> None:
    with pytest.raises(DataError, match=problem):
        LatticeSearch(trigrams()).search(edges)


def test_beam_size_below_one_raises() -> None:
    with pytest.raises(ConfigError, match="beam_size must be 1 or more, got 0"):
        LatticeSearch(trigrams(), beam_size=0)
