r"""Combinations of steppers: ensembles, log-linear mixtures and shallow fusion.

.. math::  \text{ensemble: } p = \sum_i w_i p_i \qquad
    \text{log-linear: } p \propto \prod_i p_i^{w_i} \qquad
    \text{fusion: } \log p = \log p_1 + \lambda \log p_2
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from catena.errors import ConfigError
from catena.numerics import NEG_INF, log_sum_exp
from catena.search.filters import log_normalize
from catena.search.stepper import Stepper, WrapperStepper


class Combined(WrapperStepper[tuple[Any, ...]]):
    """Several steppers over one vocabulary that read the same ids; a state is a tuple of their states."""

    def __init__(self, steppers: Sequence[Stepper[Any]], weights: Sequence[float]) -> None:
        if not steppers or len(weights) != len(steppers):
            raise ConfigError(
                f"weights must have one weight for each of one or more steppers, got {len(steppers)} steppers and "
                f"{len(weights)} weights. Pass one weight for each stepper."
            )
        if min(weights) < 0:
            raise ConfigError(f"weights must be at least 0, got {list(weights)}. Remove or raise the negative ones.")
        self.stepper = steppers[0]
        self.steppers, self.weights = list(steppers), [float(weight) for weight in weights]
        self.v, self.end = steppers[0].v, steppers[0].end
        for index, other in enumerate(steppers):
            if (other.v, other.end) != (self.v, self.end):
                raise ConfigError(
                    f"steppers must have the same v and end, got v = {self.v} and end = {self.end} in stepper 0, v = "
                    f"{other.v} and end = {other.end} in stepper {index}. Use one vocabulary for all."
                )
        known = [stepper.vocabulary for stepper in steppers if hasattr(stepper, "vocabulary")]
        if any(other.symbols != known[0].symbols for other in known):
            raise ConfigError(
                "steppers must have the same vocabulary, got different tokens for the same ids. Train them with the "
                "same vocabulary file."
            )

    @abstractmethod
    def mix(self, log_probs: Sequence[Float[Tensor, "n v"]]) -> Float[Tensor, "n v"]:
        """Combine the log-probabilities of all steppers."""

    def start(self, n: int) -> tuple[Any, ...]:
        return tuple(stepper.start(n) for stepper in self.steppers)

    def inner(self, state: tuple[Any, ...]) -> Any:
        return state[0]

    def log_probs(self, state: tuple[Any, ...]) -> Float[Tensor, "n v"]:
        each = [stepper.log_probs(one) for stepper, one in zip(self.steppers, state, strict=True)]
        return self.mix([x.to(each[0].device) for x in each])

    def advance(self, state: tuple[Any, ...], ids: Int[Tensor, " n"]) -> tuple[Any, ...]:
        return tuple(
            stepper.advance(one, ids.to(stepper.device)) for stepper, one in zip(self.steppers, state, strict=True)
        )

    def select(self, state: tuple[Any, ...], rows: Int[Tensor, " m"]) -> tuple[Any, ...]:
        return tuple(
            stepper.select(one, rows.to(stepper.device)) for stepper, one in zip(self.steppers, state, strict=True)
        )

    def join(self, states: Sequence[tuple[Any, ...]]) -> tuple[Any, ...]:
        return tuple(
            stepper.join(parts) for stepper, parts in zip(self.steppers, zip(*states, strict=True), strict=True)
        )

    def extend(self, state: tuple[Any, ...], ids: Int[Tensor, "n t"], lengths: Int[Tensor, " n"]) -> tuple[Any, ...]:
        return tuple(
            stepper.extend(one, ids.to(stepper.device), lengths.to(stepper.device))
            for stepper, one in zip(self.steppers, state, strict=True)
        )


class Ensemble(Combined):
    """The weighted mean of the probabilities of several models.

    Args:
        steppers: the models, over one vocabulary.
        weights: one weight for each, which need not sum to one; all equal by default.
    """

    def __init__(self, steppers: Sequence[Stepper[Any]], weights: Sequence[float] | None = None) -> None:
        super().__init__(steppers, [1.0] * len(steppers) if weights is None else weights)
        if sum(self.weights) == 0:
            raise ConfigError("weights must have a positive sum, got only zeros. Raise one weight above 0.")

    def mix(self, log_probs: Sequence[Float[Tensor, "n v"]]) -> Float[Tensor, "n v"]:
        total = sum(self.weights)
        shares = [math.log(weight / total) if weight else NEG_INF for weight in self.weights]
        return log_sum_exp(torch.stack([x + share for x, share in zip(log_probs, shares, strict=True)]), dim=0)


class LogLinear(Combined):
    """The product of the probabilities to the power of their weights.

    Args:
        steppers: the models, over one vocabulary.
        weights: the power of each.
        normalize: divide by the sum over all ids at each step. Without it, as in shallow fusion, hypotheses are ranked
            by the weighted sum of their log-probabilities.
    """

    def __init__(self, steppers: Sequence[Stepper[Any]], weights: Sequence[float], normalize: bool = True) -> None:
        super().__init__(steppers, weights)
        self.normalize = normalize

    def mix(self, log_probs: Sequence[Float[Tensor, "n v"]]) -> Float[Tensor, "n v"]:
        # A weight of 0 ignores impossible ids of its stepper: 0 times -inf would be nan.
        parts = [weight * x for x, weight in zip(log_probs, self.weights, strict=True) if weight > 0]
        mixed = sum(parts[1:], parts[0]) if parts else torch.zeros_like(log_probs[0])
        return log_normalize(mixed) if self.normalize else mixed


def shallow_fusion(model: Stepper[Any], language_model: Stepper[Any], weight: float) -> LogLinear:
    """log p of the model plus ``weight`` times log p of the language model (Gülçehre et al. 2015).

    Args:
        model: the model of the task.
        language_model: a model of the target side, over the same ids.
        weight: weight of the language model.
    """
    return LogLinear([model, language_model], [1.0, weight], normalize=False)
