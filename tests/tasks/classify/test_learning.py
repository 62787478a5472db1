"""What each model can and cannot learn: Boolean functions, and the 8-3-8 identity (Rumelhart et al. 1986)."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.tasks.classify.helpers import classifier, config_of, fit, fit_linear, task_of


def boolean(function: Any, n: int) -> tuple[list[str], list[str]]:
    """All inputs of a Boolean function as texts: one word for each true input, and a word that is always present."""
    texts, labels = [], []
    for inputs in itertools.product((0, 1), repeat=n):
        texts.append(" ".join(["always"] + [f"x{i}" for i, value in enumerate(inputs) if value]))
        labels.append(str(int(function(inputs))))
    return texts, labels


def xor(inputs: tuple[int, ...]) -> bool:
    return sum(inputs) % 2 == 1


def perceptron(epochs: int = 40) -> Any:
    return config_of(
        {
            "model": {"kind": "perceptron", "features": {"ngrams": 1}},
            "tokenizer": {"kind": "whitespace"},
            "training": {"max_epochs": epochs, "patience": 0},
        }
    )


@pytest.mark.parametrize(
    "function",
    [all, any, lambda inputs: 2 * sum(inputs) > len(inputs)],
    ids=["and", "or", "majority"],
)
@pytest.mark.parametrize("n", [2, 3])
def test_perceptron_learns_linearly_separable_functions(function: Any, n: int, tmp_path: Path) -> None:
    scores = fit_linear(perceptron(), *boolean(function, n), tmp_path / "run")
    assert scores["accuracy"] == 1.0


def test_perceptron_does_not_learn_xor(tmp_path: Path) -> None:
    scores = fit_linear(perceptron(), *boolean(xor, 2), tmp_path / "run")
    assert scores["accuracy"] <= 0.75  # a line classifies at most three of the four points correctly


def test_multilayer_perceptron_learns_xor() -> None:
    config = config_of(
        {
            "model": {
                "kind": "mlp",
                "features": {"ngrams": 1},
                "hidden": [8],
                "activation": "tanh",
                "dropout_hidden": 0.0,
            },
            "tokenizer": {"kind": "whitespace"},
            "batches": {"batch_size": 4},
            "training": {"optimizer": "adam", "learning_rate": 0.05, "max_epochs": 150, "patience": 0},
        }
    )
    _, scores = fit(config, *boolean(xor, 2))
    assert scores["accuracy"] == 1.0
    assert scores["log_loss"] < 0.3, "the four points must be classified with confidence"


def test_linear_model_never_learns_xor(tmp_path: Path) -> None:
    config = config_of(
        {
            "model": {"kind": "loglinear", "features": {"ngrams": 1}},
            "tokenizer": {"kind": "whitespace"},
            "training": {"max_epochs": 100, "patience": 0, "weight_decay": 0.0},
        }
    )
    scores = fit_linear(config, *boolean(xor, 2), tmp_path / "run")
    assert scores["accuracy"] <= 0.75


def test_three_sigmoid_units_learn_the_identity_of_eight() -> None:
    config = config_of(
        {
            "model": {
                "kind": "mlp",
                "features": {"ngrams": 1},
                "hidden": [3],
                "activation": "sigmoid",
                "dropout_hidden": 0.0,
            },
            "tokenizer": {"kind": "whitespace"},
            "loss": {"kind": "squared_error"},
            "batches": {"batch_size": 8},
            "training": {
                "optimizer": "adam",
                "learning_rate": 0.05,
                "max_epochs": 600,
                "patience": 0,
                "eval_every": 200,
            },
        }
    )
    texts = [f"w{i}" for i in range(8)]
    task, scores = fit(config, texts, [str(i) for i in range(8)])
    assert scores["accuracy"] == 1.0
    batch = classifier(task).collate(task.data.train, np.arange(8))
    codes = task.model(batch).hidden
    assert codes is not None
    assert codes.shape == (8, 3), "the output layer reads three numbers per word"
    assert len({tuple((row > row.mean()).tolist()) for row in codes.T}) == 3


def test_same_seed_gives_the_same_task() -> None:
    texts, labels = boolean(all, 3)
    config = config_of({"batches": {"batch_size": 1}, "tokenizer": {"kind": "whitespace"}})
    a, b = task_of(config, texts, labels), task_of(config, texts, labels)
    assert [a.epoch(2).batch(i).examples.tolist() for i in range(8)] == [
        b.epoch(2).batch(i).examples.tolist() for i in range(8)
    ]
