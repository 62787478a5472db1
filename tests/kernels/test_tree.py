"""The kernels of span trees: operators of torch, any range of scores, any number of threads, no digit lost."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
import torch

from catena.kernels.tree.ops import SUMS, best, log_partition, top
from catena.kernels.tree.reference import log_partition_reference
from catena.structure.backend import use_backend
from catena.structure.tree import SpanTree
from tests.laws.structure_checks import kept_for_backward


def drawn(b: int, t: int, k: int, scale: float = 1.0, seed: int = 1) -> torch.Tensor:
    return torch.randn(b, t, t, k, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) * scale


LENGTHS = torch.tensor([4, 0, 2])


def test_operators_pass_opcheck() -> None:
    scores, scale = drawn(3, 4, 2), torch.ones(3).double()
    marginals = SUMS.keep_op(scores, LENGTHS)[1]
    scores.requires_grad_()
    rules = ("test_schema", "test_faketensor", "test_autograd_registration")
    torch.library.opcheck(SUMS.log_z_op.overload, (scores, LENGTHS), test_utils=rules)
    torch.library.opcheck(SUMS.keep_op.overload, (scores, LENGTHS), test_utils=("test_schema", "test_faketensor"))
    torch.library.opcheck(
        SUMS.gradients_op.overload, (scale, scores, LENGTHS, marginals), test_utils=("test_schema", "test_faketensor")
    )
    torch.library.opcheck(best.overload, (scores.detach(), LENGTHS), test_utils=("test_schema", "test_faketensor"))
    torch.library.opcheck(top.overload, (scores.detach(), LENGTHS, 3), test_utils=("test_schema", "test_faketensor"))


@pytest.mark.parametrize("scale", [0.0, 1.0, 100.0, 1e4])
def test_long_sentences_equal_the_reference(scale: float) -> None:
    scores, lengths = drawn(3, 24, 3, scale).requires_grad_(), torch.tensor([24, 17, 9])
    plain, ours = log_partition_reference(scores, lengths), log_partition(scores, lengths)
    assert torch.allclose(plain, ours, rtol=1e-13, atol=1e-11)
    (expected,), (found,) = (torch.autograd.grad(x.sum(), scores) for x in (plain, ours))
    assert (expected - found).abs().max() < 1e-13 * max(1, scale) * 24


def test_scores_whose_weights_no_float_can_hold() -> None:
    scores = torch.zeros(1, 3, 3, 1).double()
    scores[0, 0, 1], scores[0, 1, 2] = 5e5, 5e5 + math.log(3)
    scores[0, 0, 0] = -2e6
    marginals = SpanTree(scores).marginals()
    log_z = SpanTree(scores).log_partition()
    assert log_z.item() == pytest.approx(-2e6 + 5e5 + math.log(4), abs=1e-8)
    assert marginals[0, 0, 1].item() == pytest.approx(0.25, abs=1e-9)


def test_tree_counts_are_exact() -> None:
    catalan = Fraction(1)
    for n in range(1, 60):
        catalan = catalan * (4 * n - 2) / (n + 1)
    log_z = log_partition(torch.zeros(1, 60, 60, 1).double(), torch.tensor([60]))
    assert log_z.item() == pytest.approx(math.log(catalan), abs=1e-13 * 80)


def test_second_derivative_of_a_vmap_of_a_gradient() -> None:
    scores = drawn(3, 4, 1)

    def gradient(x: torch.Tensor) -> torch.Tensor:
        return torch.func.grad(lambda s: log_partition(s[None], torch.tensor([4]))[0])(x)

    found = torch.vmap(torch.func.jacrev(gradient))(scores)
    expected = torch.stack(
        [
            torch.autograd.functional.hessian(lambda s: log_partition_reference(s[None], torch.tensor([4]))[0], x)
            for x in scores
        ]
    )
    assert torch.allclose(found, expected)


def test_threads_split_the_rows() -> None:
    scores = drawn(24, 30, 4)
    lengths = torch.arange(24) % 31
    try:
        answers = []
        for threads in (1, 2):
            torch.set_num_threads(threads)
            tree = SpanTree(scores, lengths)
            sampled = tree.sample(3, torch.Generator().manual_seed(1))
            answers.append((tree.log_partition(), tree.marginals(), tree.argmax(), tree.topk(3).structures, sampled))
    finally:
        torch.set_num_threads(1)
    assert all(torch.equal(a, b) for a, b in zip(*answers, strict=True))


def test_backward_keeps_one_value_for_each_span() -> None:
    scores = drawn(2, 12, 30).requires_grad_()
    with kept_for_backward() as sizes, use_backend("kernels"):
        log_z = SpanTree(scores).log_partition().sum()
    log_z.backward()
    assert sizes.pop(scores.untyped_storage().data_ptr()) == scores.untyped_storage().nbytes()
    assert sum(sizes.values()) <= 2 * 78 * 8 + 100


def test_gradients_of_each_sentence_are_scaled_by_its_own_gradient() -> None:
    scores, lengths = drawn(3, 6, 4), torch.tensor([6, 3, 5])
    scores[0, 1, 2], scores[2, 0, 3, 1:] = -math.inf, -math.inf
    scores.requires_grad_()
    weight = torch.tensor([2.0, -1.0, 0.5]).double()
    (expected,) = torch.autograd.grad(log_partition_reference(scores, lengths) @ weight, scores)
    (found,) = torch.autograd.grad(log_partition(scores, lengths) @ weight, scores)
    assert torch.allclose(expected, found, rtol=0, atol=1e-13)


@pytest.mark.parametrize("scale", [1.0, 5.0, 6.5, 8.0, 12.0, 60.0])
@pytest.mark.parametrize("offset", [0.0, -3e3, 3e3])
def test_scores_near_the_range_of_floats_equal_the_reference(scale: float, offset: float) -> None:
    """Weights are plain floats where all sums stay in their range, else they have an exponent each."""
    scores = drawn(9, 20, 1, scale, seed=3) + offset
    scores[1, 3:5] = -torch.inf
    scores[2] = -torch.inf
    scores.requires_grad_()
    lengths = torch.tensor([20, 20, 7, 0, 1, 2, 13, 19, 20])
    plain, ours = log_partition_reference(scores, lengths), log_partition(scores, lengths)
    assert torch.allclose(plain, ours, rtol=1e-13, atol=1e-11)
    real = plain > -torch.inf
    (expected,), (found,) = (torch.autograd.grad(x[real].sum(), scores) for x in (plain, ours))
    assert found.isfinite().all()
    assert (expected - found).abs().max() < 1e-9


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_sums_that_no_float_can_hold_are_exact(sign: float) -> None:
    scores = torch.full((1, 40, 40, 1), 30.0 * sign).double()
    scores[:, 0, 0] = 0.0
    log_z = log_partition(scores, torch.tensor([40]))
    expected = log_partition(torch.zeros_like(scores), torch.tensor([40])) + sign * 30.0 * (2 * 40 - 2)
    assert log_z.item() == pytest.approx(expected.item(), rel=1e-13)
