"""Monotone paths through attention weights, compared with enumeration of all paths."""

from __future__ import annotations

import math
from itertools import combinations_with_replacement

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from catena.transduction.attention_alignment import alignment_links, monotone_path


@settings(max_examples=40)
@given(st.lists(st.tuples(st.integers(1, 4), st.integers(1, 4)), min_size=1, max_size=4), st.integers(0, 200))
def test_monotone_path_is_best_monotone_path(sizes: list[tuple[int, int]], seed: int) -> None:
    t, s = (max(size[side] for size in sizes) for side in (0, 1))
    weights = torch.rand(len(sizes), t, s, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    targets, sources = (torch.tensor([size[side] for size in sizes]) for side in (0, 1))
    found = monotone_path(weights, targets, sources).tolist()
    for row, (n, m) in enumerate(sizes):
        paths = combinations_with_replacement(range(m), n)

        def worth(path: tuple[int, ...], row: int = row) -> float:
            return math.fsum(math.log(weights[row, i, j]) for i, j in enumerate(path))

        assert worth(tuple(found[row][:n])) == pytest.approx(max(map(worth, paths)), abs=1e-12)
        assert found[row][:n] == sorted(found[row][:n])
        assert max(found[row][:n]) < m


def test_single_zero_weight_does_not_decide_path() -> None:
    weights = torch.tensor([[[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]]])
    assert monotone_path(weights, torch.tensor([3]), torch.tensor([2])).tolist() == [[0, 1, 1]]


def test_alignment_links_group_target_symbols() -> None:
    assert [(link.source, link.target) for link in alignment_links("abc", "XY", [0, 2, 2])] == [
        (("a",), ("X",)),
        (("b",), ()),
        (("c",), ("Y",)),
    ]
