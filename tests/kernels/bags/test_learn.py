"""Steps of linear models on bags: their losses and gradients, penalties, and the optimum that they reach."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from catena.kernels.bags import reference
from catena.kernels.bags.cpu_learn import (
    add_products,
    add_transposed_products,
    count_texts,
    learn_texts,
    score_texts,
)
from tests.oracle import losses as oracle

LOSSES = {"cross_entropy": 0, "hinge": 1, "squared_error": 2, "perceptron": 3}
ROWS = [[0, 2, 2, 5], [1, 2], [], [0, 0, 0, 4, 5], [3]]
FIRST = np.cumsum([0, *map(len, ROWS)]).astype(np.int64)
IDS = np.array([i for row in ROWS for i in row], np.int32)
GOLD = np.array([1, 0, 2, 2, 1], np.int32)
MARKS = np.array([[1, 0, 1], [0, 0, 0], [0, 1, 0]], np.uint8)
F, K = 6, 3


def parameters(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.normal(0, 0.7, (F, K)).astype(np.float32), rng.normal(0, 0.3, K).astype(np.float32)


def dense(values: int) -> np.ndarray:
    """The value of each feature for each text, computed one by one."""
    table = np.zeros((len(ROWS), F))
    for i, row in enumerate(ROWS):
        for f in set(row):
            n = row.count(f)
            table[i, f] = [1.0, float(n), math.log(1 + n)][values]
    return table


def learn(
    weights: np.ndarray,
    bias: np.ndarray,
    order: list[int],
    *,
    loss: str = "cross_entropy",
    several: bool = False,
    values: int = 0,
    rate: float = 1.0,
    adaptive: bool = False,
    eps: float = 1e-6,
    importance: np.ndarray | None = None,
    smoothing: float = 0.0,
    l2: float = 0.0,
    l1: float = 0.0,
) -> tuple[float, np.ndarray, np.ndarray]:
    """The total loss, and the weights and bias after the steps."""
    weights, bias = weights.copy(), bias.copy()
    counts = np.zeros(F, np.int32)
    count_texts(IDS, FIRST, counts)
    total = learn_texts(
        IDS, FIRST, np.array(order, np.int64), GOLD, MARKS,
        np.ones(len(ROWS), np.float32) if importance is None else importance,
        (len(ROWS) / np.maximum(counts, 1)).astype(np.float32), values, LOSSES[loss], several, np.float32(smoothing),
        weights, np.full_like(weights, eps), bias, np.full_like(bias, eps), np.float32(rate), np.float32(l2),
        np.float32(l1), adaptive,
    )  # fmt: skip
    return total, weights, bias


def oracle_loss(loss: str, several: bool, scores: np.ndarray, i: int, smoothing: float) -> float:
    if several:
        return oracle.several(loss, scores.tolist(), MARKS[GOLD[i]].tolist())
    return getattr(oracle, loss)(scores.tolist(), int(GOLD[i]), smoothing)


def numeric_gradient(function: Any, at: np.ndarray) -> np.ndarray:
    """The gradient by central differences."""
    h = 1e-5
    found = np.zeros_like(at)
    for j in range(len(at)):
        step = np.zeros_like(at)
        step[j] = h
        found[j] = (function(at + step) - function(at - step)) / (2 * h)
    return found


@pytest.mark.parametrize("values", [0, 1, 2])
@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("loss", LOSSES)
def test_step_follows_the_gradient_of_the_loss(loss: str, several: bool, values: int) -> None:
    weights, bias = parameters()
    x = dense(values)
    smoothing = 0.1 if loss in ("cross_entropy", "squared_error") and not several else 0.0
    for i in range(len(ROWS)):
        total, moved, moved_bias = learn(
            weights, bias, [i], loss=loss, several=several, values=values, smoothing=smoothing
        )  # fmt: skip
        scores = bias.astype(float) + x[i] @ weights.astype(float)
        gradient = numeric_gradient(lambda s, i=i: oracle_loss(loss, several, s, i, smoothing), scores)
        assert total == pytest.approx(oracle_loss(loss, several, scores, i, smoothing), abs=1e-5)
        assert np.allclose(weights - moved, np.outer(x[i], gradient), atol=2e-5)
        assert np.allclose(bias - moved_bias, gradient, atol=2e-5)


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("loss", LOSSES)
def test_reference_gradients_equal_differences(loss: str, several: bool) -> None:
    scores = np.array([0.4, -1.2, 0.9])
    for i in (0, 1, 3):
        if several:
            found = reference.multilabel_gradient(LOSSES[loss], scores, MARKS[GOLD[i]])
        else:
            found = reference.loss_gradient(LOSSES[loss], scores, int(GOLD[i]), 0.0)
        assert found[0] == pytest.approx(oracle_loss(loss, several, scores, i, 0.0))
        wanted = numeric_gradient(lambda s, i=i: oracle_loss(loss, several, s, i, 0.0), scores)
        assert np.allclose(found[1], wanted, atol=1e-8)


def test_perceptron_moves_on_a_wrong_guess_at_a_tie() -> None:
    _, moved, _ = learn(np.zeros((F, K), np.float32), np.zeros(K, np.float32), [0], loss="perceptron")
    assert moved[2].tolist() == [-1.0, 1.0, 0.0]


def test_adagrad_divides_by_the_root_of_all_squared_gradients() -> None:
    weights, bias = parameters()
    _, once, _bias_once = learn(weights, bias, [0])
    first = (weights - once).astype(float)
    _, found, found_bias = learn(weights, bias, [0], adaptive=True, rate=0.5, eps=0.01)
    assert np.allclose(found, weights - 0.5 * first / np.sqrt(0.01 + first**2), atol=1e-6)
    _, twice, _ = learn(found, found_bias, [0])
    second = (found - twice).astype(float)
    _, both, _ = learn(weights, bias, [0, 0], adaptive=True, rate=0.5, eps=0.01)
    assert np.allclose(both, found - 0.5 * second / np.sqrt(0.01 + first**2 + second**2), atol=1e-5)
    assert np.array_equal(both[[1, 3, 4]], weights[[1, 3, 4]]), "features of other texts do not move"


def test_importance_multiplies_the_gradient_and_zero_skips_a_text() -> None:
    weights, bias = parameters()
    total, once, _ = learn(weights, bias, [0])
    importance = np.array([3.0, 0.0, 1.0, 1.0, 1.0], np.float32)
    thrice_total, thrice, _ = learn(weights, bias, [0, 1], importance=importance)
    assert thrice_total == pytest.approx(3 * total, rel=1e-5)
    assert np.allclose(weights - thrice, 3 * (weights - once), atol=1e-5)


def test_mean_of_all_steps_is_the_gradient_of_the_penalized_objective() -> None:
    """The penalty of a feature is applied in its own texts only, and more in each of them if they are few."""
    weights, bias = parameters()
    used = sorted({f for row in ROWS for f in row})
    l2, x, n = 0.3, dense(0), len(ROWS)
    steps = [weights - learn(weights, bias, [i], l2=l2)[1] for i in range(n)]
    scores = bias.astype(float) + x @ weights.astype(float)
    p = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    wanted = x.T @ (p - np.eye(K)[GOLD]) / n + l2 * weights
    assert np.allclose(np.mean(steps, 0)[used], wanted[used], atol=1e-5)


def test_l1_penalty_makes_small_weights_zero_and_never_changes_their_sign() -> None:
    weights, bias = parameters()
    _, plain, _ = learn(weights, bias, [0], rate=0.1)
    _, found, _ = learn(weights, bias, [0], rate=0.1, l1=0.2)
    cut = 0.1 * 0.2 * 5 / np.array([2, 1, 2, 1, 1, 2])[:, None]
    for f in (0, 2, 5):
        assert np.allclose(found[f], np.sign(plain[f]) * np.maximum(np.abs(plain[f]) - cut[f], 0), atol=1e-6)
    _, none, _ = learn(weights, bias, [0], rate=0.1, l1=100.0)
    assert not none[[0, 2, 5]].any()


@pytest.mark.parametrize("values", [0, 1, 2])
def test_scores_equal_a_product_of_matrices(values: int) -> None:
    weights, bias = parameters()
    scores, slow = np.empty((5, K), np.float32), np.empty((5, K), np.float32)
    score_texts(IDS, FIRST, values, weights, bias, scores)
    reference.score_texts(IDS, FIRST, values, weights, bias, slow)
    assert np.allclose(scores, bias + dense(values) @ weights, atol=1e-5)
    assert np.allclose(slow, scores, atol=1e-5)


def test_passes_reach_the_optimum_of_logistic_regression() -> None:
    """The optimum of the same objective by scikit-learn: C = 1 / (n l2)."""
    linear_model = pytest.importorskip("sklearn.linear_model")
    rng = np.random.default_rng(1)
    n, f, k, l2 = 60, 8, 3, 0.05
    x = (rng.random((n, f)) < 0.4).astype(np.float64)
    y = np.argmax(x @ rng.normal(0, 1.5, (f, k)) + rng.gumbel(size=(n, k)), 1)
    peer = linear_model.LogisticRegression(C=1 / (n * l2), tol=1e-10, max_iter=5000).fit(x, y)
    rows = [np.flatnonzero(row).astype(np.int32) for row in x]
    ids, first = np.concatenate(rows), np.cumsum([0, *map(len, rows)]).astype(np.int64)
    counts = np.zeros(f, np.int32)
    count_texts(ids, first, counts)
    weights, bias = np.zeros((f, k), np.float32), np.zeros(k, np.float32)
    squares, bias_squares = np.full_like(weights, 1e-6), np.full_like(bias, 1e-6)
    for _ in range(2000):
        learn_texts(
            ids, first, rng.permutation(n), y.astype(np.int32), np.zeros((0, k), np.uint8), np.ones(n, np.float32),
            (n / counts).astype(np.float32), 0, 0, False, np.float32(0), weights, squares, bias, bias_squares,
            np.float32(0.2), np.float32(l2), np.float32(0), True,
        )  # fmt: skip
    scores = bias + x @ weights
    found = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    assert np.abs(found - peer.predict_proba(x)).max() < 0.01
    assert objective(x, y, weights, bias, l2) == pytest.approx(
        objective(x, y, peer.coef_.T, peer.intercept_, l2), abs=1e-4
    )


def objective(x: np.ndarray, y: np.ndarray, weights: np.ndarray, bias: np.ndarray, l2: float) -> float:
    scores = (bias + x @ weights).astype(np.float64)
    log_z = np.logaddexp.reduce(scores, axis=1)
    return float((log_z - scores[np.arange(len(y)), y]).mean() + l2 / 2 * (weights.astype(np.float64) ** 2).sum())


def test_products_equal_those_of_matrices() -> None:
    rng = np.random.default_rng(0)
    x = np.zeros((len(ROWS), F))
    values = rng.normal(size=len(IDS)).astype(np.float32)
    np.add.at(x, (np.repeat(np.arange(len(ROWS)), np.diff(FIRST)), IDS), values)
    weights, gradients = rng.normal(size=(F, K)), rng.normal(size=(len(ROWS), K))
    fast, slow, sums = np.ones((len(ROWS), K)), np.ones((len(ROWS), K)), np.ones((F, K))
    add_products(IDS, FIRST, values, weights, fast)
    reference.add_products(IDS, FIRST, values, weights, slow)
    add_transposed_products(IDS, FIRST, values, gradients, sums)
    assert np.allclose(fast, 1 + x @ weights)
    assert np.allclose(slow, fast)
    assert np.allclose(sums, 1 + x.T @ gradients)
