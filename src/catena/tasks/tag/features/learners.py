"""What learns the weights of a tagger on features: all sentences at each step, or one after another.

A learner is asked to take steps until it has nothing more to gain, and can be saved and restored between any two of
them, bit for bit. Knows nothing of files or of scores on held-out data.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Float64, Int32

from catena.errors import DivergedError
from catena.kernels.feature_online import CRF, MARGIN, MEMM, PERCEPTRON, SOFTMAX, learn_sentences
from catena.randomness import Randomness
from catena.tasks.tag.features.config import FeatureTaggerConfig
from catena.tasks.tag.features.dictionary import FeatureIds
from catena.tasks.tag.features.likelihood import Likelihood
from catena.tasks.tag.features.weights import WeightLayout
from catena.training.quasi_newton import QuasiNewton

_PERIOD = 10
"""Steps over which the objective must become smaller by more than the tolerance."""

KINDS = {"crf": CRF, "softmax": SOFTMAX, "memm": MEMM, "perceptron": PERCEPTRON, "margin": MARGIN}


class FeatureLearner(ABC):
    """Something that learns step by step."""

    @property
    def counts(self) -> bool:
        """Whether all is counted at once, so that there is nothing to do step by step."""
        return False

    @abstractmethod
    def step(self) -> bool:
        """Take a step. False: there is nothing more to gain, and nothing has changed."""

    @property
    @abstractmethod
    def loss(self) -> float:
        """What is made small, per sentence, as of the last step."""

    @abstractmethod
    def vector(self) -> Float64[np.ndarray, " n"]:
        """The numbers to use now."""

    @abstractmethod
    def arrays(self) -> dict[str, np.ndarray]:
        """All that :meth:`restore` needs."""

    @abstractmethod
    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Stand where :meth:`arrays` was taken."""


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
    """One sentence at a time, in an order that the seed draws anew for each pass.

    A perceptron's numbers are averages over all moments. The others make small what L-BFGS would, or, for a margin,

        Σ_s max_y (score(y) + cost × wrong tags of y - score(right tags)) + l2 × Σ w²
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
                f"the weights have grown beyond all bounds in pass {self.passes + 1}: make model.rate = "
                f"{settings.rate} smaller"
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
    """The learner that a config asks for."""
    if settings.learns_by == "sgd":
        return OnlineLearner(data, tags, layout, settings, randomness)
    assert settings.structure not in ("perceptron", "margin")
    over: Any = settings.structure
    return BatchLearner(Likelihood(data, tags, layout, over, settings.l2), settings)
