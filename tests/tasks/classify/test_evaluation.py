"""Predicted labels and scores, counted by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from catena.tasks.classify.predict import METRICS, ClassifyEvaluation, predicted_ids

LOG = np.log(np.array([[0.6, 0.3, 0.1], [0.2, 0.2, 0.6], [0.1, 0.8, 0.1]]))


def test_predicted_label_is_the_most_probable() -> None:
    assert predicted_ids(LOG, False) == [(0,), (2,), (1,)]
    evaluation = ClassifyEvaluation(("a", "b", "c"), LOG, [("a",)] * 3, False)
    assert evaluation.predicted() == [("a",), ("c",), ("b",)]
    assert predicted_ids(LOG, False, threshold=0.7) == [(), (), (1,)]


def test_predicted_labels_have_probability_above_half_best_first() -> None:
    log_probs = np.log(np.array([[0.6, 0.9, 0.1], [0.3, 0.2, 0.4], [0.5, 0.51, 0.49]]))
    assert predicted_ids(log_probs, True) == [(1, 0), (), (1,)]
    assert predicted_ids(log_probs, True, threshold=0.35) == [(1, 0), (2,), (1, 0, 2)]


def test_scores_by_hand() -> None:
    scores = ClassifyEvaluation(("a", "b", "c"), LOG, [("a",), ("c",), ("c",)], False).scores()
    assert scores["accuracy"] == pytest.approx(2 / 3)
    assert scores["log_loss"] == pytest.approx(-(math.log(0.6) + math.log(0.6) + math.log(0.1)) / 3)
    assert scores["macro_f1"] == pytest.approx((1 + 0 + 2 / 3) / 3)  # a: 1, b: predicted once and never correct, c: 2/3


def test_scores_of_multilabel_by_hand() -> None:
    log_probs = np.log(np.array([[0.9, 0.2], [0.4, 0.7]]))
    scores = ClassifyEvaluation(("a", "b"), log_probs, [("a",), ("a", "b")], True).scores()
    assert scores["accuracy"] == 0.5
    assert scores["micro_f1"] == pytest.approx(2 * 2 / (2 + 3))
    wanted = -(math.log(0.9) + math.log(0.8) + math.log(0.4) + math.log(0.7)) / 2
    assert scores["log_loss"] == pytest.approx(wanted)


def test_metrics_have_a_direction_and_a_signature() -> None:
    assert METRICS["accuracy"].higher_is_better
    assert not METRICS["log_loss"].higher_is_better
    gold, log_probs = [("a",), ("b",), ("a",)], np.log(np.array([[0.9, 0.1]] * 3))
    single = ClassifyEvaluation(("a", "b"), log_probs, gold, False)
    assert (single.scores()["accuracy"], single.signatures()["accuracy"]) == (pytest.approx(2 / 3), "accuracy|n=3")
    several = ClassifyEvaluation(("a", "b"), log_probs, gold, True)
    assert several.signatures()["accuracy"] == "subset-accuracy|n=3"


def test_labels_without_a_class_have_no_likelihood() -> None:
    log_probs = np.log(np.array([[0.7, 0.3], [0.4, 0.6], [0.9, 0.1]]))
    result = ClassifyEvaluation(("a", "b"), log_probs, [("a",), ("b",), ("c",)], False)
    scores = result.scores()
    assert scores["accuracy"] == pytest.approx(2 / 3)
    assert scores["macro_f1"] == pytest.approx((2 / 3 + 1 + 0) / 3)
    assert scores["log_loss"] == pytest.approx(-(math.log(0.7) + math.log(0.6)) / 2)
    assert result.signatures()["log_loss"].endswith("|n=2")


def test_joined_results_equal_the_whole() -> None:
    gold = [("a",), ("c",), ("c",)]
    whole = ClassifyEvaluation(("a", "b", "c"), LOG, gold, False)
    parts = [ClassifyEvaluation(("a", "b", "c"), LOG[i : i + 2], gold[i : i + 2], False) for i in (0, 2)]
    assert parts[0].join(parts).to_dict() == whole.to_dict()
