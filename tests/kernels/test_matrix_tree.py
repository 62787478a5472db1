"""The kernels of non-projective trees, held to 400 digits: operators of torch, any range of scores, no digit lost."""

from __future__ import annotations

import math

import mpmath
import pytest
import torch
from torch import Tensor

from catena.kernels.dependency import cpu_matrix_tree as matrix_tree_loops
from catena.kernels.dependency import cpu_matrix_tree_wide as matrix_tree_wide
from catena.kernels.dependency import reference as matrix_tree_plain
from catena.kernels.dependency.ops_nonprojective import (
    SUMS,
    best,
    log_partition,
    log_partition_and_marginals,
    sample,
    top,
)
from catena.kernels.dependency.reference import nonprojective_log_partition, nonprojective_marginals
from tests.kernels.arc_kernels import (
    compiled_code_may_ask,
    drawn,
    float32_needs_no_rescue,
    hold_to_the_rules_of_torch,
    in_floats,
    second_derivatives_agree,
)
from tests.oracle.dependency import all_trees
from tests.oracle.moments import log_add, probabilities


def in_400_digits(arcs: Tensor, single_root: bool, digits: int = 400) -> tuple[float, list[list[float]]]:
    """log Z and the probabilities of arcs, by the determinant of the Laplacian and its inverse."""
    n = len(arcs) - 1
    with mpmath.workdps(digits):
        w = mpmath.matrix(n + 1, n + 1)
        for h in range(n + 1):
            for m in range(1, n + 1):
                w[h, m] = mpmath.exp(mpmath.mpf(arcs[h, m].item())) if h != m else 0

        def laplacian() -> mpmath.matrix:
            found = mpmath.matrix(n, n)
            for m in range(n):
                for h in range(n):
                    found[h, m] = -w[h + 1, m + 1] if h != m else sum(w[g + 1, m + 1] for g in range(n))
                if single_root:
                    found[0, m] = w[0, m + 1]  # Koo et al. (2007), section 3.2
                else:
                    found[m, m] += w[0, m + 1]
            return found

        matrix = laplacian()
        inverse = matrix**-1
        chances = [[0.0] * (n + 1) for _ in range(n + 1)]
        for m in range(n):
            on_diagonal = m > 0 or not single_root
            chances[0][m + 1] = float(w[0, m + 1] * inverse[m, 0 if single_root else m])
            for h in range(n):
                if h != m:
                    up = inverse[m, m] if on_diagonal else 0
                    side = inverse[m, h] if h > 0 or not single_root else 0
                    chances[h + 1][m + 1] = float(w[h + 1, m + 1] * (up - side))
        return float(mpmath.log(mpmath.det(matrix))), chances


@pytest.mark.parametrize("single_root", [True, False])
@pytest.mark.parametrize("scale", [1.0, 30.0, 100.0])
def test_float32_error_is_below_a_thousandth_of_a_nat(scale: float, single_root: bool) -> None:
    arcs = drawn(2, 12, scale).float()
    assert len(arcs) > 0
    for row in arcs:
        log_z, chances = in_400_digits(row, single_root)
        for ask in (log_partition, nonprojective_log_partition):
            assert abs(ask(row[None], torch.tensor([12]), single_root).item() - log_z) < 1e-3
        for found in (
            log_partition_and_marginals(row[None], torch.tensor([12]), single_root)[1],
            nonprojective_marginals(row[None], torch.tensor([12]), single_root),
        ):
            assert (found[0].double() - torch.tensor(chances, dtype=torch.float64)).abs().max() < 1e-6


@pytest.mark.parametrize("single_root", [True, False])
@pytest.mark.parametrize("never", [0.3, 0.6, 0.75])
def test_float32_error_is_small_under_hard_masks(never: float, single_root: bool) -> None:
    """A spread of 100 and impossible arcs, among them patterns where few words can be the root."""
    arcs = drawn(4, 8, 100.0, seed=int(100 * never)).float()
    barred = torch.rand(arcs.shape, generator=torch.Generator().manual_seed(2)) < never
    arcs = arcs.masked_fill(barred, -math.inf)
    for m in range(2, 9):  # a chain that is always there, so that there is a tree
        arcs[:, m - 1, m] = -200.0
    arcs[:, 0, 1] = -200.0
    arcs[0, 1:, 3] = -math.inf  # only the root heads the third word,
    arcs[0, 0, 3], arcs[0, 3, 1] = 5.0, -7.0  # which heads the first
    lengths = torch.full((4,), 8)
    log_z, chances = log_partition_and_marginals(arcs, lengths, single_root)
    plain, plain_chances = (
        nonprojective_log_partition(arcs, lengths, single_root),
        nonprojective_marginals(arcs, lengths, single_root),
    )
    for row in range(4):
        # Where a mask leaves few trees, even 400 digits cancel.
        expected, expected_chances = in_400_digits(arcs[row], single_root, digits=1500)
        wanted = torch.tensor(expected_chances, dtype=torch.float64)
        assert abs(log_z[row].item() - expected) < 1e-3
        assert abs(plain[row].item() - expected) < 1e-3
        assert (chances[row].double() - wanted).abs().max() < 1e-6
        assert (plain_chances[row].double() - wanted).abs().max() < 1e-6


