"""Regression from the command line: training, prediction, evaluation, baselines, and wrong files."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import catena as package
from tests.cli.conftest import Catena, catena  # noqa: F401  (a fixture)
from tests.tasks.regress.helpers import make_texts


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Texts, a number and a value, with a few rows that cannot be used."""
    texts, values = make_texts(80)
    sizes = np.random.default_rng(5).normal(size=80)
    rows = [f"{text},{size:.3f},{value + size:.3f}" for text, size, value in zip(texts, sizes, values, strict=True)]
    path = tmp_path / "data.csv"
    path.write_text("\n".join(["text,size,price", *rows, "red,1,nan", "red,1,dear", "red,,3"]) + "\n")
    return path


def test_commands_agree_with_the_estimator(file: Path, catena: Catena, tmp_path: Path) -> None:  # noqa: F811
    run = tmp_path / "run"
    trained = catena("train", "regress", str(file), "--number-columns", "size", "-o", str(run))
    assert trained.code == 0, trained.err
    shown = trained.out + trained.err
    assert "columns: text = 'text', value = 'price', numbers = 'size'" in shown
    assert "read 83; used 80; dropped 3" in shown
    dropped = (run / "dropped.tsv").read_text().splitlines()
    assert [line.split("\t")[1:3] for line in dropped[1:]] == [
        ["82", "with a value that is missing"],
        ["83", "with a value that is not a number"],
        ["84", "with size that is missing"],
    ]
    predicted = catena("predict", str(run), str(file), "--format", "jsonl", "--level", "0.5")
    rows = [json.loads(line) for line in predicted.out.splitlines()]
    model = package.load(run)
    assert isinstance(model, package.Regressor)
    assert [row["value"] for row in rows] == pytest.approx(model.predict(file), abs=1e-5)
    assert rows[0].keys() == {"text", "numbers", "value", "std", "low", "high"}
    assert rows[-1]["numbers"] == {"size": None}
    assert "1 input was without some number" in predicted.err
    evaluated = catena("evaluate", str(run), str(file), "--format", "json")
    report = json.loads(evaluated.out)
    assert report["scores"]["r2"] == pytest.approx(model.score(file), abs=1e-5)
    assert report["coverage"] > 0.8


def test_rows_of_a_table_have_named_columns(file: Path, catena: Catena, tmp_path: Path) -> None:  # noqa: F811
    run = tmp_path / "run"
    catena("train", "regress", str(file), "--number-columns", "size", "-o", str(run))
    lines = catena("predict", str(run), str(file), "--format", "csv").out.splitlines()
    assert lines[0] == "value,std,low,high,number size,text"
    value, std, low, high = map(float, lines[1].split(",")[:4])
    assert high - value == pytest.approx(1.96 * std, abs=1e-3)
    assert value - low == pytest.approx(1.96 * std, abs=1e-3)
    text = tmp_path / "words.txt"
    text.write_text("red fine\n")
    wrong = catena("predict", str(run), str(text))
    assert wrong.code == 1
    assert "has no column 'size' of the number" in wrong.err


def test_texts_are_predicted_from_plain_lines(file: Path, catena: Catena, tmp_path: Path) -> None:  # noqa: F811
    run, text = tmp_path / "run", tmp_path / "words.txt"
    catena("train", "regress", str(file), "-o", str(run))
    text.write_text("red fine\n\nold old\n")
    lines = catena("predict", str(run), str(text)).out.splitlines()
    assert [line.split("\t")[-1] for line in lines] == ["red fine", "", "old old"]
    assert float(lines[0].split("\t")[0]) == pytest.approx(package.load(run).predict(["red fine"])[0], abs=1e-4)


def test_resumed_network_equals_an_uninterrupted_one(file: Path, catena: Catena, tmp_path: Path) -> None:  # noqa: F811
    common = ("train", "regress", str(file), "--model", "cnn", "--threads", "1", "--device", "cpu")
    catena(*common, "--max-epochs", "3", "-o", str(tmp_path / "whole"))
    catena(*common, "--max-epochs", "1", "-o", str(tmp_path / "part"))
    catena("resume", str(tmp_path / "part"), "--max-epochs", "3")
    whole, part = (package.load(tmp_path / name / "last").predict(["red fine", "old"]) for name in ("whole", "part"))
    assert whole.tolist() == part.tolist()


def test_baselines_are_in_the_report(file: Path, catena: Catena, tmp_path: Path) -> None:  # noqa: F811
    run = tmp_path / "run"
    trained = catena("train", "regress", str(file), "-o", str(run), "--baseline", "mean,svr")
    assert "baselines on dev, 9 examples: rmse" in trained.out
    assert json.loads((run / "baselines.json").read_text())["baselines"][0]["name"] == "mean"
    evaluated = catena("evaluate", str(run), str(file), "--baseline", "ridge")
    assert "Ridge alpha=" in evaluated.out
    wrong = catena("evaluate", str(run), str(file), "--baseline", "svm")
    assert wrong.code == 1
    assert "'svm'" in wrong.err


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("text,price\nred,dear\nold,cheap\nnew,fine\n", "3 with a value that is not a number"),
        ("text,price\n" + "red fine,3.5\n" * 20, "must differ, got 3.5 for all"),
        ("text,price\nred,nan\nold,inf\n", "No example of train can be used"),
    ],
)
def test_wrong_values_give_one_sentence(
    content: str,
    message: str,
    catena: Catena,  # noqa: F811
    tmp_path: Path,
) -> None:
    path = tmp_path / "wrong.csv"
    path.write_text(content)
    result = catena("train", "regress", str(path), "-o", str(tmp_path / "run"))
    assert result.code == 1
    assert message in result.err
    assert "Traceback" not in result.err


def test_quantity_is_predicted_by_regression(catena: Catena, tmp_path: Path) -> None:  # noqa: F811
    path = tmp_path / "ratings.csv"
    texts, values = make_texts(60)
    rows = [f"{text},{value:.2f}" for text, value in zip(texts, values, strict=True)]
    path.write_text("\n".join(["text,rating", *rows]) + "\n")
    inspected = catena("inspect", str(path))
    assert "task: regress" in inspected.out
    assert "catena train classify" in inspected.out
    guessed = catena("train", str(path), "-o", str(tmp_path / "run"))
    assert "task: regress" in guessed.out + guessed.err
    assert "read 60; used 60; dropped 0" in guessed.out + guessed.err
    set_task = catena("train", "classify", str(path), "--max-steps", "1", "-o", str(tmp_path / "classes"))
    assert f"{len({f'{value:.2f}' for value in values})} labels" in set_task.out + set_task.err
