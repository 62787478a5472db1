"""A trie from n-grams in any order, with missing histories and suffixes filled in."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from catena.data.vocabulary import Vocabulary
from catena.errors import FormatError
from catena.kernels.ngram.cpu_counts import find_nodes, link_suffixes
from catena.lm.ngram.trie import DoubleArray, IntegerArray, Trie, TrieLayout, check_size

_Level = tuple[IntegerArray, DoubleArray, DoubleArray]


def trie_of_rows(levels: Iterable[_Level], path: Path, vocabulary: Vocabulary) -> Trie:
    """A trie from (rows, log-probabilities, log back-off weights) of each length; length 1 has all words in order.

    Missing histories and suffixes of n-grams are added, with their back-off probability and without a back-off
    weight.
    """
    given = list(levels)
    check_size(sum(len(rows) for rows, _, _ in given) + 1, "n-grams")
    built = _built(given, path, vocabulary) or _built(_closed(given), path, vocabulary)
    assert built is not None
    shape, probs, weights = built
    _fill(shape, probs, weights)
    return Trie(shape, probs.astype(np.float32), weights.astype(np.float32))


def _built(
    levels: list[_Level], path: Path, vocabulary: Vocabulary
) -> tuple[TrieLayout, DoubleArray, DoubleArray] | None:
    """The trie of n-grams, or None if a history or a suffix is missing."""
    n = 1 + sum(len(rows) for rows, _, _ in levels)
    words, log_probs, backoffs = np.zeros(n, np.int32), np.zeros(n), np.zeros(n)
    first, bases = np.zeros(n + 1, np.int32), [0, 1]
    first[0] = 1
    for k, (rows, probs, weights) in enumerate(levels, start=1):
        parents = np.zeros(len(rows), np.int64)
        if find_nodes(words, first, np.ascontiguousarray(rows).reshape(-1), k, parents):
            return None
        keys = parents << 32 | rows[:, -1]
        order = np.argsort(keys, kind="stable")
        keys = keys[order]
        for i in np.flatnonzero(keys[1:] == keys[:-1])[:1]:
            gram = " ".join(vocabulary.tokens(rows[order[i]].tolist()))
            raise FormatError(f"{path} lists the n-gram {gram!r} twice. Remove one of the two.")
        low, high = bases[-1], bases[-1] + len(rows)
        words[low:high], log_probs[low:high], backoffs[low:high] = rows[order, -1], probs[order], weights[order]
        above = np.arange(bases[-2], bases[-1])
        first[above + 1] = low + np.searchsorted(keys, (above + 1) << 32)
        first[bases[-1] + 1 :] = high  # the n-grams of this length have no children yet
        bases.append(high)
    starts, suffix = np.array(bases), np.zeros(n, np.int32)
    inner = first[: bases[-2] + 1].copy()
    if link_suffixes(words, inner, starts, suffix) >= 0:
        return None
    return TrieLayout(words, inner, suffix, starts), log_probs, backoffs[: bases[-2]].copy()


def _closed(levels: list[_Level]) -> list[_Level]:
    """The same n-grams with their missing histories and suffixes, which have the log-probability nan."""
    closed = list(levels)
    for k in range(len(levels), 2, -1):
        below, probs, weights = closed[k - 2]
        known = set(map(tuple, below.tolist()))
        rows = closed[k - 1][0].tolist()
        needed = {part for row in rows for part in (tuple(row[:-1]), tuple(row[1:]))} - known
        if needed:
            missing = np.array(sorted(needed), np.int32)
            closed[k - 2] = (
                np.concatenate((below, missing)),
                np.concatenate((probs, np.full(len(missing), np.nan))),
                np.concatenate((weights, np.zeros(len(missing)))),
            )
    return closed


def _fill(shape: TrieLayout, log_probs: DoubleArray, backoffs: DoubleArray) -> None:
    """Set the log-probabilities of n-grams without one by backing off, shorter ones first."""
    for k in range(2, shape.order + 1):
        low, high = shape.grams(k)
        wanted = low + np.flatnonzero(np.isnan(log_probs[low:high]))
        if len(wanted):
            parents = np.searchsorted(shape.first, wanted, side="right") - 1
            log_probs[wanted] = backoffs[parents] + log_probs[shape.suffix[wanted]]
