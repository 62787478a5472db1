"""Training on trees: counted nodes, the definition of the loss, every kind of model, killed and resumed runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from catena.data.readers.brackets import parse
from catena.errors import ConfigError, DataError
from catena.tasks.classify.trees.model import NO_LABEL
from catena.tasks.classify.trees.task import TreeTask
from catena.tasks.sources import Sources
from catena.training.loop import train
from catena.training.report import SilentReporter
from tests.laws.resume_laws import killed_anywhere_ends_the_same
from tests.tasks.classify.helpers import config_of
from tests.tasks.classify.trees.helpers import MODELS, TREEBANK, tree_config, tree_task, treebank

LSTM = MODELS["tree_lstm"]


@pytest.mark.parametrize("model", MODELS)
def test_every_kind_overfits_a_small_treebank(model: str, tmp_path: Path) -> None:
    task = tree_task(tree_config(tmp_path, MODELS[model], training={"max_epochs": 40, "eval_every": 10_000}))
    train(task, task.config.training, None, task.randomness, SilentReporter())
    task.model.eval()
    scores = task.evaluate().scores
    assert scores["accuracy"] == 1.0
    assert scores["node_accuracy"] > 0.95
    with torch.no_grad():
        assert task.task.evaluate_test(task.data.test).scores() == pytest.approx(scores)


def test_loss_is_the_mean_over_all_labeled_nodes(tmp_path: Path) -> None:
    task = tree_task(tree_config(tmp_path, LSTM, data={"relabel": ["2="]}, batches={"batch_size": 20}))
    batch = task.epoch(1).batch(0)
    output = task.loss(batch)
    # Only nodes that are not neutral have classes; each is scored in a batch with only its tree.
    total, n = 0.0, 0
    trees = task.data.train.trees
    for row in range(len(task.data.train)):
        own = trees.batch(np.array([row]), "all", output.total.device)
        log_probs = task.model(own).log_softmax(-1)
        for i, label in enumerate(own.labels.tolist()):
            if label != NO_LABEL:
                total, n = total - log_probs[i, label].item(), n + 1
    labels = [part.split()[0] for part in TREEBANK.replace(")", " ").split("(")[1:]]
    assert output.items == n == sum(label != "2" for label in labels)
    assert output.total.item() == pytest.approx(total / n, abs=1e-6)


def test_loss_of_only_the_root(tmp_path: Path) -> None:
    text = "(pos (S (NP dogs) (VP bark)))\n(neg (S (NP cats) (VP bite)))\n"
    task = tree_task(tree_config(tmp_path, {**LSTM, "nodes": "root"}, text))
    assert task.task.encoding.names.names == ("neg", "pos")
    assert task.loss(task.epoch(1).batch(0)).items == 2
    assert set(task.evaluate().scores) == {"accuracy", "node_accuracy", "macro_f1", "log_loss"}


def test_loss_options_apply_to_nodes(tmp_path: Path) -> None:
    plain = tree_task(tree_config(tmp_path, LSTM, batches={"batch_size": 20}))
    others: list[dict[str, Any]] = [{"kind": "hinge"}, {"label_smoothing": 0.2}, {"class_weights": "balanced"}]
    values = []
    for loss in others:
        other = tree_task(tree_config(tmp_path, LSTM, loss=loss, batches={"batch_size": 20}))
        other.model.load_state_dict(plain.model.state_dict())
        values.append(other.loss(other.epoch(1).batch(0)).total.item())
    values.append(plain.loss(plain.epoch(1).batch(0)).total.item())
    assert len({round(value, 5) for value in values}) == 4


def test_unlabeled_and_long_trees_are_dropped(tmp_path: Path) -> None:
    path = treebank(tmp_path, TREEBANK + "(2 (2 the) (2 the))\n", "more.txt")
    config = tree_config(tmp_path, LSTM, data={"train": [path], "relabel": ["2="], "max_length": 3})
    sources = Sources(TreeTask, config)
    task = tree_task(config, sources)
    reasons = [dropped.reason for dropped in sources.counter.dropped]
    assert sorted(reasons) == sorted(
        ["longer than max_length=3"] * 2 + ["without a label"] * 3 + ["without a label"] * 2 + ["without a label"] * 2
    )
    assert len(task.data.train) == 4
    assert len(task.data.dev) == 6


def test_dev_is_split_from_train_if_missing(tmp_path: Path) -> None:
    text = "".join(TREEBANK.replace("(2 it)", f"(2 it{i})").replace("(2 film)", f"(2 film{i})") for i in range(3))
    config = tree_config(tmp_path, LSTM, text, data={"dev": None, "test": None, "dev_fraction": 0.25})
    task = tree_task(config)
    assert (len(task.data.train), len(task.data.dev), len(task.data.test)) == (18, 6, 0)


def test_temperature_is_not_fitted_on_dev_that_is_part_of_train(tmp_path: Path) -> None:
    data = {"dev": None, "test": None, "dev_fraction": 0.25, "train_on_dev": True}
    task = tree_task(tree_config(tmp_path, LSTM, data=data, evaluation={"temperature": 0.7}))
    task.evaluate()
    assert task.model.temperature.item() == pytest.approx(0.7)
    assert "temperature: 0.700, of the config, because dev is part of train" in task.task.describe(5)


def test_words_not_in_train_are_unknown_and_lowercase_applies(tmp_path: Path) -> None:
    dev = treebank(tmp_path, "(4 (2 A) (4 (4 splendid) (2 Film)))\n", "dev.txt")
    task = tree_task(tree_config(tmp_path, LSTM, data={"dev": dev}))
    names = [task.task.encoding.texts.name(int(i)) for i in task.data.dev.trees.words if i]
    assert names == ["a", "<unk>", "film"]


def test_leaf_is_one_token_with_every_tokenizer(tmp_path: Path) -> None:
    text = TREEBANK + "(3 (2 do-it-now!) (3 (2 $5) (3 don't)))\n"
    task = tree_task(
        tree_config(tmp_path, LSTM, text, tokenizer={"kind": "words", "lowercase": True, "hyphens": "split"})
    )
    symbols = task.task.encoding.texts.vocabulary.symbols
    assert "do-it-now!" in symbols
    assert "don't" in symbols


def test_resumed_run_equals_uninterrupted_run(tmp_path: Path) -> None:
    model = {**LSTM, "dropout_hidden": 0.3, "dropout_input": 0.3, "encoder": {"d": 7, "dropout": 0.2}}
    config = tree_config(tmp_path, model, training={"max_epochs": 3})
    killed_anywhere_ends_the_same(lambda: tree_task(config), config.training, tmp_path / "runs", kills=[1, 4])


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"data": {"phrases": True}}, "data.phrases is only for models on texts"),
        (
            {"data": {"multilabel": True}},
            "data.multilabel is only for models on texts; model",
        ),
        ({"bagging": {"members": 3}}, "bagging.members is only for models on texts"),  # style: option name
        ({"loss": {"adversarial": 0.1}}, "loss.adversarial is only for models on texts"),
        ({"loss": {"sparsity": 0.1}}, "loss.sparsity is only for models on texts"),
        ({"pretrained": "runs/lm"}, "pretrained is only for models on texts"),
        ({"tokenizer": {"kind": "characters"}}, "tokenizer.kind = 'characters' would split"),
        ({"training": {"metric": "node_acuracy"}}, "did you mean 'node_accuracy'"),
        ({"evaluation": {"binary": ["a=b"]}}, "evaluation.binary must have two sides, got b"),
        ({"evaluation": {"binary": ["a"]}}, "evaluation.binary must be pairs class=side, got 'a'"),
        (
            {"model": {"kind": "cnn"}, "evaluation": {"binary": ["a=b", "c=d"]}},
            "evaluation.binary is only for models on",
        ),
        (
            {"model": {"kind": "tree_lstm", "encoder": {"children": "summed", "most": 3}}},
            "most must be left out if children = 'summed'",
        ),
    ],
)
def test_incompatible_options_are_rejected(values: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        config_of({"model": {"kind": "tree_lstm"}, **values})


def test_files_without_trees_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"texts.txt has no trees .* set model.without_tree = 'right'"):
        tree_task(tree_config(tmp_path, LSTM, data={"dev": treebank(tmp_path, "pos\tgood\nneg\tbad\n", "texts.txt")}))
    with pytest.raises(DataError, match="got only the label '2' at the nodes of the trees"):
        tree_task(tree_config(tmp_path, LSTM, "(2 (2 a) (2 b))\n"))
    with pytest.raises(DataError, match=r"No example of train can be used: .* without a label"):
        tree_task(tree_config(tmp_path, LSTM, data={"relabel": [f"{i}=" for i in range(5)]}))


def test_without_tree_right_trains_on_texts(tmp_path: Path) -> None:
    path = treebank(tmp_path, "pos\ta good film\nneg\ta bad film\npos\tgood\nneg\tbad\n" * 5, "texts.tsv")
    config = tree_config(tmp_path, {**LSTM, "without_tree": "right"}, data={"train": [path], "dev": path, "test": None})
    task = tree_task(config)
    assert task.data.train.trees.forest.heights.max() == 2
    assert task.loss(task.epoch(1).batch(0)).items == 3
    train(task, config.training, None, task.randomness, SilentReporter())
    task.model.eval()
    assert task.evaluate().scores["accuracy"] == 1.0


def test_samples_show_text_prediction_and_gold_class(tmp_path: Path) -> None:
    task = tree_task(tree_config(tmp_path, LSTM))
    task.model.eval()
    samples = task.evaluate().samples
    assert len(samples) == 3
    assert samples[0].startswith("a lovely film  →  ")
    assert " ".join(parse(TREEBANK.splitlines()[-1]).words()) in samples[-1]
    assert all("✓" in line or "✗ (is " in line for line in samples)


def test_describe_batch_counts_trees_nodes_and_levels(tmp_path: Path) -> None:
    task = tree_task(tree_config(tmp_path, LSTM, batches={"batch_size": 20}))
    batch = task.epoch(1).batch(0)
    assert task.describe_batch(batch) == "8 trees, 44 nodes on 4 levels"
    assert any("8 trees" in line and "44 labeled nodes" in line for line in task.summary())
