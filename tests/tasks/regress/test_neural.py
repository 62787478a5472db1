"""Networks with a Gaussian output: the loss by its formula, the fitted variance, and what they learn."""

from __future__ import annotations

import math
from pathlib import Path
from statistics import NormalDist

import numpy as np
import pytest
import torch

import catena
from catena.data.examples import SourceLocation
from catena.tasks.regress.config import RegressConfig
from catena.tasks.regress.data import RegressExample
from catena.tasks.regress.encoding import RegressEncoding
from catena.tasks.regress.estimator import Regressor
from catena.tasks.regress.neural import NeuralRegressTask, gaussian_loss
from tests.tasks.regress.helpers import KINDS, make_table, make_texts, split, train

NEURAL = KINDS[3:]


def test_loss_is_the_negative_log_density() -> None:
    y, mean, log_variance = (
        torch.tensor(values, dtype=torch.float64) for values in ([1.0, -2.0], [0.5, 0.0], [0.3, -1.0])
    )
    exact = [
        -math.log(NormalDist(float(m), math.exp(float(v) / 2)).pdf(float(x)))
        for x, m, v in zip(y, mean, log_variance, strict=True)
    ]
    found = gaussian_loss(y, mean, log_variance, torch.ones(2, dtype=torch.float64))
    assert float(found) + 0.5 * math.log(2 * math.pi) == pytest.approx(sum(exact) / 2)
    constant = gaussian_loss(y, mean, *torch.tensor([[0.0, 0.0], [3.0, 1.0]], dtype=torch.float64))
    assert float(constant) == pytest.approx(0.5 * (3 * 0.25 + 4.0) / 2)


def test_network_learns_a_curve_and_beats_a_line() -> None:
    rng = np.random.default_rng(0)
    x = rng.uniform(-2, 2, (300, 1))
    y = np.abs(x[:, 0]) + 0.05 * rng.normal(size=300)
    curve = Regressor("mlp", max_epochs=30, learning_rate=0.01, seed=0, threads=1).fit(x, y)
    assert curve.score(x, y) > 0.95
    assert Regressor("linear").fit(x, y).score(x, y) < 0.1


def test_learned_variance_follows_the_noise() -> None:
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 1, (500, 1))
    y = x[:, 0] + rng.normal(size=500) * np.where(x[:, 0] < 0.5, 0.05, 1.0)
    options = {"max_epochs": 30, "learning_rate": 0.01, "threads": 1}
    _, learned = Regressor("mlp", variance="learned", **options).fit(x, y).predict([[0.2], [0.8]], return_std=True)
    _, constant = Regressor("mlp", variance="constant", **options).fit(x, y).predict([[0.2], [0.8]], return_std=True)
    assert learned[1] > 3 * learned[0]
    assert constant[0] == constant[1]


@pytest.mark.parametrize("kind", NEURAL)
@pytest.mark.parametrize("variance", ["constant", "learned"])
def test_factor_of_the_variance_is_fitted_on_dev(kind: str, variance: str) -> None:
    """At its optimum the mean squared error in units of the deviation is 1."""
    texts, values = make_texts(60)
    model = train(kind, 60, variance=variance, dev_fraction=0.5)
    task = model.task_
    assert isinstance(task, NeuralRegressTask)
    _, dev = split(texts, 0.5)
    means, deviations = model.predict([texts[i] for i in dev], return_std=True)
    assert np.mean(((values[dev] - means) / deviations) ** 2) == pytest.approx(1.0, rel=1e-4)


def test_deviation_is_the_root_of_the_predicted_variance() -> None:
    model, (texts, _) = train("cnn", variance="learned"), make_texts(6, 1)
    task = model.task_
    assert isinstance(task, NeuralRegressTask)
    examples = [task.to_example(text) for text in texts]
    with torch.no_grad():
        found = task.model(task.collate(task.encode(examples), np.arange(6)))
    mean, log_variance = (x.double().cpu().numpy() for x in found)
    values, deviations = model.predict(texts, return_std=True)
    variance = np.exp(log_variance) * float(task.model.variance)
    assert np.allclose(deviations, task.encoding.scale * np.sqrt(variance), rtol=1e-4)
    assert np.allclose(values, task.encoding.middle + task.encoding.scale * mean, rtol=1e-4)
    assert np.ptp(deviations) > 0


def test_variance_of_train_without_calibration() -> None:
    texts, values = make_texts(60)
    model = train("cnn", 60, calibrate=False, dev_fraction=0.5)
    rows, _ = split(texts, 0.5)
    means, deviations = model.predict([texts[i] for i in rows], return_std=True)
    assert np.mean(((values[rows] - means) / deviations) ** 2) == pytest.approx(1.0, rel=1e-4)


@pytest.mark.parametrize("kind", NEURAL)
def test_order_of_a_batch_does_not_matter(kind: str) -> None:
    model, (texts, _) = train(kind), make_texts(12, 1)
    order = np.random.default_rng(0).permutation(12)
    forward = model.predict(texts, return_std=True)
    shuffled = model.predict([texts[i] for i in order], return_std=True)
    assert np.allclose(np.stack(shuffled), np.stack(forward)[:, order], atol=1e-5)
    assert np.allclose(model.predict(texts[:1]), forward[0][:1], atol=1e-5)


@pytest.mark.parametrize(("kind", "table"), [*((kind, False) for kind in NEURAL), ("mlp", True)])
def test_saved_models_predict_the_same(kind: str, table: bool, tmp_path: Path) -> None:
    model, inputs = train(kind, table=table), make_table(9, 1)[0] if table else make_texts(9, 1)[0]
    model.save(tmp_path / "model")
    loaded = catena.load(tmp_path / "model")
    assert np.array_equal(loaded.predict(inputs, return_std=True), model.predict(inputs, return_std=True))


def test_texts_and_numbers_add_up() -> None:
    """f(text) + g(numbers): the effect of the numbers does not depend on the text."""
    config = RegressConfig.model_validate({"model": {"kind": "cnn"}, "data": {"number_columns": ["size"]}})
    examples = [
        RegressExample(text, (number,), float(i), SourceLocation("x", i))
        for i, (text, number) in enumerate((t, n) for t in ("red fine", "old new old") for n in (1.0, 4.0))
    ]
    encoding = RegressEncoding.fit(config, examples)
    torch.manual_seed(0)
    both = NeuralRegressTask(config, encoding, NeuralRegressTask.build_network(config, encoding, [])).network.eval()
    whole = NeuralRegressTask(config, encoding, both)  # type: ignore[arg-type]
    means, _ = whole.gaussians(examples)
    assert means[1] - means[0] == pytest.approx(means[3] - means[2], abs=1e-5)
    assert abs(means[1] - means[0]) > 1e-4
    assert abs(means[2] - means[0]) > 1e-4
