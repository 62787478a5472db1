"""The log-linear model: its gradient is observed minus expected feature counts, its Hessian their covariance."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
import torch

from catena.tasks.classify.model import LinearClassifier
from tests.tasks.classify.helpers import config_of, task_of

TEXTS = ["good good film", "bad film", "a good film", "bad bad plot", "plot"]
LABELS = ["pos", "neg", "pos", "neg", "neu"]


@pytest.fixture
def task():
    values = {
        "model": {"kind": "loglinear", "features": {"ngrams": 1, "values": "counts"}},
        "tokenizer": {"kind": "whitespace"},
        "batches": {"batch_size": 100},
    }
    task = task_of(config_of(values), TEXTS, LABELS)
    task.model.double()
    with torch.no_grad():  # away from zero, where expectations would be uniform
        task.model.features.weight.normal_(generator=torch.Generator().manual_seed(1))
        task.model.features.bias.normal_(generator=torch.Generator().manual_seed(2))
    return task


def probabilities(model: LinearClassifier, words: Counter, ids: dict[str, int]) -> list[float]:
    """p(y | x) of one text from the formula, in plain Python."""
    weight, bias = model.features.weight.tolist(), model.features.bias.tolist()
    k = len(bias)
    scores = [bias[j] + sum(n * weight[ids[w]][j] for w, n in words.items()) for j in range(k)]
    mass = [math.exp(s - max(scores)) for s in scores]
    return [m / sum(mass) for m in mass]


def vocabulary(task) -> dict[str, int]:
    return {task.task.encoding.texts.name(i): i for i in range(task.task.encoding.texts.size)}


def test_gradient_is_expected_minus_observed_counts(task) -> None:
    ids, names = vocabulary(task), task.task.names
    batch = task.epoch(1).batch(0)
    task.loss(batch).total.backward()
    wanted = np.zeros(task.model.features.weight.shape)
    for text, label in zip(TEXTS, LABELS, strict=True):
        words = Counter(text.split())
        p = probabilities(task.model, words, ids)
        for word, count in words.items():
            for j in range(len(names)):
                wanted[ids[word], j] += (p[j] - (j == names.id(label))) * count / len(TEXTS)
    assert np.abs(task.model.features.weight.grad.numpy() - wanted).max() < 1e-12


def test_hessian_is_the_covariance_of_the_features(task) -> None:
    # Of the log-likelihood of one text, with the feature vector f(x, y) = counts of x in the block of y.
    ids, k = vocabulary(task), len(task.task.names)
    text = Counter(TEXTS[0].split())
    row = torch.zeros(len(ids), dtype=torch.float64)
    for word, count in text.items():
        row[ids[word]] = count
    weight, bias = task.model.features.weight.detach(), task.model.features.bias.detach()

    def loss(flat: torch.Tensor) -> torch.Tensor:
        return torch.logsumexp(row @ flat.view(len(ids), k) + bias, 0) - (row @ flat.view(len(ids), k) + bias)[0]

    hessian = torch.autograd.functional.hessian(loss, weight.reshape(-1))
    p = probabilities(task.model, text, ids)
    features = np.zeros((k, len(ids) * k))
    for j in range(k):
        features[j].reshape(len(ids), k)[:, j] = row.numpy()
    mean = sum(p[j] * features[j] for j in range(k))
    covariance = sum(p[j] * np.outer(features[j] - mean, features[j] - mean) for j in range(k))
    assert np.abs(hessian.numpy() - covariance).max() < 1e-12


def test_expected_counts_equal_observed_counts_at_the_optimum() -> None:
    # Without a penalty, gradient descent runs until the two agree (the texts are not separable, so it converges).
    texts, labels = ["a", "a", "a", "b", "b", "b"], ["x", "x", "y", "x", "y", "y"]
    values = {
        "model": {"kind": "loglinear", "features": {"ngrams": 1}},
        "tokenizer": {"kind": "whitespace"},
        "batches": {"batch_size": 100},
    }
    task = task_of(config_of(values), texts, labels)
    optimizer = torch.optim.LBFGS(task.model.parameters(), max_iter=100, tolerance_grad=1e-12)
    batch = task.epoch(1).batch(0)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        total = task.loss(batch).total
        total.backward()
        return total

    optimizer.step(closure)
    predicted = task.model(batch).logits.softmax(-1)
    observed = {("a", 0): 2, ("a", 1): 1, ("b", 0): 1, ("b", 1): 2}
    order = batch.examples.tolist()
    for (word, j), count in observed.items():
        expected = sum(predicted[i, j].item() for i, row in enumerate(order) if texts[row % 6] == word)
        assert expected == pytest.approx(count, abs=1e-4)
