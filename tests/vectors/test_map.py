from __future__ import annotations

import numpy as np
import pytest

from catena.errors import DataError
from catena.vectors.map import project_to_plane, words_of_map
from catena.vectors.table import VectorTable


def two_groups() -> VectorTable:
    rng = np.random.default_rng(0)
    centers = np.repeat(np.array([[9.0, 0, 0, 0], [0, 9, 0, 0]]), 12, axis=0)
    return VectorTable.of([f"{'ab'[i // 12]}{i}" for i in range(24)], centers + rng.normal(size=(24, 4)))


def test_near_words_lie_near_and_the_same_seed_gives_the_same_map() -> None:
    vectors = two_groups()
    words = list(vectors.words)
    places = project_to_plane(vectors, words)
    between = np.linalg.norm(places[:12].mean(0) - places[12:].mean(0))
    within = np.mean([np.linalg.norm(p - part.mean(0)) for part in (places[:12], places[12:]) for p in part])
    assert between > 2 * within
    assert (places == project_to_plane(vectors, words)).all()
    assert project_to_plane(vectors, words[:3]).shape == (3, 2)
    with pytest.raises(DataError, match="3 words or more, got 2"):
        project_to_plane(vectors, words[:2])


def test_map_words_are_first_words_or_given_words_with_neighbors() -> None:
    vectors = VectorTable.of(["the", ",", "7", "cat", "dog"], np.eye(5))
    assert words_of_map(vectors, 2) == ["the", "cat"]
    assert words_of_map(vectors, 9) == ["the", "cat", "dog"]
    near = words_of_map(two_groups(), 6, ["a3", "b20"])
    assert near[:2] == ["a3", "b20"]
    assert sum(word.startswith("a") for word in near) == sum(word.startswith("b") for word in near) == 3
