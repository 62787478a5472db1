r"""Target densities of Markov chains over sequences: weights of sequences, known up to a constant.

.. math::  \pi(x) \propto p(x)\, c(o \mid x)

For correction, p is a language model and c a channel: π is the posterior of the true text, given the observed one.
Weights are cached, since chains return to the same sequences often.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import product
from typing import Any

import torch

from catena.errors import LimitError
from catena.search.channel import EditChannel
from catena.search.stepper import Stepper

TokenIds = tuple[int, ...]
_ROWS = 256
"""The number of sequences that are scored in one batch."""


class TargetDensity(ABC):
    """A distribution over sequences, up to a constant."""

    def __init__(self) -> None:
        self._known: dict[TokenIds, float] = {}

    @abstractmethod
    def score(self, sequences: Sequence[TokenIds]) -> list[float]:
        """The log-weights of sequences that are not in the cache."""

    def log_weights(self, sequences: Sequence[TokenIds]) -> list[float]:
        """The log-weights of sequences, -inf for impossible ones."""
        new = [ids for ids in dict.fromkeys(sequences) if ids not in self._known]
        for first in range(0, len(new), _ROWS):
            some = new[first : first + _ROWS]
            self._known.update(zip(some, self.score(some), strict=True))
        return [self._known[ids] for ids in sequences]

    def exact(self, symbols: Sequence[int], max_length: int, limit: int = 1_000_000) -> dict[TokenIds, float]:
        """The probability of every sequence of at most ``max_length`` symbols, most probable first, by enumeration."""
        symbols = list(dict.fromkeys(symbols))
        n = sum(len(symbols) ** length for length in range(max_length + 1))
        if n > limit:
            raise LimitError(
                f"The number of sequences of at most {max_length} of {len(symbols)} symbols must be at most limit = "
                f"{limit}, got {n}. Use metropolis_hastings or gibbs."
            )
        everything = [ids for length in range(max_length + 1) for ids in product(symbols, repeat=length)]
        weights = self.log_weights(everything)
        top = max(weights)
        total = math.fsum(math.exp(weight - top) for weight in weights)
        shares = {ids: math.exp(weight - top) / total for ids, weight in zip(everything, weights, strict=True)}
        return dict(sorted(shares.items(), key=lambda item: -item[1]))


class Texts(TargetDensity):
    """p(x) of a stepper, the end included."""

    def __init__(self, stepper: Stepper[Any]) -> None:
        super().__init__()
        self.stepper = stepper

    @torch.no_grad()
    def score(self, sequences: Sequence[TokenIds]) -> list[float]:
        ids, lengths = pad_ids([(*ids, self.stepper.end) for ids in sequences], self.stepper.end)
        return self.stepper.token_log_probs(ids, lengths).double().sum(dim=1).tolist()


class NoisyChannelPosterior(TargetDensity):
    """The posterior of the true text given an observed one, from a language model and a channel.

    Args:
        stepper: the language model.
        channel: the model of errors.
        observed: the ids of the observed text.
        sharpness: the exponent of the language model; above 1 gives it more weight than the channel.
    """

    def __init__(
        self, stepper: Stepper[Any], channel: EditChannel, observed: Sequence[int], sharpness: float = 1.0
    ) -> None:
        super().__init__()
        self.texts, self.observed, self.sharpness = Texts(stepper), channel.given(observed), sharpness

    def score(self, sequences: Sequence[TokenIds]) -> list[float]:
        ids, lengths = pad_ids(sequences, self.observed.channel.symbols[0])
        seen = self.observed.log_prob(ids, lengths).tolist()
        return [self.sharpness * p + q for p, q in zip(self.texts.score(sequences), seen, strict=True)]


def pad_ids(sequences: Sequence[TokenIds], filler: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Sequences of ids as the rows of one tensor, padded at the end with ``filler``, and their lengths."""
    lengths = torch.tensor([len(ids) for ids in sequences], dtype=torch.int64)
    t = max((len(ids) for ids in sequences), default=0)
    ids = torch.tensor([[*ids, *[filler] * (t - len(ids))] for ids in sequences], dtype=torch.int64)
    return ids.reshape(len(sequences), t), lengths
