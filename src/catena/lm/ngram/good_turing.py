"""Good-Turing discounts of counts. Good (1953)."""

from __future__ import annotations

import numpy as np

from catena.lm.ngram.trie import DoubleArray, IntegerArray, LongArray


def katz_ratios(n: LongArray) -> DoubleArray | None:
    """``ratios[c]`` for c = 1 … most, and 1 for larger counts; None if they are invalid. Katz (1987), eq. 15.

    ``n[c]`` is the number of n-grams with count c, c = 0 … most + 1.
    """
    most = len(n) - 2
    if not n[1 : most + 1].all():
        return None
    c = np.arange(1, most + 1)
    common = (most + 1) * n[most + 1] / n[1]
    stars = (c + 1) * n[2 : most + 2] / n[1 : most + 1]
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = (stars / c - common) / (1.0 - common)
    if not ((ratios > 0.0) & (ratios <= 1.0)).all():
        return None
    return np.concatenate(([0.0], ratios, [1.0]))


def simple_good_turing(counts: IntegerArray, kinds: float, k: int) -> tuple[DoubleArray, float, str]:
    """c* of each count up to a maximum, c* of count 0, and a note if the text is too small.

    ``kinds`` is the number of possible n-grams. Turing's c* = (c + 1) n₊₁ / n is used up to the first
    count where it does not differ from a log-linear fit of n by 1.65 standard deviations any more.
    """
    c, n = np.unique(counts[counts > 0].astype(np.int64), return_counts=True)
    unseen = kinds - n.sum()
    total = float((c * n).sum())
    if len(c) < 2 or c[0] != 1 or unseen < 0.5:
        stars = np.arange(int(c[-1]) + 1 if len(c) else 2, dtype=np.float64)
        nothing = 0.5 / unseen if unseen >= 0.5 else 0.0
        return (
            stars,
            nothing,
            (
                f"The {int(n.sum()):,} {k}-grams that occur have too few different counts for Good-Turing estimates: "
                "counts are not discounted, and all others together have half a count"
            ),
        )
    gradient = _slope(c.astype(np.float64), n.astype(np.float64))
    # A line flatter than -1 would make c* larger than c.
    stars = _blended(c, n, min(gradient, -1.0))
    left = 1.0 - n[0] / total
    stars[1:] *= left * total / float((stars[c] * n).sum())
    return stars, float(n[0]) / unseen, ""


def _slope(c: DoubleArray, n: DoubleArray) -> float:
    """The regression coefficient of log z on log c, where z is n divided by the gap around c. Gale & Sampson (1995)."""
    before = np.concatenate(([0.0], c[:-1]))
    after = np.concatenate((c[1:], [2 * c[-1] - before[-1]]))
    z = n / (0.5 * (after - before))
    return float(np.polyfit(np.log(c), np.log(z), 1)[0])


def _blended(c: LongArray, n: LongArray, gradient: float) -> DoubleArray:
    number = dict(zip(c.tolist(), n.tolist(), strict=True))
    counts = np.arange(1.0, int(c[-1]) + 1)
    stars = np.concatenate(([0.0], counts * (1.0 + 1.0 / counts) ** (gradient + 1.0)))
    for count in range(1, len(stars)):
        here, above = number.get(count), number.get(count + 1)
        if here is None or above is None:
            break
        turing = (count + 1) * above / here
        spread = (count + 1) * np.sqrt(above / here**2 * (1.0 + above / here))
        if abs(turing - stars[count]) <= 1.65 * spread:
            break
        stars[count] = turing
    return stars
