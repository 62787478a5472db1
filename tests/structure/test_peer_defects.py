"""Bugs of other libraries as tests: for chains and segmentations, and for every distribution.

Every case was reproduced on the libraries' current releases; the comparison is always with plain enumeration.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from catena.errors import DivergentSumError
from catena.numerics import log_add_exp, log_sum_exp
from catena.structure.alignment import Alignment
from catena.structure.alignment_one_to_one import OneToOneAlignment
from catena.structure.automaton.build import edit_model, from_string, from_strings
from catena.structure.automaton.composition import compose
from catena.structure.automaton.distance import total
from catena.structure.automaton.paths import PathDistribution
from catena.structure.backend import use_backend
from catena.structure.base import StructuredDistribution
from catena.structure.chain import LinearChain
from catena.structure.ctc import CTC
from catena.structure.low_rank_pcfg import LowRankPCFG
from catena.structure.nonprojective import NonProjectiveTree
from catena.structure.pcfg import PCFG
from catena.structure.projective import ProjectiveTree
from catena.structure.semimarkov import SemiMarkov
from catena.structure.tree import SpanTree
from tests.oracle.chains import all_chains
from tests.oracle.moments import log_add
from tests.oracle.segments import all_segmentations


@pytest.fixture(autouse=True, params=["reference", "kernels"])
def backend(request: pytest.FixtureRequest):
    with use_backend(request.param):
        yield request.param


def scores(*shapes: tuple[int, ...]) -> list[Tensor]:
    generator = torch.Generator().manual_seed(11)
    return [torch.randn(s, generator=generator, dtype=torch.float64) for s in shapes]


def test_tensors_without_grad_have_marginals_argmax_and_samples() -> None:
    chain = LinearChain.from_steps(*scores((2, 4, 3, 3)))
    assert torch.allclose(chain.marginals().sum(-1), torch.ones(2, 4).double())
    assert chain.argmax().shape == (2, 4)
    assert chain.sample(3).shape == (3, 2, 4)


def test_impossible_chain_has_log_partition_minus_infinity() -> None:
    chain = LinearChain(torch.full((3, 2), -math.inf))
    assert chain.log_partition() == -math.inf
    assert chain.max() == -math.inf


def test_no_probability_is_above_one_at_scores_of_a_hundred_thousand() -> None:
    emissions, transitions = scores((6, 4), (4, 4))
    chain = LinearChain(emissions * 1e5, transitions * 1e5)
    assert chain.log_prob(chain.argmax()) <= 1e-9  # the last digit of scores that sum to 1e6
    assert chain.marginals().max() <= 1 + 1e-9


def test_entropy_with_impossible_parts_is_finite() -> None:
    emissions, transitions = scores((3, 4, 3), (3, 3))
    transitions[0, 1] = emissions[1, 2, 0] = -math.inf
    chain = LinearChain(emissions, transitions)
    assert chain.entropy().isfinite().all()
    assert (chain.entropy() > 0).all()


def test_lengths_do_not_change_argmax_of_full_row() -> None:
    segments, transitions = scores((2, 5, 3, 2), (2, 2))
    alone = SemiMarkov(segments[:1], transitions).argmax()[0]
    beside = SemiMarkov(segments, transitions, lengths=torch.tensor([5, 3])).argmax()
    assert torch.equal(alone, beside[0])
    best, _ = max(all_segmentations(segments[1].tolist(), transitions.tolist(), None, None, 3), key=lambda m: m[1])
    assert [tuple(s) for s in beside[1].tolist()] == list(best)


def test_a_chain_of_length_one_is_a_softmax() -> None:
    (emissions,) = scores((1, 3))
    chain = LinearChain(emissions, torch.randn(3, 3).double())
    assert torch.allclose(chain.log_partition(), emissions[0].logsumexp(-1))
    assert torch.allclose(chain.marginals()[0], emissions[0].softmax(-1))


def test_all_lengths_may_be_below_the_tensor_size() -> None:
    emissions, transitions = scores((2, 5, 2), (2, 2))
    chain = LinearChain(emissions, transitions, lengths=torch.tensor([3, 2]))
    shorter = LinearChain(emissions[:, :3], transitions, lengths=torch.tensor([3, 2]))
    assert torch.allclose(chain.log_partition(), shorter.log_partition())
    assert torch.equal(chain.argmax()[:, :3], shorter.argmax())


def test_queries_do_not_set_requires_grad_and_vmap_works() -> None:
    emissions, transitions = scores((3, 4, 2), (2, 2))
    chain = LinearChain(emissions, transitions)
    expected = chain.marginals()
    chain.argmax(), chain.entropy(), chain.topk(2), chain.sample(1)
    assert not emissions.requires_grad
    assert torch.allclose(torch.vmap(lambda e: LinearChain(e, transitions).marginals())(emissions), expected)


def test_second_derivative_equals_reference_program() -> None:
    emissions, transitions = (x.requires_grad_() for x in scores((2, 9, 3), (3, 3)))

    def curvature() -> tuple[Tensor, ...]:
        log_z = LinearChain(emissions, transitions).log_partition().sum()
        first = torch.autograd.grad(log_z, (emissions, transitions), create_graph=True)
        return torch.autograd.grad(sum((g**2).sum() for g in first), (emissions, transitions))

    found = curvature()
    with use_backend("reference"):
        expected = curvature()
    assert all(torch.allclose(a, b) for a, b in zip(found, expected, strict=True))


@pytest.mark.parametrize(
    "mask", [[1, 0, 1, 1], [0, 1, 1, 1], [0, 1, 0, 1], [1, 1, 1, 0]], ids=["hole", "first", "both", "last"]
)
def test_masks_with_holes_and_a_masked_first_step(mask: list[int]) -> None:
    emissions, transitions, start, end = scores((1, 4, 3), (3, 3), (3,), (3,))
    real = [bool(x) for x in mask]
    tags = torch.tensor([[2, 0, 1, 1]])
    chain = LinearChain(emissions, transitions, start, end, mask=torch.tensor([real]))
    tables = (transitions.tolist(), start.tolist(), end.tolist())
    listed = dict(all_chains(emissions[0].tolist(), *tables, None, real))
    wanted = tuple(q if is_real else -1 for q, is_real in zip(tags[0].tolist(), real, strict=True))
    expected = listed[wanted] - log_add(list(listed.values()))
    assert chain.log_prob(tags).item() == pytest.approx(expected, abs=1e-10)


def test_forbidden_transitions_give_finite_gradients() -> None:
    emissions, transitions = (x.requires_grad_() for x in scores((2, 4, 3), (3, 3)))
    barred = torch.tensor([[0, 1, 0], [0, 0, 0], [1, 0, 0]]).bool()
    tags = torch.tensor([[0, 0, 2, 2], [1, 1, 0, 0]])
    LinearChain(emissions, transitions.masked_fill(barred, -math.inf)).log_prob(tags).sum().backward()
    assert emissions.grad is not None
    assert transitions.grad is not None
    assert emissions.grad.isfinite().all()
    assert transitions.grad.isfinite().all()
    assert (transitions.grad[barred] == 0).all()


def test_chain_without_mask_does_not_warn() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        chain = LinearChain(*scores((2, 4, 3), (3, 3)))
        chain.log_partition(), chain.argmax(), chain.marginals()


def test_gradients_are_zero_if_all_scores_are_minus_infinity() -> None:
    x = torch.full((3,), -math.inf, requires_grad=True)
    log_sum_exp(x, dim=0).backward()
    assert x.grad is not None
    assert (x.grad == 0).all()
    a, b = (torch.full((), -math.inf, requires_grad=True) for _ in range(2))
    log_add_exp(a, b).backward()
    assert a.grad == 0
    assert b.grad == 0


# --- every structure ----------------------------------------------------------------------------------------

T = 4
WORDS = from_strings(["ab", "b", "abb", "ba"])
TARGETS = torch.tensor([[1, 2], [2, 2]])

KINDS: dict[str, tuple[list[tuple[int, ...]], Callable[..., StructuredDistribution]]] = {
    "chain": ([(2, T, 3), (3, 3)], LinearChain),
    "segmentation": ([(2, T, 2, 2), (2, 2)], SemiMarkov),
    "alignment": ([(2, T, T)], Alignment),
    "one-to-one": ([(2, T, T), (2, T), (2, T)], OneToOneAlignment),
    "ctc": ([(2, T, 3)], lambda emissions: CTC(emissions, TARGETS)),
    "span tree": ([(2, T, T, 2)], SpanTree),
    "pcfg": ([(2, T, 2), (2, 4, 4), (2,)], PCFG),
    "low-rank pcfg": ([(2, T, 2), (2, 3), (3, 4), (3, 4), (2,)], LowRankPCFG),
    "projective": ([(2, T + 1, T + 1)], ProjectiveTree),
    "projective, many roots": ([(2, T + 1, T + 1)], lambda arcs: ProjectiveTree(arcs, single_root=False)),
    "projective, labels": ([(2, T + 1, T + 1), (2, T + 1, T + 1, 2)], ProjectiveTree),
    "non-projective": ([(2, T + 1, T + 1)], NonProjectiveTree),
    "non-projective, many roots": ([(2, T + 1, T + 1)], lambda arcs: NonProjectiveTree(arcs, single_root=False)),
    "non-projective, labels": ([(2, T + 1, T + 1), (2, T + 1, T + 1, 2)], NonProjectiveTree),
    "paths": ([(2, WORDS.n_arcs)], lambda weight: paths_of(weight)),
}

every_kind = pytest.mark.parametrize("kind", KINDS)


def paths_of(weight: Tensor) -> PathDistribution:
    return PathDistribution(WORDS, weight, WORDS.initial.to(weight.dtype), WORDS.final.to(weight.dtype))


def asked(structure: StructuredDistribution) -> list[Tensor]:
    """The results of all queries that return floats."""
    best, marginals = structure.argmax(), structure.marginals()
    return [
        structure.log_partition(), structure.log_prob(best), structure.max(), marginals, structure.entropy(),
        structure.cross_entropy(structure), structure.kl(structure), structure.expectation(torch.ones_like(marginals)),
        structure.variance(marginals), structure.topk(2).scores[0], structure.log_prob(structure.sample(2)),
    ]  # fmt: skip


@every_kind
def test_queries_do_not_change_their_input(kind: str) -> None:
    shapes, make = KINDS[kind]
    tensors = scores(*shapes)
    before = [x.clone() for x in tensors]
    answers = asked(make(*tensors))
    assert all(answer.isfinite().all() for answer in answers)
    assert all(answer.dtype == torch.float64 for answer in answers)
    assert not any(x.requires_grad for x in tensors)
    assert all(torch.equal(x, y) for x, y in zip(tensors, before, strict=True))


@every_kind
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_uses_the_reference_program_with_float32_sums(
    kind: str, dtype: torch.dtype, backend: str
) -> None:
    if backend == "kernels":
        pytest.skip("the kernels only support float32 and float64")
    shapes, make = KINDS[kind]
    tensors = [(30 + 10 * x).to(dtype) for x in scores(*shapes)]
    half, right = make(*tensors), make(*(x.double() for x in tensors))
    best = half.argmax()
    ours = [half.log_partition(), half.marginals(), half.log_prob(best)]
    theirs = [right.log_partition(), right.marginals(), right.log_prob(best)]
    for mine, wanted in zip(ours, theirs, strict=True):
        assert mine.dtype == dtype
        torch.testing.assert_close(mine.double(), wanted, rtol=torch.finfo(dtype).eps, atol=1e-3)
    near = [(30 + x).to(dtype) for x in scores(*shapes)]  # sums of a few differ by less than half precision has
    right = make(*(x.double() for x in near))
    torch.testing.assert_close(right.score(make(*near).argmax()), right.max())


@every_kind
def test_autocast_changes_no_result(kind: str) -> None:
    shapes, make = KINDS[kind]
    tensors = [x.float().requires_grad_() for x in scores(*shapes)]
    structure = make(*tensors)
    value = structure.marginals().detach()
    plain = [
        structure.entropy(),
        structure.expectation(value),
        *torch.autograd.grad(structure.kl(structure).sum(), tensors),
    ]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        cast = [
            structure.entropy(),
            structure.expectation(value),
            *torch.autograd.grad(structure.kl(structure).sum(), tensors),
        ]
    torch.testing.assert_close(cast, plain)


@every_kind
@pytest.mark.parametrize("scale", [100.0, 1e5])
def test_large_scores_give_no_nan_and_no_probability_above_one(kind: str, scale: float) -> None:
    shapes, make = KINDS[kind]
    for sign in (1, -1):
        tensors = [sign * scale + scale * x for x in scores(*shapes)]
        structure = make(*tensors)
        size = 1e-10 * scale * 10
        assert (structure.log_prob(structure.argmax()) <= size).all()
        assert structure.marginals().max() <= 1 + 1e-9 + size
        assert structure.marginals().min() >= -1e-12
        assert all(answer.isfinite().all() for answer in asked(structure))


@every_kind
def test_impossible_parts_give_finite_results_and_gradients(kind: str) -> None:
    shapes, make = KINDS[kind]
    tensors = scores(*shapes)
    barred = [torch.rand(x.shape, generator=torch.Generator().manual_seed(5)) < 0.15 for x in tensors]
    inputs = [x.masked_fill(b, -math.inf).requires_grad_() for x, b in zip(tensors, barred, strict=True)]
    structure = make(*inputs)
    assert not any(answer.isnan().any() for answer in asked(structure))
    log_z = structure.log_partition()
    answer = torch.where(log_z > -math.inf, log_z, 0.0).sum() + structure.entropy().sum()
    for x, b, grad in zip(inputs, barred, torch.autograd.grad(answer, inputs), strict=True):
        assert x.isneginf().sum() == b.sum()
        assert grad.isfinite().all()
        assert (grad[b] == 0).all()


@every_kind
def test_log_partition_without_structures_is_minus_infinity_with_zero_gradient(kind: str) -> None:
    shapes, make = KINDS[kind]
    inputs = [torch.full(shape, -math.inf, dtype=torch.float64, requires_grad=True) for shape in shapes]
    structure = make(*inputs)
    log_z = structure.log_partition()
    if (
        kind == "alignment"
    ):  # insertions and deletions are there still: all of the one, then all of the other, and so on
        assert log_z.isfinite().all()
        return
    assert (log_z == -math.inf).all()
    assert (structure.max() == -math.inf).all()
    assert all((grad == 0).all() for grad in torch.autograd.grad(log_z.sum(), inputs))


@every_kind
def test_second_derivative_is_correct_and_vmap_works(kind: str) -> None:
    shapes, make = KINDS[kind]
    tensors = [x.requires_grad_() for x in scores(*shapes)]

    def curvature() -> tuple[Tensor, ...]:
        log_z = make(*tensors).log_partition().sum()
        first = torch.autograd.grad(log_z, tensors, create_graph=True)
        return torch.autograd.grad(sum((g**2).sum() for g in first), tensors)

    found = curvature()
    with use_backend("reference"):
        expected = curvature()
    assert all(torch.allclose(a, b, atol=1e-9) for a, b in zip(found, expected, strict=True))
    shifted = torch.vmap(lambda x: make(tensors[0] + x, *tensors[1:]).log_partition())(torch.zeros(3).double())
    assert torch.allclose(shifted, make(*tensors).log_partition().expand(3, 2))


LENGTHS: dict[str, Callable[..., Any]] = {
    "chain": lambda n, x: LinearChain(x, lengths=n),
    "segmentation": lambda n, x: SemiMarkov(x[..., None, :].expand(2, 6, 2, 6).clone(), lengths=n),
    "alignment": lambda n, x: Alignment(x, source_lengths=n, target_lengths=n),
    "one-to-one": lambda n, x: OneToOneAlignment(x, source_lengths=n, target_lengths=n),
    "ctc": lambda n, x: CTC(x, TARGETS, lengths=n + 1),
    "span tree": lambda n, x: SpanTree(x[..., None], lengths=n),
    "pcfg": lambda n, x: PCFG(x[..., :2], *scores((2, 4, 4), (2,)), lengths=n),
    "low-rank pcfg": lambda n, x: LowRankPCFG(x[..., :2], *scores((2, 3), (3, 4), (3, 4), (2,)), lengths=n),
    "projective": lambda n, x: ProjectiveTree(x, lengths=n),
    "non-projective": lambda n, x: NonProjectiveTree(x, lengths=n),
}


@pytest.mark.parametrize("kind", LENGTHS)
def test_all_lengths_may_be_below_the_size_and_padding_is_not_read(kind: str) -> None:
    (x,) = scores((2, 6, 6))
    n = torch.tensor([3, 2])
    spoiled = x.clone()
    spoiled[:, 4 + (kind == "ctc") :] = 1e3
    if kind not in ("chain", "segmentation", "ctc", "pcfg", "low-rank pcfg"):
        spoiled[:, :, 4:] = -1e3
    structure, other = LENGTHS[kind](n, x), LENGTHS[kind](n, spoiled)
    assert torch.equal(structure.log_partition(), other.log_partition())
    assert torch.equal(structure.argmax(), other.argmax())
    assert torch.equal(structure.entropy(), other.entropy())
    for row in range(2):
        alone = LENGTHS[kind](n[row].expand(2), x[row : row + 1].expand(2, 6, 6).clone())
        if kind != "ctc":
            assert torch.allclose(structure.log_partition()[row], alone.log_partition()[0])


# --- trees, grammars, machines ------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [ProjectiveTree, NonProjectiveTree])
def test_single_root_belongs_to_the_instance(kind: type[Any]) -> None:
    (arcs,) = scores((2, 4, 4))
    single = kind(arcs, single_root=True)
    many = kind(arcs, single_root=False)
    again = kind(arcs, single_root=True)
    assert (single.log_partition() < many.log_partition()).all()
    assert torch.equal(single.log_partition(), again.log_partition())
    assert ((single.sample(50) == 0).sum(-1) == 1).all()
    assert ((many.sample(200) == 0).sum(-1) > 1).any()


def test_arc_weights_have_no_epsilon_added() -> None:
    """Two words with a single possible tree, whose score is log Z."""
    arcs = torch.full((3, 3), -math.inf)
    arcs[0, 1], arcs[1, 2] = -3.0, -4.0
    assert NonProjectiveTree(arcs).log_partition() == -7.0
    assert NonProjectiveTree(arcs).marginals().sum() == 2.0


@pytest.mark.parametrize("kind", ["pcfg", "low-rank pcfg"])
def test_topk_parses_and_samples_are_valid(kind: str) -> None:
    shapes, make = KINDS[kind]
    grammar = make(*scores(*shapes))
    top = grammar.topk(3)
    assert (grammar.parts(top.structures).sum((-3, -2, -1)) == 2 * T - 1).all()
    assert torch.allclose(grammar.score(top.structures), top.scores)
    assert (grammar.parts(grammar.sample(5)).sum((-3, -2, -1)) == 2 * T - 1).all()


def test_infinite_sums_are_exact_and_divergent_ones_raise() -> None:
    letters, w = "abcdefghijklmnopqrstuvwxyz", math.exp(-4.0)
    x = from_string("catena" * 5)
    expected = 30 * math.log(1 + 26 * w) - 31 * math.log1p(-26 * w)
    found = total(compose(x, edit_model(letters, -4.0, -4.0, -4.0)))
    assert found.item() == pytest.approx(expected, abs=1e-12)
    with pytest.raises(DivergentSumError, match="diverges"):
        total(compose(x, edit_model(letters)))
