r"""Probabilities from counts: one function for each smoothing method.

All except two are back-off models,

.. math::  p(w \mid h) = p^*(w \mid h) \text{ if } hw \text{ is kept, else } \beta(h)\, p(w \mid h')

with h' the history h without its first word, down to the uniform distribution over the words that can be predicted.
Interpolated models have this form, too, with the interpolation already included in p*. The probability of an n-gram
that is not kept (``kept[g]`` = 0) goes to the back-off weight of its history.

``add_k`` and ``good_turing`` are *flat* models: all words not seen after h have the same
probability. In all models a history that never occurred is shortened until it did.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from catena.errors import ConfigError
from catena.kernels.ngram.cpu_estimate import estimate_backoff, estimate_floored, estimate_interpolated
from catena.lm.ngram.counts import NgramCounts
from catena.lm.ngram.good_turing import katz_ratios, simple_good_turing
from catena.lm.ngram.trie import DoubleArray, Flags, Floats, Trie
from catena.registry import Registry

_FALLBACK = (0.5, 1.0, 1.5)
"""Discounts of counts 1, 2 and above if the text has too few different counts to estimate them."""


@dataclass(frozen=True, eq=False)
class Estimates:
    """Probabilities of all nodes and back-off weights of histories, not logarithms."""

    probs: DoubleArray
    backoffs: DoubleArray
    flat: bool = False
    normalized: bool = True
    notes: tuple[str, ...] = ()


EstimateFn = Callable[[NgramCounts, Flags], Estimates]
ESTIMATORS: Registry[EstimateFn] = Registry("n-gram estimator")
"""Estimators by name. Bind options with ``functools.partial``."""


def _blank(counts: NgramCounts) -> tuple[DoubleArray, DoubleArray]:
    """Arrays for probabilities and back-off weights; the empty n-gram has the uniform distribution."""
    probs = counts.space.zeros(len(counts.counts), np.float64)
    backoffs = counts.space.zeros(len(counts.shape.first) - 1, np.float64)
    backoffs[:] = 1.0
    probs[0] = 1.0 / counts.events
    return probs, backoffs


def _interpolate(
    counts: NgramCounts,
    kept: Flags,
    discounts: Sequence[tuple[float, ...]],
    kneser_ney: bool,
    weight_of_types: float = 0.0,
) -> tuple[DoubleArray, DoubleArray]:
    probs, backoffs = _blank(counts)
    shape, used = counts.shape, counts.adjusted if kneser_ney else counts.counts
    for k, discount in enumerate(discounts, start=1):
        table = np.array((0.0, *discount))
        estimate_interpolated(
            used, kept, shape.first, shape.suffix, *shape.histories(k), table, weight_of_types, probs, backoffs
        )
        _forbid(counts, k, probs)
    return probs, backoffs


def _forbid(counts: NgramCounts, k: int, probs: DoubleArray) -> None:
    if k == 1:
        probs[[1 + w for w in counts.impossible]] = 0.0


# --- without smoothing ---------------------------------------------------------------------------------------


@ESTIMATORS.register("maximum-likelihood")
def maximum_likelihood(counts: NgramCounts, kept: Flags) -> Estimates:
    """p(w | h) = c(hw) / c(h). Unseen words are impossible, also the unknown word if the text has none."""
    return Estimates(*_interpolate(counts, kept, [(0.0,)] * counts.order, kneser_ney=False))


@ESTIMATORS.register("stupid-backoff")
def stupid_backoff(counts: NgramCounts, kept: Flags, weight: float = 0.4) -> Estimates:
    """c(hw) / c(h), or else ``weight`` times the score after h', finally weight / v. Brants et al. (2007).

    Scores do not sum to one.
    """
    _check("weight", weight, 0.0 < weight <= 1.0, "above 0 and at most 1")
    probs, backoffs = _blank(counts)
    shape = counts.shape
    nothing = np.zeros(len(backoffs))
    for k in range(1, counts.order + 1):
        low, high = shape.histories(k)
        estimate_interpolated(
            counts.counts, kept, shape.first, shape.suffix, low, high, np.zeros(2), 0.0, probs, nothing
        )  # discounts of 0 leave nothing for the back-off weights, so this is c(hw) / c(h)
        backoffs[low:high] = np.where(np.diff(shape.first[low : high + 1]) > 0, weight, 1.0)
    probs[1 : 1 + shape.v][counts.counts[1 : 1 + shape.v] == 0] = weight / counts.events
    _forbid(counts, 1, probs)
    return Estimates(probs, backoffs, normalized=False)


# --- interpolation --------------------------------------------------------------------------------------------


@ESTIMATORS.register("witten-bell")
def witten_bell(counts: NgramCounts, kept: Flags) -> Estimates:
    """p(w | h) = (c(hw) + t(h) p(w | h')) / (c(h) + t(h)), t(h) different words after h. Witten & Bell (1991)."""
    return Estimates(*_interpolate(counts, kept, [(0.0,)] * counts.order, kneser_ney=False, weight_of_types=1.0))


@ESTIMATORS.register("absolute-discounting")
def absolute_discounting(counts: NgramCounts, kept: Flags, discount: float | None = None) -> Estimates:
    """p(w | h) = (c(hw) - D + D t(h) p(w | h')) / c(h), D = n₁ / (n₁ + 2 n₂) of each order. Ney et al. (1994)."""
    discounts, notes = _single(counts, discount, kneser_ney=False)
    return Estimates(*_interpolate(counts, kept, discounts, kneser_ney=False), notes=notes)


@ESTIMATORS.register("kneser-ney")
def kneser_ney(counts: NgramCounts, kept: Flags, discount: float | None = None) -> Estimates:
    """Absolute discounting, with shorter n-grams counted by the different words before them. Kneser & Ney (1995)."""
    discounts, notes = _single(counts, discount, kneser_ney=True)
    return Estimates(*_interpolate(counts, kept, discounts, kneser_ney=True), notes=notes)


@ESTIMATORS.register("modified-kneser-ney")
def modified_kneser_ney(counts: NgramCounts, kept: Flags) -> Estimates:
    """Kneser-Ney with discounts for counts 1, 2 and above. Chen & Goodman (1998), section 4.1.6, eq. 26."""
    discounts, notes = [], []
    for k in range(1, counts.order + 1):
        found = _three(counts.of_counts(k, 4, kneser_ney=True))
        if found is None:
            notes.append(_too_few(counts, k, _FALLBACK))
        discounts.append(found or _FALLBACK)
    return Estimates(*_interpolate(counts, kept, discounts, kneser_ney=True), notes=tuple(notes))


def _three(n: np.ndarray) -> tuple[float, float, float] | None:
    """D₁, D₂, D₃₊, or None if they cannot be estimated or are invalid."""
    if not n[1:4].all():
        return None
    y = n[1] / (n[1] + 2.0 * n[2])
    found = [c - (c + 1) * y * n[c + 1] / n[c] for c in (1, 2, 3)]
    return (found[0], found[1], found[2]) if all(0.0 <= d <= c for c, d in zip((1, 2, 3), found, strict=True)) else None


def _single(
    counts: NgramCounts, given: float | None, kneser_ney: bool
) -> tuple[list[tuple[float, ...]], tuple[str, ...]]:
    """The discount of each order, the same for all counts."""
    if given is not None:
        _check("discount", given, 0.0 <= given <= 1.0, "0 to 1")
        return [(given,)] * counts.order, ()
    discounts: list[tuple[float, ...]] = []
    notes = []
    for k in range(1, counts.order + 1):
        n = counts.of_counts(k, 2, kneser_ney)
        if n[1] == 0:
            notes.append(_too_few(counts, k, _FALLBACK[:1]))
        discounts.append((n[1] / (n[1] + 2.0 * n[2]) if n[1] else _FALLBACK[0],))
    return discounts, tuple(notes)


def _too_few(counts: NgramCounts, k: int, used: tuple[float, ...]) -> str:
    return (
        f"The {counts.shape.sizes[k - 1]:,} {k}-grams are too few, or too regular, to estimate discounts from "
        f"their counts: {', '.join(f'{d:g}' for d in used)} are used instead"
    )


# --- Good & Turing ---------------------------------------------------------------------------------------------


@ESTIMATORS.register("katz")
def katz(counts: NgramCounts, kept: Flags, most: int = 5) -> Estimates:
    """Back-off with counts up to ``most`` discounted by Good & Turing's ratios. Katz (1987)."""
    probs, backoffs = _blank(counts)
    shape, notes = counts.shape, []
    for k in range(1, counts.order + 1):
        ratios = katz_ratios(counts.of_counts(k, most + 1))
        if ratios is None:
            notes.append(_too_few(counts, k, _FALLBACK[:1]))
            ratios = np.array([0.0, *((c - _FALLBACK[0]) / c for c in range(1, most + 1)), 1.0])
        if k == 1:
            _katz_words(counts, kept, ratios, probs, backoffs)
        else:
            low, high = shape.histories(k)
            estimate_backoff(counts.counts, kept, shape.first, shape.suffix, low, high, ratios, probs, backoffs)
    return Estimates(probs, backoffs, notes=tuple(notes))


def _katz_words(
    counts: NgramCounts, kept: Flags, ratios: DoubleArray, probs: DoubleArray, backoffs: DoubleArray
) -> None:
    """Distribute the discounted probability of seen words over unseen ones, or over all if all were seen."""
    n = counts.counts[1 : 1 + counts.shape.v].astype(np.float64)
    possible = np.ones(len(n), bool)
    possible[list(counts.impossible)] = False
    found = ratios[np.minimum(n, len(ratios) - 1).astype(np.int64)] * n / max(n.sum(), 1.0)
    unseen = possible & (n == 0)
    takers = unseen if unseen.any() else possible
    found[takers] += (1.0 - found.sum()) / takers.sum()
    probs[1 : 1 + len(n)] = found
    backoffs[0] = 1.0


@ESTIMATORS.register("add-k")
def add_k(counts: NgramCounts, kept: Flags, k: float = 1.0) -> Estimates:
    """p(w | h) = (c(hw) + k) / (c(h) + k v). Lidstone (1920); Laplace's rule for k = 1. A flat model."""
    _check("k", k, k > 0.0, "above 0")
    probs, floors = _blank(counts)
    for length in range(1, counts.order + 1):
        low, high = counts.shape.histories(length)
        stars, v = np.array([k]), float(counts.events)
        estimate_floored(counts.counts, kept, counts.shape.first, low, high, stars, k, k, v, probs, floors)
        _forbid(counts, length, probs)
    return Estimates(probs, floors, flat=True)


@ESTIMATORS.register("good-turing")
def good_turing(counts: NgramCounts, kept: Flags) -> Estimates:
    """p(w | h) = c*(hw) / Σ c* with the simple Good-Turing counts of Gale & Sampson (1995). A flat model.

    All n-grams of a length that were never seen together have the probability n₁ / N.
    """
    probs, floors = _blank(counts)
    notes, v = [], float(counts.events)
    for k in range(1, counts.order + 1):
        a, b = counts.shape.grams(k)
        stars, nothing, note = simple_good_turing(counts.counts[a:b], v**k, k)
        notes += [note] if note else []
        low, high = counts.shape.histories(k)
        estimate_floored(counts.counts, kept, counts.shape.first, low, high, stars, 0.0, nothing, v, probs, floors)
        _forbid(counts, k, probs)
    return Estimates(probs, floors, flat=True, notes=tuple(notes))


def _check(name: str, value: float, fits: bool, must: str) -> None:
    if not fits or not math.isfinite(value):
        raise ConfigError(f"{name} must be {must}, got {value:g}. Use a value in this range.")


# --- from estimates to a model ----------------------------------------------------------------------------------


def to_trie(counts: NgramCounts, estimates: Estimates, kept: Flags) -> Trie:
    """The trie of log-probabilities of the n-grams that are kept."""
    shape, probs, backoffs = counts.shape, estimates.probs, estimates.backoffs
    if not kept.all():
        shape, _ = shape.compacted(kept)
        probs = probs[kept.astype(bool)]
        backoffs = backoffs[kept[: len(backoffs)].astype(bool)]
        childless = np.diff(shape.first) == 0
        backoffs = np.where(childless, 1.0, backoffs)
    log_probs, log_backoffs = (_logs(counts, x) for x in (probs, backoffs))
    np.minimum(log_probs, 0.0, out=log_probs)
    return Trie(shape, log_probs, log_backoffs, estimates.flat, counts.space)


def _logs(counts: NgramCounts, x: DoubleArray) -> Floats:
    found = counts.space.zeros(len(x), np.float32)
    with np.errstate(divide="ignore"):
        for low in range(0, len(x), 1 << 16):
            found[low : low + (1 << 16)] = np.log(x[low : low + (1 << 16)])
    return found
