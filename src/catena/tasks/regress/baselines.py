"""Baselines of regression: models of scikit-learn on TF-IDF of the same tokens and on the same numbers.

Tested in tests/tasks/regress/test_baselines.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from catena.extras import require
from catena.tasks.base import EvaluationResult
from catena.tasks.baselines.config import BaseBaselinesConfig
from catena.tasks.baselines.features import standardize, tfidf
from catena.tasks.baselines.fitting import BaselineSuite, FeatureSet
from catena.tasks.regress.data import RegressExample
from catena.tasks.regress.predict import RegressEvaluation

_MAX_ITERATIONS = 2000


@dataclass(frozen=True, eq=False)
class RegressInputs:
    """The tokens and the numbers of examples; None where the data has none."""

    tokens: list[list[str]] | None
    numbers: Float[np.ndarray, "n m"] | None


class RegressSuite(BaselineSuite):
    """Baselines of a regression model.

    Args:
        task: the :class:`~catena.tasks.regress.task.RegressTask`.
    """

    unit = "example"

    def __init__(self, task: Any) -> None:
        self.task = task

    def inputs(self, examples: Sequence[RegressExample]) -> RegressInputs:
        encoding = self.task.encoding
        tokens = None if encoding.texts is None else [encoding.texts.tokens(example.text) for example in examples]
        numbers = np.array([example.numbers for example in examples]) if encoding.names else None
        return RegressInputs(tokens, numbers)

    def feature_sets(self, inputs: RegressInputs, config: BaseBaselinesConfig) -> list[FeatureSet]:
        n = 0 if inputs.tokens is None else len(inputs.tokens)
        names = (["tf-idf"] if inputs.tokens is not None else []) + (["numbers"] if inputs.numbers is not None else [])
        return [FeatureSet(" and ".join(names), TextsAndNumbers(n, config.baseline_ngrams))]

    def usable(self, examples: Sequence[RegressExample]) -> Sequence[RegressExample]:
        return [example for example in examples if np.isfinite(example.value)]

    def targets(self, examples: Sequence[RegressExample]) -> Float[np.ndarray, " n"]:
        return np.array([example.value for example in examples])

    def build(self, name: str, c: float) -> Any:
        return build_regressor(name, c)

    def scores(self, model: Any, features: Any) -> np.ndarray:
        return np.asarray(model.predict(features), np.float64)

    def calibrate(self, scores: np.ndarray, examples: Sequence[RegressExample]) -> float:
        """The standard deviation: the root of the mean squared error on dev."""
        return float(np.sqrt(np.mean((self.targets(examples) - scores) ** 2)))

    def evaluate(self, scores: np.ndarray, calibration: float, examples: Sequence[RegressExample]) -> RegressEvaluation:
        return RegressEvaluation(self.targets(examples), scores, np.full(len(scores), calibration))

    def evaluate_model(self, examples: Sequence[RegressExample]) -> EvaluationResult:
        return self.task.evaluate(examples)


class TextsAndNumbers:
    """A transformer of scikit-learn's kind: TF-IDF of tokens next to standardized numbers."""

    def __init__(self, n_texts: int, ngrams: int) -> None:
        self.vectorizer, self.scaler = tfidf(n_texts, ngrams), standardize()
        self.estimators_ = (self.vectorizer, self.scaler)

    def fit_transform(self, inputs: RegressInputs) -> Any:
        """Fit to training inputs and return their features."""
        return _joined(inputs, self.vectorizer.fit_transform, self.scaler.fit_transform)

    def transform(self, inputs: RegressInputs) -> Any:
        """The features of inputs."""
        return _joined(inputs, self.vectorizer.transform, self.scaler.transform)


def _joined(inputs: RegressInputs, texts: Any, numbers: Any) -> Any:
    """Both kinds of features in one matrix, which is sparse if there are texts."""
    parts = [] if inputs.tokens is None else [texts(inputs.tokens)]
    if inputs.numbers is not None:
        parts.append(numbers(inputs.numbers))
    return parts[0] if len(parts) == 1 else require("scipy.sparse", "sklearn", "--baseline").hstack(parts, "csr")


def build_regressor(name: str, c: float) -> Any:
    """A regressor of scikit-learn. Support vector machines predict standardized values, for their epsilon of 0.1."""
    if name == "mean":
        return _Mean()
    linear = require("sklearn.linear_model", "sklearn", "--baseline")
    if name == "linear":
        return linear.LinearRegression()
    if name == "ridge":
        return linear.Ridge(alpha=1 / (2 * c), solver="auto", tol=1e-6, random_state=0)
    svm = require("sklearn.svm", "sklearn", "--baseline")
    if name == "svr":
        model = svm.LinearSVR(
            C=c, epsilon=0.1, loss="squared_epsilon_insensitive", dual="auto", tol=1e-4, max_iter=_MAX_ITERATIONS,
            random_state=0,
        )  # fmt: skip
    else:
        model = svm.SVR(C=c, epsilon=0.1, kernel="rbf", gamma="scale", cache_size=500)
    compose = require("sklearn.compose", "sklearn", "--baseline")
    return compose.TransformedTargetRegressor(regressor=model, transformer=standardize())


class _Mean:
    """The mean of the training values."""

    def fit(self, features: Any, targets: np.ndarray) -> _Mean:
        self.coef_ = np.array([targets.mean()])
        return self

    def predict(self, features: Any) -> np.ndarray:
        return np.repeat(self.coef_, features.shape[0])
