"""Floors for WaveNet: bits a sample of simple predictors on the test sets.

    python benchmarks/wavenet_data.py --data DATA -o carry/wavenet.npz
    python benchmarks/wavenet_floors.py carry/wavenet.npz [--orders 16 32] [--dev] [--voices]

- unigram: the frequencies of the training set of the same kind, plus one.
- previous id: the frequencies after the previous level, mixed with 20 counts of the unigram distribution.
- adaptive linear: recursive least squares on decoded samples (forgetting 0.998), from zero for each recording. The
  prediction error is spread over the levels by a mixture of six logistic distributions, two running scales times three
  widths, whose weights are updated by Bayes' rule; 0.1 % is spread evenly. It adapts to each recording, so it is strong
  on unseen voices and music.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numba import njit
from wavenet_data import TEST_SETS, Corpus, read_corpus

from catena.data.mulaw import decode_mulaw, expand, level_positions


class Adaptation(NamedTuple):
    """Constants of the adaptive linear predictor."""

    forgetting: float = 0.998
    start: float = 100.0
    """The diagonal of the inverse covariance before the first sample."""
    scale: float = 0.2
    """The mean size of prediction errors before the first one."""
    renewal: float = 0.005
    """The fraction of the mixture's weights that is made even again after each sample."""
    rates: tuple[float, float] = (0.99, 0.88)
    """How much of the mean size of errors is kept after each sample."""
    widths: tuple[float, float, float] = (0.3, 0.5, 0.8)
    """The scales of the logistic distributions, as multiples of the mean size of errors."""


def linear_bits(levels: np.ndarray, order: int, constants: Adaptation) -> float:
    """The bits of one recording."""
    edges = expand(np.concatenate(([-1.0], level_positions()[1:] - 1 / 255, [1.0])))
    values = decode_mulaw(np.arange(256)).astype(np.float64)
    rates, widths = np.array(constants.rates), np.array(constants.widths)
    numbers = np.array([constants.forgetting, constants.start, constants.scale, constants.renewal])
    return _linear_bits(np.asarray(levels), values, edges, order, numbers, rates, widths)


@njit(cache=True, fastmath=True)
def _linear_bits(levels, values, edges, order, numbers, rates, widths):  # type: ignore[no-untyped-def]
    forgetting, start, scale, renewal = numbers
    n_parts = len(rates) * len(widths)
    inverse = np.eye(order) * start
    weights, past, gain = np.zeros(order), np.zeros(order), np.zeros(order)
    scales, mixture, found = np.full(len(rates), scale), np.full(n_parts, 1 / n_parts), np.empty(n_parts)
    bits = 0.0
    for level in levels:
        mean = weights @ past
        for j in range(len(rates)):
            for k in range(len(widths)):
                size = max(scales[j] * widths[k], 1e-5)
                found[j * len(widths) + k] = _bin_probability(level, mean, size, edges)
        bits -= math.log2(0.999 * (mixture @ found) + 0.001 / 256)
        mixture *= found + 1e-12
        mixture = (1 - renewal) * mixture / mixture.sum() + renewal / n_parts
        error = values[level] - mean
        scales = rates * scales + (1 - rates) * abs(error)
        gain = inverse @ past
        norm = forgetting + gain @ past
        weights += gain * (error / norm)
        for i in range(order):
            for j in range(order):
                inverse[i, j] = (inverse[i, j] - gain[i] * gain[j] / norm) / forgetting
        past[1:] = past[:-1].copy()
        past[0] = values[level]
    return bits


@njit(cache=True)
def _bin_probability(level, mean, size, edges):  # type: ignore[no-untyped-def]
    """The probability of a level by a logistic distribution; the first and the last level are open."""
    low, high = (edges[level] - mean) / size, (edges[level + 1] - mean) / size
    if level == 255:
        return 1 / (1 + math.exp(low))
    if level == 0:
        return 1 / (1 + math.exp(-high))
    if low > 0:  # by the other tail, which is not rounded to 1
        low, high = -high, -low
    return 1 / (1 + math.exp(-high)) - 1 / (1 + math.exp(-low))


def unigram_bits(train: Sequence[np.ndarray], test: Sequence[np.ndarray]) -> float:
    """Bits a sample by the frequencies of the training set."""
    p = _frequencies(train)
    counts = sum(np.bincount(x, minlength=256) for x in test)
    return float(-(counts * np.log2(p)).sum() / counts.sum())


def previous_bits(train: Sequence[np.ndarray], test: Sequence[np.ndarray]) -> float:
    """Bits a sample by the frequencies after the previous level; silence is before the first one."""
    counts = sum(_pairs(x[:-1], x[1:]) for x in train)
    p = (counts + 20 * _frequencies(train)) / (counts.sum(axis=1, keepdims=True) + 20)
    found = sum(_pairs(np.concatenate(([128], x[:-1])), x) for x in test)
    return float(-(found * np.log2(p)).sum() / found.sum())


def _frequencies(recordings: Sequence[np.ndarray]) -> np.ndarray:
    counts = 1 + sum(np.bincount(x, minlength=256) for x in recordings)
    return counts / counts.sum()


def _pairs(before: np.ndarray, after: np.ndarray) -> np.ndarray:
    return np.bincount(before.astype(np.int64) * 256 + after, minlength=65536).reshape(256, 256)


def row(corpus: Corpus, kind: str, split: str, orders: Sequence[int], source: str | None = None) -> list[float]:
    """The bits of all predictors on one set."""
    train = [corpus.recordings[int(i)] for i in corpus.indices(kind, "train")]
    test = [corpus.recordings[int(i)] for i in corpus.indices(kind, split, source)]
    n = sum(map(len, test))
    linear = [sum(linear_bits(x, order, Adaptation()) for x in test) / n for order in orders]
    return [unigram_bits(train, test), previous_bits(train, test), *linear]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--orders", type=int, nargs="+", default=[16, 32])
    parser.add_argument("--dev", action="store_true", help="the development sets, too")
    parser.add_argument("--voices", action="store_true", help="each voice of the speech, too")
    flags = parser.parse_args()
    corpus = read_corpus(flags.corpus)
    sets: dict[str, tuple[str, str, str | None]] = {name: (*pair, None) for name, pair in TEST_SETS.items()}
    if flags.voices:
        sets |= {f"speech, {voice}": ("speech", "test", voice) for voice in corpus.conditions[:-2]}
    if flags.dev:
        sets |= {f"{kind}, dev": (kind, "dev", None) for kind in ("speech", "music", "digits")}
    head = ["unigram", "previous", *(f"linear {order}" for order in flags.orders)]
    print(f"{'set':22}" + "".join(f"{name:>12}" for name in head))
    for name, (kind, split, source) in sets.items():
        found = row(corpus, kind, split, flags.orders, source)
        print(f"{name:22}" + "".join(f"{bits:12.4f}" for bits in found), flush=True)


if __name__ == "__main__":
    main()
