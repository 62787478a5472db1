"""Passes over the training texts, with a gradient step for the features of each text.

Tested in tests/tasks/classify/linear/test_task.py.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from catena.data.vocabulary import Labels
from catena.errors import DivergedError
from catena.kernels.bags import reference
from catena.randomness import Randomness
from catena.tasks.classify.config import ClassifyConfig
from catena.tasks.classify.data import encode_labels
from catena.tasks.classify.linear.data import StoredTexts
from catena.tasks.classify.linear.features import VALUES, FeatureRows
from catena.training.stepwise import Learner

_LOSSES = {
    "cross_entropy": reference.CROSS_ENTROPY,
    "hinge": reference.HINGE,
    "squared_error": reference.SQUARED_ERROR,
    "perceptron": reference.PERCEPTRON,
}


class LinearLearner(Learner):
    """Learns the weights of a linear classifier, or of each model of a bag, by AdaGrad or by steps of a fixed size.

    Args:
        config: the config of the task.
        texts: the training texts.
        names: the classes.
        n_features: number of features.
        randomness: the generators of the run.

    ``temperature`` is fitted on dev by the caller and stored here, so that a resumed run has it.
    """

    def __init__(
        self, config: ClassifyConfig, texts: StoredTexts, names: Labels, n_features: int, randomness: Randomness
    ) -> None:
        self.config, self.texts, self.randomness = config, texts, randomness
        self.passes, self.total, self.temperature = 0, np.nan, 1.0
        shape = (config.bagging.members, max(1, n_features), len(names))
        self.weights, self.squares = np.zeros(shape, np.float32), np.full(shape, config.training.eps or 0, np.float32)
        self.bias = np.zeros((shape[0], shape[2]), np.float32)
        self.bias_squares = np.full_like(self.bias, config.training.eps or 0)
        self._set_targets(names)
        self._rarity = self._count_rarity(n_features)
        self._samples = self._draw_samples()
        chunks = np.arange(texts.n_chunks)
        self._whole = texts.gather(chunks) if len(list(texts.groups(chunks))) == 1 else None

    def _set_targets(self, names: Labels) -> None:
        """Set the class or the marks of each set of labels, and the weight of its loss."""
        config, sets = self.config, self.texts.sets
        several = config.data.multilabel
        known = [tuple(label for label in labels if label in names) for labels in sets]
        if several:
            self._marks = encode_labels(known, names.names, True).astype(np.uint8)
            self._classes = np.arange(len(sets), dtype=np.int32)
        else:
            self._marks = np.zeros((0, len(names)), np.uint8)
            self._classes = np.array([names.id(labels[0]) if labels else 0 for labels in known], np.int32)
        gold, own = self.texts.gold.read(0, len(self.texts)), self.texts.set_weights
        self._set_weights = (own / own[gold].mean()).astype(np.float32)  # keeps the size of the steps
        if config.loss.class_weights == "balanced" and not several:
            counts = np.bincount(self._classes[gold], self._set_weights[gold], len(names))
            self._set_weights = self._set_weights * balance_classes(counts)[self._classes]

    def _count_rarity(self, n_features: int) -> np.ndarray:
        """The number of texts over the number with each feature, by which a penalty on that feature is multiplied."""
        training = self.config.training
        if not training.weight_decay and not training.l1:
            return np.ones(0, np.float32)
        from catena.kernels.bags.cpu_learn import count_texts

        counts = np.zeros(max(1, n_features), np.int32)
        for chunk in range(self.texts.n_chunks):
            rows, _ = self.texts.read(chunk)
            count_texts(rows.ids, rows.first, counts)
        return (len(self.texts) / np.maximum(counts, 1)).astype(np.float32)

    def _draw_samples(self) -> np.ndarray | None:
        """The number of times that each text is in the bootstrap sample of each model; None for a single model."""
        models, n = self.config.bagging.members, len(self.texts)
        if models == 1:
            return None
        counts = np.zeros((models, n), np.float32)
        for m in range(models):
            np.add.at(counts[m], self.randomness.numpy("bootstrap", m).integers(0, n, n), 1)
        return counts

    @property
    def loss(self) -> float:
        return self.total / max(1, len(self.texts))

    def step(self) -> bool:
        generator = self.randomness.numpy("texts", self.passes)
        self.total = 0.0
        for group in self.texts.groups(generator.permutation(self.texts.n_chunks)):
            rows, gold, index = self._whole or self.texts.gather(group)
            order = generator.permutation(len(rows))
            for m in range(len(self.weights)):
                self.total += self._learn(m, rows, gold, index, order)
            del rows, gold, index, order  # before the next ones are loaded
        if not np.isfinite(self.total):
            raise DivergedError(
                f"The weights diverged in pass {self.passes + 1} with learning_rate = "
                f"{self.config.training.learning_rate}. Lower --learning-rate."
            )
        self.passes += 1
        return True

    def _learn(self, m: int, rows: FeatureRows, gold: np.ndarray, index: np.ndarray, order: np.ndarray) -> float:
        """Take the steps of one model for some texts and return the sum of their losses."""
        from catena.kernels.bags.cpu_learn import learn_texts

        config, training = self.config, self.config.training
        importance = self._set_weights[gold]
        if self._samples is not None:
            importance = importance * self._samples[m][index]
        features = config.model.features  # type: ignore[union-attr]
        return learn_texts(
            rows.ids, rows.first, order, self._classes[gold], self._marks, importance, self._rarity,
            VALUES[features.values], _LOSSES[config.loss_kind], config.data.multilabel,
            np.float32(config.loss.label_smoothing), self.weights[m], self.squares[m], self.bias[m],
            self.bias_squares[m], np.float32(training.learning_rate), np.float32(training.weight_decay),
            np.float32(training.l1), training.optimizer == "adagrad",
        )  # fmt: skip

    def arrays(self) -> dict[str, np.ndarray]:
        return {
            "weights": self.weights,
            "squares": self.squares,
            "bias": self.bias,
            "bias_squares": self.bias_squares,
            "numbers": np.array([float(self.passes), self.total, self.temperature]),
        }

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        self.weights, self.squares = np.array(arrays["weights"]), np.array(arrays["squares"])
        self.bias, self.bias_squares = np.array(arrays["bias"]), np.array(arrays["bias_squares"])
        passes, self.total, self.temperature = arrays["numbers"].tolist()
        self.passes = int(passes)


def balance_classes(counts: np.ndarray) -> np.ndarray:
    """Weights that give all classes the same total: n / (k · count), with mean 1 over the texts."""
    return (counts.sum() / (np.where(counts > 0, counts, 1) * len(counts))).astype(np.float32)
