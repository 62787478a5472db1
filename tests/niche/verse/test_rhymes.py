"""Rhyme classes are recovered from verse with planted rhymes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from catena.errors import DataError, FormatError
from catena.niche.verse.rhymes import groups, learn_rhymes, read_rhymes, rhyming_ends

PLANTED = ["abcde", "fghij", "klmno"]


def poems(n: int, slips: float = 0.0, seed: int = 1) -> list[str]:
    """Poems of six lines whose second, fourth and sixth end in one of the planted rhymes, except for some errors."""
    draw = np.random.default_rng(seed)
    everything, found = "".join(PLANTED), []
    for _ in range(n):
        rhyme = PLANTED[draw.integers(3)]
        ends = ["".join(draw.choice(list(everything if draw.random() < slips else rhyme))) for _ in range(3)]
        found.append("。".join(f"xy{draw.choice(list(everything))}，zz{end}" for end in ends))
    return found


def test_rhyming_ends_of_every_second_line() -> None:
    assert rhyming_ends("西陸蟬聲唱，南冠客思侵。\n那堪玄鬢影，來對白頭吟。") == ["侵", "吟"]
    assert rhyming_ends("one") == rhyming_ends("") == []


@pytest.mark.parametrize("slips", [0.0, 0.15])
def test_learn_rhymes_recovers_planted_rhymes(slips: float) -> None:
    found = learn_rhymes(poems(200, slips))
    assert {frozenset(s for s in found if found[s] == rhyme) for rhyme in found.values()} == set(
        map(frozenset, PLANTED)
    )


def test_learn_rhymes_ignores_rare_symbols() -> None:
    text = [*poems(50), "xxq，xxw。xxe，xxp"]  # w and p end lines together once
    assert {"w", "p"} & set(learn_rhymes(text)) == set()
    assert {"w", "p"} <= set(learn_rhymes(text, min_count=1))
    with pytest.raises(DataError, match="No two symbols end rhyming lines together"):
        learn_rhymes(["no verse at all", ""])


def modularity(weights: np.ndarray, group: Sequence[int], resolution: float) -> float:
    """The formula, term by term."""
    degree, total = weights.sum(axis=1), weights.sum()
    return sum(
        float(weights[i, j] - resolution * degree[i] * degree[j] / total)
        for i, j in product(range(len(weights)), repeat=2)
        if group[i] == group[j]
    )


def partitions(n: int) -> list[tuple[int, ...]]:
    """Every partition of n items: the group of each, where a new group has the next number."""
    found: list[tuple[int, ...]] = [()]
    for _ in range(n):
        found = [(*group, new) for group in found for new in range(max(group, default=-1) + 2)]
    return found


@pytest.mark.parametrize("resolution", [0.5, 1.0, 2.0])
def test_groups_modularity_is_nearly_optimal(resolution: float) -> None:
    for seed in range(6):
        draw = np.random.default_rng(seed)
        upper = np.triu(draw.integers(0, 4, (6, 6)) * (draw.random((6, 6)) < 0.5), 1).astype(float)
        weights = upper + upper.T
        if not weights.sum():
            continue
        graph = {i: {j: w for j, w in enumerate(row) if w} for i, row in enumerate(weights)}
        found = groups(graph, resolution)
        every = [modularity(weights, group, resolution) for group in partitions(6)]
        assert len(every) == 203
        reached = modularity(weights, found, resolution)
        assert reached >= modularity(weights, range(6), resolution)
        assert reached >= max(every) - 0.15 * (max(every) - min(every))


def test_read_rhymes_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "rhymes.txt"
    path.write_text("a b  c\n\nd e\n", encoding="utf-8")
    found = read_rhymes(path)
    assert found["a"] == found["b"] == found["c"] != found["d"] == found["e"]
    path.write_text("a b\nc a\n", encoding="utf-8")
    with pytest.raises(FormatError, match=r"rhymes\.txt:2 repeats 'a' of line 1. Keep each symbol in one rhyme"):
        read_rhymes(path)
    path.write_text("\n", encoding="utf-8")
    with pytest.raises(FormatError, match=r"has no rhymes. Write the symbols of each rhyme on one line"):
        read_rhymes(path)
