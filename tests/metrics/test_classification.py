"""Accuracy, precision, recall and F1: against fractions, against scikit-learn, and by their laws."""

from __future__ import annotations

import inspect
from collections.abc import Hashable, Sequence
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from catena.errors import DataError
from catena.metrics.classification import (
    ACCURACY,
    SUBSET_ACCURACY,
    Average,
    accuracy,
    average_score,
    f1,
    f1_measure,
    label_report,
    multilabel_f1,
    multilabel_f1_measure,
    multilabel_report,
    precision,
    recall,
    sorted_labels,
    subset_accuracy,
)
from tests.oracle import metrics as oracle

AVERAGES = get_args(Average)
LABELS = ["anger", "fear", "joy", "trust"]
SINGLE = st.lists(st.tuples(st.sampled_from(LABELS), st.sampled_from(LABELS)), min_size=1, max_size=12)
SETS = st.frozensets(st.sampled_from(LABELS))
MULTI = st.lists(st.tuples(SETS, SETS), min_size=1, max_size=10)


def columns(pairs: Sequence[tuple[Any, Any]]) -> tuple[list[Any], list[Any]]:
    return [gold for gold, _ in pairs], [predicted for _, predicted in pairs]


def as_sets(pairs: Sequence[tuple[Hashable, Hashable]]) -> list[tuple[frozenset, frozenset]]:
    return [(frozenset({gold}), frozenset({predicted})) for gold, predicted in pairs]


# --- against the oracle -------------------------------------------------------------------------------------


@given(pairs=SINGLE, average=st.sampled_from(AVERAGES))
def test_scores_equal_the_fractions(pairs: list[tuple[str, str]], average: Average) -> None:
    gold, predicted = columns(pairs)
    p, r, f = oracle.averaged(as_sets(pairs), average, oracle.occurring(as_sets(pairs), LABELS))
    assert precision(gold, predicted, average) == pytest.approx(float(p), abs=1e-12)
    assert recall(gold, predicted, average) == pytest.approx(float(r), abs=1e-12)
    assert f1(gold, predicted, average) == pytest.approx(float(f), abs=1e-12)
    assert accuracy(gold, predicted) == pytest.approx(sum(a == b for a, b in pairs) / len(pairs), abs=1e-12)


@given(
    pairs=SINGLE,
    average=st.sampled_from(AVERAGES),
    labels=st.lists(st.sampled_from(LABELS), unique=True, min_size=1),
)
def test_scores_of_some_labels_equal_the_fractions(
    pairs: list[tuple[str, str]], average: Average, labels: list[str]
) -> None:
    expected = oracle.averaged(as_sets(pairs), average, labels)[2]
    score = f1(*columns(pairs), average, labels)
    assert score == pytest.approx(float(expected), abs=1e-12)
    assert score.signature == f"f1|average:{average}|labels:{len(labels)}|n={len(pairs)}"


@given(pairs=MULTI, average=st.sampled_from(AVERAGES))
def test_scores_of_sets_equal_the_fractions(pairs: list[tuple[frozenset, frozenset]], average: Average) -> None:
    gold, predicted = columns(pairs)
    expected = oracle.averaged(pairs, average, oracle.occurring(pairs, LABELS))
    assert multilabel_f1(gold, predicted, average) == pytest.approx(float(expected[2]), abs=1e-12)
    row = multilabel_report(gold, predicted).averages[average]
    assert (row.precision, row.recall, row.f1) == pytest.approx(tuple(map(float, expected)), abs=1e-12)
    assert subset_accuracy(gold, predicted) == pytest.approx(sum(a == b for a, b in pairs) / len(pairs))


