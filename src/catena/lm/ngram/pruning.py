"""Smaller models: leaving out n-grams that are rare."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from catena.errors import ConfigError
from catena.lm.ngram.counts import NgramCounts
from catena.lm.ngram.trie import Flags


def kept_by_count(counts: NgramCounts, prune: Sequence[int]) -> Flags:
    """1 for the n-grams that occur more often than ``prune`` says for their length, the last number for longer ones.

    Words are all kept: to know fewer, limit the vocabulary.
    """
    thresholds = [*prune, *([prune[-1] if prune else 0] * (counts.order - len(prune)))]
    falling = any(a > b for a, b in itertools.pairwise(thresholds))
    if len(thresholds) > counts.order or falling or any(t < 0 for t in thresholds) or thresholds[0] != 0:
        raise ConfigError(
            f"prune must hold at most {counts.order} counts that never fall, the first of them 0, such as 0 0 1, but "
            f"it is {' '.join(map(str, prune))}"
        )
    kept = np.ones(len(counts.counts), np.uint8)
    for k, threshold in enumerate(thresholds, start=1):
        if k > 1 and threshold:
            low, high = counts.shape.grams(k)
            kept[low:high] = counts.counts[low:high] > threshold
    return kept
