"""Splits against their definition, written out slowly, and against laws."""

from __future__ import annotations

import hashlib
import math
import random
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catena.data.splits import Splits
from catena.errors import ConfigError, DataError

FRACTIONS = st.sampled_from([Fraction(1, 10), Fraction(1, 20), Fraction(1, 3), Fraction(1, 2), Fraction(9, 10)])
KEYS = st.lists(st.text(max_size=3), min_size=2, max_size=40)


def expected_dev(keys: list[str], fraction: Fraction) -> set[str]:
    """The definition for distinct keys: sort by sha256, take the first ceil(fraction * n)."""
    count = min(max(1, math.ceil(fraction * len(keys))), len(keys) - 1)
    ranked = sorted(keys, key=lambda key: hashlib.sha256(f"dev/{key}".encode("utf-8", "surrogatepass")).hexdigest())
    return set(ranked[:count])


@given(st.sets(st.text(max_size=3), min_size=2, max_size=40).map(sorted), FRACTIONS)
def test_hash_split_of_distinct_keys_equals_definition(keys: list[str], fraction: Fraction) -> None:
    rows = Splits(float(fraction)).rows(keys)
    assert {keys[i] for i in rows.dev} == expected_dev(keys, fraction)
    assert len(rows.test) == 0


@given(KEYS, FRACTIONS, st.sampled_from(["hash", "stratified", "end", "random"]), st.data())
def test_rows_are_a_partition_without_empty_parts(keys: list[str], fraction: Fraction, by, data) -> None:
    labels = data.draw(st.lists(st.sampled_from("abc"), min_size=len(keys), max_size=len(keys)))
    rows = Splits(float(fraction), by=by).rows(keys, labels)
    assert sorted([*rows.train, *rows.dev]) == list(range(len(keys)))
    assert len(rows.train) > 0
    assert len(rows.dev) > 0
    assert list(rows.train) == sorted(rows.train)
    assert list(rows.dev) == sorted(rows.dev)


@given(KEYS, FRACTIONS, st.randoms(use_true_random=False))
def test_hash_split_does_not_depend_on_order(keys: list[str], fraction: Fraction, shuffler: random.Random) -> None:
    dev = Counter(keys[i] for i in Splits(float(fraction)).rows(keys).dev)
    other = shuffler.sample(keys, len(keys))
    assert Counter(other[i] for i in Splits(float(fraction), seed=7).rows(other).dev) == dev


@given(KEYS.filter(lambda keys: len(set(keys)) > 1), FRACTIONS)
def test_equal_keys_stay_together(keys: list[str], fraction: Fraction) -> None:
    rows = Splits(float(fraction)).rows(keys)
    assert not {keys[i] for i in rows.dev} & {keys[i] for i in rows.train}


def test_size_is_exact_in_spite_of_equal_keys() -> None:
    keys = ["twice", "twice", *map(str, range(28))]
    for n in range(1, 29):
        assert len(Splits(n / 30).rows(keys).dev) == n


@pytest.mark.parametrize(
    ("fraction", "n", "size"), [(0.07, 100, 7), (0.1, 30, 3), (0.05, 60, 3), (0.1, 31, 4), (0.05, 40, 2), (0.1, 2, 1)]
)
def test_size_is_the_ceiling_without_rounding_errors(fraction: float, n: int, size: int) -> None:
    assert len(Splits(fraction).rows([str(i) for i in range(n)]).dev) == size


def test_one_more_example_moves_at_most_one_other() -> None:
    keys = [f"key {i}" for i in range(100)]
    dev = {keys[i] for i in Splits().rows(keys).dev}
    for extra in ("a", "b", "c", "d"):
        longer = [extra, *keys]
        other = {longer[i] for i in Splits().rows(longer).dev}
        assert len(dev - other) + len(other - dev) <= 2


