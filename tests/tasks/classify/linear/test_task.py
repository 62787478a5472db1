"""Linear classifiers from training to prediction: options, storage, resuming, and what they do not import."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from catena import TextClassifier
from catena.data.samples.corpus import load_sample, sample_path
from catena.errors import ConfigError, DataError, DivergedError
from catena.tasks.classify.linear import data
from catena.tasks.runs import load_task, resume_run, train_run
from catena.training.report import SilentReporter
from tests.tasks.classify.helpers import config_of, examples, prepared, task_of

TEXTS = ["good film", "bad film", "a very good film", "bad plot", "plot", "good good"]
LABELS = ["pos", "neg", "pos", "neg", "neu", "pos"]


def config(**values: Any) -> Any:
    files = {"train": [str(sample_path("assistant/train.tsv"))], "dev": str(sample_path("assistant/dev.tsv"))}
    training = {"max_epochs": 3, **values.pop("training", {})}
    model = {"kind": "loglinear", **values.pop("model", {})}
    return config_of({"data": {**files, **values.pop("data", {})}, "model": model, "training": training, **values})


def trained(folder: Path, **values: Any) -> Any:
    train_run(config(**values), folder, SilentReporter())
    return load_task(folder)


def learned(steps: int, texts: list[str] = TEXTS, labels: list[Any] = LABELS, **values: Any) -> Any:
    """The learner of some texts after some passes."""
    learner = task_of(config_of({"model": {"kind": "loglinear"}, **values}), texts, labels).learner
    for _ in range(steps):
        learner.step()
    return learner


# --- learning ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"loss": {"kind": "hinge"}},
        {"loss": {"kind": "squared_error"}},
        {"loss": {"label_smoothing": 0.1}},
        {"loss": {"class_weights": "balanced"}},
        {"model": {"kind": "perceptron"}},
        {"model": {"features": {"buckets": 2**16}}},
        {"model": {"features": {"ngrams": 1, "characters": 4, "values": "log"}}},
        {"bagging": {"members": 2}},  # style: option name
        {"training": {"optimizer": "sgd", "learning_rate": 0.2}},
        {"training": {"weight_decay": 1e-4, "l1": 1e-5}},
        {"tokenizer": {"kind": "characters"}, "model": {"features": {"ngrams": 4}}},
    ],
    ids=str,
)
def test_every_option_learns_the_sample(values: dict[str, Any], tmp_path: Path) -> None:
    model = trained(tmp_path / "run", **values)
    assert model.evaluate(load_sample("test")).scores()["accuracy"] > 0.6  # guessing gives 1 in 15


def test_same_seed_gives_the_same_weights_and_another_seed_does_not() -> None:
    a, b, other = learned(2), learned(2), learned(2, seed=1)
    assert np.array_equal(a.weights, b.weights)
    assert not np.array_equal(a.weights, other.weights)


def test_loss_is_the_mean_before_each_step() -> None:
    assert learned(1, ["a", "b"], ["x", "y"]).loss == pytest.approx(np.log(2), rel=0.2)
    assert learned(30).loss < 0.2


def test_balanced_weights_give_every_class_the_same_total() -> None:
    learner = learned(0, loss={"class_weights": "balanced"})
    weights = {labels[0]: float(learner._set_weights[i]) for i, labels in enumerate(learner.texts.sets)}
    totals = [weights[label] * LABELS.count(label) for label in ("neg", "neu", "pos")]
    assert totals == pytest.approx([2.0, 2.0, 2.0])


def test_models_of_a_bag_differ_by_their_samples() -> None:
    learner = learned(2, bagging={"members": 3})  # style: option name
    assert learner._samples is not None
    assert learner._samples.sum(1).tolist() == [6.0, 6.0, 6.0]
    assert not np.array_equal(learner.weights[0], learner.weights[1])


def test_l1_makes_weights_zero() -> None:
    plain, sparse = learned(20), learned(20, training={"l1": 0.05})
    assert (sparse.weights == 0).mean() > (plain.weights == 0).mean() + 0.2


def test_groups_of_chunks_learn_as_well_as_all_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is sorted by label, read in small chunks that are on disk, is mixed well enough."""
    some = sorted(load_sample("train"), key=lambda example: example.labels)
    path = tmp_path / "sorted.tsv"
    path.write_text("".join(f"{e.labels[0]}\t{e.text}\n" for e in some), encoding="utf-8")
    whole = trained(tmp_path / "whole", data={"train": [str(path)]})
    monkeypatch.setattr(data, "_CHUNK", 16)
    monkeypatch.setattr(data, "WHOLE", 2000)
    monkeypatch.setattr(data, "IN_MEMORY", 1000)
    parts = trained(tmp_path / "parts", data={"train": [str(path)]})
    again = trained(tmp_path / "again", data={"train": [str(path)]})
    assert np.array_equal(parts.weights, again.weights)
    assert sorted(parts.encoding.texts.features.names) == sorted(whole.encoding.texts.features.names)
    test = load_sample("test")
    found, wanted = (model.evaluate(test).scores()["accuracy"] for model in (parts, whole))
    assert found > wanted - 0.05


