"""Pruning: smaller models without n-grams that are rare, or that have little effect."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from catena.errors import ConfigError, DataError
from catena.kernels.ngram.cpu_estimate import chosen, history_log_probs, renormalize_backoffs
from catena.lm.ngram.counts import NgramCounts
from catena.lm.ngram.trie import Flags, Trie


def count_cutoff_mask(counts: NgramCounts, prune: Sequence[int]) -> Flags:
    """1 for the n-grams that occur more often than ``prune[k - 1]``; the last value applies to longer ones.

    All words are kept: limit the vocabulary to have fewer.
    """
    given = [prune] if isinstance(prune, int) else list(prune)
    thresholds = [*given, *([given[-1] if given else 0] * (counts.order - len(given)))]
    falling = any(a > b for a, b in itertools.pairwise(thresholds))
    if len(thresholds) > counts.order or falling or any(t < 0 for t in thresholds) or thresholds[0] != 0:
        raise ConfigError(
            f"prune must be at most {counts.order} counts that never decrease and start with 0, got "
            f"{' '.join(map(str, given))}. Use a value such as 0 0 1."
        )
    kept = counts.space.zeros(len(counts.counts), np.uint8)
    kept[:] = 1
    for k, threshold in enumerate(thresholds, start=1):
        if k > 1 and threshold:
            low, high = counts.shape.grams(k)
            kept[low:high] = counts.counts[low:high] > threshold
    return kept


def pruned_by_entropy(trie: Trie, threshold: float, begin: int) -> Trie:
    """The trie without n-grams whose removal raises perplexity by a fraction below ``threshold``. Stolcke (1998).

    The longest are removed first; an n-gram stays while a longer one begins or ends with it. Sums stay one. A common
    threshold is 1e-8.
    """
    if trie.flat:
        raise DataError(
            "Entropy pruning needs a back-off model, and this model (add-k, Good-Turing) does not back off. Use "
            "another estimator."
        )
    if not 0.0 <= threshold < np.inf:
        raise ConfigError(f"threshold must be at least 0, got {threshold:g}. Use a value such as 1e-8.")
    shape, backoffs = trie.shape, trie.backoffs.copy()
    strings = np.zeros(len(backoffs))
    history_log_probs(shape.first, shape.bases, trie.log_probs, begin, strings)
    kept, bound = np.ones(len(shape.words), np.uint8), np.zeros(len(shape.words), np.uint8)
    for k in range(shape.order, 1, -1):
        low, high = shape.histories(k)
        chosen(shape.first, shape.suffix, trie.log_probs, trie.backoffs, strings, low, high, threshold, bound, kept)
        renormalize_backoffs(shape.first, shape.suffix, trie.log_probs, backoffs, low, high, kept)
        a, b = shape.grams(k)
        left = a + np.flatnonzero(kept[a:b])
        bound[shape.suffix[left]] = 1
        bound[np.searchsorted(shape.first, left, side="right") - 1] = 1
    smaller, _ = shape.compacted(kept)
    chosen_nodes = kept.astype(bool)
    return Trie(smaller, trie.log_probs[chosen_nodes], backoffs[chosen_nodes[: len(backoffs)]], False)
