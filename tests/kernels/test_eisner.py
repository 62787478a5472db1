"""The kernels of projective trees: operators of torch, any range of scores, any number of threads, no digit lost."""

from __future__ import annotations

import math

import pytest
import torch

from catena.kernels.dependency import cpu_eisner as eisner_loops
from catena.kernels.dependency.ops_projective import SUMS, best, log_partition, log_partition_and_marginals, sample, top
from catena.kernels.dependency.reference import projective_log_partition
from catena.structure.backend import use_backend
from catena.structure.projective import ProjectiveTree
from tests.kernels.arc_kernels import (
    compiled_code_may_ask,
    drawn,
    float32_needs_no_rescue,
    hold_to_the_rules_of_torch,
    in_floats,
    second_derivatives_agree,
)
from tests.laws.structure_checks import kept_for_backward


def test_operators_pass_opcheck() -> None:
    hold_to_the_rules_of_torch(SUMS, best, top)


@pytest.mark.parametrize("single_root", [True, False])
@pytest.mark.parametrize("scale", [0.0, 1.0, 100.0, 1e4])
def test_long_sentences_equal_the_reference(scale: float, single_root: bool) -> None:
    arcs, lengths = drawn(3, 20, scale).requires_grad_(), torch.tensor([20, 13, 5])
    plain, ours = projective_log_partition(arcs, lengths, single_root), log_partition(arcs, lengths, single_root)
    assert torch.allclose(plain, ours, rtol=1e-13, atol=1e-11)
    (expected,), (found,) = (torch.autograd.grad(x.sum(), arcs) for x in (plain, ours))
    assert (expected - found).abs().max() < 1e-13 * max(1, scale) * 20
    with torch.no_grad():
        assert torch.allclose(log_partition(arcs, lengths, single_root), ours, rtol=1e-14)


def test_tree_counts_are_exact() -> None:
    for n in (1, 2, 3, 10, 60, 300):
        zeros, lengths = torch.zeros(1, n + 1, n + 1).double(), torch.tensor([n])
        one = math.log(math.comb(3 * n - 2, n - 1) // n)
        many = math.log(math.comb(3 * n, n) // (2 * n + 1))
        assert log_partition(zeros, lengths, True).item() == pytest.approx(one, rel=1e-13, abs=1e-13)
        assert log_partition(zeros, lengths, False).item() == pytest.approx(many, rel=1e-13, abs=1e-13)


@pytest.mark.parametrize("single_root", [True, False])
def test_the_rescue_agrees_with_floats_where_they_suffice(single_root: bool) -> None:
    arcs, lengths = drawn(4, 9, 5.0), torch.tensor([9, 7, 2, 1])
    first = in_floats(eisner_loops.sum_rows, arcs, lengths, single_root)
    second = in_floats(eisner_loops.rescue_rows, arcs, lengths, single_root)
    assert first.exact.all()
    assert torch.allclose(first.log_z, second.log_z, rtol=1e-14, atol=1e-14)
    assert torch.allclose(first.chances, second.chances, rtol=1e-11, atol=0)


def test_floats_fail_where_their_range_ends() -> None:
    arcs = drawn(3, 6)
    arcs[0, :, 3] -= 2000  # the same change for every head of a word changes nothing
    arcs[1, 2, 3] -= 800  # one arc beyond the range of floats
    arcs[2, 2, 3] = -math.inf
    found = in_floats(eisner_loops.sum_rows, arcs, torch.tensor([6, 6, 6]), True)
    assert found.exact.tolist() == [True, False, True]
    log_z, chances = log_partition_and_marginals(arcs, torch.tensor([6, 6, 6]), True)
    expected = drawn(3, 6)[0]
    assert log_z[0].item() == pytest.approx(log_partition(expected[None], torch.tensor([6]), True).item() - 2000)
    assert chances[1, 2, 3] == 0
    assert log_z.isfinite().all()


@pytest.mark.parametrize("single_root", [True, False])
def test_float32_needs_no_rescue_for_probabilities_that_it_cannot_hold(single_root: bool) -> None:
    float32_needs_no_rescue(eisner_loops.sum_rows, eisner_loops.rescue_rows, single_root)


def test_small_probabilities_are_as_exact_as_large_ones() -> None:
    arcs = torch.zeros(1, 3, 3).double()
    arcs[0, 0, 2] = -650  # trees: 0→1→2 with weight 1, and 0→2→1 with e⁻⁶⁵⁰
    for _, chances in (log_partition_and_marginals(arcs, torch.tensor([2]), True),):
        assert chances[0, 0, 2].item() == pytest.approx(math.exp(-650), rel=1e-12)
        assert chances[0, 2, 1].item() == pytest.approx(math.exp(-650), rel=1e-12)


def test_result_does_not_depend_on_the_number_of_threads() -> None:
    arcs, lengths = drawn(16, 40), torch.arange(25, 41)
    one = [*log_partition_and_marginals(arcs, lengths, True), best(arcs, lengths, True)]
    torch.set_num_threads(2)
    try:
        two = [*log_partition_and_marginals(arcs, lengths, True), best(arcs, lengths, True)]
    finally:
        torch.set_num_threads(1)
    assert all(torch.equal(a, b) for a, b in zip(one, two, strict=True))


def test_searches_agree_with_the_semiring_program_on_longer_sentences() -> None:
    for single_root in (True, False):
        tree = ProjectiveTree(drawn(2, 9), drawn(2, 9)[..., None] * torch.tensor([1.0, -0.5]), single_root=single_root)
        found, best_score = tree.topk(12), tree.max()
        with use_backend("reference"):
            expected = tree.topk(12)
        assert torch.allclose(found.scores, expected.scores, atol=1e-12)
        assert torch.equal(found.structures, expected.structures)
        assert torch.allclose(best_score, expected.scores[0], atol=1e-12)


def test_samples_follow_the_probabilities_of_arcs_in_longer_sentences() -> None:
    arcs, lengths, n = drawn(2, 12), torch.tensor([12, 9]), 3000
    for single_root in (True, False):
        uniforms = torch.rand(n, 2, 26, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
        heads = sample(arcs, lengths, single_root, uniforms)
        chances = log_partition_and_marginals(arcs, lengths, single_root)[1]
        seen = (heads[..., None, :] == torch.arange(13)[:, None]).double().mean(0)
        spread = (chances * (1 - chances) / n).sqrt()
        assert ((seen - chances[..., 1:]).abs() <= 5 * spread[..., 1:] + 1e-12).all()


def test_second_derivative_of_a_vmap_of_a_gradient() -> None:
    second_derivatives_agree(log_partition, projective_log_partition)


def test_compiled_code_calls_the_operators() -> None:
    compiled_code_may_ask(log_partition)


def test_backward_keeps_only_the_scores() -> None:
    arcs = drawn(4, 20).requires_grad_()
    with kept_for_backward() as kept:
        log_z = log_partition(arcs, torch.full((4,), 20), True)
    assert sum(kept.values()) == arcs.nbytes + 4 * 8  # and the lengths
    (grad,) = torch.autograd.grad(log_z.sum(), arcs)
    assert torch.equal(grad, log_partition_and_marginals(arcs.detach(), torch.full((4,), 20), True)[1])
