"""N-grams as ids: counted, looked up and hashed, compared with n-grams as tuples."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest

from catena.kernels.bags import reference
from catena.kernels.bags.cpu_ngrams import count_ngrams, hash_ngrams, insert_ngrams, look_up_ngrams


def texts(seed: int, n: int = 30, size: int = 6, longest: int = 60) -> list[list[int]]:
    rng = np.random.default_rng(seed)
    return [rng.integers(0, size, rng.integers(0, longest)).tolist() for _ in range(n)]


def flat(rows: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    return np.array([x for row in rows for x in row], np.int32), np.cumsum([0, *map(len, rows)]).astype(np.int64)


def grams(row: list[int], order: int) -> list[tuple[int, ...]]:
    return [tuple(row[i : i + n]) for n in range(1, order + 1) for i in range(len(row) - n + 1)]


def counted(rows: list[list[int]], singles: list[list[int]], order: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The counts, parents and last symbols of all n-grams."""
    symbols, first = flat(rows)
    most = len(symbols) * order + sum(map(len, singles)) + 1
    keys, ids = np.zeros(2**14, np.uint64), np.zeros(2**14, np.int32)
    counts, parents, lasts = np.zeros(most, np.int64), np.zeros(most, np.int32), np.zeros(most, np.int32)
    n = count_ngrams(symbols, first, flat(singles)[0], order, keys, ids, 0, counts, parents, lasts)
    return counts[:n], parents[:n], lasts[:n]


def spelled(i: int, parents: np.ndarray, lasts: np.ndarray) -> tuple[int, ...]:
    return (*spelled(int(parents[i]), parents, lasts), int(lasts[i])) if i >= 0 else ()


@pytest.mark.parametrize("order", [0, 1, 2, 3])
def test_counts_equal_those_of_tuples(order: int) -> None:
    rows, singles = texts(0), [[100 + x for x in row] for row in texts(1, longest=4)]
    counts, parents, lasts = counted(rows, singles, order)
    wanted = Counter(gram for row in rows for gram in grams(row, order))
    wanted += Counter((x,) for row in singles for x in row)
    assert {spelled(i, parents, lasts): int(n) for i, n in enumerate(counts)} == wanted
    assert (parents < np.arange(len(parents))).all(), "a prefix is numbered before its n-grams"


@pytest.mark.parametrize("distinct", [False, True])
@pytest.mark.parametrize("order", [1, 2, 3])
def test_look_up_finds_listed_ngrams_only(order: int, distinct: bool) -> None:
    _, parents, lasts = counted(texts(0, n=3), [[100, 101]], order)
    ids = {spelled(i, parents, lasts): i for i in range(len(parents))}
    keys, values = np.zeros(2**14, np.uint64), np.zeros(2**14, np.int32)
    insert_ngrams(parents, lasts, 0, keys, values)
    rows = [[x if x < 5 else -1 for x in row] for row in texts(7)]
    singles = [[100, 100, 102, -1][: len(row) % 5] for row in rows]
    symbols, first = flat(rows)
    more, single_first = flat(singles)
    found, found_first = np.empty(len(symbols) * order + len(more), np.int32), np.zeros(len(rows) + 1, np.int64)
    n = look_up_ngrams(
        symbols, first, more, single_first, order, keys, values, distinct, found, found_first
    )  # fmt: skip
    assert n == found_first[-1]
    sorted_keys = reference.trie_keys(parents, lasts)
    by_key = np.argsort(sorted_keys)
    slow = reference.look_up_ngrams(
        [np.array(row, np.int64) for row in rows], [np.array(row, np.int64) for row in singles], order,
        sorted_keys[by_key], by_key,
    )  # fmt: skip
    for i, row in enumerate(rows):
        wanted = sorted(ids[gram] for gram in [*grams(row, order), *((x,) for x in singles[i])] if gram in ids)
        assert slow[i] == wanted
        wanted = sorted(set(wanted)) if distinct else wanted
        assert found[found_first[i] : found_first[i + 1]].tolist() == wanted
    assert n > 100


def test_hashes_depend_on_the_ngram_only() -> None:
    rows, singles, buckets = texts(3), texts(4, longest=5), 1000
    symbols, first = flat(rows)
    more, single_first = flat(singles)
    found, found_first = np.empty(len(symbols) * 2 + len(more), np.int32), np.zeros(len(rows) + 1, np.int64)
    n = hash_ngrams(symbols, first, more, single_first, 2, buckets, False, found, found_first)
    slow = reference.hash_ngrams(
        list(map(np.array, map(np.int64, rows))), list(map(np.array, map(np.int64, singles))), 2, buckets
    )
    assert [found[a:b].tolist() for a, b in itertools.pairwise(found_first)] == slow
    assert n == sum(len(grams(row, 2)) for row in rows) + sum(map(len, singles))
    assert found[:n].min() >= 0
    assert found[:n].max() < buckets
    assert len(set(found[:n].tolist())) > 40, "6 symbols, 36 pairs and 6 single symbols rarely collide in 1000 buckets"


def test_hash_depends_on_order_and_differs_for_single_symbols() -> None:
    pair, turned, single = (
        reference.hash_ngrams([np.array(row)], [np.array(more)], 2, 2**31 - 1)[0]
        for row, more in (([1, 2], []), ([2, 1], []), ([], [1]))
    )
    assert len(set(pair) & set(turned)) == 2, "the two symbols are the same, the pair is not"
    assert not set(single) & set(pair)
