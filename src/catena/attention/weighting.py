r"""Weightings: from attention scores to attention weights.

``soft`` distributes the weight over all keys that the mask allows (Bahdanau et al. 2015). The others are in
:mod:`catena.attention.hard` and :mod:`catena.attention.local`.

Tested in tests/attention/test_unseen.py and tests/attention/test_hard.py.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from catena.numerics import masked_softmax


class AttentionWeights(NamedTuple):
    """Attention weights and, if a key was sampled, its log-probability."""

    weights: Tensor
    """``b h t s``: rows sum to 1, or to 0 if the mask allows nothing."""
    log_prob: Tensor | None = None
    """``b t``: the log-probability of the sampled key, with its gradient; None if nothing was sampled."""


class AttentionWeighting(nn.Module, ABC):
    """Abstract map from scores to weights, without a state for sequences."""

    @abstractmethod
    def forward(
        self,
        scores: Float[Tensor, "b h t s"],
        mask: Bool[Tensor, "b s"],
        query: Float[Tensor, "b t d_query"],
        places: Int[Tensor, "b t"],
    ) -> AttentionWeights:
        """The weights of the keys.

        Args:
            scores: of each key for each query and head.
            mask: True at real keys.
            query: the queries, for weightings that predict a position from them.
            places: the number of steps before each query.
        """


class SoftAttention(AttentionWeighting):
    """The softmax of the scores."""

    def forward(
        self,
        scores: Float[Tensor, "b h t s"],
        mask: Bool[Tensor, "b s"],
        query: Float[Tensor, "b t d_query"],
        places: Int[Tensor, "b t"],
    ) -> AttentionWeights:
        return AttentionWeights(masked_softmax(scores, mask[:, None, None, :]))