def test_number_of_steps_grows_with_the_texts_only() -> None:
    """A pass touches the features of each text once: its work does not depend on the size of the table."""
    small = learned(1, model={"kind": "loglinear", "features": {"buckets": 2**10}})
    large = learned(1, model={"kind": "loglinear", "features": {"buckets": 2**20}})
    assert (small.squares != small.squares.min()).any(2).sum() <= sum(2 * len(text.split()) for text in TEXTS)
    assert (large.squares != large.squares.min()).any(2).sum() <= sum(2 * len(text.split()) for text in TEXTS)


# --- odd input --------------------------------------------------------------------------------------------------------


def test_texts_without_known_features_get_the_scores_of_the_bias(tmp_path: Path) -> None:
    model = trained(tmp_path / "run")
    found = model.log_probabilities(["", "zzzz qqqq", "\ud800", "   "])
    wanted = model.bias[0] / model.temperature
    assert np.allclose(found, wanted - np.log(np.exp(wanted).sum()), atol=1e-6)
    assert model.log_probabilities([]).shape == (0, 15)


@pytest.mark.parametrize(
    ("texts", "labels", "words"),
    [
        ([], [], "No example of train can be used"),
        (["a", "b"], ["x", "x"], "only the label 'x'"),
        (["a", "b"], [["x", "y"], ["x"]], "must have one label, got 2"),
        (["", ""], ["x", "y"], "2 without a token"),
    ],
)
def test_unusable_texts_are_rejected(texts: list[str], labels: list[Any], words: str) -> None:
    with pytest.raises(DataError, match=words):
        prepared(config_of({"model": {"kind": "loglinear"}}), {"train": examples(texts, labels)})


def test_diverged_weights_are_reported() -> None:
    with pytest.raises(DivergedError, match=r"learning_rate = 1e\+38\. Lower --learning-rate"):
        learned(3, training={"optimizer": "sgd", "learning_rate": 1e38})


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"training": {"optimizer": "adam"}}, "must be adagrad or sgd for model.kind = 'loglinear', got 'adam'"),
        ({"training": {"schedule": "inverse_sqrt"}}, "training.schedule is only for networks"),
        ({"training": {"ema": 0.9}}, "training.ema is only for networks"),
        ({"pretrained": "runs/lm"}, "pretrained needs a network"),
    ],
)
def test_options_of_networks_are_rejected(values: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        config_of({"model": {"kind": "loglinear"}, **values})


# --- runs -------------------------------------------------------------------------------------------------------------


def test_resumed_run_equals_an_uninterrupted_one(tmp_path: Path) -> None:
    values = {"training": {"patience": 0, "weight_decay": 1e-4}, "bagging": {"members": 2}}  # style: option name
    train_run(config(**values), tmp_path / "a", SilentReporter())
    resume_run(tmp_path / "a", SilentReporter(), {"max_epochs": 5})
    values["training"] = {"patience": 0, "weight_decay": 1e-4, "max_epochs": 5}
    train_run(config(**values), tmp_path / "b", SilentReporter())
    a, b = (load_task(tmp_path / name / "last") for name in "ab")
    assert np.array_equal(a.weights, b.weights)  # type: ignore[attr-defined]
    assert np.array_equal(a.bias, b.bias)  # type: ignore[attr-defined]


def test_start_from_an_older_run_keeps_its_features(tmp_path: Path) -> None:
    old = trained(tmp_path / "old")
    more = config(data={"train": [str(sample_path("assistant/dev.tsv"))]}, training={"max_epochs": 1})
    train_run(more, tmp_path / "new", SilentReporter(), init_from=tmp_path / "old")
    new: Any = load_task(tmp_path / "new")
    assert np.array_equal(new.encoding.texts.features.parents, old.encoding.texts.features.parents)
    assert new.encoding.texts.features.names == old.encoding.texts.features.names
    gold = load_sample("dev")
    before, after = (model.evaluate(gold).scores()["log_loss"] for model in (old, new))
    assert after < before, "it is trained on these texts"
    resume_run(tmp_path / "new", SilentReporter(), {"max_epochs": 2})
    resumed: Any = load_task(tmp_path / "new" / "last")
    assert resumed.encoding.texts.features.names == old.encoding.texts.features.names


def test_split_is_the_split_of_networks(tmp_path: Path) -> None:
    path = [str(sample_path("assistant/train.tsv"))]
    linear = prepared(config_of({"data": {"train": path}, "model": {"kind": "loglinear"}}))[0]
    network = prepared(config_of({"data": {"train": path}, "model": {"kind": "mlp"}}))[0]
    for part in ("train", "dev"):
        gold = [linear.parts[part].sets[i] for i in linear.parts[part].gold.read(0, len(linear.parts[part]))]
        assert gold == getattr(network.data, part).gold


def test_many_texts_are_split_by_their_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("catena.tasks.classify.data.MANY", 500)
    path = [str(sample_path("assistant/train.tsv"))]
    training = prepared(config_of({"data": {"train": path}, "model": {"kind": "loglinear"}}))[0]
    n = len(training.parts["train"]) + len(training.parts["dev"])
    assert n == len(load_sample("train"))
    assert 0.05 * n < len(training.parts["dev"]) < 0.15 * n


def test_dev_of_many_scores_is_sampled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data, "_CHUNK", 10)
    training = prepared(config())[0]
    model = trained(tmp_path / "run")
    monkeypatch.setattr("catena.tasks.classify.linear.task._MOST_SCORES", 600)
    every = model.evaluate_stored(training.parts["dev"])
    some = model.evaluate_stored(training.parts["dev"], sample=True)
    assert len(every.gold) == len(training.parts["dev"])
    assert 0 < len(some.gold) * 15 <= 600


