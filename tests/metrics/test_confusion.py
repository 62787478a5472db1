"""Confusion tables: against counting, against scikit-learn, and as text."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catena.errors import DataError
from catena.metrics.confusion import confusion_table

LABELS = ["a", "b", "c"]
PAIRS = st.lists(st.tuples(st.sampled_from(LABELS), st.sampled_from(LABELS)), min_size=1, max_size=15)


@given(pairs=PAIRS, labels=st.permutations(LABELS))
def test_each_cell_counts_its_pairs(pairs: list[tuple[str, str]], labels: list[str]) -> None:
    gold, predicted = zip(*pairs, strict=True)
    table = confusion_table(gold, predicted, labels)
    counted = Counter(pairs)
    assert table.labels == tuple(labels)
    assert table.counts.tolist() == [[counted[one, other] for other in labels] for one in labels]
    assert table.n == len(pairs)
    assert table.signature == f"confusion|n={len(pairs)}"


@settings(max_examples=20)
@given(pairs=PAIRS)
def test_tables_equal_those_of_scikit_learn(pairs: list[tuple[str, str]]) -> None:
    strangers = pytest.importorskip("sklearn.metrics")
    gold, predicted = zip(*pairs, strict=True)
    theirs = strangers.confusion_matrix(gold, predicted, labels=LABELS)
    assert confusion_table(gold, predicted, LABELS).counts.tolist() == theirs.tolist()


@given(pairs=PAIRS)
def test_mistakes_are_the_most_frequent_wrong_pairs(pairs: list[tuple[str, str]]) -> None:
    wrong = Counter(pair for pair in pairs if pair[0] != pair[1])
    expected = sorted(wrong.items(), key=lambda item: (-item[1], item[0]))
    table = confusion_table(*zip(*pairs, strict=True))
    assert table.mistakes() == [(*pair, count) for pair, count in expected]
    assert table.mistakes(1) == table.mistakes()[:1]
    assert table.mistakes(0) == []


def test_the_table_as_text() -> None:
    table = confusion_table(["neg"] * 12 + ["positive"] * 2, ["neg"] * 11 + ["positive", "positive", "neg"])
    assert table.lines() == [
        "reference \\ predicted  neg  positive  total",
        "neg                     11         1     12",
        "positive                 1         1      2",
        "total                   12         2     14",
    ]


def test_numbers_and_arrays_as_labels() -> None:
    table = confusion_table(np.array([2, 10]), np.array([10, 10]))
    assert table.labels == (2, 10)
    assert table.counts.tolist() == [[0, 1], [0, 1]]


def test_invalid_input_raises_error() -> None:
    with pytest.raises(DataError, match=r"^The label 'c' is not in labels\. Add it"):
        confusion_table(["a", "b"], ["a", "c"], ["a", "b"])
    with pytest.raises(DataError, match=r"^labels must be unique, got 'a' twice"):
        confusion_table(["a"], ["a"], ["a", "a"])
    with pytest.raises(DataError, match=r"^a confusion table needs one prediction for each reference"):
        confusion_table(["a"], [])
    with pytest.raises(DataError, match=r"^a confusion table needs at least one example"):
        confusion_table([], [])
