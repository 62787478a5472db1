"""Scores that no structure uses (padding, arcs to the root, labels that are not in the target) change nothing.

Answers with nan or +inf there must equal those with finite scores there, which the laws compare with enumeration.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from catena.structure.alignment import Alignment
from catena.structure.alignment_one_to_one import OneToOneAlignment
from catena.structure.backend import use_backend
from catena.structure.base import SemiringDistribution
from catena.structure.chain import LinearChain
from catena.structure.ctc import CTC
from catena.structure.low_rank_pcfg import LowRankPCFG
from catena.structure.nonprojective import NonProjectiveTree
from catena.structure.pcfg import PCFG
from catena.structure.projective import ProjectiveTree
from catena.structure.semimarkov import SemiMarkov
from catena.structure.semirings import ExpectationSemiring
from catena.structure.tree import SpanTree

N, M = torch.tensor([4, 2]), torch.tensor([3, 2])
TARGETS = torch.tensor([[1, 2], [1, 1]])
Make = Callable[..., Any]

KINDS: dict[str, tuple[Make, list[tuple[int, ...]]]] = {
    "chain": (lambda e, a, s: LinearChain(e, a, steps=s, lengths=N), [(2, 4, 3), (3, 3), (2, 4, 3, 3)]),
    "segments": (lambda *x: SemiMarkov(*x, lengths=N), [(2, 4, 2, 3), (3, 3)]),
    "tree": (lambda x: SpanTree(x, N), [(2, 4, 4, 2)]),
    "pcfg": (lambda *x: PCFG(*x, lengths=N), [(2, 4, 2), (2, 4, 4), (2,), (2, 4, 4, 2)]),
    "low-rank": (lambda *x: LowRankPCFG(*x, lengths=N), [(2, 4, 2), (2, 3), (3, 4), (3, 4), (2,)]),
    "alignment": (lambda *x: Alignment(*x, N, M), [(2, 4, 3), (2, 5, 3), (2, 4, 4)]),
    "one-to-one": (lambda *x: OneToOneAlignment(*x, source_lengths=N, target_lengths=M), [(2, 4, 3), (2, 4), (2, 3)]),
    "ctc": (lambda x: CTC(x, TARGETS, N, torch.tensor([2, 1])), [(2, 4, 4)]),
    "projective": (lambda *x: ProjectiveTree(*x, N), [(2, 5, 5), (2, 5, 5, 2)]),
    "non-projective": (lambda *x: NonProjectiveTree(*x, N), [(2, 5, 5), (2, 5, 5, 2)]),
}

ANSWERS: dict[str, Callable[[Any], Tensor]] = {
    "log_partition": lambda s: s.log_partition(),
    "marginals": lambda s: s.marginals(),
    "entropy": lambda s: s.entropy(),
    "cross_entropy": lambda s: s.cross_entropy(s),
    "kl": lambda s: s.kl(s),
    "expectation": lambda s: s.expectation(s),
    "variance": lambda s: s.variance(s),
    "max": lambda s: s.max(),
    "topk": lambda s: s.topk(2).scores,
}


def scores(kind: str) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in KINDS[kind][1]]


def with_unread(kind: str, wrong: float) -> list[Tensor]:
    """The same scores with a wrong number wherever the gradient of log Z is 0: there nothing is read."""
    given = [x.requires_grad_() for x in scores(kind)]
    used = [x != 0 for x in torch.autograd.grad(KINDS[kind][0](*given).log_partition().sum(), given)]
    if kind == "ctc":  # the labels of the target are read at every frame, also where they cannot stand
        used = [torch.zeros_like(used[0])]
        used[0][0, :4, :3] = used[0][1, :2, :2] = True
    assert not all(x.all() for x in used)
    return [torch.where(u, x.detach(), wrong) for u, x in zip(used, given, strict=True)]


def gradients(answer: Callable[..., Tensor], given: list[Tensor]) -> list[Tensor]:
    leaves = [x.clone().requires_grad_() for x in given]
    assert leaves
    return list(torch.autograd.grad(answer(*leaves).sum(), leaves))


@pytest.mark.parametrize("wrong", [math.nan, math.inf])
@pytest.mark.parametrize("backend", ["kernels", "reference"])
@pytest.mark.parametrize("kind", KINDS)
def test_unread_scores_change_neither_results_nor_gradients(kind: str, backend: str, wrong: float) -> None:
    plain, spoiled = scores(kind), with_unread(kind, wrong)
    with use_backend(backend):
        for name, query in ANSWERS.items():

            def answer(*x: Tensor, query: Callable[[Any], Tensor] = query) -> Tensor:
                return query(KINDS[kind][0](*x))

            expected = answer(*plain)
            assert torch.allclose(answer(*spoiled), expected, atol=1e-9), name
            mapped = torch.vmap(lambda _, answer=answer: answer(*spoiled))(torch.zeros(2))
            assert torch.allclose(mapped[1], expected, atol=1e-9), name
            for found, gradient in zip(gradients(answer, spoiled), gradients(answer, plain), strict=True):
                assert torch.allclose(found, gradient, atol=1e-9), name


@pytest.mark.parametrize("backend", ["kernels", "reference"])
@pytest.mark.parametrize("kind", KINDS)
def test_unread_scores_do_not_change_second_derivatives(kind: str, backend: str) -> None:
    def gradient(*x: Tensor) -> Tensor:
        found = torch.autograd.grad(KINDS[kind][0](*x).log_partition().sum(), x, create_graph=True)
        return torch.stack([y.square().sum() for y in found])

    with use_backend(backend):
        for found, expected in zip(
            gradients(gradient, with_unread(kind, math.nan)), gradients(gradient, scores(kind)), strict=True
        ):
            assert torch.allclose(found, expected, atol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_expectation_semiring_ignores_unread_values(kind: str) -> None:
    structure, spoiled = (KINDS[kind][0](*x) for x in (scores(kind), with_unread(kind, math.nan)))
    if isinstance(structure, SemiringDistribution):
        assert torch.allclose(
            spoiled.total(ExpectationSemiring(), spoiled), structure.total(ExpectationSemiring(), structure)
        )


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("kind", KINDS)
def test_values_of_impossible_parts_do_not_count(kind: str, wrong: float) -> None:
    make, given = KINDS[kind][0], scores(kind)
    possible = torch.rand(make(*given).marginals().shape, generator=torch.Generator().manual_seed(1)) < 0.9
    never = make(*given).from_parts(torch.where(possible, 0.0, -math.inf).double())
    structure = make(*given)
    structure = structure.with_score_tensors(
        [
            x if y is None else y if x is None else x + y
            for x, y in zip(structure.score_tensors(), never.score_tensors(), strict=True)
        ]
    )
    value = torch.randn(possible.shape, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    spoiled = torch.where(structure.marginals() == 0, wrong, value)
    assert torch.allclose(structure.expectation(spoiled), structure.expectation(value))
    assert torch.allclose(structure.variance(spoiled), structure.variance(value))


@pytest.mark.parametrize("backend", ["kernels", "reference"])
@pytest.mark.parametrize("kind", KINDS)
def test_nan_that_is_read_invalidates_only_its_row(kind: str, backend: str) -> None:
    given = scores(kind)
    given[0][(1, 0, 1) if "projective" in kind else (1, 0, 0)] = math.nan
    with use_backend(backend):
        for name, query in ANSWERS.items():
            found = query(KINDS[kind][0](*given)).isnan()
            rows = found.any(0) if name == "topk" else found.reshape(2, -1).any(1)
            assert rows.tolist() == [False, True], name