@given(pairs=SINGLE)
def test_the_report_has_a_row_for_each_label_that_occurs(pairs: list[tuple[str, str]]) -> None:
    report = label_report(*columns(pairs))
    assert [row.label for row in report.labels] == sorted({label for pair in pairs for label in pair})
    for row in report.labels:
        expected = oracle.label_scores(row.label, as_sets(pairs))
        assert (row.precision, row.recall, row.f1) == pytest.approx(tuple(map(float, expected)), abs=1e-12)
        assert row.support == sum(gold == row.label for gold, _ in pairs)
    assert report.averages["macro"].f1 == f1(*columns(pairs))
    assert report.averages["weighted"].recall == pytest.approx(accuracy(*columns(pairs)))
    assert report.averages["micro"].support == len(pairs)


# --- against a stranger -------------------------------------------------------------------------------------


@settings(max_examples=25)
@given(pairs=SINGLE)
def test_scores_equal_those_of_scikit_learn(pairs: list[tuple[str, str]]) -> None:
    strangers = pytest.importorskip("sklearn.metrics")
    gold, predicted = columns(pairs)
    assert accuracy(gold, predicted) == pytest.approx(strangers.accuracy_score(gold, predicted))
    for average in AVERAGES:
        theirs = strangers.precision_recall_fscore_support(gold, predicted, average=average, zero_division=0)
        ours = [quantity(gold, predicted, average) for quantity in (precision, recall, f1)]
        assert ours == pytest.approx(theirs[:3])


@settings(max_examples=25)
@given(pairs=SINGLE, labels=st.lists(st.sampled_from(LABELS), unique=True, min_size=1))
def test_macro_average_over_given_labels_equals_that_of_scikit_learn(
    pairs: list[tuple[str, str]], labels: list[str]
) -> None:
    strangers = pytest.importorskip("sklearn.metrics")
    gold, predicted = columns(pairs)
    assume(set(labels) & set(gold))  # scikit-learn takes no others
    theirs = strangers.precision_recall_fscore_support(gold, predicted, labels=labels, average="macro", zero_division=0)
    ours = [quantity(gold, predicted, "macro", labels) for quantity in (precision, recall, f1)]
    assert ours == pytest.approx(theirs[:3])
    report = label_report(gold, predicted, labels).averages["macro"]
    assert (report.precision, report.recall, report.f1) == pytest.approx(theirs[:3])


@settings(max_examples=25)
@given(pairs=MULTI)
def test_scores_of_sets_equal_those_of_scikit_learn(pairs: list[tuple[frozenset, frozenset]]) -> None:
    strangers = pytest.importorskip("sklearn.metrics")
    seen = [label for label in LABELS if any(label in a | b for a, b in pairs)]
    assume(len(seen) > 1)  # scikit-learn takes one column for a question with two answers
    gold, predicted = ([[label in labels for label in seen] for labels in column] for column in columns(pairs))
    for average in AVERAGES:
        theirs = strangers.f1_score(np.array(gold), np.array(predicted), average=average, zero_division=0)
        assert multilabel_f1(*columns(pairs), average) == pytest.approx(theirs)
    assert subset_accuracy(*columns(pairs)) == pytest.approx(
        strangers.accuracy_score(np.array(gold), np.array(predicted))
    )


# --- laws ---------------------------------------------------------------------------------------------------


@settings(max_examples=30)
@given(pairs=SINGLE, data=st.data())
def test_the_order_of_examples_changes_nothing(pairs: list[tuple[str, str]], data: st.DataObject) -> None:
    shuffled = data.draw(st.permutations(pairs))
    for average in AVERAGES:
        assert f1(*columns(shuffled), average) == f1(*columns(pairs), average)
    assert label_report(*columns(shuffled)) == label_report(*columns(pairs))


@settings(max_examples=30)
@given(pairs=SINGLE, names=st.permutations(LABELS))
def test_other_names_for_the_labels_permute_the_rows_and_change_nothing_else(
    pairs: list[tuple[str, str]], names: list[str]
) -> None:
    renamed = dict(zip(LABELS, names, strict=True))
    again = [(renamed[gold], renamed[predicted]) for gold, predicted in pairs]
    before = {
        renamed[str(row.label)]: (row.precision, row.recall, row.f1) for row in label_report(*columns(pairs)).labels
    }
    after = {row.label: (row.precision, row.recall, row.f1) for row in label_report(*columns(again)).labels}
    assert before == after
    for average in AVERAGES:
        assert f1(*columns(again), average) == pytest.approx(f1(*columns(pairs), average))


