"""Baselines of regression equal scikit-learn called directly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.sparse import hstack
from sklearn.compose import TransformedTargetRegressor
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR, LinearSVR

from catena.data.examples import SourceLocation
from catena.tasks.baselines.config import RegressBaselinesConfig
from catena.tasks.baselines.fitting import fit_baselines
from catena.tasks.baselines.report import compare_baselines
from catena.tasks.regress.baselines import RegressSuite
from catena.tasks.regress.config import RegressConfig
from catena.tasks.regress.data import RegressExample
from catena.tasks.regress.encoding import RegressEncoding
from catena.tasks.regress.features import LinearSolution
from catena.tasks.regress.fitted import FittedRegressTask, FittedValues
from catena.tasks.sources import DataParts
from tests.tasks.regress.helpers import make_texts

DIRECT: dict[str, Callable[[float], Any]] = {
    "linear": lambda c: LinearRegression(),
    "ridge": lambda c: Ridge(alpha=0.5 / c, tol=1e-6),
    "svr": lambda c: TransformedTargetRegressor(
        LinearSVR(C=c, epsilon=0.1, loss="squared_epsilon_insensitive", dual="auto", max_iter=2000, random_state=0),
        transformer=StandardScaler(),
    ),
    "svr_rbf": lambda c: TransformedTargetRegressor(SVR(C=c, epsilon=0.1), transformer=StandardScaler()),
}
CONFIG = RegressConfig.model_validate({"data": {"number_columns": ["size"]}})


def make_examples(n: int, seed: int) -> list[RegressExample]:
    texts, values = make_texts(n, seed)
    sizes = np.random.default_rng(seed + 10).normal(5, 3, n)
    rows = enumerate(zip(texts, sizes.tolist(), (values + sizes).tolist(), strict=True))
    return [RegressExample(text, (size,), value, SourceLocation("test", i)) for i, (text, size, value) in rows]


def make_suite(train: list[RegressExample]) -> RegressSuite:
    """The suite of a model that always predicts 0."""
    encoding = RegressEncoding.fit(CONFIG, train)
    assert encoding.texts is not None
    idf = np.ones(encoding.texts.size)
    solution = LinearSolution(np.zeros(len(idf) + 1), 0.0)
    return RegressSuite(FittedRegressTask(CONFIG, encoding, FittedValues(solution, idf, 1.0, {})))


def test_baselines_equal_scikit_learn() -> None:
    train, dev, test = make_examples(90, 0), make_examples(40, 1), make_examples(60, 2)
    suite = make_suite(train)
    config = RegressBaselinesConfig(baseline=tuple(DIRECT))  # type: ignore[arg-type]
    fitted = {one.name: one for one in fit_baselines(suite, config, DataParts(train, dev), "rmse")}
    vectorizer = TfidfVectorizer(tokenizer=str.split, token_pattern=None, ngram_range=(1, 2), sublinear_tf=True)
    scaler = StandardScaler().fit([one.numbers for one in train])
    vectorizer.fit([one.text for one in train])

    def encode(part: list[RegressExample]) -> Any:
        words = vectorizer.transform([one.text for one in part])
        return hstack([words, scaler.transform([one.numbers for one in part])], "csr")

    gold, dev_gold = (np.array([one.value for one in part]) for part in (train, dev))
    for name, build in DIRECT.items():
        models = [build(c).fit(encode(train), gold) for c in config.baseline_c]
        errors = [np.mean((model.predict(encode(dev)) - dev_gold) ** 2) for model in models]
        best = models[int(np.argmin(errors))]
        found = suite.scores(fitted[name].model, fitted[name].features.transform(suite.inputs(test)))
        tolerance = 1e-3 if name == "linear" else 1e-6  # LSQR stops at 1e-6 of an ill-conditioned problem
        assert np.allclose(found, best.predict(encode(test)), atol=tolerance), name
        assert fitted[name].calibration == pytest.approx(np.sqrt(min(errors)), rel=tolerance)
        assert fitted[name].n_bytes > 0


def test_report_compares_with_the_model() -> None:
    train, dev, test = make_examples(90, 0), make_examples(40, 1), make_examples(60, 2)
    suite = make_suite(train)
    config = RegressBaselinesConfig(baseline=("mean", "ridge"))
    fitted = fit_baselines(suite, config, DataParts(train, dev), "rmse")
    report = compare_baselines(suite, fitted, test, part="test", metric="rmse", own_name="zero", own_bytes=1)
    gold = np.array([one.value for one in test])
    mean = np.mean([one.value for one in train])
    assert report.own.scores["rmse"] == pytest.approx(np.sqrt(np.mean(gold**2)))
    assert report.rows[0].scores["rmse"] == pytest.approx(np.sqrt(np.mean((gold - mean) ** 2)))
    assert report.rows[0].about == "the mean of the training values"
    assert report.verdict() == "mean and ridge are significantly better than this model"
