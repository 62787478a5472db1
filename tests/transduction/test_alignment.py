"""Units by expectation maximization, compared with enumeration of all segmentations."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from catena.errors import ConfigError, DataError, LimitError
from catena.transduction.alignment import AlignedPairs, Aligner, Moves
from tests.oracle.transduction import expected_units, segmentations

PAIRS = [([1, 2, 3], [1, 2]), ([2, 2], [2, 1, 1]), ([3], [3]), ([1, 3, 2, 1], [1, 3, 2]), ([2, 3], [2, 3, 1, 1])]
SHAPES = [
    Moves(),
    Moves(both=True, insertions=True),
    Moves(1, 1, deletions=True, insertions=True),
    Moves(2, 3, deletions=False),
]


def test_moves_pairs_lists_allowed_sizes() -> None:
    assert set(Moves().pairs()) == {(1, 1), (1, 2), (2, 1), (1, 0)}
    assert set(Moves(both=True, deletions=False, insertions=True).pairs()) == {(1, 1), (1, 2), (2, 1), (2, 2), (0, 1)}


@pytest.mark.parametrize("moves", SHAPES)
def test_step_maximizes_expectation_over_all_segmentations(moves: Moves) -> None:
    aligner = Aligner(AlignedPairs.of(PAIRS), moves)
    for _ in range(3):
        before = {unit: aligner.log_probs[place] for place, unit in aligner.units().items()}
        counts, whole = expected_units(PAIRS, moves.pairs(), lambda unit, known=before: known.get(unit, -math.inf))
        assert aligner.step() == pytest.approx(whole, abs=1e-9)
        total = math.fsum(counts.values())
        after = {unit: math.exp(aligner.log_probs[place]) for place, unit in aligner.units().items()}
        assert after == pytest.approx({unit: n / total for unit, n in counts.items()}, abs=1e-12)


@pytest.mark.parametrize("moves", SHAPES)
def test_likelihood_never_falls(moves: Moves) -> None:
    aligner = Aligner(AlignedPairs.of(PAIRS), moves)
    seen = [aligner.step() for _ in range(12)]
    assert all(b >= a - 1e-9 for a, b in itertools.pairwise(seen))
    assert seen[-1] > seen[0] + 1.0


@pytest.mark.parametrize("penalty", [0.0, 1.0])
def test_best_segmentation_is_best_of_all(penalty: float) -> None:
    rng = np.random.default_rng(0)
    sizes = rng.integers(1, 5, (40, 2)).tolist()
    pairs = [*PAIRS, *((rng.integers(1, 4, n).tolist(), rng.integers(1, 4, m).tolist()) for n, m in sizes)]
    moves = Moves(both=True, insertions=True)
    aligner = Aligner(AlignedPairs.of(pairs), moves)
    aligner.step()
    log_probs = {unit: float(aligner.log_probs[place]) for place, unit in aligner.units().items()}

    def score(way: list) -> float:
        return math.fsum(log_probs.get(u, -math.inf) * max(len(u[0]), len(u[1])) ** penalty for u in way)

    for (x, y), found in zip(pairs, aligner.best(penalty), strict=True):
        ways = list(segmentations(x, y, moves.pairs()))
        assert found in ways
        assert score(found) == pytest.approx(max(score(way) for way in ways), abs=1e-12)


def test_pair_without_segmentation_is_skipped() -> None:
    pairs = AlignedPairs.of([([1], [1, 1, 1]), ([1, 2], [1, 2])])
    aligner = Aligner(pairs, Moves(deletions=False))
    assert aligner.step() > -math.inf
    assert np.isfinite(aligner.log_likelihoods()).tolist() == [False, True]
    assert [units is None for units in aligner.best()] == [True, False]
    with pytest.raises(DataError, match=r"No pair can be aligned.*Allow longer units, deletions or insertions"):
        Aligner(AlignedPairs.of([([1], [1, 1, 1])]), Moves(deletions=False)).step()


def test_known_units_are_recovered() -> None:
    """Sources are strings of 1, 2 and the pair 3 4, each aligned to one target symbol."""
    rng = np.random.default_rng(0)
    units = [((1,), (1,)), ((2,), (2,)), ((3, 4), (3,))]
    pairs = []
    for _ in range(200):
        chosen = [units[k] for k in rng.integers(0, 3, rng.integers(1, 6))]
        pairs.append(([s for x, _ in chosen for s in x], [t for _, y in chosen for t in y]))
    aligner = Aligner(AlignedPairs.of(pairs), Moves(deletions=False))
    for _ in range(10):
        aligner.step()
    found = {unit for way in aligner.best() if way for unit in way}
    assert found == set(units)


def test_too_many_units_raise() -> None:
    with pytest.raises(LimitError, match=r"too many for 64-bit ids. Use shorter units"):
        Aligner(AlignedPairs.of([([100_000], [100_000])]), Moves(2, 2))
    with pytest.raises(DataError, match="pairs is empty"):
        Aligner(AlignedPairs.of([]), Moves())


def vectors(*ids: int) -> np.ndarray:
    return np.array(ids, np.int32)


@pytest.mark.parametrize(
    ("pairs", "what"),
    [
        (lambda: AlignedPairs.of([([1, 0], [1])]), "xs must be a vector of ids from 1, got 0"),
        (lambda: AlignedPairs.of([([1], [-3])]), "ys must be a vector of ids from 1, got -3"),
        (
            lambda: AlignedPairs(vectors(1, 2), np.array([3]), vectors(1), np.array([1])),
            r"ends of xs must rise to 2.* got \[3\]",
        ),
        (
            lambda: AlignedPairs(vectors(1, 2), np.array([1]), vectors(1), np.array([1])),
            r"ends of xs must rise to 2.* got \[1\]",
        ),
        (
            lambda: AlignedPairs(vectors(1), np.array([1]), vectors(1, 1), np.array([2, 1])),
            r"ends of ys .* got \[2, 1\]",
        ),
        (lambda: AlignedPairs(vectors(1), np.array([1]), vectors(1), np.array([0, 1])), "one length, got 1 and 2"),
    ],
)
def test_inconsistent_pairs_raise(pairs, what: str) -> None:
    with pytest.raises(DataError, match=what):
        Aligner(pairs(), Moves())


@pytest.mark.parametrize("sizes", [(0, 2), (2, -1)])
def test_units_have_at_least_one_symbol(sizes: tuple[int, int]) -> None:
    with pytest.raises(ConfigError, match="must be at least 1 symbol, got"):
        Moves(*sizes)


@pytest.mark.parametrize("wrong", [math.nan, math.inf])
def test_invalid_log_probs_raise(wrong: float) -> None:
    """A comparison with nan is false, so a unit of nan would be impossible."""
    aligner = Aligner(AlignedPairs.of(PAIRS), Moves())
    aligner.log_probs = aligner.log_probs.copy()
    aligner.log_probs[next(iter(aligner.units()))] = wrong
    for query in (aligner.step, aligner.log_likelihoods, aligner.best):
        with pytest.raises(DataError, match=r"log_probs must be finite or -inf, got nan or \+inf"):
            query()
    aligner.log_probs = np.zeros(3)
    with pytest.raises(DataError, match=r"log_probs must be \d+ float64, .* got float64 of shape \[3\]"):
        aligner.step()
