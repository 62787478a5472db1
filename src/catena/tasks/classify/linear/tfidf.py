r"""Logistic regression on TF-IDF features with an L2 penalty, fitted to convergence.

A feature that occurs c times in a text and in n_f of n training texts has the value

.. math::  \log(1 + c) \, \big( 1 + \log \frac{1 + n}{1 + n_f} \big)

The features of tokens, and those of characters, are divided by their length. The weights minimize

.. math::  \sum_i \ell(x_i W + b, y_i) + \frac{\lambda}{2} \|W\|_2^2

by L-BFGS, where the loss is the cross entropy of a softmax, or of one sigmoid for two classes and for each of several
labels. Of several penalties, the one with the best mean score over folds of the training texts is chosen. Tested in
tests/tasks/classify/linear/test_tfidf.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from jaxtyping import Float, Float32, Int32, Int64

from catena.checkpoint import Checkpoint
from catena.data.examples import LabeledText
from catena.data.features import CHARACTERS
from catena.data.vocabulary import Labels
from catena.errors import CheckpointError
from catena.kernels.bags import reference
from catena.tasks.base import Origin, Training
from catena.tasks.classify.config import ClassifyConfig, TFIDFConfig
from catena.tasks.classify.data import encode_labels
from catena.tasks.classify.linear.data import StoredTexts
from catena.tasks.classify.linear.features import (
    VALUES,
    BagFeatures,
    FeatureRows,
    ListedNgrams,
    needs_kernels,
    row_starts,
    take_rows,
)
from catena.tasks.classify.linear.learner import balance_classes
from catena.tasks.classify.linear.task import LinearEncoding, LinearTask, LinearTraining, load_encoding
from catena.tasks.config import model_section
from catena.tasks.sources import Sources
from catena.training.quasi_newton import QuasiNewton
from catena.training.stepwise import Learner

PENALTIES = (3.0, 1.0, 0.3, 0.1, 0.03)
"""The penalties that are tried, which follow one another so that each starts from the weights of the last."""
_MAX_ITERATIONS = 100
_TOLERANCE = 1e-5
"""Relative decrease of the objective at which it has converged."""
_MOST_COMPARED = 8000
"""Number of texts that choose the penalty, a sample of all if there are more."""
_MOST_PRODUCTS = 500_000_000
"""Number of products of features and classes in all folds together that choose the penalty. If five folds have more, as
with a thousand classes, only the first folds are tried, at least one."""
_SMOOTHING = 0.03
"""Added to the sums of the values of a feature in a class and in the others, whose ratio weights the feature."""
_MOST_WEIGHTS = 4_000_000
"""Number of weights. If there are more, the rarest features are left out."""


@dataclass(frozen=True, eq=False)
class WeightedRows:
    """A sparse matrix: row i has ``values[j]`` in column ``ids[j]``, for j from ``first[i]`` to ``first[i + 1]``."""

    ids: Int32[np.ndarray, " z"]
    first: Int64[np.ndarray, " n1"]
    values: Float32[np.ndarray, " z"]
    n_columns: int

    def __len__(self) -> int:
        return len(self.first) - 1

    def take(self, rows: Int64[np.ndarray, " m"]) -> WeightedRows:
        """Some of the rows."""
        ids, first = take_rows(self.ids, self.first, rows)
        return WeightedRows(ids, first, take_rows(self.values, self.first, rows)[0], self.n_columns)

    def times(self, weights: Float[np.ndarray, "d q"]) -> Float[np.ndarray, "n q"]:
        """X W."""
        scores = np.zeros((len(self), weights.shape[1]))
        add_products = reference.add_products
        if needs_kernels(len(self.ids)):
            from catena.kernels.bags.cpu_learn import add_products
        add_products(self.ids, self.first, self.values, np.ascontiguousarray(weights, np.float64), scores)
        return scores

    def transposed_times(self, gradients: Float[np.ndarray, "n q"]) -> Float[np.ndarray, "d q"]:
        """Xᵀ G."""
        from catena.kernels.bags.cpu_learn import add_transposed_products

        sums = np.zeros((self.n_columns, gradients.shape[1]))
        add_transposed_products(self.ids, self.first, self.values, np.ascontiguousarray(gradients), sums)
        return sums


class TFIDFWeights:
    """The values of features: TF-IDF, with tokens and characters of length 1 each.

    Args:
        features: the features.
        idf: the inverse document frequency of each feature.
    """

    def __init__(self, features: BagFeatures, idf: Float32[np.ndarray, " d"]) -> None:
        self.idf, self.kind = idf, VALUES[features.settings.values]
        self.block = np.zeros(len(features), np.int64)
        """0 for n-grams of tokens and 1 for those of characters. Hashed ones are not distinguished."""
        if isinstance(features, ListedNgrams) and features.settings.characters:
            is_character = np.array([name.startswith(CHARACTERS) for name in features.names], bool)
            self.block[(features.parents < 0) & is_character[features.lasts]] = 1

    def weigh(self, rows: FeatureRows) -> WeightedRows:
        """The values of the features of texts."""
        row = np.repeat(np.arange(len(rows)), np.diff(rows.first))
        is_first = np.ones(len(rows.ids), bool)
        is_first[1:] = (rows.ids[1:] != rows.ids[:-1]) | (row[1:] != row[:-1])
        starts = np.flatnonzero(is_first)
        counts = np.diff(np.append(starts, len(rows.ids)))
        ids, row = rows.ids[starts], row[starts]
        values = np.ones(len(ids))
        if self.kind != reference.BINARY:
            values = np.log1p(counts) if self.kind == reference.LOG else counts.astype(float)
        values = values * self.idf[ids]
        block = 2 * row + self.block[ids]
        lengths = np.sqrt(np.bincount(block, values**2, 2 * len(rows)))
        values = (values / np.maximum(lengths, 1e-30)[block]).astype(np.float32)
        return WeightedRows(ids, row_starts(np.bincount(row, minlength=len(rows))), values, len(self.idf))


def inverse_document_frequency(
    rows: FeatureRows, n_features: int, weights: Float[np.ndarray, " n"]
) -> Float32[np.ndarray, " d"]:
    """1 + log((1 + n) / (1 + the number of texts with the feature)), as scikit-learn smooths it.

    A text of weight 2 counts twice.
    """
    if (weights == 1).all():
        from catena.kernels.bags.cpu_learn import count_texts

        counts: np.ndarray = np.zeros(max(1, n_features), np.int32)
        count_texts(rows.ids, rows.first, counts)
    else:
        row = np.repeat(np.arange(len(rows)), np.diff(rows.first))
        pairs = np.unique(np.stack((row, rows.ids)), axis=1)
        counts = np.bincount(pairs[1], weights[pairs[0]], max(1, n_features))
    return (1 + np.log((1 + weights.sum()) / (1 + counts))).astype(np.float32)


def class_ratios(rows: WeightedRows, targets: Float[np.ndarray, "n k"]) -> Float32[np.ndarray, " d"]:
    """How much the frequency of each feature depends on the class.

    This is the root of the mean square, over the classes, of the log ratio of its frequency in the class and in the
    others, relative to the mean of all features.

    Args:
        rows: the texts.
        targets: ``targets[i, q]`` is the weight of text i in class q.
    """
    inside = rows.transposed_times(targets)
    outside = inside.sum(1, keepdims=True) - inside
    inside, outside = inside + _SMOOTHING, outside + _SMOOTHING
    logs = np.log(inside / inside.sum(0)) - np.log(outside / outside.sum(0))
    found = np.sqrt((logs**2).mean(1))
    return (found / max(found.mean(), 1e-30)).astype(np.float32)


@dataclass(frozen=True, eq=False)
class PenalizedLoss:
    """The penalized loss of weights and biases, as one vector, and its gradient.

    Args:
        rows: the texts.
        targets: ``targets[i, q]`` is the probability of class q for text i.
        importance: the weight of the loss of each text.
        penalty: the weight of half the sum of squared weights.
        is_softmax: whether the classes exclude each other. Otherwise each column is a binary decision.
    """

    rows: WeightedRows
    targets: Float[np.ndarray, "n q"]
    importance: Float[np.ndarray, " n"]
    penalty: float
    is_softmax: bool

    @property
    def n_columns(self) -> int:
        return self.targets.shape[1]

    def split(self, vector: Float[np.ndarray, " p"]) -> tuple[Float[np.ndarray, "d q"], Float[np.ndarray, " q"]]:
        """The weights and the biases in a vector."""
        q = self.n_columns
        return vector[:-q].reshape(-1, q), vector[-q:]

    def __call__(self, vector: Float[np.ndarray, " p"]) -> tuple[float, Float[np.ndarray, " p"]]:
        weights, bias = self.split(vector)
        scores = self.rows.times(weights) + bias
        losses, gradients = losses_and_gradients(scores, self.targets, self.is_softmax)
        gradients *= self.importance[:, None]
        of_weights = self.rows.transposed_times(gradients) + self.penalty * weights
        value = float(losses @ self.importance) + 0.5 * self.penalty * float(np.sum(weights**2))
        return value, np.concatenate((of_weights.reshape(-1), gradients.sum(0)))

    def minimize(self, start: Float[np.ndarray, " p"] | None = None) -> Float[np.ndarray, " p"]:
        """The vector with the smallest loss, by L-BFGS from a start."""
        size = (self.rows.n_columns + 1) * self.n_columns
        search = QuasiNewton(self, np.zeros(size) if start is None else start)
        for _ in range(_MAX_ITERATIONS):
            before = search.objective
            if search.is_at_rest or not search.step() or before - search.objective < _TOLERANCE * abs(before):
                break
        return search.point


def losses_and_gradients(
    scores: Float[np.ndarray, "n q"], targets: Float[np.ndarray, "n q"], is_softmax: bool
) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, "n q"]]:
    """The cross entropy of each row, and its gradient with respect to the scores."""
    if is_softmax:
        log_probs = scores - scores.max(1, keepdims=True)
        log_probs -= np.log(np.exp(log_probs).sum(1, keepdims=True))
        return -(targets * log_probs).sum(1), np.exp(log_probs) - targets
    losses = np.logaddexp(0, scores) - targets * scores
    return losses.sum(1), np.exp(-np.logaddexp(0, -scores)) - targets


def choose_penalty(loss: PenalizedLoss, groups: Int64[np.ndarray, " n"], folds: int, seed: int) -> dict[float, float]:
    """The mean accuracy of each penalty on folds of the texts, in which all groups have the same proportions.

    Args:
        loss: the loss of all texts.
        groups: the group of each text, such as its class.
        folds: number of folds.
        seed: seed of the folds and of the sample.
    """
    order = np.random.default_rng(seed).permutation(len(groups))[:_MOST_COMPARED]
    fold = np.empty(len(order), np.int64)
    fold[np.argsort(groups[order], kind="stable")] = np.arange(len(order)) % folds
    scores: dict[float, list[float]] = {penalty: [] for penalty in PENALTIES}
    products = len(loss.rows.ids) * len(order) // max(1, len(groups)) * loss.targets.shape[1]
    for part in range(min(folds, 1 + _MOST_PRODUCTS // max(1, products))):
        own, rest = order[fold == part], order[fold != part]
        if not len(own) or not len(rest):
            continue
        held_out, vector = loss.rows.take(own), None
        taken = loss.rows.take(rest), loss.targets[rest], loss.importance[rest]
        for penalty in PENALTIES:
            fit = PenalizedLoss(*taken, penalty, loss.is_softmax)
            vector = fit.minimize(vector)
            weights, bias = fit.split(vector)
            scores[penalty].append(_accuracy(held_out.times(weights) + bias, loss.targets[own], loss.is_softmax))
    return {penalty: float(np.mean(own)) if own else 0.0 for penalty, own in scores.items()}


def _accuracy(scores: Float[np.ndarray, "n q"], targets: Float[np.ndarray, "n q"], is_softmax: bool) -> float:
    """The fraction of correct decisions."""
    if is_softmax:
        return float(np.mean(scores.argmax(1) == targets.argmax(1)))
    return float(np.mean((scores > 0) == (targets > 0.5)))


class TFIDFLearner(Learner):
    """Chooses the penalty and fits the weights, in one step.

    Args:
        config: the config of the task.
        texts: the training texts.
        names: the classes.
        features: the features.
    """

    counts = True

    def __init__(self, config: ClassifyConfig, texts: StoredTexts, names: Labels, features: BagFeatures) -> None:
        self.config, self.settings, self.texts = config, model_section(config, TFIDFConfig), texts
        self.names, self.features = names, features
        rows, self._gold, _ = texts.gather(np.arange(texts.n_chunks))
        self._importance = texts.set_weights[self._gold]
        self.idf = inverse_document_frequency(rows, len(features), self._importance)
        if self.settings.class_ratio:
            targets = self._marks()[self._gold] * self._importance[:, None]
            ratios = class_ratios(TFIDFWeights(features, self.idf).weigh(rows), targets)
            self.idf = self.idf * ratios**self.settings.class_ratio
        self._rows = TFIDFWeights(features, self.idf).weigh(rows)
        self.weights = np.zeros((1, max(1, len(features)), len(names)), np.float32)
        self.bias = np.zeros((1, len(names)), np.float32)
        self.penalty, self.total, self.temperature = 0.0, np.nan, 1.0
        self.scores: dict[float, float] = {}

    def step(self) -> bool:
        if self.penalty:
            return False
        loss, groups = self._loss()
        self.penalty = self.settings.penalty or self._choose(loss, groups)
        loss = PenalizedLoss(loss.rows, loss.targets, loss.importance, self.penalty, loss.is_softmax)
        vector = loss.minimize()
        self.total = loss(vector)[0]
        weights, bias = loss.split(vector)
        if loss.n_columns < len(self.names):  # of two classes, one score decides
            weights, bias = weights * [-0.5, 0.5], bias * [-0.5, 0.5]
        self.weights, self.bias = weights.astype(np.float32)[None], bias.astype(np.float32)[None]
        return True

    def _choose(self, loss: PenalizedLoss, groups: Int64[np.ndarray, " n"]) -> float:
        self.scores = choose_penalty(loss, groups, self.settings.folds, self.config.seed)
        return max(PENALTIES, key=lambda penalty: self.scores[penalty])  # the larger one of equals

    def _loss(self) -> tuple[PenalizedLoss, Int64[np.ndarray, " n"]]:
        """The loss of all texts without a penalty, and the group of each text."""
        config, k, sets, marks = self.config, len(self.names), self.texts.sets, self._marks()
        several = config.data.multilabel
        importance = self._importance
        if config.loss.class_weights == "balanced" and not several:
            classes = marks.argmax(1)[self._gold]
            importance = importance * balance_classes(np.bincount(classes, importance, k))[classes]
        targets = marks[self._gold]
        smoothing = config.loss.label_smoothing
        targets = (1 - smoothing) * targets + smoothing / k
        if k == 2 and not several:
            targets = targets[:, 1:]
        first = {labels: i for i, labels in reversed(list(enumerate(sets)))}
        groups = np.array([first[labels] for labels in sets], np.int64)[self._gold]
        return PenalizedLoss(self._rows, targets, importance, 0.0, k > 2 and not several), groups

    def _marks(self) -> Float[np.ndarray, "s k"]:
        """``[s, q]`` is 1 if the set of labels s has class q."""
        known = [tuple(label for label in labels if label in self.names) for labels in self.texts.sets]
        return encode_labels(known, self.names.names, True).astype(np.float64)

    @property
    def loss(self) -> float:
        return self.total / max(1, len(self.texts))

    def arrays(self) -> dict[str, np.ndarray]:
        numbers = np.array([self.penalty, self.total, self.temperature])
        return {"weights": self.weights, "bias": self.bias, "numbers": numbers}

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        self.weights, self.bias = np.array(arrays["weights"]), np.array(arrays["bias"])
        self.penalty, self.total, self.temperature = arrays["numbers"].tolist()


class TFIDFTask(LinearTask):
    """Logistic regression on TF-IDF features.

    Args:
        config: the config.
        encoding: the features and the classes.
        weights: ``weights[0, f, j]`` is the weight of feature f for class j.
        bias: ``bias[0, j]`` is the bias of class j.
        idf: the inverse document frequency of each feature.
        temperature: divides the scores in prediction.
    """

    def __init__(
        self,
        config: ClassifyConfig,
        encoding: LinearEncoding,
        weights: np.ndarray,
        bias: np.ndarray,
        idf: np.ndarray,
        temperature: float = 1.0,
    ) -> None:
        super().__init__(config, encoding, weights, bias, temperature)
        self.values = TFIDFWeights(encoding.texts.features, idf)

    @classmethod
    def prepare(cls, config: ClassifyConfig, sources: Sources[LabeledText], origin: Origin) -> Training:
        return TFIDFTraining(config, sources, origin)

    @classmethod
    def load(cls, config: ClassifyConfig, checkpoint: Checkpoint, device: str) -> Self:
        arrays = checkpoint.arrays()
        encoding = load_encoding(config, checkpoint.folder, arrays)
        return cls(config, encoding, arrays["weights"], arrays["bias"], arrays["idf"], float(arrays["temperature"]))

    def tensors(self) -> dict[str, np.ndarray]:
        return {**super().tensors(), "idf": self.values.idf}

    def score_rows(self, rows: FeatureRows) -> np.ndarray:
        return self.values.weigh(rows).times(self.weights[0]) + self.bias[0]


class TFIDFTraining(LinearTraining):
    """The training of logistic regression on TF-IDF features."""

    family = TFIDFTask
    learner: TFIDFLearner

    def load_weights(self, checkpoint: Checkpoint) -> None:
        raise CheckpointError(
            f"--init-from {checkpoint.folder} needs a model whose training can start from its weights, but one of kind "
            f"'tfidf' is always fitted from scratch. Remove --init-from."
        )

    def _most_features(self, names: Labels) -> int | None:
        columns = 1 if len(names) == 2 else max(1, len(names))
        most = _MOST_WEIGHTS // columns
        size = self.config.vocabulary.max_size
        return most if size is None else min(size, most)

    def _build_learner(self) -> Any:
        return TFIDFLearner(self.config, self.parts["train"], self.encoding.names, self.encoding.texts.features)

    def task(self) -> LinearTask:
        learner = self.learner
        return TFIDFTask(self.config, self.encoding, learner.weights, learner.bias, learner.idf)
