r"""Linear mixtures of language models, fitted weights, and a cache model of recent words.

.. math::  p(w \mid h) = \sum_m \lambda_m\, p_m(w \mid h)

For log-linear mixtures see :class:`catena.search.combine.LogLinear`: they need no training, but a sum over all words.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from catena.data.special_tokens import BEGIN_SYMBOL, END_SYMBOL, UNK_SYMBOL
from catena.data.vocabulary import Vocabulary
from catena.errors import DataError, ShapeError
from catena.lm.base import AutoregressiveLM
from catena.numerics import log_sum_exp, safe_log
from catena.search.combine import Combined
from catena.search.stepper import checked_lengths

# --- weights -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class MixtureFit:
    """Weights from expectation-maximization, and the mean log-probability of a token before each step."""

    weights: tuple[float, ...]
    log_likelihoods: tuple[float, ...]


def mix_log_probs(log_probs: Float[Tensor, "m *places"], weights: Sequence[float]) -> Float[Tensor, "*places"]:
    """log Σ λₘ pₘ, where ``log_probs[m]`` are the log-probabilities of model m."""
    logs = safe_log(_checked(weights, len(log_probs)).to(log_probs))
    return log_sum_exp(log_probs + logs.reshape(-1, *([1] * (log_probs.dim() - 1))), dim=0)


def fit_weights(
    log_probs: Float[Tensor, "m n"], most: int = 1000, tolerance: float = 1e-9, start: Sequence[float] | None = None
) -> MixtureFit:
    """The mixture weights that maximize the likelihood of a text.

    Each step of expectation-maximization sets a model's weight to its mean responsibility for the tokens, and never
    lowers the likelihood (Dempster et al. 1977); the likelihood is concave, so the result is the global maximum. A
    weight that starts at 0 stays there.

    Args:
        log_probs: ``log_probs[m, i]`` is the log-probability of token i by model m.
        most: the maximum number of steps.
        tolerance: stop when the mean log-probability of a token gains less than this.
        start: the initial weights; all equal by default.
    """
    m, n = log_probs.shape
    lost = int((log_probs.amax(dim=0) == -math.inf).sum()) if m and n else 0
    if not m or not n or lost:
        raise DataError(
            f"log_probs must have at least one model, one token, and no token that is impossible for all models, got "
            f"{m} models, {n} tokens and {lost} impossible ones. Use another text, or add a model."
        )
    weights = _checked(start or [1.0 / m] * m, m)
    scores, reached = log_probs.double(), []
    for _ in range(most):
        joint = scores + safe_log(weights)[:, None]
        tokens = log_sum_exp(joint, dim=0)
        reached.append(float(tokens.mean()))
        if len(reached) > 1 and reached[-1] - reached[-2] < tolerance:
            break
        weights = (joint - tokens).exp().mean(dim=1)
        weights = weights / weights.sum()
    return MixtureFit(tuple(weights.tolist()), tuple(reached))


def _checked(weights: Sequence[float], m: int) -> Tensor:
    found = torch.tensor(list(weights), dtype=torch.float64)
    if len(found) != m or bool((found < 0).any()) or abs(float(found.sum()) - 1.0) > 1e-6:
        raise DataError(f"weights must be {m} weights from 0 that sum to 1, got {list(weights)}. Normalize them.")
    return found


# --- mixtures ----------------------------------------------------------------------------------------------------


class LinearMixture(Combined, AutoregressiveLM[tuple[Any, ...]]):
    """A linear mixture of language models over one vocabulary. A state is a tuple of their states.

    Args:
        models: the models, with the same vocabulary.
        weights: one for each, at least 0, with sum 1. See :func:`fit_weights`.
    """

    def __init__(self, models: Sequence[AutoregressiveLM[Any]], weights: Sequence[float]) -> None:
        super().__init__(models, _checked(weights, len(models)).tolist())
        self.models = tuple(models)

    @property
    def vocabulary(self) -> Vocabulary:
        return self.models[0].vocabulary

    def mix(self, log_probs: Sequence[Float[Tensor, "n v"]]) -> Float[Tensor, "n v"]:
        return mix_log_probs(torch.stack(list(log_probs)), self.weights)

    def token_log_probs(self, ids: Int[Tensor, "n t"], lengths: Int[Tensor, " n"]) -> Float[Tensor, "n t"]:
        rows = [model.token_log_probs(ids.to(model.device), lengths.to(model.device)) for model in self.models]
        found = mix_log_probs(torch.stack([row.to(ids.device) for row in rows]), self.weights)
        return torch.where(torch.arange(ids.shape[1], device=ids.device) < lengths[:, None], found, 0.0)


# --- recent words ------------------------------------------------------------------------------------------------


class CacheModel(AutoregressiveLM[Tensor]):
    """p(w) by the frequency of w among the last words, with weights that decay (Kuhn & De Mori 1990).

    New words are impossible, so use it in mixtures only. At the beginning all words that a text may
    contain have the same probability. Rows of a state are the last words, -1 where there are none.

    Args:
        vocabulary: the tokens of the ids.
        size: the number of words in the cache.
        decay: the weight of a word relative to the one after it.
    """

    def __init__(self, vocabulary: Vocabulary, size: int = 200, decay: float = 1.0) -> None:
        if size < 1 or not 0.0 < decay <= 1.0:
            raise DataError(
                f"size must be at least 1 and decay above 0 and at most 1, got {size} and {decay:g}. Use size = 200, "
                "decay = 1."
            )
        self._vocabulary, self.size, self.decay = vocabulary, size, decay
        self.v, self.end = len(vocabulary), vocabulary.special(END_SYMBOL)
        vocabulary.special(BEGIN_SYMBOL)
        hidden = [vocabulary.special(s) for s in vocabulary.specials if s not in (UNK_SYMBOL, END_SYMBOL)]
        self._even = torch.ones(self.v)
        self._even[hidden] = 0.0
        self._even /= self._even.sum()
        self._weights = decay ** torch.arange(size - 1, -1, -1, dtype=torch.float32)

    @property
    def vocabulary(self) -> Vocabulary:
        return self._vocabulary

    @property
    def device(self) -> torch.device:
        return torch.device("cpu")

    def start(self, n: int) -> Int[Tensor, "n size"]:
        return torch.full((n, self.size), -1)

    def log_probs(self, state: Int[Tensor, "n size"]) -> Float[Tensor, "n v"]:
        weights = torch.where(state >= 0, self._weights, 0.0)
        counts = torch.zeros(len(state), self.v).scatter_add(1, state.clamp(min=0), weights)
        total = counts.sum(dim=1, keepdim=True)
        return safe_log(torch.where(total > 0, counts / total.clamp(min=1e-30), self._even))

    def advance(self, state: Int[Tensor, "n size"], ids: Int[Tensor, " n"]) -> Int[Tensor, "n size"]:
        return torch.cat((state[:, 1:], ids[:, None]), dim=1)

    def select(self, state: Int[Tensor, "n size"], rows: Int[Tensor, " m"]) -> Int[Tensor, "m size"]:
        return state[rows]

    def join(self, states: Sequence[Int[Tensor, "_ size"]]) -> Int[Tensor, "n size"]:
        return torch.cat(list(states))

    def token_log_probs(self, ids: Int[Tensor, "n t"], lengths: Int[Tensor, " n"]) -> Float[Tensor, "n t"]:
        found = torch.zeros(ids.shape)
        for row, own, length in zip(found, ids, checked_lengths(ids, lengths), strict=True):
            row[:length] = self.text_log_probs(own[:length])
        return found

    def text_log_probs(self, ids: Int[Tensor, " n"]) -> Float[Tensor, " n"]:
        """The log-probability of each id given all before it, across the ends of sentences, for a whole document.

        Time O(n), for any cache size.
        """
        if ids.numel() and not (int(ids.min()) >= 0 and int(ids.max()) < self.v):
            raise ShapeError(
                f"ids must be from 0 to {self.v - 1}, got {int(ids.min())} to {int(ids.max())}. Use the "
                "vocabulary's ids."
            )
        listed = ids.tolist()
        known: dict[int, _Remembered] = {}
        found, total, oldest = [], 0.0, self.decay**self.size
        for t, word in enumerate(listed):
            weight = known[word].weight_at(t, self.decay) if word in known else 0.0
            p = weight / total if t else float(self._even[word])
            found.append(math.log(p) if p > 0 else -math.inf)
            known.setdefault(word, _Remembered()).change(t + 1, self.decay, 1.0, 1)
            total = total * self.decay + 1.0
            if t >= self.size:
                known[listed[t - self.size]].change(t + 1, self.decay, -oldest, -1)
                total -= oldest
        return torch.tensor(found)


@dataclass
class _Remembered:
    """The cache entry of one word: its weight at the last change, the time of that change, and its count in the cache.

    The count is needed because differences of weights are rounded, so a weight near 0 may be an old word.
    """

    weight: float = 0.0
    since: int = 0
    times: int = 0

    def weight_at(self, t: int, decay: float) -> float:
        return self.weight * decay ** (t - self.since) if self.times else 0.0

    def change(self, t: int, decay: float, by: float, times: int) -> None:
        self.weight, self.since, self.times = self.weight_at(t, decay) + by, t, self.times + times
