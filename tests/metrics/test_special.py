"""Student's t and the binomial: against a printed table, integration, enumeration, and scipy where there is one."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catena.metrics.special import binomial_at_most, regularized_beta, student_quantile, student_tail
from tests.oracle import metrics as oracle

# Upper 2.5 % and 0.5 % points, as printed in the tables of textbooks (Fisher & Yates).
TABLE = [
    (1, 12.706, 63.657),
    (2, 4.303, 9.925),
    (3, 3.182, 5.841),
    (4, 2.776, 4.604),
    (5, 2.571, 4.032),
    (9, 2.262, 3.250),
    (10, 2.228, 3.169),
    (20, 2.086, 2.845),
    (30, 2.042, 2.750),
    (120, 1.980, 2.617),
]


@pytest.mark.parametrize(("df", "wide", "wider"), TABLE)
def test_quantiles_equal_the_table(df: int, wide: float, wider: float) -> None:
    assert student_quantile(0.975, df) == pytest.approx(wide, abs=5e-4)
    assert student_quantile(0.995, df) == pytest.approx(wider, abs=5e-4)


@pytest.mark.parametrize("p", [0.01, 0.3, 0.5, 0.6, 0.9, 0.999])
def test_quantiles_with_one_and_two_degrees_have_a_formula(p: float) -> None:
    assert student_quantile(p, 1) == pytest.approx(math.tan(math.pi * (p - 0.5)), rel=1e-12, abs=1e-12)
    assert student_quantile(p, 2) == pytest.approx((2 * p - 1) / math.sqrt(2 * p * (1 - p)), rel=1e-12, abs=1e-12)


@given(t=st.floats(0, 6), df=st.integers(1, 60))
def test_tails_equal_the_integral_of_the_density(t: float, df: int) -> None:
    assert student_tail(t, df) == pytest.approx(oracle.student_tail(t, df), abs=1e-9)
    assert student_tail(-t, df) == pytest.approx(1 - oracle.student_tail(t, df), abs=1e-9)


@given(p=st.floats(1e-6, 1 - 1e-6), df=st.floats(0.5, 500))
def test_quantile_and_tail_undo_each_other(p: float, df: float) -> None:
    assert 1 - student_tail(student_quantile(p, df), df) == pytest.approx(p, rel=1e-9)


@given(a=st.floats(0.1, 50), b=st.floats(0.1, 50), x=st.floats(0, 1))
def test_the_beta_function_is_symmetric(a: float, b: float, x: float) -> None:
    assert regularized_beta(x, a, b) == pytest.approx(1 - regularized_beta(1 - x, b, a, x), abs=1e-10)


@given(n=st.integers(0, 60), data=st.data())
def test_binomials_equal_the_sum(n: int, data: st.DataObject) -> None:
    k = data.draw(st.integers(0, n))
    assert binomial_at_most(k, n) == pytest.approx(float(oracle.binomial_at_most(k, n)), rel=1e-10)


def test_ends() -> None:
    assert regularized_beta(0, 2, 3) == 0
    assert regularized_beta(1, 2, 3) == 1
    assert binomial_at_most(-1, 5) == 0
    assert binomial_at_most(5, 5) == binomial_at_most(0, 0) == 1
    assert student_quantile(0.5, 7) == 0


@pytest.mark.parametrize(("p", "df"), [(0, 3), (1, 3), (0.5, 0), (math.nan, 3)])
def test_invalid_quantile_raises_error(p: float, df: float) -> None:
    with pytest.raises(ValueError, match=r"^p must be in \(0, 1\) and df above 0, got "):
        student_quantile(p, df)


def test_all_equal_those_of_scipy() -> None:
    stats = pytest.importorskip("scipy.stats")
    for df in (1, 2.5, 4, 9, 30, 1000):
        for p in (0.001, 0.25, 0.75, 0.975, 0.9999):
            assert student_quantile(p, df) == pytest.approx(stats.t.ppf(p, df), rel=1e-8)
    for n in (1, 7, 1000, 100_000):
        for k in (0, n // 3, n // 2):
            assert binomial_at_most(k, n) == pytest.approx(stats.binom.cdf(k, n, 0.5), rel=1e-7, abs=1e-300)
            assert binomial_at_most(k, n, 0.3) == pytest.approx(stats.binom.cdf(k, n, 0.3), rel=1e-7, abs=1e-300)