@pytest.mark.parametrize("single_root", [True, False])
@pytest.mark.parametrize("never", [0.0, 0.5, 0.9])
@pytest.mark.parametrize("scale", [100.0, 1e4])
def test_float32_is_never_nan(scale: float, never: float, single_root: bool) -> None:
    generator = torch.Generator().manual_seed(5)
    arcs = (2 * torch.rand(8, 41, 41, generator=generator) - 1) * scale
    arcs = arcs.masked_fill(torch.rand(arcs.shape, generator=generator) < never, -math.inf).requires_grad_()
    lengths = torch.tensor([40, 39, 33, 32, 31, 17, 2, 1])
    log_z = log_partition(arcs, lengths, single_root)
    (grad,) = torch.autograd.grad(log_z.sum(), arcs)
    assert not log_z.isnan().any()
    possible = log_z > -math.inf
    assert possible.all() or never > 0
    assert ((grad >= 0) & (grad <= 1 + 1e-6)).all()
    heads = grad[:, :, 1:].sum(1)
    real = (torch.arange(1, 41) <= lengths[:, None]) & possible[:, None]
    assert (heads - real.float()).abs().max() < 1e-5
    assert torch.equal(log_z.detach(), log_partition(arcs.detach(), lengths, single_root))
    assert torch.allclose(log_z.detach(), nonprojective_log_partition(arcs.detach(), lengths, single_root), rtol=1e-6)


@pytest.mark.parametrize("single_root", [True, False])
def test_float32_needs_no_rescue_for_probabilities_that_it_cannot_hold(single_root: bool) -> None:
    float32_needs_no_rescue(matrix_tree_loops.sum_rows, matrix_tree_wide.rescue_rows, single_root)


@pytest.mark.parametrize("single_root", [True, False])
@pytest.mark.parametrize("scale", [1.0, 40.0, 200.0])
def test_small_probabilities_are_as_exact_as_large_ones(scale: float, single_root: bool) -> None:
    arcs, length = drawn(1, 8, scale, seed=5), torch.tensor([8])
    log_z, chances = in_400_digits(arcs[0], single_root)
    expected = torch.tensor(chances, dtype=torch.float64)
    for ask in (nonprojective_marginals, lambda *a: log_partition_and_marginals(*a)[1]):
        found = ask(arcs, length, single_root)[0]
        normal = expected > 1e-290
        assert ((found - expected).abs()[normal] <= 1e-11 * max(1, scale) * expected[normal]).all()
        assert (found[~normal] < 2e-290).all()
    assert abs(log_partition(arcs, length, single_root).item() - log_z) <= 1e-13 * max(1, abs(log_z))


def test_tree_counts_are_exact() -> None:
    for n in (1, 2, 3, 9, 40, 150):
        zeros, lengths = torch.zeros(1, n + 1, n + 1).double(), torch.tensor([n])
        one, many = (n - 1) * math.log(n), (n - 1) * math.log(n + 1)  # Cayley's formula
        for ask in (log_partition, nonprojective_log_partition):
            assert ask(zeros, lengths, True).item() == pytest.approx(one, rel=1e-13, abs=1e-13)
            assert ask(zeros, lengths, False).item() == pytest.approx(many, rel=1e-13, abs=1e-13)


