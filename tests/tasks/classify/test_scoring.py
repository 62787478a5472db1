from __future__ import annotations

import math

import numpy as np
import pytest

from catena.data.vocabulary import Labels
from catena.errors import ConfigError
from catena.tasks.classify.scoring import build_metric, compute_scores, predicted_ids, predicted_labels

LOG = np.log(np.array([[0.6, 0.3, 0.1], [0.2, 0.2, 0.6], [0.1, 0.8, 0.1]]))


def test_predicted_label_is_the_most_probable() -> None:
    assert predicted_ids(LOG, several=False) == [(0,), (2,), (1,)]
    assert predicted_labels(LOG, Labels(["a", "b", "c"]), several=False) == [["a"], ["c"], ["b"]]


def test_predicted_labels_have_probability_above_half_best_first() -> None:
    log_probs = np.log(np.array([[0.6, 0.9, 0.1], [0.3, 0.2, 0.4], [0.5, 0.51, 0.49]]))
    assert predicted_ids(log_probs, several=True) == [(1, 0), (), (1,)]


def test_scores_by_hand() -> None:
    scores = compute_scores(LOG, np.array([0, 2, 2]), several=False)
    assert scores["accuracy"] == pytest.approx(2 / 3)
    assert scores["log_loss"] == pytest.approx(-(math.log(0.6) + math.log(0.6) + math.log(0.1)) / 3)
    assert scores["macro_f1"] == pytest.approx((1 + 0 + 2 / 3) / 3)  # a: 1, b: predicted once and never correct, c: 2/3


def test_scores_of_multilabel_by_hand() -> None:
    log_probs = np.log(np.array([[0.9, 0.2], [0.4, 0.7]]))
    scores = compute_scores(log_probs, np.array([[1.0, 0.0], [1.0, 1.0]], np.float32), several=True)
    assert scores["accuracy"] == 0.5
    assert scores["micro_f1"] == pytest.approx(2 * 2 / (2 + 3))
    wanted = -(math.log(0.9) + math.log(0.8) + math.log(0.4) + math.log(0.7)) / 2
    assert scores["log_loss"] == pytest.approx(wanted)


def test_build_metric_rejects_log_loss() -> None:
    with pytest.raises(ConfigError, match="got 'log_loss'"):
        build_metric("log_loss", several=False)
    right, given = [("a",), ("b",), ("a",)], [("a",), ("a",), ("a",)]
    accuracy = build_metric("accuracy", several=False)(right, given)
    assert (accuracy, accuracy.signature) == (pytest.approx(2 / 3), "accuracy|n=3")
    assert build_metric("accuracy", several=True)(right, given).signature == "subset-accuracy|n=3"
