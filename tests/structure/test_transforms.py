"""Structured distributions under ``torch.compile`` and ``torch.vmap``."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from catena.structure.alignment import Alignment
from catena.structure.alignment_one_to_one import OneToOneAlignment
from catena.structure.automaton.build import from_arcs
from catena.structure.automaton.paths import PathDistribution
from catena.structure.chain import LinearChain
from catena.structure.ctc import CTC
from catena.structure.low_rank_pcfg import LowRankPCFG
from catena.structure.nonprojective import NonProjectiveTree
from catena.structure.pcfg import PCFG
from catena.structure.projective import ProjectiveTree
from catena.structure.semimarkov import SemiMarkov
from catena.structure.tree import SpanTree

Make = Callable[..., Any]

ACYCLIC = from_arcs([(*arc, 1, 1, 0.0) for arc in ((0, 1), (0, 1), (1, 2), (0, 2), (0, 3), (4, 2))], [0, 1], [2, 1])
CYCLIC = from_arcs([(*arc, 1, 1, 0.0) for arc in ((0, 1), (1, 0), (1, 1), (1, 2), (2, 2), (0, 3), (4, 2))], [0], [2])


def cyclic_paths(weight: Tensor) -> PathDistribution:
    """Paths of a cyclic automaton with weights whose sum converges."""
    return PathDistribution(CYCLIC, weight - 3.0, CYCLIC.initial, CYCLIC.final)


KINDS: dict[str, tuple[Make, list[tuple[int, ...]], list[tuple[int, ...]]]] = {
    "chain": (LinearChain, [(4, 3)], [(3, 3)]),
    "segments": (SemiMarkov, [(4, 2, 3)], [(3, 3)]),
    "tree": (SpanTree, [(4, 4, 2)], []),
    "pcfg": (PCFG, [(4, 2)], [(2, 4, 4), (2,)]),
    "low-rank": (LowRankPCFG, [(4, 2)], [(2, 3), (3, 4), (3, 4), (2,)]),
    "alignment": (Alignment, [(3, 4), (4, 4), (3, 5)], []),
    "one-to-one": (OneToOneAlignment, [(3, 4), (3,), (4,)], []),
    "ctc": (lambda emissions: CTC(emissions, torch.tensor([1, 2])), [(4, 3)], []),
    "paths": (lambda *scores: PathDistribution(ACYCLIC, *scores), [(6,)], [(5,), (5,)]),
    "cyclic-paths": (cyclic_paths, [(7,)], []),
    "projective": (ProjectiveTree, [(4, 4), (4, 4, 2)], []),
    "non-projective": (NonProjectiveTree, [(4, 4), (4, 4, 2)], []),
}
"""Constructors, with the shapes of scores of each row and of shared scores."""


def drawn(rows: int, own: list[tuple[int, ...]], shared: list[tuple[int, ...]], seed: int = 3) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    shapes = [*((rows, *shape) for shape in own), *shared]
    return [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes]


@pytest.mark.parametrize("kind", KINDS)
def test_searches_and_samples_work_under_vmap(kind: str) -> None:
    make, own, shared = KINDS[kind]
    inputs = drawn(4, own, shared)
    structure = make(*inputs)
    pairs = [x.unflatten(0, (2, 2)) for x in inputs[: len(own)]]  # two rows are mapped together
    dims = tuple([0] * len(own) + [None] * len(shared))

    def mapped(ask: Callable[[Any], Tensor]) -> Tensor:
        ask_all = torch.vmap(lambda *x: ask(make(*x)), in_dims=dims, randomness="different")
        return ask_all(*pairs, *inputs[len(own) :])

    assert torch.equal(mapped(lambda s: s.argmax()).flatten(0, 1), structure.argmax())
    assert torch.equal(
        mapped(lambda s: s.topk(3).structures).transpose(0, 1).flatten(1, 2), structure.topk(3).structures
    )
    assert torch.allclose(mapped(lambda s: s.max()).flatten(), structure.max())
    assert torch.allclose(mapped(lambda s: s.entropy()).flatten(), structure.entropy())
    assert torch.allclose(mapped(lambda s: s.variance(s)).flatten(), structure.variance(structure))
    torch.manual_seed(0)
    samples = mapped(lambda s: s.sample(400)).transpose(0, 1).flatten(1, 2)
    assert structure.log_prob(samples).isfinite().all()
    assert (structure.parts(samples).mean(0) - structure.marginals()).abs().max() < 0.13  # 5 standard deviations


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("kind", KINDS)
def test_searches_in_half_precision_under_vmap_equal_those_of_a_batch(kind: str, dtype: torch.dtype) -> None:
    make, own, shared = KINDS[kind]
    inputs = [x.to(dtype) for x in drawn(3, own, shared)]
    dims = tuple([0] * len(own) + [None] * len(shared))

    def mapped(query: Callable[[Any], Tensor]) -> Tensor:
        return torch.vmap(lambda *x: query(make(*x)), in_dims=dims, randomness="different")(*inputs)

    structure = make(*inputs)
    assert torch.equal(mapped(lambda s: s.argmax()), structure.argmax())
    assert torch.equal(mapped(lambda s: s.topk(3).structures).transpose(0, 1), structure.topk(3).structures)
    samples = mapped(lambda s: s.sample(20)).transpose(0, 1)
    assert structure.score(samples).isfinite().all()


@pytest.mark.parametrize("kind", KINDS)
def test_searches_inside_torch_func_are_differentiable(kind: str) -> None:
    make, own, shared = KINDS[kind]
    first, *rest = drawn(2, own, shared)
    for query in (lambda s: s.max(), lambda s: s.topk(2).scores, lambda s: s.score(s.argmax())):

        def value(x: Tensor, query: Callable[[Any], Tensor] = query) -> Tensor:
            return query(make(x, *rest)).sum()

        x = first.clone().requires_grad_()
        (expected,) = torch.autograd.grad(value(x), x)
        assert torch.allclose(torch.func.grad(value)(first), expected)


@pytest.mark.parametrize("kind", KINDS)
def test_forward_mode_and_hessians_agree_with_the_plain_second_derivative(kind: str) -> None:
    make, own, shared = KINDS[kind]
    first, *rest = drawn(2, own, shared)

    def log_z(x: Tensor) -> Tensor:
        return make(x, *rest).log_partition().sum()

    jacobian = torch.func.jacrev(torch.func.grad(log_z))(first)
    expected = torch.autograd.functional.hessian(log_z, first)
    assert torch.allclose(jacobian, expected)


TRACED = """
import torch
from tests.structure.test_transforms import KINDS, drawn

for name, (make, own, shared) in KINDS.items():
    inputs = [x.requires_grad_() for x in drawn(2, own, shared)]
    best = make(*inputs).argmax()

    def query(*inputs):
        structure = make(*inputs)
        return structure.log_prob(best), structure.marginals(), structure.argmax(), structure.sample(2)

    torch._dynamo.reset()  # it limits the number of times that one function is traced
    answers = []
    for function in (query, torch.compile(query, backend="eager", fullgraph=True)):
        torch.manual_seed(0)
        found = function(*inputs)
        grads = torch.autograd.grad(sum(x.sum() for x in found[:2]), inputs)
        answers.append((*found, *grads))
    assert all(torch.allclose(a, b) for a, b in zip(*answers, strict=True)), name
    print(name)
"""


def test_compile_traces_every_query() -> None:
    # In a separate process, because torch.compile cannot trace the shape checks of the tests.
    run = subprocess.run([sys.executable, "-c", TRACED], capture_output=True, text=True, timeout=600, check=False)
    assert run.stdout.split() == list(KINDS), run.stderr[-2000:]
