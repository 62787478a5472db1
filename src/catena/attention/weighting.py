r"""From scores to weights: how sharply, and how far, an attention looks.

``soft`` spreads its weight over all keys that may be looked at (Bahdanau et al. 2015). The others are in
:mod:`catena.attention.hard` and :mod:`catena.attention.local`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from catena.numerics import masked_softmax


class AttentionWeights(NamedTuple):
    """The weights of keys, and what a focus that draws has drawn."""

    weights: Tensor
    """``b h t s``: rows sum to 1, or to 0 where nothing may be looked at."""
    log_prob: Tensor | None = None
    """``b t``: the log-probability of what was drawn, with its gradient; None where nothing was."""


class AttentionWeighting(nn.Module, ABC):
    """Turns scores into weights. Owns no state of a sequence."""

    @abstractmethod
    def forward(
        self,
        scores: Float[Tensor, "b h t s"],
        mask: Bool[Tensor, "b s"],
        query: Float[Tensor, "b t d_query"],
        places: Int[Tensor, "b t"],
    ) -> AttentionWeights:
        """Weigh the keys.

        Args:
            scores: of each key for each query and head.
            mask: the keys that are real.
            query: what looks, for a focus that chooses where by itself.
            places: how many steps came before each query.
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
