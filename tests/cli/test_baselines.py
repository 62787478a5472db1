"""``--baseline`` of ``catena train`` and ``catena evaluate``."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from catena.data.examples import LabeledText
from tests.cli.conftest import Catena
from tests.tasks.classify.test_baselines import make_texts


def write_texts(path: Path, examples: list[LabeledText]) -> None:
    path.write_text("".join(f"{e.labels[0]}\t{e.text}\n" for e in examples), encoding="utf-8")


def test_train_and_evaluate_compare_with_baselines(catena: Catena, tmp_path: Path) -> None:
    for name, n in (("train.tsv", 90), ("dev.tsv", 30), ("test.tsv", 60)):
        write_texts(tmp_path / name, make_texts(n, n))
    said = catena(
        *("train", "classify", "train.tsv", "--dev", "dev.tsv", "--test", "test.tsv", "--model", "loglinear"),
        *("--max-epochs", "1", "--threads", "1", "--baseline", "svm,majority", "-o", "run"),
    )
    assert said.code == 0, said.err
    assert "baselines on test, 60 texts: accuracy" in said.out
    stored = json.loads((tmp_path / "run" / "baselines.json").read_text(encoding="utf-8"))
    assert [row["name"] for row in stored["baselines"]] == ["svm", "majority"]
    assert stored["model"]["fit_seconds"] > 0
    assert "svm" in (tmp_path / "run" / "log.txt").read_text(encoding="utf-8")
    said = catena("evaluate", "run", "test.tsv", "--baseline", "svm,majority", "--format", "json")
    assert said.code == 0, said.err
    again = json.loads(said.out)["baselines"]
    assert again["baselines"][0]["scores"] == stored["baselines"][0]["scores"]
    assert again["model"]["scores"] == stored["model"]["scores"]
    assert "p = " in catena("evaluate", "run", "test.tsv", "--baseline", "ridge").out
    wrong = catena("evaluate", "run", "test.tsv", "--baseline", "forest")
    assert wrong.code == 1
    assert "forest" in wrong.sentence
    write_texts(tmp_path / "train.tsv", make_texts(12, 5))
    changed = catena("evaluate", "run", "test.tsv", "--baseline", "svm")
    assert changed.code == 1
    assert "train.tsv" in changed.sentence


def test_missing_scikit_learn_is_reported_before_training(
    catena: Catena, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_texts(tmp_path / "train.tsv", make_texts(30, 0))
    monkeypatch.setitem(sys.modules, "sklearn", None)
    said = catena("train", "classify", "train.tsv", "--model", "loglinear", "--baseline", "svm", "-o", "run")
    assert said.code == 1
    assert said.sentence.endswith("Install it: pip install scikit-learn")
    assert not (tmp_path / "run").exists()


def test_tasks_without_baselines_say_so(catena: Catena, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("the cat sees the dog\n" * 20, encoding="utf-8")
    assert catena("train", "lm", "text", "--model", "ngram", "--model.order", "2", "-o", "lm").code == 0
    said = catena("evaluate", "lm", "text", "--baseline", "svm")
    assert said.code == 1
    assert said.sentence.startswith("A model of the task lm has no baselines.")
