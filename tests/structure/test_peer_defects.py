"""What other libraries get wrong on chains and segmentations, each a test that passes here.

Every case was reproduced on the libraries' current releases; the comparison is always with plain enumeration.
"""

from __future__ import annotations

import math
import warnings

import pytest
import torch
from torch import Tensor

from catena.numerics import log_add_exp, log_sum_exp
from catena.structure.backend import use_backend
from catena.structure.chain import LinearChain
from catena.structure.semimarkov import SemiMarkov
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


def test_a_plain_tensor_has_marginals_a_best_member_and_samples() -> None:
    chain = LinearChain.from_steps(*scores((2, 4, 3, 3)))
    assert torch.allclose(chain.marginals().sum(-1), torch.ones(2, 4).double())
    assert chain.argmax().shape == (2, 4)
    assert chain.sample(3).shape == (3, 2, 4)


def test_an_impossible_chain_has_log_z_minus_infinity_not_a_large_number() -> None:
    chain = LinearChain(torch.full((3, 2), -math.inf))
    assert chain.log_partition() == -math.inf
    assert chain.max() == -math.inf


def test_no_probability_is_above_one_at_scores_of_a_hundred_thousand() -> None:
    emissions, transitions = scores((6, 4), (4, 4))
    chain = LinearChain(emissions * 1e5, transitions * 1e5)
    assert chain.log_prob(chain.argmax()) <= 1e-9  # the last place of scores that add up to 1e6
    assert chain.marginals().max() <= 1 + 1e-9


def test_entropy_is_a_number_with_impossible_parts() -> None:
    emissions, transitions = scores((3, 4, 3), (3, 3))
    transitions[0, 1] = emissions[1, 2, 0] = -math.inf
    chain = LinearChain(emissions, transitions)
    assert chain.entropy().isfinite().all()
    assert (chain.entropy() > 0).all()


def test_lengths_leave_the_best_segmentation_of_a_full_row_alone() -> None:
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


def test_all_lengths_may_be_below_the_size_of_the_tensor() -> None:
    emissions, transitions = scores((2, 5, 2), (2, 2))
    chain = LinearChain(emissions, transitions, lengths=torch.tensor([3, 2]))
    shorter = LinearChain(emissions[:, :3], transitions, lengths=torch.tensor([3, 2]))
    assert torch.allclose(chain.log_partition(), shorter.log_partition())
    assert torch.equal(chain.argmax()[:, :3], shorter.argmax())


def test_asking_does_not_switch_on_gradients_of_the_input_and_vmap_works() -> None:
    emissions, transitions = scores((3, 4, 2), (2, 2))
    chain = LinearChain(emissions, transitions)
    expected = chain.marginals()
    chain.argmax(), chain.entropy(), chain.topk(2), chain.sample(1)
    assert not emissions.requires_grad
    assert torch.allclose(torch.vmap(lambda e: LinearChain(e, transitions).marginals())(emissions), expected)


def test_the_second_gradient_is_that_of_the_plain_program() -> None:
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


def test_forbidden_transitions_leave_the_gradients_numbers() -> None:
    emissions, transitions = (x.requires_grad_() for x in scores((2, 4, 3), (3, 3)))
    barred = torch.tensor([[0, 1, 0], [0, 0, 0], [1, 0, 0]]).bool()
    tags = torch.tensor([[0, 0, 2, 2], [1, 1, 0, 0]])
    LinearChain(emissions, transitions.masked_fill(barred, -math.inf)).log_prob(tags).sum().backward()
    assert emissions.grad is not None
    assert transitions.grad is not None
    assert emissions.grad.isfinite().all()
    assert transitions.grad.isfinite().all()
    assert (transitions.grad[barred] == 0).all()


def test_no_mask_is_no_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        chain = LinearChain(*scores((2, 4, 3), (3, 3)))
        chain.log_partition(), chain.argmax(), chain.marginals()


def test_gradients_of_sums_where_all_is_minus_infinity_are_zero() -> None:
    x = torch.full((3,), -math.inf, requires_grad=True)
    log_sum_exp(x, dim=0).backward()
    assert x.grad is not None
    assert (x.grad == 0).all()
    a, b = (torch.full((), -math.inf, requires_grad=True) for _ in range(2))
    log_add_exp(a, b).backward()
    assert a.grad == 0
    assert b.grad == 0


def test_half_precision_is_served_by_the_reference(backend: str) -> None:
    if backend == "kernels":
        pytest.skip("the kernels serve float32 and float64, and say so")
    for dtype in (torch.float16, torch.bfloat16):
        emissions, transitions = (x.to(dtype) for x in scores((2, 4, 3), (3, 3)))
        log_z = LinearChain(emissions, transitions).log_partition()
        assert log_z.dtype == dtype
        assert torch.allclose(
            log_z.double(), LinearChain(emissions.double(), transitions.double()).log_partition(), rtol=0.05
        )
