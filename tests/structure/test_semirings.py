"""The axioms of every semiring, its closure, and its gradients where everything is impossible."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from catena.errors import DivergentSumError
from catena.structure.semirings import (
    BooleanSemiring,
    CountingSemiring,
    EntropySemiring,
    ExpectationSemiring,
    KBestSemiring,
    LogSemiring,
    MaxSemiring,
    ProductSemiring,
    RealSemiring,
    SamplingSemiring,
    SecondOrderExpectationSemiring,
    Semiring,
    TropicalSemiring,
)

SEMIRINGS: dict[str, Semiring] = {
    "log": LogSemiring(),
    "max": MaxSemiring(),
    "real": RealSemiring(),
    "boolean": BooleanSemiring(),
    "tropical": TropicalSemiring(),
    "counting": CountingSemiring(),
    "1-best": KBestSemiring(1),
    "3-best": KBestSemiring(3),
    "sampling": SamplingSemiring(),
    "entropy": EntropySemiring(),
    "expectation": ExpectationSemiring(),
    "second-order expectation": SecondOrderExpectationSemiring(),
    "log × max": ProductSemiring(LogSemiring(), MaxSemiring()),
    "boolean × 2-best": ProductSemiring(BooleanSemiring(), KBestSemiring(2)),
    "entropy × (counting × second-order expectation)": ProductSemiring(
        EntropySemiring(), ProductSemiring(CountingSemiring(), SecondOrderExpectationSemiring())
    ),
}

every_semiring = pytest.mark.parametrize("name", SEMIRINGS)

scores = st.one_of(st.just(-math.inf), st.floats(-8, 8), st.sampled_from([-1.0, 0.0, 1.0]))
numbers = st.floats(-5, 5)


def element(semiring: Semiring, data: st.DataObject) -> Tensor:
    """Any element: two lifted parts, summed, so that k-best lists and moments are filled."""

    def part() -> Tensor:
        score = torch.tensor(data.draw(scores), dtype=torch.float64)
        values = [torch.tensor(data.draw(numbers), dtype=torch.float64) for _ in range(semiring.n_values)]
        return semiring.lift(score, *values)

    return semiring.add(semiring.mul(part(), part()), part())


def same(a: Tensor, b: Tensor) -> bool:
    """Equal up to rounding. Infinities must be equal exactly."""
    if a.dtype == torch.bool:
        return bool((a == b).all())
    return bool(((a == b) | ((a - b).abs() <= 1e-9 * (1 + b.abs()))).all())


@every_semiring
@settings(max_examples=40)
@given(data=st.data())
def test_semiring_axioms(name: str, data: st.DataObject) -> None:
    s = SEMIRINGS[name]
    a, b, c = (element(s, data) for _ in range(3))
    zero, one = (
        s.zero((), torch.zeros((), dtype=torch.float64)),
        s.one((), torch.zeros((), dtype=torch.float64)),
    )
    assert same(s.add(s.add(a, b), c), s.add(a, s.add(b, c))), "⊕ is associative"
    assert same(s.add(a, b), s.add(b, a)), "⊕ commutes"
    assert same(s.add(a, zero), a), "zero is neutral for ⊕"
    assert same(s.mul(s.mul(a, b), c), s.mul(a, s.mul(b, c))), "⊗ is associative"
    assert same(s.mul(a, one), a), "one is neutral for ⊗ from the right"
    assert same(s.mul(one, a), a), "one is neutral for ⊗ from the left"
    assert same(s.mul(a, s.add(b, c)), s.add(s.mul(a, b), s.mul(a, c))), "⊗ distributes over ⊕ from the left"
    assert same(s.mul(s.add(a, b), c), s.add(s.mul(a, c), s.mul(b, c))), "⊗ distributes over ⊕ from the right"
    assert torch.equal(s.mul(a, zero), zero), "zero annihilates, exactly"
    assert torch.equal(s.mul(zero, a), zero), "zero annihilates, exactly"


@every_semiring
@settings(max_examples=20)
@given(data=st.data())
def test_sums_over_any_axis_are_repeated_additions(name: str, data: st.DataObject) -> None:
    s = SEMIRINGS[name]
    grid = [[element(s, data) for _ in range(3)] for _ in range(2)]
    x = torch.stack([torch.stack(row, dim=-1) for row in grid], dim=-2)
    assert s.shape(x) == (2, 3)
    rows, columns = s.sum(x, dim=-1), s.sum(x, dim=-2)
    for i, row in enumerate(grid):
        assert same(rows[..., i], s.add(s.add(row[0], row[1]), row[2]))
    for j in range(3):
        assert same(columns[..., j], s.add(grid[0][j], grid[1][j]))
    product = s.matmul(x, x.transpose(-1, -2))
    dots = s.dot(x[..., 0, :], x[..., 1, :], dim=-1)
    assert same(product[..., 0, 1], dots)


@every_semiring
@settings(max_examples=20)
@given(data=st.data())
def test_arrays_of_different_rank_broadcast_from_the_right(name: str, data: st.DataObject) -> None:
    s = SEMIRINGS[name]
    column = torch.stack([element(s, data) for _ in range(3)], dim=-1)
    matrix = torch.stack([torch.stack([element(s, data) for _ in range(3)], dim=-1) for _ in range(2)], dim=-2)
    for both in (s.mul, s.add):
        found = both(matrix, column)
        assert s.shape(found) == (2, 3)
        for i, j in itertools.product(range(2), range(3)):
            assert same(found[..., i, j], both(matrix[..., i, j], column[..., j]))


@every_semiring
@settings(max_examples=10)
@given(data=st.data())
def test_star_equals_the_sum_of_powers(name: str, data: st.DataObject) -> None:
    s = SEMIRINGS[name]
    if isinstance(s, SamplingSemiring):
        pytest.skip("the sampling semiring has no closure")
    score = torch.tensor(data.draw(st.one_of(st.just(-math.inf), st.floats(-8, -0.7))), dtype=torch.float64)
    if "counting" in name:
        score = torch.full((), -math.inf, dtype=torch.float64)
    x = s.lift(score, *(torch.tensor(data.draw(numbers), dtype=torch.float64) for _ in range(s.n_values)))
    one = s.one((), score)
    expected = one
    for _ in range(60):
        expected = s.add(one, s.mul(x, expected))
    assert same(s.star(x), expected)
    assert same(s.star(x), s.add(one, s.mul(x, s.star(x)))), "x* = 1 ⊕ x ⊗ x*"


@pytest.mark.parametrize("name", [n for n in SEMIRINGS if n not in ("boolean", "sampling")])
def test_divergent_star_raises(name: str) -> None:
    s = SEMIRINGS[name]
    score = torch.tensor([-1.0, 0.5])
    x = s.lift(score, *(torch.ones(2) for _ in range(s.n_values)))
    with pytest.raises(
        DivergentSumError, match=r"closure in the .* semiring diverges for \d of 2 elements\. [A-Z].*\.$"
    ):
        s.star(x)


def test_star_at_weight_one() -> None:
    zero = torch.zeros(())
    for s in (
        LogSemiring(),
        RealSemiring(),
        EntropySemiring(),
        SecondOrderExpectationSemiring(),
    ):  # the sum 1 + 1 + 1 + … has no value
        x = s.lift(zero, *(zero for _ in range(s.n_values)))
        with pytest.raises(DivergentSumError):
            s.star(x)
    assert MaxSemiring().star(zero) == 0
    assert TropicalSemiring().star(zero) == 0


@pytest.mark.parametrize("name", [n for n in SEMIRINGS if "boolean" not in n and "counting" not in n])
def test_gradients_of_impossible_elements_are_zero(name: str) -> None:
    s = SEMIRINGS[name]
    x = torch.full((2, 3), -math.inf, dtype=torch.float64)
    x[1, 2] = 0.5
    x.requires_grad_()
    values = [torch.ones(2, 3, dtype=torch.float64) for _ in range(s.n_values)]
    total = s.sum(s.mul(s.lift(x, *values), s.lift(x, *values)), dim=-1)
    (of_impossible,) = torch.autograd.grad(total[..., 0].sum(), x, retain_graph=True)
    assert (of_impossible == 0).all()
    (of_both,) = torch.autograd.grad(total.sum(), x)
    assert not of_both.isnan().any()


def test_max_gradient_goes_to_one_of_the_ties() -> None:
    for s in (MaxSemiring(), KBestSemiring(1), TropicalSemiring()):
        x = torch.zeros(4, requires_grad=True)
        s.sum(s.lift(x), dim=-1).sum().backward()
        assert x.grad is not None
        assert sorted(x.grad.abs().tolist()) == [0, 0, 0, 1]


def test_counting_exceeds_two_to_the_31() -> None:
    x = CountingSemiring().lift(torch.zeros(3, dtype=torch.float32))
    assert CountingSemiring().sum(x * 2.0**40, dim=-1) == 3 * 2**40


def test_kbest_with_k_zero_raises() -> None:
    with pytest.raises(ValueError, match="k must be at least 1, got 0"):
        KBestSemiring(0)


def test_second_order_expectation_is_accurate_far_from_zero() -> None:
    # E[r²] - E[r]² would lose all digits of a variance of 0.25 at a mean of 1e8.
    s = SecondOrderExpectationSemiring()
    r = torch.tensor([1e8, 1e8 + 1], dtype=torch.float64)
    total = s.sum(s.lift(torch.zeros(2, dtype=torch.float64), r, r), dim=-1)
    assert total[3].item() == pytest.approx(0.25, abs=1e-12)