def test_predict_labels_equals_predictions(tmp_path: Path) -> None:
    model = trained(tmp_path / "run")
    texts = [example.text for example in load_sample("test")] + [""]
    for threshold in (None, 0.9):
        options = model.options_class(threshold=threshold)
        assert list(model.predict_labels(texts, threshold)) == [p.labels for p in model.predict(texts, options)]


def test_few_texts_get_the_probabilities_of_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = trained(tmp_path / "run")
    texts = [example.text for example in load_sample("test")]
    many = model.log_probabilities(texts)
    for name in ("features", "task"):
        monkeypatch.setattr(f"catena.tasks.classify.linear.{name}.needs_kernels", lambda n: False)
    assert np.allclose(load_task(tmp_path / "run").log_probabilities(texts), many, atol=1e-5)  # type: ignore[attr-defined]


def test_training_does_not_import_torch(tmp_path: Path) -> None:
    code = (
        "import sys; from catena import TextClassifier;"
        "TextClassifier('loglinear', max_epochs=2, threads=1).fit(['a b', 'a c', 'd e', 'd f'], ['x', 'x', 'y', 'y'])"
        ".save(sys.argv[1]); print('torch' in sys.modules)"
    )
    found = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "run")], capture_output=True, text=True, check=True
    )
    assert found.stdout.splitlines()[-1] == "False"


def test_train_on_dev_trains_on_all_texts(tmp_path: Path) -> None:
    texts = [example.text for example in load_sample("train")]
    labels = [example.labels[0] for example in load_sample("train")]
    sizes = []
    for both in (False, True):
        model = TextClassifier("loglinear", max_epochs=1, dev_fraction=0.5, train_on_dev=both)
        model.fit(texts, labels)
        sizes.append(model.task_.encoding.texts.size)
    everything = TextClassifier("loglinear", max_epochs=1, dev_fraction=0.01).fit(texts, labels)
    assert sizes[0] < everything.task_.encoding.texts.size <= sizes[1]


def test_prediction_imports_neither_torch_nor_numba(tmp_path: Path) -> None:
    trained(tmp_path / "run")
    code = (
        "import sys; from pathlib import Path; from catena.tasks.runs import load_task;"
        "model = load_task(Path(sys.argv[1]));"
        "print(model.predict(['wake me at six'])[0]); print({'torch', 'numba'} & set(sys.modules))"
    )
    found = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "run")], capture_output=True, text=True, check=True
    )
    assert found.stdout.splitlines()[-1] == "set()"