@pytest.mark.parametrize("single_root", [True, False])
@pytest.mark.parametrize("n", [1, 2, 3, 5, 8, 13, 31])
def test_the_rescue_agrees_with_floats_where_they_suffice(n: int, single_root: bool) -> None:
    arcs, lengths = drawn(3, n, 5.0, seed=n), torch.tensor([n, max(1, n - 1), max(1, n // 2)])
    first = in_floats(matrix_tree_loops.sum_rows, arcs, lengths, single_root)
    second = in_floats(matrix_tree_wide.rescue_rows, arcs, lengths, single_root)
    assert first.exact.all()
    assert torch.allclose(first.log_z, second.log_z, rtol=1e-14, atol=1e-14)
    assert torch.allclose(first.chances, second.chances, rtol=1e-11, atol=0)
    assert torch.allclose(first.log_z, log_partition(arcs, lengths, single_root), rtol=1e-14)  # without a gradient


def test_floats_fail_where_their_range_ends() -> None:
    arcs = drawn(4, 6)
    arcs[0, :, 3] -= 2000  # the same change for every head of a word changes nothing
    arcs[1, 2, 3] -= 800  # one arc beyond the range of floats
    arcs[2, 1, 2] = arcs[2, 2, 1] = 600  # a circle that is hard to leave
    found = in_floats(matrix_tree_loops.sum_rows, arcs, torch.full((4,), 6), False)
    assert found.exact.tolist() == [True, False, False, True]
    log_z, chances = log_partition_and_marginals(arcs, torch.full((4,), 6), False)
    expected = nonprojective_log_partition(arcs, torch.full((4,), 6), False)
    assert torch.allclose(log_z, expected, rtol=1e-14)
    assert torch.allclose(chances, nonprojective_marginals(arcs, torch.full((4,), 6), False), atol=1e-12)


@pytest.mark.parametrize("never", [0.3, 0.5, 0.7])
def test_impossible_arcs_in_every_pattern(never: float) -> None:
    """With a single root, words that cannot be an ancestor of all leave pivots empty; enumeration knows better."""
    generator = torch.Generator().manual_seed(int(10 * never))
    arcs = drawn(60, 4, seed=7).masked_fill(torch.rand(60, 5, 5, generator=generator) < never, -math.inf)
    lengths = torch.full((60,), 4)
    for single_root in (True, False):
        log_z, chances = log_partition_and_marginals(arcs, lengths, single_root)
        plain, plain_chances = (
            nonprojective_log_partition(arcs, lengths, single_root),
            nonprojective_marginals(arcs, lengths, single_root),
        )
        for r in range(60):
            trees = all_trees(arcs[r].tolist(), None, [True] * 4, single_root, projective=False)
            scores = [score for _, score in trees]
            expected = torch.zeros(5, 5).double()
            if max(scores) > -math.inf:
                for (heads, _), p in zip(trees, probabilities(scores), strict=True):
                    for i, h in enumerate(heads):
                        expected[h, i + 1] += p
            for found, found_chances in ((log_z[r], chances[r]), (plain[r], plain_chances[r])):
                assert found.item() == pytest.approx(log_add(scores), abs=1e-12)
                assert (found_chances - expected).abs().max() < 1e-12
                assert ((found_chances > 0) == (expected > 0)).all()


def test_an_impossible_row_passes_on_no_gradient() -> None:
    arcs = drawn(2, 4)
    arcs[0, :, 2] = -math.inf
    arcs.requires_grad_()
    for ask in (log_partition, nonprojective_log_partition):
        log_z = ask(arcs, torch.tensor([4, 4]), True)
        (grad,) = torch.autograd.grad(log_z.sum(), arcs)
        assert log_z[0] == -math.inf
        assert (grad[0] == 0).all()
        assert grad[1].sum().item() == pytest.approx(4)


def test_operators_pass_opcheck() -> None:
    hold_to_the_rules_of_torch(SUMS, best, top)


def test_result_does_not_depend_on_the_number_of_threads() -> None:
    arcs, lengths, seeds = drawn(16, 40), torch.arange(25, 41), torch.arange(32).reshape(2, 16)
    one = [*log_partition_and_marginals(arcs, lengths, True), sample(arcs, lengths, True, seeds)]
    torch.set_num_threads(2)
    try:
        two = [*log_partition_and_marginals(arcs, lengths, True), sample(arcs, lengths, True, seeds)]
    finally:
        torch.set_num_threads(1)
    assert all(torch.equal(a, b) for a, b in zip(one, two, strict=True))


@pytest.mark.parametrize("single_root", [True, False])
@pytest.mark.parametrize("circle", [0.0, 60.0])
def test_samples_follow_the_probabilities_of_arcs_in_longer_sentences(single_root: bool, circle: float) -> None:
    """Two words that are each other's best head by far keep walks in circles; then trees are drawn by joining."""
    arcs, lengths, n = drawn(2, 9), torch.tensor([9, 6]), 3000
    arcs[:, 2, 3] += circle
    arcs[:, 3, 2] += circle
    seeds = torch.randint(2**62, (n, 2), generator=torch.Generator().manual_seed(8))
    heads = sample(arcs, lengths, single_root, seeds)
    chances = log_partition_and_marginals(arcs, lengths, single_root)[1]
    seen = (heads[..., None, :] == torch.arange(10)[:, None]).double().mean(0)
    spread = (chances * (1 - chances) / n).sqrt()
    assert ((seen - chances[..., 1:]).abs() <= 5 * spread[..., 1:] + 1e-12).all()


def test_second_derivative_of_a_vmap_of_a_gradient() -> None:
    second_derivatives_agree(log_partition, nonprojective_log_partition)


def test_compiled_code_calls_the_operators() -> None:
    compiled_code_may_ask(log_partition)


def test_plain_marginals_are_the_gradient_of_the_plain_sum() -> None:
    arcs, lengths = drawn(3, 7).requires_grad_(), torch.tensor([7, 4, 1])
    for single_root in (True, False):
        log_z = matrix_tree_plain.nonprojective_log_partition(arcs, lengths, single_root)
        (grad,) = torch.autograd.grad(log_z.sum(), arcs)
        assert torch.allclose(grad, nonprojective_marginals(arcs, lengths, single_root), atol=1e-13)
