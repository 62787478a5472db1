"""Vectors searched in blocks, mixed parts, and clusters."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from catena.errors import CheckpointError, DataError
from catena.retrieval.cluster import _assigned, _first_centers, _means, k_means, medoids
from catena.retrieval.index import MixedPart, TermPart, VectorPart, search


@pytest.fixture
def generator() -> np.random.Generator:
    return np.random.default_rng(7)


@pytest.mark.parametrize("block", [1, 4, 1000])
def test_search_equals_exhaustive_search(block: int, generator: np.random.Generator, tmp_path: Path) -> None:
    matrix = generator.integers(-2, 3, (25, 3)).astype(np.float32)  # integers, so that many scores are equal
    queries = generator.integers(-2, 3, (6, 3)).astype(np.float32)
    VectorPart(matrix).save(tmp_path)
    part = VectorPart.load(tmp_path)
    assert isinstance(part.matrix, np.memmap)
    scores, places = search(part, queries, 6, 7, block)
    for query, found, at in zip(queries, scores, places, strict=True):
        exact = [(float(np.dot(query, row)), i) for i, row in enumerate(matrix)]
        best = sorted(exact, key=lambda pair: (-pair[0], pair[1]))[:7]
        assert [(float(s), int(i)) for s, i in zip(found, at, strict=True)] == best


def test_search_with_k_above_size_or_without_queries() -> None:
    part = VectorPart(np.ones((1, 2), np.float32))
    scores, places = search(part, np.ones((2, 2), np.float32), 2, 5)
    assert scores.tolist() == [[2.0], [2.0]]
    assert places.tolist() == [[0], [0]]
    assert search(part, np.ones((0, 2), np.float32), 0, 5)[0].shape == (0, 1)
    with pytest.raises(DataError, match="k must be at least 1, got"):
        search(part, np.ones((2, 2), np.float32), 2, 0)


def test_mixed_parts_add_weighted_scores(generator: np.random.Generator) -> None:
    one = VectorPart(generator.normal(size=(9, 2)).astype(np.float32))
    two = TermPart.of([{"a": float(i), "b": 1.0} for i in range(9)])
    queries = (generator.normal(size=(3, 2)).astype(np.float32), [{"a": 1.0}, {"b": 2.0}, {"c": 1.0}])
    scores, places = search(MixedPart([one, two], [2.0, -0.5]), queries, 3, 9, 4)
    for q in range(3):
        for score, place in zip(scores[q], places[q], strict=True):
            words = sum(w * {"a": float(place), "b": 1.0}.get(t, 0.0) for t, w in queries[1][q].items())
            assert score == pytest.approx(2.0 * float(queries[0][q] @ one.matrix[place]) - 0.5 * words, abs=1e-5)
    with pytest.raises(DataError, match=r"got \[9, 1\]"):
        MixedPart([one, TermPart.of([{}])], [1.0, 1.0])


def test_damaged_index_raises(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="not a valid index file"):
        VectorPart.load(tmp_path)
    with pytest.raises(CheckpointError, match="cannot be read"):
        TermPart.load(tmp_path / "nowhere")
    part = TermPart.of([{"a": 1.0}, {"a": 0.5, "b": 2.0}])
    for name, value in (
        ("term_offsets.npy", np.array([0, 5, 3])),
        ("term_offsets.npy", np.array([0, 1, 4])),
        ("term_ids.npy", np.array([0, 0, 9])),
        ("term_weights.npy", np.array([1.0, np.nan, 1.0], np.float32)),
    ):
        part.save(tmp_path)
        np.save(tmp_path / name, value)
        with pytest.raises(CheckpointError, match="do not fit together"):
            TermPart.load(tmp_path)
    part.save(tmp_path)
    (tmp_path / "term_ids.npy").write_bytes(b"")
    with pytest.raises(CheckpointError, match="not a valid index file"):
        TermPart.load(tmp_path)


def test_loading_index_never_unpickles(tmp_path: Path) -> None:
    np.save(tmp_path / "vectors.npy", np.array([{"a": 1}], object), allow_pickle=True)
    with pytest.raises(CheckpointError, match="not a valid index file"):
        VectorPart.load(tmp_path)


def test_k_means_finds_separated_groups(generator: np.random.Generator) -> None:
    middles = np.array([[0, 0], [10, 0], [0, 10]], np.float64)
    vectors = np.concatenate([middle + generator.normal(size=(20, 2)) for middle in middles])
    centers, nearest = k_means(vectors, 3, generator)
    for low in (0, 20, 40):
        group = set(nearest[low : low + 20].tolist())
        assert len(group) == 1
        assert centers[group.pop()] == pytest.approx(vectors[low : low + 20].mean(0))
    chosen = medoids(vectors, centers, nearest)
    for row in chosen:
        mates = np.flatnonzero(nearest == nearest[row])
        apart = [float(((vectors[i] - centers[nearest[row]]) ** 2).sum()) for i in mates]
        assert mates[int(np.argmin(apart))] == row


def test_first_centers_are_sampled_by_squared_distance(generator: np.random.Generator) -> None:
    points = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 3.0]])
    drawn = Counter(tuple(map(tuple, _first_centers(points, 2, generator).tolist())) for _ in range(6000))
    for a in points:
        total = sum(float(((a - b) ** 2).sum()) for b in points)
        for b in points:
            share = float(((a - b) ** 2).sum()) / total / 3
            assert drawn[tuple(a.tolist()), tuple(b.tolist())] / 6000 == pytest.approx(share, abs=0.02)
    for _ in range(50):
        assert sorted(_first_centers(points, 3, generator).tolist()) == sorted(points.tolist())


def test_empty_cluster_takes_farthest_vector(generator: np.random.Generator) -> None:
    vectors = generator.normal(size=(6, 2))
    centers = np.array([[0.0, 0.0], [0.5, 0.0], [99.0, 99.0]])
    nearest, distances = _assigned(vectors, centers)
    apart = ((vectors[:, None] - centers) ** 2).sum(2)
    assert nearest.tolist() == apart.argmin(1).tolist()
    assert distances == pytest.approx(apart.min(1))
    moved = _means(vectors, nearest, distances, 3)
    assert moved[2].tolist() == vectors[apart.min(1).argmax()].tolist()
    assert moved[:2] == pytest.approx(np.stack([vectors[nearest == j].mean(0) for j in range(2)]))


def test_k_means_edge_cases(generator: np.random.Generator) -> None:
    same = np.ones((4, 2))
    centers, nearest = k_means(same, 3, generator)
    assert centers.tolist() == [[1, 1]] * 3
    assert len(medoids(same, centers, nearest)) >= 1
    vectors = generator.normal(size=(5, 2))
    assert sorted(medoids(vectors, *k_means(vectors, 5, generator))) == [0, 1, 2, 3, 4]
    with pytest.raises(DataError, match="k must be from 1 to 5, the number of vectors, got 6"):
        k_means(vectors, 6, generator)