@settings(max_examples=30)
@given(pairs=SINGLE)
def test_micro_scores_are_the_accuracy(pairs: list[tuple[str, str]]) -> None:
    gold, predicted = columns(pairs)
    for quantity in (precision, recall, f1):
        assert quantity(gold, predicted, "micro") == pytest.approx(accuracy(gold, predicted))


@given(pairs=SINGLE)
def test_labels_that_do_not_occur_lower_macro_averages_only(pairs: list[tuple[str, str]]) -> None:
    more = [*LABELS, "surprise"]
    for average in ("micro", "weighted"):
        assert f1(*columns(pairs), average, more) == pytest.approx(f1(*columns(pairs), average))
    k = len(oracle.occurring(as_sets(pairs), LABELS))
    assert f1(*columns(pairs), "macro", more) == pytest.approx(f1(*columns(pairs)) * k / len(more))


@given(pairs=SINGLE, average=st.sampled_from(AVERAGES))
def test_one_label_in_each_set_is_the_single_case(pairs: list[tuple[str, str]], average: Average) -> None:
    assert multilabel_f1(*columns(as_sets(pairs)), average) == f1(*columns(pairs), average)
    assert subset_accuracy(*columns(as_sets(pairs))) == accuracy(*columns(pairs))


@given(pairs=SINGLE, average=st.sampled_from(AVERAGES))
def test_the_measures_agree_with_the_functions(pairs: list[tuple[str, str]], average: Average) -> None:
    gold, predicted = columns(pairs)
    for labels in (LABELS, None):
        measured = f1_measure(labels, average)(gold, predicted)
        assert measured == pytest.approx(f1(gold, predicted, average, labels))
        assert measured.signature == f1(gold, predicted, average, labels).signature
    assert ACCURACY(gold, predicted) == accuracy(gold, predicted)


@given(pairs=MULTI, average=st.sampled_from(AVERAGES))
def test_the_measures_of_sets_agree_with_the_functions(
    pairs: list[tuple[frozenset, frozenset]], average: Average
) -> None:
    gold, predicted = columns(pairs)
    for labels in (LABELS, None):
        measured = multilabel_f1_measure(labels, average)(gold, predicted)
        assert measured == pytest.approx(multilabel_f1(gold, predicted, average, labels))
        assert measured.signature == multilabel_f1(gold, predicted, average, labels).signature
    assert SUBSET_ACCURACY(gold, predicted) == subset_accuracy(gold, predicted)


def test_measure_over_two_systems_has_the_labels_of_both() -> None:
    gold, first, second = ["a", "b", "a"], ["a", "b", "c"], ["a", "d", "a"]
    measure = f1_measure()
    assert measure.over is not None
    fixed = measure.over(gold, first, second)
    assert fixed.name == "f1|average:macro|labels:4"
    assert fixed(gold, first) == pytest.approx(f1(gold, first, labels=["a", "b", "c", "d"]))
    assert fixed.statistics(gold, first).shape == fixed.statistics(gold, second).shape == (3, 12)


def test_many_corpora_are_scored_at_once() -> None:
    rng = np.random.default_rng(3)
    hits, predicted, gold = (rng.integers(0, 5, (2, 6, 4)) for _ in range(3))
    assert len(AVERAGES) > 0
    for average in AVERAGES:
        at_once = average_score("f1", average, hits, predicted, gold)
        assert at_once.shape == (2, 6)
        assert at_once[1, 4] == average_score("f1", average, hits[1, 4], predicted[1, 4], gold[1, 4])


