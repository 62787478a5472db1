"""Loops over the characters of words, compared with definitions."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from catena.kernels.spelling.cpu import edit_distances, fill_deletes, find_owners, misspelling_weights
from catena.niche.correction.index import to_codes
from tests.oracle import spelling as oracle

WORDS = ["".join(word) for n in range(5) for word in itertools.product("ab", repeat=n)] + ["abcab", "cabba", "bacbac"]


def packed(words: list[str]) -> tuple[np.ndarray, np.ndarray]:
    return to_codes("".join(words)), np.cumsum([0, *map(len, words)])


@pytest.mark.parametrize("query", ["", "a", "ba", "abab", "bbbb", "cabab", "baccab"])
def test_edit_distances_equal_recursion(query: str) -> None:
    codes, starts = packed(WORDS)
    distances = np.empty(len(WORDS), np.int64)
    edit_distances(to_codes(query), codes, starts, np.arange(len(WORDS), dtype=np.int32), 20, distances)
    assert distances.tolist() == [oracle.edit_distance(query, word) for word in WORDS]


def test_edit_distances_above_the_limit_are_above_it() -> None:
    codes, starts = packed(WORDS)
    distances = np.empty(len(WORDS), np.int64)
    edit_distances(to_codes("ab"), codes, starts, np.arange(len(WORDS), dtype=np.int32), 1, distances)
    wanted = [oracle.edit_distance("ab", word) for word in WORDS]
    assert [min(d, 2) for d in distances.tolist()] == [min(d, 2) for d in wanted]


@pytest.mark.parametrize("max_edits", [0, 1, 2])
def test_fill_deletes_gives_one_hash_to_each_delete(max_edits: int) -> None:
    codes, starts = packed(WORDS)
    keys, owners = np.empty(1000, np.uint64), np.empty(1000, np.int32)
    n = fill_deletes(codes, starts, max_edits, keys, owners)
    by_word = {w: set(keys[:n][owners[:n] == w].tolist()) for w in range(len(WORDS))}
    expected = [oracle.deletes(word, max_edits) for word in WORDS]
    assert [len(by_word[w]) for w in range(len(WORDS))] == [len(found) for found in expected]
    for v, w in itertools.combinations(range(len(WORDS)), 2):
        assert len(by_word[v] & by_word[w]) == len(expected[v] & expected[w])


@pytest.mark.parametrize("n_buckets", [1, 2, 16])
def test_find_owners_returns_each_word_with_a_key_once(n_buckets: int) -> None:
    rng = np.random.default_rng(3)
    keys = np.sort(rng.integers(0, 2**64, 40, dtype=np.uint64)[rng.integers(0, 40, 90)])
    owners = rng.integers(0, 30, 90).astype(np.int32)
    edges = [int(b * 2**64 // n_buckets) for b in range(1, n_buckets)]
    buckets = np.array([0, *(int((keys < np.uint64(edge)).sum()) for edge in edges), 90])
    seen, found = np.full(30, -1, np.int32), np.empty(30, np.int32)
    for stamp in range(20):
        queries = np.array([keys[stamp], keys[-1 - stamp], np.uint64(12345)])
        n = find_owners(queries, keys, owners, buckets, seen, stamp, found)
        expected = {int(owner) for key, owner in zip(keys, owners, strict=True) if key in queries}
        assert len(found[:n]) == len(expected)
        assert set(found[:n].tolist()) == expected


def test_misspelling_weights_equal_sums_over_scripts() -> None:
    rng = np.random.default_rng(5)
    tables = rng.random((4, 4, 4))
    true = ["", "a", "ab", "aab", "abcb", "cabba"]
    codes, starts = packed(true)
    numbers = {"a": 1, "b": 2, "c": 3}
    classes = np.array([numbers[c] for c in "".join(true)], np.int64)

    def weight(kind: str, word: str, i: int, written: str) -> float:
        number = [0, *(numbers[c] for c in word)]  # number[i] is the class of the character before position i
        if kind == "copy":
            return 1.0
        if kind == "insert":
            return float(tables[0, number[i], numbers[written]])
        if kind == "delete":
            return float(tables[1, number[i], number[i + 1]])
        if kind == "substitute":
            return float(tables[2, number[i + 1], numbers[written]])
        return float(tables[3, number[i + 1], number[i + 2]])

    for observed in ("", "b", "ba", "aba", "acbb", "baabc"):
        weights = np.empty(len(true))
        classes_observed = np.array([numbers[c] for c in observed], np.int64)
        words = np.arange(len(true), dtype=np.int32)
        misspelling_weights(to_codes(observed), classes_observed, codes, classes, starts, words, tables, weights)
        expected = [oracle.misspelling_weight(word, observed, weight) for word in true]
        assert weights.tolist() == pytest.approx(expected, rel=1e-12)
