"""The kernels of alignments: operators of torch, any range of scores, any number of threads, no digit lost."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
import torch
from torch import Tensor

from catena.kernels.alignment.cpu import TOGETHER
from catena.kernels.alignment.ops import SUMS, best, log_partition, top
from catena.kernels.alignment.reference import log_partition_reference
from catena.structure.alignment import Alignment
from catena.structure.backend import use_backend
from tests.laws.structure_checks import kept_for_backward


def drawn(b: int, s: int, t: int, scale: float = 1.0, seed: int = 1, shared: bool = False) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    shapes = (b, s, t), (b, 1 if shared else s + 1, t), (b, s, 1 if shared else t + 1)
    return [torch.randn(shape, generator=generator, dtype=torch.float64) * scale for shape in shapes]


LENGTHS = torch.tensor([4, 0, 2]), torch.tensor([5, 2, 0])


@pytest.mark.parametrize("shared", [False, True])
def test_operators_pass_opcheck(shared: bool) -> None:
    scores = drawn(3, 4, 5, shared=shared)
    marginals = SUMS.keep_op(*scores, *LENGTHS)[1:]
    wanted = [x.clone().requires_grad_() for x in scores]
    shapes = ("test_schema", "test_faketensor")
    torch.library.opcheck(
        SUMS.log_z_op.overload, (*wanted, *LENGTHS), test_utils=(*shapes, "test_autograd_registration")
    )
    torch.library.opcheck(SUMS.keep_op.overload, (*wanted, *LENGTHS), test_utils=shapes)
    gradients = torch.ones(3).double(), *wanted, *LENGTHS, *marginals
    torch.library.opcheck(SUMS.gradients_op.overload, gradients, test_utils=shapes)
    torch.library.opcheck(best.overload, (*scores, *LENGTHS), test_utils=shapes)
    torch.library.opcheck(top.overload, (*scores, *LENGTHS, 3), test_utils=shapes)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("scale", [0.0, 1.0, 100.0, 1e4])
def test_long_sequences_equal_the_reference(scale: float, shared: bool) -> None:
    scores = [x.requires_grad_() for x in drawn(3, 30, 40, scale, shared=shared)]
    lengths = torch.tensor([30, 17, 9]), torch.tensor([40, 3, 21])
    plain, ours = log_partition_reference(*scores, *lengths), log_partition(*scores, *lengths)
    assert torch.allclose(plain, ours, rtol=1e-13, atol=1e-11)
    for expected, found in zip(*(torch.autograd.grad(x.sum(), scores) for x in (plain, ours)), strict=True):
        assert (expected - found).abs().max() < 1e-13 * max(1, scale) * 70


def test_a_row_longer_than_the_points_that_are_summed_together() -> None:
    """By the closed form: gaps alone, of one score each, in one row of the grid and then in one column."""
    t = 2 * TOGETHER + 3
    never = torch.full((1, 1, t), -math.inf).double()
    for score in (0.3, 0.34, -0.35, -30.0):  # just above and below half a power of two, and far from it
        gaps = torch.full((1, 1, 1), score, dtype=torch.float64)
        across = Alignment(never, gaps, gaps).log_partition()  # the one deletion may stand before any of t insertions
        assert across.item() == pytest.approx((t + 1) * score + math.log(t + 1), rel=1e-13)
        down = Alignment(never.transpose(1, 2), gaps, gaps).log_partition()
        assert down.item() == pytest.approx(across.item(), rel=1e-13)


def test_alignment_count_is_exact() -> None:
    """Delannoy numbers, whose weights no float can hold, by their recurrence in integers."""
    n = 500
    before, here = [0] * (n + 1), [1] * (n + 1)
    for _ in range(n):
        before, here = here, [1] * (n + 1)
        for j in range(1, n + 1):
            here[j] = here[j - 1] + before[j] + before[j - 1]
    log_z = Alignment(torch.zeros(1, n, n).double()).log_partition()
    exact = math.log(Fraction(here[n], 1 << 1000)) + 1000 * math.log(2)
    assert exact > 710
    assert log_z.item() == pytest.approx(exact, abs=1e-13 * exact)


def test_scores_whose_weights_no_float_can_hold() -> None:
    substitutions = torch.tensor([[[5e5, -math.inf], [-math.inf, -2e6]]]).double()
    insertions = torch.zeros(1, 3, 2).double()
    deletions = torch.full((1, 2, 3), -1e6).double()
    insertions[0, 2, 1] = -1.5e6
    alignment = Alignment(substitutions, insertions, deletions)
    members = {
        (0, 0, -1, -1): -1.5e6,
        (0, 1, 2, -1): -5e5,
        (0, 2, 1, -1): -2e6,
        (1, 1, 2, 2): -2e6,
        (2, 1, 2, 1): -3.5e6,
    }
    for member, score in members.items():
        assert alignment.score(torch.tensor([member])).item() == score
    assert alignment.log_partition().item() == -5e5
    assert alignment.operation_marginals().insertions[0, 1, 1] == 1
    assert alignment.argmax().tolist() == [[0, 1, 2, -1]]


def test_nan_propagates() -> None:
    for place in range(3):
        scores = drawn(2, 3, 4)
        scores[place][0, 1, 2] = math.nan
        log_z = Alignment(*scores).log_partition()
        assert log_z[0].isnan()
        assert log_z[1].isfinite()


def test_second_derivative_of_a_vmap_of_a_gradient() -> None:
    substitutions, insertions, deletions = drawn(3, 3, 2, shared=True)

    def log_z(x: Tensor, put: Tensor, drop: Tensor) -> Tensor:
        return Alignment(x, put, drop).log_partition()

    found = torch.vmap(torch.func.jacrev(torch.func.grad(log_z)))(substitutions, insertions, deletions)
    with use_backend("reference"):
        expected = torch.stack(
            [
                torch.autograd.functional.hessian(lambda x, gaps=gaps: log_z(x, *gaps), x)
                for x, *gaps in zip(substitutions, insertions, deletions, strict=True)
            ]
        )
    assert torch.allclose(found, expected)


def test_threads_split_the_rows() -> None:
    scores = drawn(24, 30, 40)
    lengths = torch.arange(24) % 31, torch.arange(24) * 5 % 41
    try:
        answers = []
        for threads in (1, 2):
            torch.set_num_threads(threads)
            alignment = Alignment(*scores, *lengths)
            sampled = alignment.sample(3, torch.Generator().manual_seed(1))
            searched = alignment.argmax(), alignment.topk(3).structures
            answers.append((alignment.log_partition(), *alignment.operation_marginals(), *searched, sampled))
    finally:
        torch.set_num_threads(1)
    assert all(torch.equal(a, b) for a, b in zip(*answers, strict=True))


def test_backward_keeps_memory_of_the_size_of_the_scores() -> None:
    scores = [x.requires_grad_() for x in drawn(2, 20, 30, shared=True)]
    with kept_for_backward() as sizes, use_backend("kernels"):
        Alignment(*scores).log_partition().sum().backward()
    assert sum(sizes.values()) <= 2 * sum(x.untyped_storage().nbytes() for x in scores) + 200


def test_kernel_works_in_a_compiled_function() -> None:
    scores = [x.requires_grad_() for x in drawn(3, 4, 5)]

    def ask(*scores: Tensor) -> Tensor:
        return (2 * log_partition(*scores, *LENGTHS)).sum()

    compiled = torch.compile(ask, backend="aot_eager", fullgraph=True)
    grads = [torch.autograd.grad(f(*scores), scores) for f in (compiled, ask)]
    assert all(torch.equal(a, b) for a, b in zip(*grads, strict=True))
