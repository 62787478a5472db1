"""Linear and kernel regression as tasks: the choice by dev, the variance, and what they describe."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.metrics.pairwise import rbf_kernel

import catena
from catena.tasks.regress.features import LinearSolution
from catena.tasks.regress.fitted import FittedRegressTask, KernelSolution
from tests.tasks.regress.helpers import make_table, make_texts, split, train


def table_keys(x: np.ndarray) -> list[str]:
    return ["\t".join(("", *map(repr, row))) for row in x.tolist()]


def test_maximum_likelihood_variance_is_the_mean_squared_residual_of_train() -> None:
    x, y = make_table(60)
    rows, _ = split(table_keys(x))
    model = train("linear", 60, table=True, calibrate=False)
    peer = LinearRegression().fit(x[rows], y[rows])
    values, deviations = model.predict(x, return_std=True)
    assert np.allclose(values, peer.predict(x))
    assert np.allclose(deviations, np.sqrt(np.mean((y[rows] - peer.predict(x[rows])) ** 2)))


def test_calibrated_variance_is_the_mean_squared_error_on_dev() -> None:
    x, y = make_table(60)
    _, dev = split(table_keys(x))
    model = train("linear", 60, table=True)
    _, deviations = model.predict(x, return_std=True)
    assert np.allclose(deviations, np.sqrt(np.mean((y[dev] - model.predict(x[dev])) ** 2)))


def test_ridge_on_texts_equals_scikit_learn_and_chooses_by_dev() -> None:
    texts, y = make_texts(120)
    rows, dev = split(texts)
    alphas = (0.01, 1.0, 100.0)
    # log(1 + count) and all n-grams up to 2, as in the defaults
    vectorizer = TfidfVectorizer(tokenizer=str.split, token_pattern=None, ngram_range=(1, 2), use_idf=False, norm=None)
    counts = np.log1p(vectorizer.fit_transform([texts[i] for i in rows]).toarray())
    idf = 1 + np.log((1 + len(rows)) / (1 + (counts > 0).sum(0)))

    def encode(index: np.ndarray) -> np.ndarray:
        weighed = np.log1p(vectorizer.transform([texts[i] for i in index]).toarray()) * idf
        return weighed / np.linalg.norm(weighed, axis=1, keepdims=True)

    peers = {alpha: Ridge(alpha=alpha).fit(encode(rows), y[rows]) for alpha in alphas}
    errors = {alpha: np.mean((y[dev] - peer.predict(encode(dev))) ** 2) for alpha, peer in peers.items()}
    best = min(errors, key=errors.__getitem__)
    model = train("ridge", 120, alpha=list(alphas))
    task = model.task_
    assert isinstance(task, FittedRegressTask)
    assert task.model.chosen == {"alpha": best}
    assert np.allclose(model.predict(texts), peers[best].predict(encode(np.arange(120))), atol=1e-5)


def test_kernel_ridge_is_the_sum_over_training_examples() -> None:
    x, y = make_table(60)
    rows, _ = split(table_keys(x))
    model = train("kernel_ridge", 60, table=True, alpha=[0.1], gamma=[0.5])
    scaled = (x - x[rows].mean(0)) / x[rows].std(0)
    gamma = 0.5 / 3  # standardized columns have the summed variance 3
    kernel = rbf_kernel(scaled[rows], gamma=gamma)
    dual = np.linalg.solve(kernel + 0.1 * np.eye(len(rows)), y[rows] - y[rows].mean())
    assert np.allclose(model.predict(x), y[rows].mean() + rbf_kernel(scaled, scaled[rows], gamma=gamma) @ dual)


def test_kernel_ridge_samples_large_data() -> None:
    model = train("kernel_ridge", 60, table=True, max_examples=20, alpha=[0.1], gamma=[1.0])
    task = model.task_
    assert isinstance(task, FittedRegressTask)
    assert isinstance(task.model.solution, KernelSolution)
    assert len(task.model.solution.dual) == 20
    assert "20 training examples with a weight" in task.describe(3)


@pytest.mark.parametrize("kind", ["linear", "ridge", "kernel_ridge"])
@pytest.mark.parametrize("table", [False, True])
def test_saved_models_predict_the_same(kind: str, table: bool, tmp_path: Path) -> None:
    model, inputs = train(kind, table=table), make_table(9, 1)[0] if table else make_texts(9, 1)[0]
    model.save(tmp_path / "model")
    loaded = catena.load(tmp_path / "model")
    assert np.array_equal(loaded.predict(inputs, return_std=True), model.predict(inputs, return_std=True))
    assert loaded.task_.describe(5) == model.task_.describe(5)


def test_description_names_the_largest_weights() -> None:
    task = train("ridge", table=True).task_
    assert isinstance(task, FittedRegressTask)
    assert isinstance(task.model.solution, LinearSolution)
    assert task.describe(1)[-1].startswith("the 1 features with the largest weights: 1 +")


def test_metric_of_the_config_chooses() -> None:
    chosen = [train("ridge", metric=metric).task_.model.chosen["alpha"] for metric in ("rmse", "mae")]  # type: ignore[attr-defined]
    assert set(chosen) <= {0.01, 0.1, 1.0, 10.0, 100.0}
