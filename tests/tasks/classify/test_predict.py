"""A trained classifier: predictions and their formats, evaluation, loading."""

from __future__ import annotations

import csv
import io
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import catena
from catena.data.samples.corpus import load_sample, sample_path
from catena.errors import CatenaError, CheckpointError, DataError
from catena.tasks.classify.config import ClassifyOptions
from catena.tasks.classify.predict import ClassPrediction
from catena.tasks.runs import load_task, train_run
from catena.tasks.writing import PredictionWriter
from catena.training.report import SilentReporter
from tests.laws.network_laws import the_network_answers
from tests.tasks.classify.helpers import config_of, evaluate
from tests.tasks.classify.test_task import LINEAR, MODELS

QUESTIONS = ["wake me at six", "", "play some jazz please", "zzz qqq", "rain ? " * 40]


def train_on_sample(folder: Path, model: str = "cnn", **values: object) -> Path:
    data = {"train": [str(sample_path("assistant/dev.tsv"))], "dev": str(sample_path("assistant/dev.tsv"))}
    config = config_of({"data": data, "model": {**MODELS, **LINEAR}[model], "training": {"max_epochs": 2}, **values})
    train_run(config, folder, SilentReporter())
    return folder


def load(folder: Path) -> Any:
    return load_task(folder, "cpu")


def probabilities(task: Any, texts: list[str]) -> np.ndarray:
    return np.exp(task.log_probabilities(texts))


def written(prediction: ClassPrediction, format: str) -> str:
    """The prediction in a format."""
    return "\n".join(PredictionWriter(format).lines(prediction))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train_on_sample(tmp_path_factory.mktemp("runs") / "cnn")


def test_probabilities_are_a_distribution_and_labels_their_argmax(run: Path) -> None:
    model = load(run)
    table = probabilities(model, QUESTIONS)
    assert table.shape == (len(QUESTIONS), 15)
    assert np.allclose(table.sum(1), 1.0)
    for found, row in zip(model.predict(QUESTIONS), table, strict=True):
        assert found.label == model.labels[int(row.argmax())] == str(found)
        assert found.probability == pytest.approx(row.max())
        assert sorted(found.probabilities) == list(model.labels)
        assert list(found.probabilities.values()) == sorted(row, reverse=True)


def test_texts_with_line_breaks_are_one_record_of_csv(run: Path) -> None:
    (prediction,) = load(run).predict(['wake me\nat "six", please'])
    (row,) = csv.DictReader(io.StringIO(written(prediction, "csv"), newline=""))
    assert (row["text"], row["label"]) == (prediction.text, prediction.label)


def test_prediction_is_independent_of_the_batch(run: Path) -> None:
    model = load(run)
    together = model.log_probabilities(QUESTIONS)
    for i, text in enumerate(QUESTIONS):
        assert np.allclose(model.log_probabilities([text])[0], together[i], atol=1e-5)
    assert [str(p) for p in model.predict_stream(iter(QUESTIONS))] == [str(p) for p in model.predict(QUESTIONS)]
    assert model.predict([]) == []
    the_network_answers(model, QUESTIONS)


@pytest.mark.parametrize("kind", [*MODELS, *LINEAR])
def test_loaded_model_equals_the_trained_one(kind: str, tmp_path: Path) -> None:
    folder = train_on_sample(tmp_path / "run", kind)
    first = load(folder).log_probabilities(QUESTIONS)
    moved = tmp_path / "elsewhere" / "model"
    moved.parent.mkdir()
    shutil.copytree(folder / "best", moved)  # only the checkpoint, without its run
    shutil.rmtree(folder)
    assert np.array_equal(load(moved).log_probabilities(QUESTIONS), first)


def test_multilabel(tmp_path: Path) -> None:
    rows = [("red|big", "apple fire"), ("blue", "sea"), ("big", "mountain"), ("red", "blood"), ("", "air")] * 12
    path = tmp_path / "train.tsv"
    path.write_text("".join(f"{labels}\t{text}\n" for labels, text in rows), encoding="utf-8")
    config = config_of(
        {
            "data": {
                "train": [str(path)],
                "dev": str(path),
                "input_format": "tsv",
                "multilabel": True,
                "label_separator": "|",
            },
            "model": {"kind": "loglinear"},
            "training": {"max_epochs": 30, "learning_rate": 0.1, "patience": 0},
        }
    )
    train_run(config, tmp_path / "run", SilentReporter())
    model = load(tmp_path / "run")
    found = {text: set(p.labels) for (_, text), p in zip(rows, model.predict([t for _, t in rows]), strict=True)}
    assert found["apple fire"] == {"red", "big"}
    assert found["sea"] == {"blue"}
    assert found["air"] == set()
    (several,) = model.predict(["apple fire"])
    for format in ("tsv", "text"):
        first = written(several, format).split("\t")[0]
        assert set(first.split("|")) == {"red", "big"}, "in the format of the input"
    assert set(several.to_dict()["labels"]) == {"red", "big"}
    (less,) = model.predict(["apple fire"], ClassifyOptions(threshold=0.999999))
    assert less.labels == ()
    report = evaluate(model, path)
    assert report.scores()["accuracy"] == 1.0
    assert report.signatures()["accuracy"] == "subset-accuracy|n=60"


