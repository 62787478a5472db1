"""Counts of n-grams compared to a dictionary."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from catena.errors import ConfigError, DataError, LimitError
from catena.lm.ngram.building import counted_ids
from catena.lm.ngram.counts import NgramCounts, count_ids
from catena.lm.ngram.trie import check_size
from tests.lm.ngram.texts import letters, orders, sentences
from tests.oracle import ngram as oracle
from tests.oracle.ngram import BEGIN, END


def named(counts: NgramCounts, numbers: np.ndarray) -> dict:
    """The n-grams with their values, without words that do not occur and without the start token."""
    marks = {counts.begin: BEGIN, counts.end: END}
    found = {}
    for k in range(1, counts.order + 1):
        low, _ = counts.shape.grams(k)
        for g, row in enumerate(counts.shape.spelled(k).tolist(), start=low):
            if numbers[g]:
                found[tuple(marks.get(word, word) for word in row)] = int(numbers[g])
    return found


@given(text=sentences, order=orders)
def test_counts_equal_a_dictionary(text, order):
    counts = counted_ids(text, order, letters())
    assert named(counts, counts.counts) == oracle.count(text, order)


@given(text=sentences, order=orders)
def test_adjusted_counts_are_numbers_of_preceding_words(text, order):
    counts = counted_ids(text, order, letters())
    wanted = oracle.kneser_ney_count(oracle.count(text, order), order)
    assert named(counts, counts.adjusted) == wanted
    for k in range(1, order + 1):
        expected = oracle.counts_of_counts(wanted, k)
        assert counts.of_counts(k, 4, kneser_ney=True)[1:].tolist() == [expected[c] for c in range(1, 5)]


@given(text=sentences, order=orders)
def test_suffix_is_the_ngram_without_its_first_word(text, order):
    shape = counted_ids(text, order, letters()).shape
    spelled = {0: ()}
    for k in range(1, order + 1):
        low, _ = shape.grams(k)
        spelled.update({low + i: tuple(row) for i, row in enumerate(shape.spelled(k).tolist())})
    assert len(set(spelled.values())) == len(spelled) == len(shape.words)
    for g, gram in spelled.items():
        assert spelled[int(shape.suffix[g])] == gram[1:]
        if g < len(shape.first) - 1:
            children = [spelled[c] for c in range(shape.first[g], shape.first[g + 1])]
            assert children == sorted(children)
            assert all(child[:-1] == gram for child in children)


def test_counts_sizes_and_limits():
    assert counted_ids([[4, 5, 4]], 3, letters()).shape.sizes == (7, 4, 3)
    with pytest.raises(ConfigError, match="order must be from 1 to 250, got 0"):
        counted_ids([], 0, letters())
    with pytest.raises(LimitError, match=r"at most 2,147,483,646, got 3,000,000,000. Lower the order"):
        check_size(3_000_000_000, "n-grams")


@pytest.mark.parametrize("wrong", [-1, 5, 10**6])
def test_counts_check_ids_before_a_kernel_runs(wrong):
    tokens = np.array([1, 4, wrong, 2], np.int32)
    with pytest.raises(DataError, match=f"tokens must be from 0 to 4, got {wrong}"):
        count_ids(tokens, 2, 5, 1, 2, (0, 1))
    with pytest.raises(DataError, match="begin and end must be from 0 to 4, got 9"):
        count_ids(tokens[:2], 2, 5, 1, 9, (0, 1))
