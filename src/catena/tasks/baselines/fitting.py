"""Fitting of baselines: every candidate on train, the best one on dev.

A task describes by a :class:`BaselineSuite` how its examples become the inputs of scikit-learn, and how the scores of a
fitted model are evaluated, so that a baseline has the same metrics as the model of the task. Tested in
tests/tasks/classify/test_baselines.py.
"""

from __future__ import annotations

import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from catena.errors import DataError
from catena.extras import require
from catena.tasks.base import EvaluationResult
from catena.tasks.baselines.config import BaseBaselinesConfig
from catena.tasks.sources import DataParts

_SAMPLED = ("svm_rbf", "svr_rbf")
"""Models whose time grows at least with the square of the number of examples."""
_CONSTANT = {"majority": "the most frequent label", "mean": "the mean of the training values"}
"""Models that do not read features."""
_UNPENALIZED = (*_CONSTANT, "linear")
_ARRAYS = ("coef_", "intercept_", "support_vectors_", "dual_coef_", "components_", "mean_", "scale_", "idf_", "X_fit_")
"""Attributes of fitted models that hold their parameters."""


@dataclass(frozen=True)
class FeatureSet:
    """Inputs of scikit-learn: a transformer, and which columns of the inputs it reads (all if empty)."""

    name: str
    transformer: Any
    columns: tuple[slice, ...] = ()

    def fit(self, inputs: Any) -> Any:
        """Fit the transformer to training inputs and return their features."""
        return self.transformer.fit_transform(self._chosen(inputs))

    def transform(self, inputs: Any) -> Any:
        """The features of inputs."""
        return self.transformer.transform(self._chosen(inputs))

    def _chosen(self, inputs: Any) -> Any:
        return np.hstack([inputs[:, part] for part in self.columns]) if self.columns else inputs


class BaselineSuite(ABC):
    """How a task fits models of scikit-learn to its examples."""

    unit: str
    """What an example is, such as a text."""

    @abstractmethod
    def inputs(self, examples: Sequence[Any]) -> Any:
        """The inputs of the transformers."""

    @abstractmethod
    def feature_sets(self, inputs: Any, config: Any) -> Sequence[FeatureSet]:
        """The features to choose from, for training inputs and the config of the task's baselines."""

    @abstractmethod
    def usable(self, examples: Sequence[Any]) -> Sequence[Any]:
        """The examples that have a target."""

    @abstractmethod
    def targets(self, examples: Sequence[Any]) -> np.ndarray:
        """The targets of training examples."""

    @abstractmethod
    def build(self, name: str, c: float) -> Any:
        """A model that is not fitted."""

    @abstractmethod
    def scores(self, model: Any, features: Any) -> np.ndarray:
        """The output of a fitted model, such as the score of each class."""

    @abstractmethod
    def calibrate(self, scores: np.ndarray, examples: Sequence[Any]) -> float:
        """A parameter that makes the scores of dev examples probabilities."""

    @abstractmethod
    def evaluate(self, scores: np.ndarray, calibration: float, examples: Sequence[Any]) -> EvaluationResult:
        """The comparison of scores with the gold labels of examples."""

    @abstractmethod
    def evaluate_model(self, examples: Sequence[Any]) -> EvaluationResult:
        """The comparison of the predictions of the task's own model with the same gold labels."""


@dataclass(frozen=True, eq=False)
class FittedBaseline:
    """A fitted model of scikit-learn.

    Args:
        name: its name, such as ``svm``.
        model: the fitted model.
        features: its features.
        calibration: see :meth:`BaselineSuite.calibrate`.
        seconds: the time to fit all candidates and to choose one.
        notes: remarks, such as left-out examples.
    """

    name: str
    model: Any
    features: FeatureSet
    calibration: float
    seconds: float
    notes: tuple[str, ...] = ()

    @property
    def n_bytes(self) -> int:
        """The memory of all parameters, including those of the features."""
        used = [self.model] if self.name in _CONSTANT else [self.model, self.features.transformer]
        return sum(_n_bytes(part) for part in _parts(*used))

    def describe(self) -> str:
        """The class of the model, its penalty and its features."""
        if self.name in _CONSTANT:
            return _CONSTANT[self.name]
        inner = getattr(self.model, "estimator", getattr(self.model, "regressor_", self.model))
        chosen = [f"{key}={getattr(inner, key):g}" for key in ("C", "alpha") if hasattr(inner, key)]
        return " ".join((type(inner).__name__, *chosen, f"on {self.features.name}", *self.notes))


