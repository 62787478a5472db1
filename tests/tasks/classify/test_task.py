"""The loss of a classifier with each of its options, and evaluation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from catena.data.samples.corpus import load_sample
from catena.errors import ConfigError
from catena.tasks.classify.data import ClassifyRows
from catena.tasks.classify.labels import describe_temperature
from catena.tasks.classify.model import VectorClassifier
from catena.tasks.classify.predict import class_log_probs
from tests.tasks.classify.helpers import classifier, config_of, fit, logits, task_of

TEXTS = ["good film", "bad film", "a very good film", "bad plot", "plot", "good good"]
LABELS = ["pos", "neg", "pos", "neg", "neu", "pos"]
SMALL_CNN = {
    "kind": "cnn",
    "embedding": {"d": 6},
    "convolution": {"filters": 4, "windows": [1, 2]},
    "dropout_hidden": 0.0,
}
LINEAR: dict[str, dict[str, Any]] = {"loglinear": {"kind": "loglinear"}, "perceptron": {"kind": "perceptron"}}
MODELS: dict[str, dict[str, Any]] = {
    "mlp": {"kind": "mlp", "hidden": [7, 5]},
    "cnn": SMALL_CNN,
    "cnn-k-max": {**SMALL_CNN, "convolution": {"filters": 4, "windows": [2, 9], "k": 2, "norm": "layer"}},
    "bilstm": {"kind": "recurrent", "embedding": {"d": 6}, "encoder": {"d": 5}},
    "gru-attention": {
        "kind": "recurrent",
        "embedding": {"d": 6},
        "encoder": {"d": 5, "cell": "gru"},
        "pooling": {"kind": "attention"},
    },
    "elman-ends": {
        "kind": "recurrent",
        "embedding": {"d": 6},
        "encoder": {"d": 5, "cell": "elman"},
        "pooling": {"kind": "ends"},
    },
    "positions": {"kind": "recurrent", "embedding": {"d": 6}, "encoder": {"d": 5}, "pool_outputs": True},
    "self-attentive": {
        "kind": "recurrent",
        "embedding": {"d": 6},
        "encoder": {"kind": "self_attentive_recurrent", "recurrent": {"d": 5}},
    },
    "convolution": {"kind": "convolution", "embedding": {"d": 6}, "encoder": {"filters": 4, "n_layers": 2}},
    "transformer": {
        "kind": "transformer",
        "embedding": {"d": 6},
        "encoder": {"d": 8, "n_heads": 2, "n_layers": 1, "d_ff": 9},
    },
    "highway": {**SMALL_CNN, "n_highway": 2},
    "highway, own carry": {**SMALL_CNN, "n_highway": 2, "highway_carry": "own"},
}


def config(model: str, values: dict[str, Any] | None = None) -> Any:
    return config_of(
        {
            "model": MODELS[model],
            "tokenizer": {"kind": "whitespace"},
            "batches": {"batch_size": 6, "bucket": 0},
            **(values or {}),
        }
    )


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("several", [False, True])
def test_every_model_gives_a_loss_and_a_gradient_to_every_weight(model: str, several: bool) -> None:
    labels: list[Any] = [[label] for label in LABELS]
    if several:
        labels[0], labels[4] = ["pos", "neu"], []
    task = task_of(config(model, {"data": {"multilabel": several}}), TEXTS, labels)
    task.model.train()
    output = task.loss(task.epoch(1).batch(0))
    assert output.items == 6
    assert output.total.isfinite()
    output.total.backward()
    without = [name for name, p in task.model.named_parameters() if p.requires_grad and p.grad is None]
    assert not without


def test_highway_carry_option_adds_a_gate() -> None:
    def size(model: str) -> int:
        return sum(p.numel() for p in task_of(config(model), TEXTS, LABELS).model.parameters())

    d = task_of(config("highway"), TEXTS, LABELS).model.output.in_features
    assert size("highway, own carry") - size("highway") == 2 * (d * d + d)


@pytest.mark.parametrize("model", MODELS)
def test_batches_of_any_size_give_the_same_scores(model: str) -> None:
    task = task_of(config(model), TEXTS, LABELS)
    task.model.eval()
    rows = task.data.train
    together = logits(task, rows)
    for i, row in enumerate(rows.rows):
        alone = logits(task, ClassifyRows(rows.texts, np.array([row]), [rows.gold[i]]))
        assert torch.allclose(alone[0], together[i], atol=1e-5)


def test_batch_counts_tokens_without_padding() -> None:
    task = task_of(config_of({"model": SMALL_CNN}), TEXTS, LABELS)
    batch = task.epoch(1).batch(0)
    assert batch.ids.numel() == 6 * 4
    assert task.loss(batch).tokens == sum(len(text.split()) for text in TEXTS) == 13


def test_mean_loss_equals_torch() -> None:
    task = task_of(config("cnn"), TEXTS, LABELS)
    task.model.eval()
    batch = task.epoch(1).batch(0)
    scores = task.model(batch).logits
    assert task.loss(batch).total.item() == pytest.approx(F.cross_entropy(scores, batch.labels).item(), abs=1e-6)
    smoothed = task_of(config("cnn", {"loss": {"label_smoothing": 0.2}}), TEXTS, LABELS)
    smoothed.model.load_state_dict(task.model.state_dict())
    smoothed.model.eval()
    wanted = F.cross_entropy(scores, batch.labels, label_smoothing=0.2)
    assert smoothed.loss(batch).total.item() == pytest.approx(wanted.item(), abs=1e-6)


def test_balanced_weights_equal_torch() -> None:
    task = task_of(config("cnn", {"loss": {"class_weights": "balanced"}}), TEXTS, LABELS)
    task.model.eval()
    batch = task.epoch(1).batch(0)
    counts = torch.tensor([2.0, 1.0, 3.0])  # neg, neu, pos
    losses = F.cross_entropy(
        task.model(batch).logits, batch.labels, weight=(6 / (3 * counts)).to(batch.labels.device), reduction="none"
    )
    assert task.loss(batch).total.item() == pytest.approx(losses.mean().item(), abs=1e-6)


def test_adversarial_training_adds_the_loss_one_signed_step_away() -> None:
    task = task_of(config("cnn", {"loss": {"adversarial": 0.1, "adversarial_weight": 0.25}}), TEXTS, LABELS)
    task.model.eval()
    model, batch = task.model, task.epoch(1).batch(0)
    assert isinstance(model, VectorClassifier)
    vectors = model.vectors(batch).detach().requires_grad_()
    clean = F.cross_entropy(model.score(vectors, batch).logits, batch.labels)
    (gradient,) = torch.autograd.grad(clean, vectors)
    moved = vectors.detach() + 0.1 * gradient.sign()
    worse = F.cross_entropy(model.score(moved, batch).logits, batch.labels)
    assert worse > clean
    wanted = 0.75 * clean.item() + 0.25 * worse.item()
    assert task.loss(batch).total.item() == pytest.approx(wanted, abs=1e-6)


def test_sparsity_penalty_is_the_mean_l1_norm_of_the_text_vector() -> None:
    plain = task_of(config("cnn"), TEXTS, LABELS)
    penalized = task_of(config("cnn", {"loss": {"sparsity": 0.5}}), TEXTS, LABELS)
    plain.model.eval()
    penalized.model.eval()
    batch = plain.epoch(1).batch(0)
    hidden = plain.model(batch).hidden
    assert hidden is not None
    wanted = plain.loss(batch).total + 0.5 * hidden.abs().sum(1).mean()
    assert penalized.loss(batch).total.item() == pytest.approx(wanted.item(), abs=1e-6)


def test_sparsity_penalty_of_a_bag_uses_the_sample_of_each_model() -> None:
    bag = {"bagging": {"members": 3}}  # style: option name
    plain = task_of(config("cnn", bag), TEXTS, LABELS)
    penalized = task_of(config("cnn", {**bag, "loss": {"sparsity": 0.5}}), TEXTS, LABELS)
    plain.model.eval()
    penalized.model.eval()
    batch = plain.epoch(1).batch(0)
    hidden = plain.model(batch).hidden
    assert hidden is not None
    counts = classifier(plain)._bootstrap
    assert counts is not None
    each = [(counts[m, batch.examples.cpu()].to(hidden) * hidden[m].abs().sum(1)).mean() for m in range(3)]
    wanted = plain.loss(batch).total + 0.5 * sum(each)
    assert penalized.loss(batch).total.item() == pytest.approx(wanted.item(), abs=1e-5)


def test_models_of_a_bag_train_on_their_own_samples() -> None:
    task = task_of(config("mlp", {"bagging": {"members": 3}}), TEXTS, LABELS)  # style: option name
    counts = classifier(task)._bootstrap
    assert counts is not None
    train = torch.from_numpy(task.data.train.rows)
    assert counts[:, train].sum(1).tolist() == [6.0, 6.0, 6.0]
    assert len({tuple(row) for row in counts[:, train].tolist()}) > 1
    task.model.eval()
    batch = task.epoch(1).batch(0)
    scores = task.model(batch).logits
    each = torch.stack([F.cross_entropy(m, batch.labels, reduction="none") for m in scores])
    wanted = (each * counts[:, batch.examples.cpu()].to(each)).mean(1).sum()
    assert task.loss(batch).total.item() == pytest.approx(wanted.item(), abs=1e-5)


def test_bag_averages_probabilities_not_scores() -> None:
    scores = torch.randn(4, 5, 3, dtype=torch.float64)
    found = torch.from_numpy(class_log_probs(scores.numpy(), False, 2.0)).exp()
    assert torch.allclose(found, (scores / 2).softmax(-1).mean(0), atol=1e-12)
    several = torch.from_numpy(class_log_probs(scores.numpy(), True, 2.0)).exp()
    assert torch.allclose(several, (scores / 2).sigmoid().mean(0), atol=1e-12)


def test_temperature_is_fitted_on_dev_and_does_not_affect_training() -> None:
    values = {"training": {"max_epochs": 8, "learning_rate": 0.02}}
    task, _ = fit(config("cnn", values), TEXTS, ["neg", *LABELS[1:]])  # one wrong label, so that the scale is bounded
    batch = task.epoch(1).batch(0)
    before = task.loss(batch).total.item()
    with torch.no_grad():
        task.model.output.weight.mul_(8.0)  # overconfident
        task.model.output.bias.mul_(8.0)
    sure = task.loss(batch).total.item()
    scores = task.evaluate().scores
    temperature = task.model.temperature.item()
    assert temperature != 1.0
    assert task.loss(batch).total.item() == sure != before
    dev = logits(task, task.data.dev).double()
    labels = torch.tensor([classifier(task).labels.index(label) for (label,) in task.data.dev.gold])
    (n, k), near = dev.shape, (temperature, 0.9 * temperature, 1.1 * temperature)
    spread = k / (k - 1) / (n + 2)  # 1 / (n + 2) goes to the labels other than the gold one
    at = {t: F.cross_entropy(dev / t, labels, label_smoothing=spread).item() for t in near}
    assert 0.01 < temperature < 100, "the ends of its range would prove nothing"
    assert min(at, key=lambda t: at[t]) == temperature
    assert scores["log_loss"] == pytest.approx(F.cross_entropy(dev / temperature, labels).item(), abs=1e-6)


GIVEN = "temperature: 0.700, of the config, because dev is part of train"


@pytest.mark.parametrize(
    ("data", "evaluation", "line"),
    [
        ({}, {}, "temperature fitted on dev: 0.700"),
        (
            {"train_on_dev": True},
            {"temperature": 0.7},
            "temperature: 0.700, of the config, because dev is part of train",
        ),
        ({"train_on_dev": True, "dev": "dev.tsv"}, {}, "temperature fitted on dev: 0.700"),
        ({}, {"calibrate": False}, "temperature: 0.700, not fitted"),
    ],
)
def test_describe_says_where_the_temperature_is_from(
    data: dict[str, Any], evaluation: dict[str, Any], line: str
) -> None:
    assert describe_temperature(config_of({"data": data, "evaluation": evaluation}), 0.7) == line


def test_small_network_learns_the_sample_corpus() -> None:
    examples = load_sample("train")[:250]
    values = {"training": {"max_epochs": 8, "learning_rate": 0.01}, "batches": {"batch_size": 25}}
    task, scores = fit(config("cnn", values), [e.text for e in examples], [e.labels[0] for e in examples])
    assert scores["accuracy"] > 0.5  # guessing gives 1 in 15
    best = [classifier(task).labels[j] for j in logits(task, task.data.dev).argmax(1)]
    assert scores["accuracy"] == np.mean(
        [(label,) == gold for label, gold in zip(best, task.data.dev.gold, strict=True)]
    )


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"model": {"kind": "loglinear"}, "loss": {"adversarial": 0.1}}, "perturbs token vectors"),
        ({"model": {"kind": "perceptron"}, "loss": {"kind": "hinge"}}, "has its own loss"),
        ({"loss": {"kind": "hinge", "label_smoothing": 0.1}}, "needs a loss on probabilities"),
        ({"data": {"multilabel": True}, "loss": {"label_smoothing": 0.1}}, "cannot be combined with data.multilabel"),
        ({"data": {"label_separator": "|"}}, "multilabel = true"),
        ({"training": {"metric": "acuracy"}}, "did you mean 'accuracy'"),
        ({"data": {"folds": 3, "fold": 3}}, "must be less than"),
        ({"data": {"relabel": ["pos"]}}, "old=new"),
        ({"model": {"kind": "transformer", "encoder": {"d": 10, "n_heads": 4}}}, "n_heads"),
        (
            {"model": {"kind": "recurrent", "pool_outputs": True, "pooling": {"kind": "first_last"}}},
            "needs a pooling to one score",
        ),
    ],
)
def test_incompatible_options_are_rejected(values: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        config_of(values)


def test_all_config_errors_are_in_one_message() -> None:
    with pytest.raises(ConfigError) as caught:
        config_of({"batches": {"batch_size": 0}, "training": {"optimizr": "adam"}, "model": {"kind": "cnnn"}})
    message = str(caught.value)
    assert "batch_size" in message
    assert "did you mean 'optimizer'" in message
    assert "did you mean 'cnn'" in message
