from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from catena.draw.map_page import draw_map_page
from catena.errors import DataError
from catena.vectors.map import plane_of, words_of_map
from catena.vectors.table import Vectors


def two_groups() -> Vectors:
    rng = np.random.default_rng(0)
    centres = np.repeat(np.array([[9.0, 0, 0, 0], [0, 9, 0, 0]]), 12, axis=0)
    return Vectors.of([f"{'ab'[i // 12]}{i}" for i in range(24)], centres + rng.normal(size=(24, 4)))


def test_near_words_lie_near_and_the_same_seed_gives_the_same_map() -> None:
    vectors = two_groups()
    words = list(vectors.words)
    places = plane_of(vectors, words)
    between = np.linalg.norm(places[:12].mean(0) - places[12:].mean(0))
    within = np.mean([np.linalg.norm(p - part.mean(0)) for part in (places[:12], places[12:]) for p in part])
    assert between > 2 * within
    assert (places == plane_of(vectors, words)).all()
    assert plane_of(vectors, words[:3]).shape == (3, 2)
    with pytest.raises(DataError, match="three words or more, and has 2"):
        plane_of(vectors, words[:2])


def test_words_are_the_first_or_the_neighbours_of_those_asked_for() -> None:
    vectors = Vectors.of(["the", ",", "7", "cat", "dog"], np.eye(5))
    assert words_of_map(vectors, 2) == ["the", "cat"]
    assert words_of_map(vectors, 9) == ["the", "cat", "dog"]
    near = words_of_map(two_groups(), 6, ["a3", "b20"])
    assert near[:2] == ["a3", "b20"]
    assert sum(word.startswith("a") for word in near) == sum(word.startswith("b") for word in near) == 3


def test_a_page_holds_all_points_and_needs_no_network(tmp_path: Path) -> None:
    words = ["plain", "</script><b>", "日本", 'say "hi"']
    page = draw_map_page(
        np.array([[0, 0], [4, 2], [2, 2], [1, 1.0]]), words, groups=["x", "y", "x", "z"], title="A & B"
    )
    text = page.save(tmp_path / "map.html").read_text(encoding="utf-8")
    held = json.loads(re.search(r'id="data">(.*?)</script>', text, re.S)[1])
    assert held["name"] == words
    assert held["x"] == [0, 1, 0.5, 0.25]
    assert held["y"] == [1, 0.5, 0.5, 0.75]
    assert held["group"] == [0, 1, 0, 2]
    assert "<title>A &amp; B</title>" in text
    assert not re.search(r"https?:|src=|@import|url\(|fetch|XMLHttp", text)
    assert "@" not in re.sub(r"@media", "", text)


def test_what_cannot_be_a_page_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="finite"):
        draw_map_page(np.array([[0, np.inf]]), ["a"])
    with pytest.raises(DataError, match=r"saved as \.html"):
        draw_map_page(np.array([[0, 0.0]]), ["a"]).save(tmp_path / "map.svg")
