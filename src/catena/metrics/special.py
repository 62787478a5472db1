"""Student's t and the binomial distribution, from the incomplete beta function."""

from __future__ import annotations

import math

Real = float | int


def regularized_beta(x: Real, a: Real, b: Real, rest: Real | None = None) -> float:
    r"""The regularized incomplete beta function :math:`I_x(a, b)`, by its continued fraction (DLMF 8.17.22).

    ``rest`` is 1 - x, for callers that know it more precisely than the subtraction.
    """
    rest = 1 - x if rest is None else rest
    if x <= 0 or rest <= 0:
        return 0.0 if x <= 0 else 1.0
    log_beta = math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)
    front = math.exp(a * math.log(x) + b * math.log(rest) - log_beta)
    if x < (a + 1) / (a + b + 2):  # where the fraction converges fast; elsewhere by symmetry
        return front / a * _fraction(x, a, b)
    return 1 - front / b * _fraction(rest, b, a)


def _fraction(x: Real, a: Real, b: Real) -> float:
    """1 / (1 + d1 / (1 + d2 / (1 + …))), from the front, by the method of Lentz (1976)."""
    tiny = 1e-300  # replaces a denominator of 0
    value, above, below = 1.0, 1.0, 0.0
    for i in range(1, 100_000):
        m = i // 2
        if i % 2:
            term = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        else:
            term = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        below = 1 / ((1 + term * below) or tiny)
        above = (1 + term / above) or tiny
        value *= above * below
        if abs(above * below - 1) < 1e-15:
            break
    return 1 / value


def student_tail(t: Real, df: Real) -> float:
    """The probability that Student's t with ``df`` degrees of freedom exceeds t."""
    if t < 0:
        return 1 - student_tail(-t, df)
    square = t * t
    x, rest = df / (df + square), square / (df + square)
    return 0.5 * regularized_beta(x, df / 2, 0.5, rest)


def student_quantile(p: Real, df: Real) -> float:
    """The p-quantile of Student's distribution with ``df`` degrees of freedom."""
    if not (0 < p < 1 and df > 0):
        raise ValueError(f"p must be in (0, 1) and df above 0, got {p} and {df}. Correct them.")
    if p < 0.5:
        return -student_quantile(1 - p, df)
    tail = 1 - p
    if tail == 0.5:
        return 0.0
    low, high = 0.0, 1.0
    while student_tail(high, df) > tail:
        low, high = high, 2 * high
    while low < (middle := (low + high) / 2) < high:
        if student_tail(middle, df) > tail:
            low = middle
        else:
            high = middle
    return high


def binomial_at_most(k: int, n: int, p: Real = 0.5) -> float:
    """The probability of at most k successes in n trials."""
    if k >= n:
        return 1.0
    return regularized_beta(1 - p, n - k, k + 1, p) if k >= 0 else 0.0
