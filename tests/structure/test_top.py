"""The k best segmentations and low-rank parses of kernels against enumeration and the reference program."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from catena.structure.backend import use_backend
from catena.structure.low_rank_pcfg import LowRankPCFG
from catena.structure.semimarkov import SemiMarkov

K = 20
LENGTHS = torch.tensor([7, 3, 1])
Shapes = list[tuple[int, ...]]

KINDS: dict[str, tuple[Callable[..., Any], Shapes]] = {
    "segments": (lambda *x: SemiMarkov(*x, lengths=LENGTHS), [(3, 7, 4, 3), (3, 3), (3,), (3,)]),
    "segments of rows": (lambda *x: SemiMarkov(*x, lengths=LENGTHS), [(3, 7, 2, 2), (3, 2, 2)]),
    "parses": (lambda *x: LowRankPCFG(*x, lengths=LENGTHS), [(3, 7, 2), (2, 3), (3, 4), (3, 4), (4,)]),
    "parses with spans": (
        lambda w, u, a, b, r, s: LowRankPCFG(w, u, a, b, r, s, lengths=LENGTHS),
        [(3, 7, 2), (3, 2, 3), (3, 3, 4), (3, 4), (4,), (7, 7, 2)],
    ),
}


def scores(kind: str, never: float) -> list[Tensor]:
    generator = torch.Generator().manual_seed(5)
    tensors = [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in KINDS[kind][1]]
    return [x.masked_fill(torch.rand(x.shape, generator=generator) < never, -math.inf) for x in tensors]


@pytest.mark.parametrize("never", [0.0, 0.3])
@pytest.mark.parametrize("kind", KINDS)
def test_k_best_of_kernels_equal_those_of_the_reference_program(kind: str, never: float) -> None:
    structure = KINDS[kind][0](*scores(kind, never))
    found = structure.topk(K)
    with use_backend("reference"):
        expected = structure.topk(K)
    assert torch.allclose(found.scores, expected.scores)
    assert torch.allclose(structure.score(found.structures), found.scores)
    for row in range(len(LENGTHS)):
        possible = int((found.scores[:, row] > -math.inf).sum())
        listed = {tuple(member.flatten().tolist()) for member in found.structures[:possible, row]}
        assert len(listed) == possible
        assert (found.structures[possible:, row] == -1).all()


def segmentations(segments: Tensor, tables: Tensor, start: Tensor, end: Tensor) -> list[tuple[float, Any]]:
    """Every segmentation with its score, by recursion over the first segment."""
    t, m, k = segments.shape
    found: list[tuple[float, Any]] = []

    def extend(i: int, score: float, spans: tuple[tuple[int, int, int], ...]) -> None:
        if i == t:
            found.append((score + float(end[spans[-1][2]]), spans))
            return
        for size in range(1, min(m, t - i) + 1):
            for y in range(k):
                before = start[y] if not spans else tables[spans[-1][2], y]
                extend(i + size, score + float(before + segments[i, size - 1, y]), (*spans, (i, i + size, y)))

    extend(0, 0.0, ())
    return sorted(found, reverse=True)


def test_k_best_segmentations_equal_enumeration() -> None:
    given = [x[0] if x.dim() == 4 else x for x in scores("segments", 0.0)]
    wanted = segmentations(*given)[:K]
    found = SemiMarkov(*given).topk(K)
    assert found.scores.tolist() == pytest.approx([score for score, _ in wanted])
    assert [tuple(tuple(x) for x in y.tolist() if x[0] >= 0) for y in found.structures] == [y for _, y in wanted]


def parses(given: list[Tensor], i: int, j: int) -> dict[int, list[tuple[float, Any]]]:
    """Every parse of words ``i`` to ``j`` in preorder with its score, by the symbol at its top."""
    words, up, left, right, _ = given
    n, ranks = up.shape
    if i == j:
        return {n + a: [(float(words[i, a]), ((i, j, n + a, -1),))] for a in range(words.shape[1])}
    found: dict[int, list[tuple[float, Any]]] = {a: [] for a in range(n)}
    for m in range(i, j):
        for b, lefts in parses(given, i, m).items():
            for c, rights in parses(given, m + 1, j).items():
                for a, q in itertools.product(range(n), range(ranks)):
                    rule = float(up[a, q] + left[q, b] + right[q, c])
                    for (x, first), (y, second) in itertools.product(lefts, rights):
                        found[a].append((rule + x + y, ((i, j, a, q), *first, *second)))
    return found


def test_k_best_low_rank_parses_equal_enumeration() -> None:
    given = [x[0, :4] if x.dim() == 3 else x for x in scores("parses", 0.0)]
    roots = given[-1]
    every = [(score + float(roots[a]), y) for a, found in parses(given, 0, 3).items() for score, y in found]
    found = LowRankPCFG(*given).topk(K)
    assert found.scores.tolist() == pytest.approx(sorted((score for score, _ in every), reverse=True)[:K])
    listed = [tuple(tuple(x) for x in y.tolist()) for y in found.structures]
    assert len(set(listed)) == K
    known = {y: score for score, y in every}  # parses of other splits may have the same rules, and so the same score
    assert [known[y] for y in listed] == pytest.approx(found.scores.tolist())


@pytest.mark.parametrize("kind", KINDS)
def test_scores_of_the_k_best_are_differentiable(kind: str) -> None:
    leaves = [x.requires_grad_() for x in scores(kind, 0.0)]
    best = KINDS[kind][0](*leaves).topk(3).scores[:, 0].sum()
    gradients = torch.autograd.grad(best, leaves)
    assert gradients[0][0].sum().item() > 0
    assert all((x == x.round()).all() for x in gradients)


def test_topk_without_positions_is_the_empty_segmentation() -> None:
    found = SemiMarkov(torch.randn(1, 3, 2, 2), lengths=torch.tensor([0])).topk(2)
    assert found.scores.flatten().tolist() == [0.0, -math.inf]
    assert (found.structures == -1).all()