def test_bagging_averages_its_models(tmp_path: Path) -> None:
    folder = train_on_sample(tmp_path / "run", "loglinear", bagging={"members": 3})  # style: option name
    model = load(folder)
    assert "a bag of 3 models" in model.describe(2)
    assert np.allclose(probabilities(model, QUESTIONS).sum(1), 1.0)


@pytest.mark.parametrize("kind", ["loglinear", "cnn"])
def test_temperature_is_not_called_fitted_if_dev_is_part_of_train(kind: str, tmp_path: Path) -> None:
    values = {"data": {"train": [str(sample_path("assistant/train.tsv"))], "train_on_dev": True}}
    folder = train_on_sample(tmp_path / "run", kind, **values, evaluation={"temperature": 0.7})
    assert "temperature: 0.700, of the config, because dev is part of train" in load(folder).describe(2)


def test_evaluation_report(run: Path) -> None:
    model = load(run)
    path = sample_path("assistant/test.tsv")
    report = evaluate(model, path)
    examples = load_sample("test")
    right = [p.label == e.labels[0] for p, e in zip(model.predict([e.text for e in examples]), examples, strict=True)]
    assert report.scores()["accuracy"] == pytest.approx(np.mean(right))
    assert report.signatures()["accuracy"] == "accuracy|n=209"


def test_top_features_need_a_linear_model(tmp_path: Path, run: Path) -> None:
    model = load(train_on_sample(tmp_path / "run", "loglinear"))
    table = model.top_features(3)
    assert list(table) == list(model.labels)
    centered = model.weights[0] - model.weights[0].mean(1, keepdims=True)
    for j, features in enumerate(table.values()):
        assert [w for _, w in features] == pytest.approx(np.sort(centered[:, j])[:-4:-1].tolist(), abs=1e-6)
    with pytest.raises(CatenaError, match="--model loglinear"):
        load(run).top_features()


def test_predictions_are_written_in_each_format(run: Path) -> None:
    model = load(run)
    text = "wake\tme at six"
    found = model.predict([text])[0]
    assert written(found, "text") == found.label
    label, probability, shown = written(found, "tsv").split("\t")
    assert (label, shown) == (found.label, "wake me at six")
    assert float(probability) == pytest.approx(found.probability, abs=1e-4)
    row = json.loads(written(found, "jsonl"))
    assert row["text"] == text
    assert row["label"] == found.label
    assert row["probability"] == pytest.approx(found.probability, abs=1e-5)
    assert sum(row["probabilities"].values()) == pytest.approx(1.0, abs=1e-4)


def test_n_best_labels_and_scores_are_written(run: Path) -> None:
    (found,) = load(run).predict(["wake me at six"], ClassifyOptions(n_best=3, scores=True))
    best = list(found.probabilities.items())[:3]
    rows = found.to_rows()
    assert [(row["label"], row["probability"]) for row in rows] == best
    assert [row["log_prob"] for row in rows] == pytest.approx(np.log([p for _, p in best]))
    assert [(one["label"], one["probability"]) for one in found.to_dict()["n_best"]] == best
    assert found.log_prob == pytest.approx(np.log(found.probability))


def test_predict_of_one_text_is_rejected(run: Path) -> None:
    with pytest.raises(DataError, match="Put it in a list"):
        load(run).predict("wake me at six")


def test_load_never_uses_a_model_hub(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="Run or checkpoint not found"):
        catena.load(tmp_path / "bert-base-uncased")


def test_word_vectors_are_read_from_a_file(tmp_path: Path) -> None:
    words = ["wake", "me", "at", "play", "rain"]
    rows = {word: [float(i + j) for j in range(6)] for i, word in enumerate(words)}
    path = tmp_path / "vectors.txt"
    path.write_text("5 6\n" + "".join(f"{w} {' '.join(map(str, v))}\n" for w, v in rows.items()), encoding="utf-8")
    for mode, frozen in (("static", True), ("tuned", False)):
        model = {**MODELS["cnn"], "embedding": {"d": 6, "mode": mode, "vectors": str(path)}}
        data = {"train": [str(sample_path("assistant/dev.tsv"))]}
        config = config_of({"data": data, "model": model, "training": {"max_epochs": 1}})
        train_run(config, tmp_path / mode, SilentReporter())
        task: Any = load(tmp_path / mode)
        table = task.model.embedding.weight
        (row,) = task.encoding.texts.vocabulary.ids(["wake"])
        assert (table[row].tolist() == rows["wake"]) is frozen
