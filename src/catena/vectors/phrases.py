r"""Phrases: words that co-occur more often than expected are joined into one word.

.. math::  ratio = \frac{(count(ab) - least) \cdot n}{count(a) \, count(b)} \qquad
           npmi = \frac{\log(p(ab) / (p(a) p(b)))}{-\log p(ab)}

Mikolov et al. 2013, section 4; Bouma 2009. Pairs are counted in arrays; time O(n) for each pass.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int

from catena.kernels.word2vec.cpu_words import count_ids, counted_pairs, joined_pairs, moved_pairs
from catena.vectors.config import PhraseConfig
from catena.vectors.word_index import WordIndex

_LOW = np.uint64(0xFFFFFFFF)


def join_phrases(
    ids: Int[np.ndarray, " n"], words: WordIndex, settings: PhraseConfig
) -> tuple[Int[np.ndarray, " m"], WordIndex, int]:
    """Join phrases in place. Returns the new ids, the words followed by the phrases, and the number of phrases."""
    total = 0
    for _ in range(settings.passes):
        first, second, together = count_pairs(ids)
        n = int(words.counts.sum())
        scores = phrase_scores(together, words.counts[first], words.counts[second], n, settings)
        chosen = np.flatnonzero((together >= settings.min_pairs) & (scores > settings.threshold))
        if not len(chosen):
            break
        ids, words = _joined(ids, words, first[chosen], second[chosen], settings.joint)
        total += len(chosen)
    return ids, words, total


def count_pairs(ids: Int[np.ndarray, " n"]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """All adjacent pairs within lines: the first words, the second words, and the count of each pair."""
    keys, counts, at = np.zeros(1 << 16, np.uint64), np.zeros(1 << 16, np.int64), np.zeros(2, np.int64)
    while True:
        counted_pairs(np.asarray(ids), at, keys, counts)
        if at[0] + 1 >= len(ids):
            break
        larger, more = np.zeros(4 * len(keys), np.uint64), np.zeros(4 * len(keys), np.int64)
        moved_pairs(keys, counts, larger, more)
        keys, counts = larger, more
    used = np.flatnonzero(keys)
    used = used[np.argsort(keys[used])]
    pairs = keys[used] - np.uint64(1)
    return (pairs >> np.uint64(32)).astype(np.int64), (pairs & _LOW).astype(np.int64), counts[used]


def phrase_scores(
    together: Int[np.ndarray, " n"],
    first: Int[np.ndarray, " n"],
    second: Int[np.ndarray, " n"],
    n: int,
    settings: PhraseConfig,
) -> Float[np.ndarray, " n"]:
    """The scores of pairs with count ``together``, of words with counts ``first`` and ``second``."""
    apart = first.astype(np.float64) * second
    if settings.score == "ratio":
        return (together - settings.min_pairs) * float(n) / apart
    p = together / n
    never = -np.log(p) <= 0  # the text consists only of this pair
    return np.where(never, 1.0, np.log(p * n * n / apart) / np.where(never, 1.0, -np.log(p)))


def _joined(
    ids: Int[np.ndarray, " n"], words: WordIndex, first: np.ndarray, second: np.ndarray, joint: str
) -> tuple[np.ndarray, WordIndex]:
    size = 1 << max(4, (4 * len(first)).bit_length())
    keys, numbers = np.zeros(size, np.uint64), np.zeros(size, np.int64)
    given = ((first.astype(np.uint64) << np.uint64(32)) | second.astype(np.uint64)) + np.uint64(1)
    v = len(words)
    names = [f"{words[int(a)]}{joint}{words[int(b)]}" for a, b in zip(first, second, strict=True)]
    place = {name: v + i for i, name in reversed(list(enumerate(names)))}  # two pairs may have the same spelling
    found = words.find(names)
    targets = np.array([f if f >= 0 else place[name] for f, name in zip(found.tolist(), names, strict=True)], np.int64)
    moved_pairs(given, targets, keys, numbers)
    n = joined_pairs(np.asarray(ids), keys, numbers)
    ids = ids[:n]
    both = WordIndex.of([*words, *names])
    counts = np.zeros(len(both), np.int64)
    count_ids(np.asarray(ids), n, counts)
    return ids, WordIndex(both.names, both.ends, counts)
