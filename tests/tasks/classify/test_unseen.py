"""Labels of dev, test and evaluation files that do not occur in training: errors, not classes."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from catena.tasks.runs import load_task, train_run
from catena.training.report import SilentReporter
from tests.tasks.classify.helpers import classifier, config_of, evaluate, examples, prepared
from tests.tasks.classify.trees.helpers import MODELS, TREEBANK, tree_config, tree_task, treebank

TRAIN = [("sun", "bright sky"), ("rain", "wet street"), ("snow", "white field")] * 8
TEST = [("sun", "bright field"), ("rain", "wet sky"), ("snow", "white street")]
MULTI = [("sun|warm", "bright sky"), ("rain", "wet street"), ("snow", "white field"), ("warm", "dry sand")] * 8


def write(path: Path, rows: list[tuple[str, str]]) -> str:
    path.write_text("".join(f"{label}\t{text}\n" for label, text in rows), encoding="utf-8")
    return str(path)


def train_on(
    folder: Path, test: list[tuple[str, str]], rows: list[tuple[str, str]] = TRAIN, **data: object
) -> tuple[Any, dict[str, Any]]:
    """A trained classifier, and its scores on dev and test."""
    folder.mkdir()
    files = {"train": [write(folder / "train.tsv", rows)], "test": write(folder / "test.tsv", test)}
    dev = write(folder / "dev.tsv", TEST + test)
    config = config_of(
        {
            "data": {**files, "dev": dev, "input_format": "tsv", **data},
            "model": {"kind": "loglinear"},
            "training": {"max_epochs": 4},
        }
    )
    trained = train_run(config, folder / "run", SilentReporter())
    return load_task(folder / "run"), {"dev": trained.scores, "test": trained.test_scores}


def test_label_of_test_file_does_not_change_weights(tmp_path: Path) -> None:
    plain, before = train_on(tmp_path / "plain", TEST)
    other, scores = train_on(tmp_path / "other", [*TEST, ("fog", "grey sky")])
    assert other.labels == plain.labels == ("rain", "snow", "sun")
    assert np.array_equal(plain.weights, other.weights)
    assert np.array_equal(plain.bias, other.bias)
    assert scores["test"]["accuracy"] == pytest.approx(before["test"]["accuracy"] * 3 / 4)


def test_unseen_label_of_dev_and_test_is_reported_once(tmp_path: Path) -> None:
    train_on(tmp_path / "a", [*TEST, ("fog", "grey sky")])
    log = (tmp_path / "a" / "run" / "log.txt").read_text(encoding="utf-8")
    assert "dev and test: 2 texts have a label that training never showed ('fog' 2); they count as errors" in log


def test_evaluate_counts_unseen_labels_as_errors(tmp_path: Path) -> None:
    strangers = pytest.importorskip("sklearn.metrics")
    model, _ = train_on(tmp_path / "a", TEST)
    rows = [*TEST, ("fog", "grey sky"), ("hail", "white street"), ("fog", "bright field")]
    path = Path(write(tmp_path / "more.tsv", rows))
    report = evaluate(model, path)
    gold, found = [label for label, _ in rows], [p.label for p in model.predict([text for _, text in rows])]
    assert report.scores()["accuracy"] == pytest.approx(strangers.accuracy_score(gold, found))
    assert report.scores()["macro_f1"] == pytest.approx(strangers.f1_score(gold, found, average="macro"))
    known = np.exp(model.log_probabilities([text for _, text in TEST]))
    losses = [-math.log(row[model.labels.index(label)]) for row, (label, _) in zip(known, TEST, strict=True)]
    assert report.scores()["log_loss"] == pytest.approx(np.mean(losses))
    assert report.signatures()["log_loss"] == "log-loss|unit:nats|n=3"
    assert report.notes()[0] == (
        "this file: 3 texts have a label that training never showed ('fog' 2, 'hail' 1); they count as errors"
    )
    paired = report.paired("macro_f1")
    assert list(paired.references) == list(gold)
    assert paired.metric(paired.references, paired.predictions) == pytest.approx(report.scores()["macro_f1"])


def test_evaluate_file_with_only_unseen_labels(tmp_path: Path) -> None:
    model, _ = train_on(tmp_path / "a", TEST)
    report = evaluate(model, Path(write(tmp_path / "fog.tsv", [("fog", "grey sky"), ("fog", "grey street")])))
    assert report.scores()["accuracy"] == 0
    assert "log_loss" not in report.scores()
    assert "log_loss" not in report.signatures()


def test_unseen_labels_among_several(tmp_path: Path) -> None:
    strangers = pytest.importorskip("sklearn.metrics")
    several = {"multilabel": True, "label_separator": "|"}
    test = [("sun|fog", "bright sky"), ("rain", "wet street"), ("fog", "grey sand"), ("warm", "dry sand")]
    plain, _ = train_on(tmp_path / "plain", [("rain", "wet street")], MULTI, **several)
    model, scores = train_on(tmp_path / "other", test, MULTI, **several)
    assert model.labels == plain.labels == ("rain", "snow", "sun", "warm")
    path = tmp_path / "other" / "test.tsv"
    report = evaluate(model, path)
    names = (*model.labels, "fog")
    gold = np.array([[name in label.split("|") for name in names] for label, _ in test], int)
    guess = [p.labels for p in model.predict([text for _, text in test])]
    found = np.array([[name in labels for name in names] for labels in guess], int)
    occurring = np.flatnonzero((gold + found).any(0))
    assert report.scores()["accuracy"] == pytest.approx(strangers.accuracy_score(gold, found))
    assert report.scores()["micro_f1"] == pytest.approx(strangers.f1_score(gold, found, average="micro"))
    macro = strangers.f1_score(gold[:, occurring], found[:, occurring], average="macro")
    assert report.scores()["macro_f1"] == pytest.approx(macro)
    rows = np.exp(model.log_probabilities([text for _, text in test]))
    by_hand = np.where(gold[:, :4] == 1, np.log(rows), np.log1p(-rows)).sum(1)
    assert report.scores()["log_loss"] == pytest.approx(-by_hand.mean(), rel=1e-6)
    assert scores["test"]["micro_f1"] == pytest.approx(report.scores()["micro_f1"])
    assert "2 labels of texts are ones that training never showed ('fog' 2)" in report.notes()[0]


def test_unseen_labels_of_trees(tmp_path: Path) -> None:
    more = TREEBANK + "(9 (2 a) (9 (9 odd) (2 film)))\n"
    other = treebank(tmp_path, more, "more.txt")
    plain = tree_config(tmp_path, MODELS["tree_lstm"])
    config = tree_config(tmp_path, MODELS["tree_lstm"], data={"dev": other, "test": other})
    assert tree_task(config).task.encoding.names == tree_task(plain).task.encoding.names
    trained = train_run(config, tmp_path / "run", SilentReporter())
    model = load_task(tmp_path / "run")
    assert "9" not in model.labels
    report = evaluate(model, other)
    alone = evaluate(model, treebank(tmp_path))
    assert report.scores()["accuracy"] == pytest.approx(alone.scores()["accuracy"] * 8 / 9)
    assert report.scores()["log_loss"] == pytest.approx(alone.scores()["log_loss"])
    assert report.scores()["binary_accuracy"] == alone.scores()["binary_accuracy"]
    assert trained.test_scores["node_accuracy"] == pytest.approx(report.scores()["node_accuracy"])
    assert "3 nodes have a label that training never showed ('9' 3)" in report.notes()[0]
    assert set(report.signatures()) == set(report.scores())


def test_held_out_fold_adds_no_class() -> None:
    texts = [f"word{i}" for i in range(12)]
    labels = ["a", "b"] * 5 + ["c", "d"]
    missing = set()
    for fold in range(3):
        training, _ = prepared(config_of({"data": {"folds": 3, "fold": fold}}), {"train": examples(texts, labels)})
        inside = {label for part in (training.data.train, training.data.dev) for (label,) in part.gold}
        assert set(classifier(training).labels) == inside
        missing |= set(labels) - inside
    assert missing == {"c", "d"}


def test_split_keeps_the_only_example_of_a_class_in_train() -> None:
    labels = ["a"] * 30 + ["b", "c", "d"]
    training, _ = prepared(config_of(), {"train": examples([f"word{i}" for i in range(33)], labels)})
    assert {label for (label,) in training.data.train.gold} == {"a", "b", "c", "d"}
    assert {label for (label,) in training.data.dev.gold} == {"a"}
