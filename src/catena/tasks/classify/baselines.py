"""Baselines of classifiers: majority, logistic regression, ridge, linear and RBF support vector machines.

The scores of a model of scikit-learn, divided by a temperature that is fitted on dev, are evaluated like those of a
network. Tested in tests/tasks/classify/test_baselines.py.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from catena.data.media_config import SoundConfig
from catena.extras import require
from catena.metrics.calibration import fit_temperature
from catena.tasks.baselines.config import BaselinesConfig
from catena.tasks.baselines.features import (
    components,
    pixel_rows,
    sound_columns,
    sound_statistics,
    standardize,
    tfidf,
)
from catena.tasks.baselines.fitting import BaselineSuite, FeatureSet
from catena.tasks.classify.data import encode_labels
from catena.tasks.classify.predict import ClassifyEvaluation, class_log_probs

_MAX_ITERATIONS = 2000


class LabelSuite(BaselineSuite):
    """Baselines of a classifier of any inputs.

    Args:
        task: the classifier, which has ``labels``, ``multilabel`` and ``config``.
    """

    def __init__(self, task: Any) -> None:
        self.task = task
        self.names: tuple[str, ...] = task.labels
        self.multilabel: bool = task.multilabel

    # --- defined by each kind of input --------------------------------------------------------------------------------

    @abstractmethod
    def inputs(self, examples: Sequence[Any]) -> Any: ...

    @abstractmethod
    def feature_sets(self, inputs: Any, config: BaselinesConfig) -> Sequence[FeatureSet]: ...

    def gold(self, example: Any) -> tuple[str, ...]:
        """The gold labels of an example."""
        return example.labels

    # --- models -------------------------------------------------------------------------------------------------------

    def usable(self, examples: Sequence[Any]) -> Sequence[Any]:
        return examples if self.multilabel else [example for example in examples if self.gold(example)]

    def targets(self, examples: Sequence[Any]) -> np.ndarray:
        return encode_labels([self.gold(example) for example in examples], self.names, self.multilabel).astype(int)

    def build(self, name: str, c: float) -> Any:
        model = _build(name, c)
        if self.multilabel and name not in ("ridge", "majority"):
            return require("sklearn.multiclass", "sklearn", "--baseline").OneVsRestClassifier(model)
        return model

    def scores(self, model: Any, features: Any) -> np.ndarray:
        """``scores[i, j]`` is the score of class j for example i; -inf for a class without a training example."""
        found = np.asarray(model.decision_function(features), np.float64)
        if self.multilabel:
            return found.reshape(features.shape[0], len(self.names))
        if found.ndim == 1:
            found = np.stack((np.zeros_like(found), found), axis=1)
        table = np.full((len(found), len(self.names)), -np.inf)
        table[:, model.classes_] = found
        return table

    def calibrate(self, scores: np.ndarray, examples: Sequence[Any]) -> float:
        known = {name: j for j, name in enumerate(self.names)}
        if self.multilabel:
            own = [[label for label in self.gold(example) if label in known] for example in examples]
            pairs = np.stack((np.zeros(scores.size), scores.reshape(-1)), axis=-1)
            return fit_temperature(pairs, encode_labels(own, self.names, True).reshape(-1).astype(np.int64))
        ids = np.array([known.get(self.gold(example)[0], -1) for example in examples], np.int64)
        seen = np.flatnonzero((ids >= 0) & np.isfinite(scores[np.arange(len(ids)), ids]))
        return fit_temperature(scores[seen], ids[seen]) if len(seen) else 1.0

    def evaluate(self, scores: np.ndarray, calibration: float, examples: Sequence[Any]) -> ClassifyEvaluation:
        log_probs = class_log_probs(scores, self.multilabel, calibration)
        return ClassifyEvaluation(self.names, log_probs, [self.gold(example) for example in examples], self.multilabel)

    def evaluate_model(self, examples: Sequence[Any]) -> ClassifyEvaluation:
        return self.task.evaluate(examples)


class TextSuite(LabelSuite):
    """Baselines of a classifier of texts: TF-IDF of the tokens that the classifier reads."""

    unit = "text"

    def inputs(self, examples: Sequence[Any]) -> list[list[str]]:
        return [self.task.encoding.texts.tokens(example.text) for example in examples]

    def feature_sets(self, inputs: Any, config: BaselinesConfig) -> list[FeatureSet]:
        return [FeatureSet("tf-idf", tfidf(len(inputs), config.baseline_ngrams))]


class TreeSuite(TextSuite):
    """Baselines of a classifier of trees: the words of a tree, and the label of its root."""

    unit = "tree"

    def gold(self, example: Any) -> tuple[str, ...]:
        return (example.label,) if example.label else ()

    def inputs(self, examples: Sequence[Any]) -> list[list[str]]:
        tokens = self.task.encoding.texts.tokenizer.tokens
        return [["".join(tokens(word)) for word in example.words()] for example in examples]

    def evaluate_model(self, examples: Sequence[Any]) -> ClassifyEvaluation:
        return self.task.evaluate(examples).roots()


class PictureSuite(LabelSuite):
    """Baselines of a classifier of pictures: principal components of the pixels."""

    unit = "picture"

    def inputs(self, examples: Sequence[Any]) -> np.ndarray:
        return pixel_rows([example.content for example in examples])

    def feature_sets(self, inputs: Any, config: BaselinesConfig) -> list[FeatureSet]:
        transformer = components(inputs, config.baseline_components)
        return [FeatureSet(f"{transformer.n_components} components of pixels", transformer)]


class SoundSuite(LabelSuite):
    """Baselines of a classifier of sounds: statistics of log-mel energies, without or with single frames or rhythm."""

    unit = "sound"

    @property
    def _config(self) -> SoundConfig:
        return self.task.config.model.input

    def inputs(self, examples: Sequence[Any]) -> np.ndarray:
        return sound_statistics([example.content for example in examples], self._config)

    def feature_sets(self, inputs: Any, config: BaselinesConfig) -> list[FeatureSet]:
        columns = sound_columns(self._config)
        return [
            FeatureSet("log-mel statistics", standardize(), (columns.statistics,)),
            FeatureSet("log-mel statistics and frames", standardize(), (columns.statistics, columns.frames)),
            FeatureSet("log-mel statistics and rhythm", standardize(), (columns.statistics, columns.rhythm)),
        ]


def _build(name: str, c: float) -> Any:
    """A classifier of scikit-learn. Options whose defaults change between versions are set."""
    if name == "majority":
        return _Majority()
    linear = require("sklearn.linear_model", "sklearn", "--baseline")
    if name == "logistic":
        return linear.LogisticRegression(C=c, solver="lbfgs", tol=1e-4, max_iter=_MAX_ITERATIONS)
    if name == "ridge":
        return linear.RidgeClassifier(alpha=1 / (2 * c), solver="auto", random_state=0)
    svm = require("sklearn.svm", "sklearn", "--baseline")
    if name == "svm":
        return svm.LinearSVC(C=c, loss="squared_hinge", dual="auto", tol=1e-4, max_iter=_MAX_ITERATIONS, random_state=0)
    return svm.SVC(
        C=c, kernel="rbf", gamma="scale", decision_function_shape="ovr", break_ties=True, cache_size=500, random_state=0
    )


class _Majority:
    """The logarithms of the frequencies of the classes, or with several labels their log odds."""

    def fit(self, features: Any, targets: np.ndarray) -> _Majority:
        if targets.ndim == 1:
            self.classes_, counts = np.unique(targets, return_counts=True)
            self.coef_ = np.log(counts / len(targets))
        else:
            fraction = np.clip(targets.mean(0), 1e-9, 1 - 1e-9)
            self.coef_ = np.log(fraction / (1 - fraction))
        return self

    def decision_function(self, features: Any) -> np.ndarray:
        return np.tile(self.coef_, (features.shape[0], 1))
