"""Sums and logarithms: exact at minus infinity, equal to torch where it is finite, and never with a nan gradient."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal, getcontext

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from catena.numerics import NEG_INF, log1mexp, log_add_exp, log_sum_exp, masked_softmax, safe_log

getcontext().prec = 60

SCORES = st.floats(-1e3, 1e3) | st.just(NEG_INF)
ROWS = st.lists(SCORES, min_size=1, max_size=6)


def exact_log_sum_exp(row: list[float]) -> float:
    mass = sum((Decimal(x).exp() for x in row if x != NEG_INF), Decimal(0))
    return float(mass.ln()) if mass else NEG_INF


def gradient(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    x = x.detach().clone().requires_grad_()
    (found,) = torch.autograd.grad(function(x).sum(), x)
    return found


def double(values: list[float] | list[list[float]]) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


# --- values ---------------------------------------------------------------------------------------------------


@given(row=ROWS)
def test_log_sum_exp_equals_sixty_digits(row: list[float]) -> None:
    assert log_sum_exp(double(row), 0).item() == pytest.approx(exact_log_sum_exp(row), rel=1e-14, abs=1e-12)


@given(a=SCORES, b=SCORES)
def test_log_add_exp_equals_sixty_digits(a: float, b: float) -> None:
    found = log_add_exp(double([a]), double([b])).item()
    assert found == pytest.approx(exact_log_sum_exp([a, b]), rel=1e-14, abs=1e-12)


@given(p=st.floats(0, 1e3))
def test_safe_log_is_the_logarithm(p: float) -> None:
    assert safe_log(double([p])).item() == pytest.approx(math.log(p) if p else NEG_INF, rel=1e-15)


@given(row=ROWS, data=st.data())
def test_masked_softmax_equals_sixty_digits(row: list[float], data: st.DataObject) -> None:
    mask = data.draw(st.lists(st.booleans(), min_size=len(row), max_size=len(row)))
    weights = [Decimal(x).exp() if real and x != NEG_INF else Decimal(0) for x, real in zip(row, mask, strict=True)]
    expected = [float(w / sum(weights)) if w else 0.0 for w in weights]
    assert masked_softmax(double(row), torch.tensor(mask)).tolist() == pytest.approx(expected, abs=1e-13)


@given(x=st.floats(-700, -1e-300) | st.floats(-1, -1e-18))
def test_log1mexp_equals_sixty_digits(x: float) -> None:
    mass = -_expm1(Decimal(x))
    assert log1mexp(double([x])).item() == pytest.approx(float(mass.ln()), rel=1e-13)


def _expm1(x: Decimal) -> Decimal:
    """exp(x) - 1 without cancellation: by its series near 0."""
    if x < Decimal(-1) / 10:
        return x.exp() - 1
    term, total, i = x, x, 1
    while term and abs(term) > abs(total) * Decimal(10) ** -50:
        i += 1
        term *= x / i
        total += term
    return total


def test_log1mexp_is_accurate_where_naive_formula_is_not() -> None:
    x = double([-1e-20, -60.0])
    assert log1mexp(x).tolist() == pytest.approx([math.log(1e-20), -math.exp(-60)], rel=1e-12)
    assert (1 - x.exp()).log().tolist() == [NEG_INF, 0.0]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_functions_keep_the_dtype(dtype: torch.dtype) -> None:
    x = torch.tensor([[-1.0, -2.0], [NEG_INF, NEG_INF]], dtype=dtype)
    assert log_sum_exp(x, 1).dtype == dtype
    assert log_add_exp(x[0], x[1]).dtype == dtype
    assert safe_log(x.exp()).dtype == dtype
    assert masked_softmax(x, torch.ones(2, 2, dtype=torch.bool)).dtype == dtype
    assert log1mexp(x).dtype == dtype


# --- infinities -----------------------------------------------------------------------------------------------


def test_log_sum_exp_at_the_ends() -> None:
    inf = math.inf
    rows = double([[NEG_INF, NEG_INF], [NEG_INF, 3.0], [inf, 1.0], [inf, NEG_INF], [1e308, 1e308]])
    assert log_sum_exp(rows, 1).tolist() == [NEG_INF, 3.0, inf, inf, 1e308]
    assert math.isnan(log_sum_exp(double([math.nan, 1.0]), 0).item())


def test_log_sum_exp_of_no_terms_is_minus_infinity() -> None:
    assert log_sum_exp(torch.zeros(3, 0, 2), 1).tolist() == [[NEG_INF, NEG_INF]] * 3
    assert log_sum_exp(torch.zeros(0, 4), 1).shape == (0,)
    assert masked_softmax(torch.zeros(3, 0)).shape == (3, 0)
    assert gradient(lambda x: log_sum_exp(x, 0), torch.zeros(0, 2)).shape == (0, 2)


def test_log_add_exp_broadcasts() -> None:
    sums = log_add_exp(double([[0.0], [NEG_INF]]), double([0.0, NEG_INF, 1.0]))
    assert sums.tolist() == [
        pytest.approx([math.log(2), 0.0, math.log(1 + math.e)]),
        [0.0, NEG_INF, 1.0],
    ]


def test_log1mexp_at_the_ends() -> None:
    assert log1mexp(double([0.0, NEG_INF])).tolist() == [NEG_INF, 0.0]
    assert math.isnan(log1mexp(double([0.1])).item())  # a probability above one


def test_safe_log_at_the_ends() -> None:
    assert safe_log(double([0.0, -0.0, 1.0, math.inf])).tolist() == [NEG_INF, NEG_INF, 0.0, math.inf]
    assert math.isnan(safe_log(double([-1.0])).item())


def test_masked_softmax_ignores_masked_values() -> None:
    scores = double([[1.0, math.nan, math.inf], [2.0, 3.0, 4.0], [NEG_INF, NEG_INF, 0.0]])
    mask = torch.tensor([[True, False, False], [False, False, False], [True, True, False]])
    assert masked_softmax(scores, mask).tolist() == [[1.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]
    grads = gradient(lambda x: masked_softmax(x, mask)[..., 0], scores)
    assert grads.tolist() == [[0.0] * 3] * 3


def test_softmax_over_any_axis_and_without_a_mask() -> None:
    scores = torch.randn(2, 3, 4, dtype=torch.float64)
    for dim in (0, 1, 2, -2):
        assert torch.allclose(masked_softmax(scores, dim=dim), scores.softmax(dim), atol=1e-15)


# --- gradients ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_values_and_gradients_equal_those_of_torch_where_it_is_finite(dim: int) -> None:
    x = 5 * torch.randn(4, 6, dtype=torch.float64)
    weights = torch.randn(4, 6, dtype=torch.float64)
    pairs: list[tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]] = [
        (lambda x: log_sum_exp(x, dim), lambda x: torch.logsumexp(x, dim)),
        (lambda x: log_add_exp(x[0], x[1]), lambda x: torch.logaddexp(x[0], x[1])),
        (lambda x: masked_softmax(x, dim=dim) * weights, lambda x: torch.softmax(x, dim) * weights),
    ]
    for ours, theirs in pairs:
        assert torch.allclose(ours(x), theirs(x), atol=1e-14)
        assert torch.allclose(gradient(ours, x), gradient(theirs, x), atol=1e-14)


CASES: list[tuple[str, Callable[[Tensor], Tensor], list[list[float]]]] = [
    ("log_sum_exp", lambda x: log_sum_exp(x, 1), [[0.5, -1.0, 2.0], [3.0, 3.0, 3.0], [-40.0, 0.0, 40.0]]),
    ("log_add_exp", lambda x: log_add_exp(x[0], x[1]), [[0.5, -1.0, 2.0], [3.0, 3.0, -30.0]]),
    ("safe_log", safe_log, [[0.5, 1.0, 2.0]]),
    ("masked_softmax", lambda x: masked_softmax(x, x.detach() < 5, dim=1), [[0.5, -1.0, 7.0], [1.0, 2.0, 3.0]]),
    ("log1mexp", log1mexp, [[-0.1, -0.6, -0.69, -0.7, -3.0, -20.0]]),
]


@pytest.mark.parametrize(("function", "values"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_first_and_second_derivatives(function: Callable[[Tensor], Tensor], values: list[list[float]]) -> None:
    x = double(values).requires_grad_()
    assert torch.autograd.gradcheck(function, x)
    assert torch.autograd.gradgradcheck(function, x, atol=1e-4)


@pytest.mark.parametrize(
    ("function", "values"),
    [
        (lambda x: log_sum_exp(x, 0), [NEG_INF, NEG_INF, NEG_INF]),
        (lambda x: log_add_exp(x[:1], x[1:]), [NEG_INF, NEG_INF]),
        (safe_log, [0.0, 0.0]),
        (lambda x: masked_softmax(x, dim=0), [NEG_INF, NEG_INF]),
        (lambda x: masked_softmax(x, torch.tensor([False, False])), [1.0, 2.0]),
        (log1mexp, [NEG_INF, 0.0]),
    ],
)
def test_gradient_is_zero_if_nothing_is_possible(function: Callable[[Tensor], Tensor], values: list[float]) -> None:
    assert gradient(function, double(values)).tolist() == [0.0] * len(values)
    assert gradient(lambda x: gradient_graph(function, x), double(values)).tolist() == [0.0] * len(values)


def gradient_graph(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    (found,) = torch.autograd.grad(function(x).sum(), x, create_graph=True)
    return found


def test_impossible_terms_among_possible_ones_have_zero_gradient() -> None:
    grads = gradient(lambda x: log_sum_exp(x, 1), double([[NEG_INF, 1.0], [NEG_INF, NEG_INF], [0.0, 0.0]]))
    assert grads.tolist() == [[0.0, 1.0], [0.0, 0.0], [0.5, 0.5]]
    added = gradient(lambda x: log_add_exp(x[0], x[1]), double([[NEG_INF, 0.0], [2.0, NEG_INF]]))
    assert added.tolist() == [[0.0, 1.0], [1.0, 0.0]]
    logs = gradient(safe_log, double([0.0, 0.5]))
    assert logs.tolist() == [0.0, 2.0]


def test_gradient_through_impossible_cell_is_zero_in_chart() -> None:
    # A chart adds -inf cells to finite scores again and again; torch.logsumexp would give nan here.
    def chart(x: Tensor) -> Tensor:
        empty = log_sum_exp(x[:2] + NEG_INF, 0)
        return log_add_exp(empty[None], x[2:]).exp()

    assert gradient(chart, double([1.0, 2.0, 0.5])).tolist() == pytest.approx([0.0, 0.0, math.exp(0.5)])