def fit_baselines(
    suite: BaselineSuite, config: BaseBaselinesConfig, parts: DataParts[Any], metric: str
) -> list[FittedBaseline]:
    """Fit the baselines of a config.

    Args:
        suite: how examples become inputs.
        config: the names of the baselines, and the penalties to choose from.
        parts: the examples of train, and of dev, on which features and penalty are chosen.
        metric: the score that chooses.
    """
    check_installed()
    train, dev = suite.usable(parts.train), suite.usable(parts.dev)
    if not len(train) or not len(dev):
        raise DataError("There is no example with a target in train or dev, so that no baseline can be fitted.")
    inputs = suite.inputs(train)
    search = _Search(suite, config, suite.targets(train), suite.inputs(dev), dev, metric)
    for features in suite.feature_sets(inputs, config):
        began = time.monotonic()
        rows = features.fit(inputs)
        search.spaces.append((features, rows, time.monotonic() - began))
    return [search.run(name) for name in dict.fromkeys(config.baseline)]


def check_installed() -> str:
    """The version of scikit-learn. Raise MissingExtraError if it is not installed."""
    return str(require("sklearn", "sklearn", "--baseline").__version__)


@dataclass(eq=False)
class _Search:
    """The choice of features and penalty by dev."""

    suite: BaselineSuite
    config: BaseBaselinesConfig
    targets: np.ndarray
    dev_inputs: Any
    dev: Sequence[Any]
    metric: str
    spaces: list[tuple[FeatureSet, Any, float]] = field(default_factory=list)

    def run(self, name: str) -> FittedBaseline:
        seconds, best, value = 0.0, None, -np.inf
        index = np.arange(len(self.targets))
        notes = []
        if name in _SAMPLED and len(index) > self.config.baseline_examples:
            index = np.sort(np.random.default_rng(0).choice(index, self.config.baseline_examples, replace=False))
            notes.append(f"({len(index):,} of {len(self.targets):,} examples)")
        for features, rows, spent in self.spaces[:1] if name in _CONSTANT else self.spaces:
            seconds += spent
            for c in self.config.baseline_c[:1] if name in _UNPENALIZED else self.config.baseline_c:
                began = time.monotonic()
                model, warned = _fit(self.suite.build(name, c), rows[index], self.targets[index])
                scores = self.suite.scores(model, features.transform(self.dev_inputs))
                calibration = self.suite.calibrate(scores, self.dev)
                found = self._value(self.suite.evaluate(scores, calibration, self.dev))
                seconds += time.monotonic() - began
                if best is None or found > value:
                    best, value = FittedBaseline(name, model, features, calibration, 0.0, (*notes, *warned)), found
        assert best is not None
        return FittedBaseline(best.name, best.model, best.features, best.calibration, seconds, best.notes)

    def _value(self, result: EvaluationResult) -> float:
        metric = result.metrics()[self.metric]
        value = float(metric(*result.pairs(self.metric)))
        return value if metric.higher_is_better else -value


def _fit(model: Any, rows: Any, targets: np.ndarray) -> tuple[Any, list[str]]:
    """The fitted model, and a note if its solver stopped early."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fitted = model.fit(rows, targets)
    early = any(warning.category.__name__ == "ConvergenceWarning" for warning in caught)
    return fitted, ["(not converged)"] if early else []


def _parts(*models: Any) -> list[Any]:
    """Models and the models that they consist of."""
    found = []
    for model in models:
        inner = getattr(model, "regressor_", None)
        found += [model, *getattr(model, "estimators_", ()), *([] if inner is None else [inner])]
    return found


def _n_bytes(model: Any) -> int:
    """The bytes of the arrays of a fitted model, dense or sparse."""
    total = 0
    for name in _ARRAYS:
        value = getattr(model, name, None)
        for array in (value, *(getattr(value, part, None) for part in ("data", "indices", "indptr"))):
            if isinstance(array, np.ndarray):
                total += array.nbytes
    return total