# --- conventions and words ----------------------------------------------------------------------------------


def test_divisions_by_zero() -> None:
    gold, predicted = ["a", "a"], ["b", "b"]
    assert precision(gold, predicted) == recall(gold, predicted) == f1(gold, predicted) == 0
    assert f1(["a", "a"], ["a", "a"], labels=["a", "z"]) == 0.5  # z does not occur, and counts as 0
    assert f1(["a"], ["a"], labels=["z"]) == 0
    assert multilabel_f1([set(), set()], [set(), set()], "micro") == 0
    assert multilabel_f1([set()], [set()], "macro") == 0
    assert subset_accuracy([set()], [set()]) == 1
    assert f1(["a"], ["b"], "weighted", labels=["b"]) == 0  # predicted, never right: no weight at all


def test_signatures() -> None:
    gold, predicted = ["a", "b", "a"], ["a", "a", "a"]
    assert accuracy(gold, predicted).signature == "accuracy|n=3"
    assert precision(gold, predicted).signature == "precision|average:macro|n=3"
    assert recall(gold, predicted, "micro").signature == "recall|average:micro|n=3"
    assert f1(gold, predicted, "weighted").signature == "f1|average:weighted|n=3"
    assert subset_accuracy([{"a"}], [{"a"}]).signature == "subset-accuracy|n=1"
    assert multilabel_f1([{"a"}], [{"a"}]).signature == "multilabel-f1|average:micro|n=1"
    assert label_report(gold, predicted).signature == "label-report|n=3"


def test_labels_may_be_numbers_arrays_or_of_mixed_types() -> None:
    assert accuracy(np.array([1, 2, 3]), [1, 2, 4]) == pytest.approx(2 / 3)
    assert f1(np.array(["x", "y"]), np.array(["x", "y"]), labels=np.array(["x", "y"])) == 1
    assert sorted_labels([2, "a"], [10]) == (10, 2, "a")
    assert sorted_labels([2], [10]) == (2, 10)


def test_the_report_as_text() -> None:
    assert label_report(["neg", "pos", "pos"], ["neg", "neg", "pos"]).lines() == [
        "label             precision  recall      f1  support",
        "neg                  0.5000  1.0000  0.6667        1",
        "pos                  1.0000  0.5000  0.6667        2",
        "macro average        0.7500  0.7500  0.6667        3",
        "micro average        0.6667  0.6667  0.6667        3",
        "weighted average     0.8333  0.6667  0.6667        3",
    ]


def test_wide_and_combining_characters_keep_the_columns_straight() -> None:
    lines = label_report(["消极", "e\u0301", "b"], ["消极", "e\u0301", "b"]).lines()
    plain, combining, wide = (line.index("1.0000") for line in lines[1:4])
    assert (combining - plain, wide - plain) == (1, -2)  # a mark takes no column, a Chinese character two


def test_invalid_input_raises_error() -> None:
    with pytest.raises(DataError, match=r"^reference 1 must be a set of labels, got 'pos'\. Write \{'pos'\}"):
        multilabel_f1([{"neg"}, "pos"], [{"neg"}, {"pos"}])
    with pytest.raises(DataError, match=r"^labels must be unique, got 'a' twice"):
        f1(["a"], ["a"], labels=["a", "b", "a"])
    with pytest.raises(DataError, match=r"^Example 1 has the label 'c', which is not in labels\. Add it"):
        f1_measure(["a", "b"])(["a", "b"], ["a", "c"])
    with pytest.raises(DataError, match=r"f1 needs at least one example"):
        f1([], [])
    with pytest.raises(DataError, match=r"accuracy needs one prediction for each reference"):
        accuracy(["a"], [])
    with pytest.raises(ValueError, match=r"^average must be 'macro', 'micro' or 'weighted', got 'none'"):
        # The tests check all types, and would refuse it first.
        inspect.unwrap(average_score)("f1", "none", *(np.ones(2) for _ in range(3)))
