"""The search for best non-projective trees, against enumeration and against the plain search."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch import Tensor

from catena.kernels.dependency.ops_nonprojective import best, top
from catena.structure import nonprojective_search
from tests.kernels.arc_kernels import drawn
from tests.oracle.dependency import all_trees


def cases(b: int, t: int, seed: int) -> Tensor:
    """Scores of all kinds: dense, with impossible arcs, with ties, with both."""
    arcs = drawn(b, t, 2.0, seed)
    generator = torch.Generator().manual_seed(seed)
    arcs[b // 4 : b // 2] = arcs[b // 4 : b // 2].round()
    never = torch.rand(arcs.shape, generator=generator) < 0.4
    never[: b // 2] = False
    arcs = arcs.masked_fill(never, -math.inf)
    arcs[3 * b // 4 :] = arcs[3 * b // 4 :].round()
    return arcs


def added(arcs: Tensor, heads: list[int]) -> float:
    return sum(arcs[h, i + 1].item() for i, h in enumerate(heads))


@pytest.mark.parametrize("single_root", [True, False])
def test_best_tree_equals_enumeration(single_root: bool) -> None:
    arcs = cases(80, 4, seed=1)
    heads = best(arcs, torch.full((80,), 4), single_root)
    for r in range(80):
        trees = dict(all_trees(arcs[r].tolist(), None, [True] * 4, single_root, projective=False))
        top_score = max(trees.values())
        if top_score == -math.inf:
            assert heads[r].tolist() == [-1] * 4
        else:
            assert trees[tuple(heads[r].tolist())] == pytest.approx(top_score, abs=1e-12)


@pytest.mark.parametrize("single_root", [True, False])
def test_k_best_trees_are_distinct_and_ordered(single_root: bool) -> None:
    arcs = cases(40, 4, seed=2)
    heads, ranks, found = top(arcs[..., None], torch.full((40,), 4), single_root, 130)
    for r in range(40):
        trees = all_trees(arcs[r].tolist(), None, [True] * 4, single_root, projective=False)
        possible = {heads: score for heads, score in trees if score > -math.inf}
        assert found[r] == len(possible)
        listed = [tuple(h) for h in heads[r, : found[r]].tolist()]
        assert set(listed) == set(possible)
        scores = [possible[h] for h in listed]
        assert all(a >= b - 1e-12 for a, b in itertools.pairwise(scores))
        assert (ranks[r, : found[r]] == 0).all()
        assert (heads[r, found[r] :] == -1).all()


@pytest.mark.parametrize("single_root", [True, False])
def test_longer_sentences_equal_the_reference_search(single_root: bool) -> None:
    arcs, lengths = cases(12, 10, seed=3), torch.tensor([10, 9, 8, 10, 10, 9, 8, 7, 10, 10, 9, 10])
    ours, plain = best(arcs, lengths, single_root), nonprojective_search.best(arcs, lengths, single_root)
    labeled = torch.stack((arcs, arcs - 0.7, arcs - 1.5), -1)
    more, plain_more = (f(labeled[:4], lengths[:4], single_root, 9) for f in (top, nonprojective_search.top))
    for r in range(12):
        n = lengths[r]
        assert (ours[r] >= 0).sum() == (plain[r] >= 0).sum()
        if ours[r, 0] >= 0:
            expected = added(arcs[r], plain[r, :n].tolist())
            assert added(arcs[r], ours[r, :n].tolist()) == pytest.approx(expected, abs=1e-11)
    assert torch.equal(more[2], plain_more[2])
    for r in range(4):
        n = lengths[r]
        for i in range(9):
            scores = [
                sum(labeled[r, h, m + 1, q].item() for m, (h, q) in enumerate(zip(hs, qs, strict=True)))
                for hs, qs in ((x[0][r, i, :n].tolist(), x[1][r, i, :n].tolist()) for x in (more, plain_more))
            ]
            assert scores[0] == pytest.approx(scores[1], abs=1e-11)


def test_single_root_is_enforced_for_any_scores() -> None:
    arcs = drawn(1, 30)
    arcs[0, 0] += 1e4
    heads = best(arcs, torch.tensor([30]), True)[0]
    assert (heads == 0).sum() == 1
    without = arcs.clone()
    without[0, 0] -= 1e4
    assert torch.equal(heads, best(without, torch.tensor([30]), True)[0])
    assert (best(arcs, torch.tensor([30]), False)[0] == 0).all()


def test_a_chain_of_circles_within_circles() -> None:
    n = 40
    arcs = torch.full((1, n + 1, n + 1), -50.0).double()
    for m in range(1, n):
        arcs[0, m + 1, m] = 10.0  # each word's best head is the next,
        arcs[0, m, m + 1] = 10.0 - m / n  # and almost as well the one before
    arcs[0, 0, n // 2] = 0.0
    heads = best(arcs, torch.tensor([n]), True)[0].tolist()
    assert heads == [i + 2 for i in range(n // 2 - 1)] + [0] + list(range(n // 2, n))