@given(st.lists(st.sampled_from("aaaaaabbbc"), min_size=4, max_size=60), FRACTIONS)
def test_stratified_split_is_proportional_and_exact(labels: list[str], fraction: Fraction) -> None:
    keys = [f"{label} {i}" for i, label in enumerate(labels)]
    rows = Splits(float(fraction), by="stratified").rows(keys, labels)
    sizes, dev = Counter(labels), Counter(labels[i] for i in rows.dev)
    count = min(max(1, math.ceil(fraction * len(labels))), len(labels) - 1)
    possible = sum(n - 1 for n in sizes.values())
    if possible:
        assert len(rows.dev) == min(count, possible)
        assert all(dev[label] < n for label, n in sizes.items())
        if all(count * n / len(labels) <= n - 1 for n in sizes.values()):
            assert all(abs(dev[label] - count * n / len(labels)) < 1 for label, n in sizes.items())
    else:
        assert len(rows.dev) == count


def test_stratified_split_gives_seats_by_largest_remainders() -> None:
    labels = list("aaaaaabbbb")  # quotas of two seats: 1.2 and 0.8
    rows = Splits(0.2, by="stratified").rows(list(map(str, range(10))), labels)
    assert sorted(labels[i] for i in rows.dev) == ["a", "b"]


def test_stratified_split_does_not_depend_on_order() -> None:
    examples = [(f"text {i}", "ab"[i % 3 == 0]) for i in range(50)]
    found = set()
    for seed in range(5):
        shuffled = random.Random(seed).sample(examples, len(examples))
        rows = Splits(0.2, by="stratified").rows(*map(list, zip(*shuffled, strict=True)))
        found.add(frozenset(shuffled[i] for i in rows.dev))
    assert len(found) == 1


def test_stratified_split_of_single_examples_is_not_empty() -> None:
    rows = Splits(0.1, by="stratified").rows(list("abcdef"), list("uvwxyz"))
    assert len(rows.dev) == 1


