"""Learners of the weights of a tagger on features: batch (all sentences per step) or online (one at a time).

A learner takes steps until it converges. Its state can be saved and restored between any two steps, bit for bit. It
knows nothing of files or of scores on dev.

Tested in tests/tasks/tag/features/test_online.py and tests/tasks/tag/features/test_fit.py.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Float64, Int32

from catena.errors import DivergedError
from catena.kernels.features.cpu_online import CRF, MARGIN, MEMM, PERCEPTRON, SOFTMAX, learn_sentences
from catena.randomness import Randomness
from catena.tasks.tag.config import FeatureTaggerConfig
from catena.tasks.tag.features.dictionary import FeatureIds
from catena.tasks.tag.features.likelihood import Likelihood
from catena.tasks.tag.features.model import WeightLayout
from catena.training.quasi_newton import QuasiNewton
from catena.training.stepwise import Learner

_PERIOD = 10
"""Number of steps over which the objective must fall by more than the tolerance."""

KINDS = {"crf": CRF, "softmax": SOFTMAX, "memm": MEMM, "perceptron": PERCEPTRON, "margin": MARGIN}


class FeatureLearner(Learner):
    """Base class of learners of the weights of a tagger."""

    @abstractmethod
    def vector(self) -> Float64[np.ndarray, " n"]:
        """The current parameters."""


class BatchLearner(FeatureLearner):
    """L-BFGS or OWL-QN on the penalized likelihood of all sentences."""

    def __init__(self, function: Likelihood, settings: FeatureTaggerConfig) -> None:
        self.items, self.tolerance = function.items, settings.tolerance
        self.search = QuasiNewton(function, np.zeros(function.layout.size), settings.l1, settings.memory)
        self.past: list[float] = []

    def step(self) -> bool:
        past = self.past
        if len(past) >= _PERIOD and (past[-_PERIOD] - past[-1]) < self.tolerance * abs(past[-1]):
            return False
        if self.search.is_at_rest or not self.search.step():
            return False
        self.past = [*past, self.search.objective][-_PERIOD:]
        return True

    @property
    def loss(self) -> float:
        return self.search.objective / self.items

    def vector(self) -> Float64[np.ndarray, " n"]:
        return self.search.point

    def arrays(self) -> dict[str, np.ndarray]:
        return {**self.search.arrays(), "past": np.array(self.past)}

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        self.search.restore(arrays)
        self.past = arrays["past"].tolist()


class OnlineLearner(FeatureLearner):
    """Online learner: one sentence at a time, in a new random order for each pass.

    The weights of a perceptron are averages over all updates. The others minimize the objective of L-BFGS or, for a
    margin,

        Σ_s max_y (score(y) + cost × wrong tags of y - score(gold tags)) + l2 × Σ w²
    """

    def __init__(
        self,
        data: FeatureIds,
        tags: Int32[np.ndarray, " m"],
        layout: WeightLayout,
        settings: FeatureTaggerConfig,
        randomness: Randomness,
    ) -> None:
        self.data, self.tags, self.layout, self.settings, self.randomness = data, tags, layout, settings, randomness
        self.weights, self.sums = np.zeros(layout.size), np.zeros(layout.size)
        self.mask = layout.in_use.astype(np.float64)
        self.passes, self.moment, self.total = 0, 0, np.nan

    def step(self) -> bool:
        data, layout, settings = self.data, self.layout, self.settings
        order = self.randomness.numpy("sentences", self.passes).permutation(data.sentences)
        is_perceptron = settings.structure == "perceptron"
        rate, decay = (1.0, 0.0) if is_perceptron else (settings.rate, 2 * settings.l2 / data.sentences)
        self.total = learn_sentences(
            data.token_first, data.ids, data.first, order, self.tags, layout.pair_first, layout.pair_tag, layout.k,
            self.weights, self.sums, self.mask, KINDS[settings.structure], settings.cost, rate, decay,
            not is_perceptron, self.moment,
        )  # fmt: skip
        if not np.isfinite(self.total):
            raise DivergedError(
                f"The weights diverged in pass {self.passes + 1} with model.rate = {settings.rate}. Lower model.rate."
            )
        self.passes += 1
        self.moment += data.sentences
        return True

    @property
    def loss(self) -> float:
        return self.total / max(1, self.data.sentences)

    def vector(self) -> Float64[np.ndarray, " n"]:
        if self.settings.structure != "perceptron":
            return self.weights
        return self.weights - self.sums / max(1, self.moment)

    def arrays(self) -> dict[str, np.ndarray]:
        return {
            "weights": self.weights,
            "sums": self.sums,
            "numbers": np.array([float(self.passes), float(self.moment), self.total]),
        }

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        self.weights, self.sums = np.array(arrays["weights"]), np.array(arrays["sums"])
        self.passes, self.moment = int(arrays["numbers"][0]), int(arrays["numbers"][1])
        self.total = float(arrays["numbers"][2])


def build_learner(
    data: FeatureIds,
    tags: Int32[np.ndarray, " m"],
    layout: WeightLayout,
    settings: FeatureTaggerConfig,
    randomness: Randomness,
) -> FeatureLearner:
    """The learner for a config."""
    if settings.learns_by == "sgd":
        return OnlineLearner(data, tags, layout, settings, randomness)
    assert settings.structure not in ("perceptron", "margin")
    over: Any = settings.structure
    return BatchLearner(Likelihood(data, tags, layout, over, settings.l2), settings)
