"""Scores that say how they were made, and measures that are functions of sums."""

from __future__ import annotations

import copy
import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from catena.errors import DataError
from catena.metrics.measure import Metric, MetricValue, as_pairs, mean_score, mean_statistics, signature
from tests.python_path import python_path


def test_a_score_is_a_number_with_a_signature() -> None:
    score = MetricValue(0.75, "accuracy|n=4")
    assert score == 0.75
    assert score.signature == "accuracy|n=4"
    assert f"{score:.1%} {score}" == "75.0% 0.75"
    assert repr(score) == "Score(0.75, 'accuracy|n=4')"
    assert json.dumps({"accuracy": score}) == '{"accuracy": 0.75}'
    with pytest.raises(AttributeError):
        score.signature = "other"  # type: ignore[misc]


@pytest.mark.parametrize("twin", [copy.copy, copy.deepcopy, lambda score: pickle.loads(pickle.dumps(score))])
def test_a_copy_keeps_the_signature(twin: object) -> None:
    again = twin(MetricValue(0.75, "accuracy|n=4"))  # type: ignore[operator]
    assert (again, again.signature) == (0.75, "accuracy|n=4")


def test_signatures() -> None:
    assert signature("accuracy", 1821) == "accuracy|n=1821"
    assert signature("f1", 3, {"average": "macro", "labels": 2}) == "f1|average:macro|labels:2|n=3"


def test_a_measure_scores_the_sum_of_its_statistics() -> None:
    doubled = Metric(
        "double|x:1",
        lambda gold, predicted: np.asarray([[a, b] for a, b in zip(gold, predicted, strict=True)]),
        sum_both,
    )
    score = doubled([1.0, 2.0], [3.0, 4.0])
    assert (score, score.signature) == (20.0, "double|x:1|n=2")


def sum_both(sums: np.ndarray) -> np.ndarray:
    return 2 * sums.sum(-1)


def test_the_mean_is_a_function_of_sums() -> None:
    rows = mean_statistics([1.0, 2.0, 6.0])
    assert mean_score(rows.sum(0)) == 3.0
    assert mean_score(np.stack((rows.sum(0), rows[:2].sum(0)))).tolist() == [3.0, 1.5]


def test_pairs_of_any_sequences() -> None:
    assert as_pairs("x", ("a", "b"), np.asarray(["a", "c"])) == (["a", "b"], ["a", "c"])
    assert [type(label) for label in as_pairs("x", np.asarray([1]), [1])[0]] == [int]


def test_invalid_pairs_raise_error() -> None:
    with pytest.raises(DataError, match=r"^f1 needs one prediction for each reference, got 2 references and 1 pred"):
        as_pairs("f1", ["a", "b"], ["a"])
    with pytest.raises(DataError, match=r"^f1 needs at least one example, got none"):
        as_pairs("f1", [], [])
    with pytest.raises(DataError, match=r"^f1 needs one label for each example, got predictions of shape \(2, 1\)"):
        as_pairs("f1", ["a", "b"], np.zeros((2, 1)))


def test_metrics_do_not_import_torch() -> None:
    source = Path(__file__).parents[2] / "src"
    modules = [f"catena.metrics.{path.stem}" for path in (source / "catena" / "metrics").glob("[a-z]*.py")]
    assert len(modules) > 8
    code = f"import sys, {', '.join(modules)}; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "PYTHONPATH": python_path(source)})