def test_many_labels_of_two_examples_keep_the_size() -> None:
    labels = [str(i // 2) for i in range(2000)]
    rows = Splits(0.1, by="stratified").rows([str(i) for i in range(2000)], labels)
    assert len(rows.dev) == 200
    assert max(Counter(labels[i] for i in rows.dev).values()) == 1


def test_end_split_takes_the_last_examples_by_number_or_size() -> None:
    keys = list("abcdefghij")
    assert list(Splits(0.25, by="end").rows(keys).dev) == [7, 8, 9]
    rows = Splits(0.25, by="end", test_fraction=0.1).rows(keys)
    assert (list(rows.dev), list(rows.test)) == ([6, 7, 8], [9])
    assert list(Splits(0.25, by="end").rows(keys, sizes=[1] * 9 + [100]).dev) == [9]
    assert list(Splits(0.25, by="end").rows(keys, sizes=[100] + [1] * 9).dev) == list(range(1, 10))


@given(st.lists(st.integers(1, 9), min_size=2, max_size=20), FRACTIONS)
def test_end_split_by_size_is_the_shortest_end_that_is_large_enough(sizes: list[int], fraction: Fraction) -> None:
    rows = Splits(float(fraction), by="end").rows([""] * len(sizes), sizes=sizes)
    ends = [n for n in range(1, len(sizes)) if sum(sizes[-n:]) >= fraction * sum(sizes)]
    assert len(rows.dev) == min(ends, default=len(sizes) - 1)


def test_random_split_depends_only_on_the_seed() -> None:
    keys = [str(i) for i in range(100)]
    by_seed = [tuple(Splits(by="random", seed=seed).rows(keys).dev) for seed in (0, 0, 1)]
    assert by_seed[0] == by_seed[1] != by_seed[2]


@pytest.mark.parametrize("by", ["hash", "stratified", "end", "random"])
def test_folds_are_a_partition_of_even_size(by) -> None:
    keys, labels = [str(i) for i in range(103)], ["ab"[i % 4 == 0] for i in range(103)]
    splits = Splits(0.1, by=by, folds=10)
    tests = []
    for fold in range(10):
        rows = splits.rows(keys, labels, fold=fold)
        assert sorted([*rows.train, *rows.dev, *rows.test]) == list(range(103))
        assert len(rows.dev) == math.ceil(round(0.1 * (103 - len(rows.test)), 9))
        tests.append(rows.test)
    assert sorted(np.concatenate(tests)) == list(range(103))
    assert {len(test) for test in tests} == {10, 11}
    if by == "stratified":
        rare = [sum(labels[i] == "b" for i in test) for test in tests]
        assert max(rare) - min(rare) <= 1


def test_dev_of_folds_differs_between_folds() -> None:
    keys = [str(i) for i in range(50)]
    for fold in range(5):
        rows = Splits(0.1, folds=5).rows(keys, fold=fold)
        assert not set(rows.dev) & set(rows.test)


def test_no_dev_and_a_test_fraction() -> None:
    keys = [str(i) for i in range(40)]
    rows = Splits(0.0, test_fraction=0.25).rows(keys)
    assert (len(rows.train), len(rows.dev), len(rows.test)) == (30, 0, 10)
    both = Splits(0.1, test_fraction=0.25).rows(keys)
    assert list(both.test) == list(rows.test)
    assert len(both.dev) == 4


@pytest.mark.parametrize(
    ("n", "message"), [(0, "0 examples cannot be split"), (1, "1 example cannot be split into train")]
)
def test_too_few_examples_raise_error(n: int, message: str) -> None:
    with pytest.raises(DataError, match=message):
        Splits().rows(["a"] * n)


def test_more_folds_than_examples_raise_error() -> None:
    with pytest.raises(DataError, match="folds must be at most 3, the number of examples, got 4"):
        Splits(folds=4).rows(list("abc"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dev_fraction": 1.0}, r"dev_fraction must be at least 0 and less than 1, got 1\.0"),
        ({"test_fraction": -0.1}, r"test_fraction must be at least 0"),
        ({"dev_fraction": 0.6, "test_fraction": 0.5}, r"dev_fraction \+ test_fraction must be less than 1, got 0\.6"),
        ({"folds": 1}, "folds must be at least 2 or None, got 1"),
        ({"folds": 3, "test_fraction": 0.1}, "test_fraction must be 0 with folds"),
    ],
)
def test_invalid_splits_raise_error(options: dict, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Splits(**options)


def test_fold_outside_the_folds_raises_error() -> None:
    with pytest.raises(ConfigError, match="fold must be from 0 to 2, got 3"):
        Splits(folds=3).rows(list("abc"), fold=3)


@pytest.mark.parametrize("by", ["hash", "stratified", "end", "random"])
def test_train_on_dev_adds_dev_to_train_and_keeps_test_apart(
    by: Literal["hash", "stratified", "end", "random"],
) -> None:
    keys = [f"text {i}" for i in range(50)]
    labels = ["ab"[i % 2] for i in range(50)]
    plain = Splits(0.2, by, test_fraction=0.1).rows(keys, labels)
    both = Splits(0.2, by, test_fraction=0.1, train_on_dev=True).rows(keys, labels)
    assert both.dev.tolist() == plain.dev.tolist()
    assert both.test.tolist() == plain.test.tolist()
    assert both.train.tolist() == sorted([*plain.train.tolist(), *plain.dev.tolist()])


@pytest.mark.parametrize("by", ["hash", "stratified", "end", "random"])
def test_parts_of_dev_are_disjoint(by) -> None:
    keys, labels = [f"example {i}" for i in range(40)], [str(i % 3) for i in range(40)]
    parts = [Splits(0.25, by, dev_part=part).rows(keys, labels) for part in range(4)]
    held_out = [i for rows in parts for i in rows.dev.tolist()]
    assert len(held_out) == len(set(held_out)) >= 37, "the last part leaves an example of each label"
    for rows in parts:
        assert sorted([*rows.train.tolist(), *rows.dev.tolist()]) == list(range(40))
    with pytest.raises(ConfigError, match="dev_part must be at most 3"):
        Splits(0.25, by, dev_part=4)
