r"""Local attention: a window of :math:`2D + 1` keys around a position :math:`p_t`.

* ``LocalMonotonic`` (local-m): :math:`p_t = t`, for monotonic alignments; if the target is longer than the source, the
  window stays at the end of the source.
* ``LocalPredictive`` (local-p): :math:`p_t = S\, \sigma(v \cdot \tanh(W q_t))` with S the length of the source, and
  keys near it are preferred:

  .. math::  w_{ts} = \mathrm{softmax}_{s' \in [p_t - D,\, p_t + D]}(a_{ts'})\;
             \exp\left(-\frac{(s - p_t)^2}{2 (D / 2)^2}\right)

Luong et al. 2015, section 3.2. Positions count from 0. The weights of local-p sum to less than 1.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from catena.attention.weighting import AttentionWeighting, AttentionWeights
from catena.numerics import masked_softmax


class LocalMonotonic(AttentionWeighting):
    """The keys ``window`` to the left and right of the step's index.

    Args:
        window: number of keys on each side of the center.
    """

    def __init__(self, window: int) -> None:
        super().__init__()
        self.window = window

    def forward(
        self,
        scores: Float[Tensor, "b h t s"],
        mask: Bool[Tensor, "b s"],
        query: Float[Tensor, "b t d_query"],
        places: Int[Tensor, "b t"],
    ) -> AttentionWeights:
        lengths = mask.sum(dim=1)
        center = torch.minimum(places, (lengths - 1).clamp_min(0)[:, None])
        far = torch.arange(scores.shape[-1], device=scores.device) - center[..., None]  # b t s
        near = mask[:, None] & (far.abs() <= self.window)
        return AttentionWeights(masked_softmax(scores, near[:, None]))


class LocalPredictive(AttentionWeighting):
    """The keys ``window`` to the left and right of a position that the query predicts.

    Args:
        d_query: size of a query.
        window: number of keys on each side of the predicted position; the weights fall off as a Gaussian whose
            standard deviation is half of it.
    """

    def __init__(self, d_query: int, window: int) -> None:
        super().__init__()
        self.window = window
        self.hidden = nn.Linear(d_query, d_query, bias=False)
        self.position = nn.Linear(d_query, 1, bias=False)

    def forward(
        self,
        scores: Float[Tensor, "b h t s"],
        mask: Bool[Tensor, "b s"],
        query: Float[Tensor, "b t d_query"],
        places: Int[Tensor, "b t"],
    ) -> AttentionWeights:
        share = torch.sigmoid(self.position(torch.tanh(self.hidden(query))))  # b t 1
        share = share.to(torch.promote_types(share.dtype, torch.float32))  # half precision is inexact above 256
        far = torch.arange(scores.shape[-1], device=scores.device) - share * mask.sum(dim=1)[:, None, None]
        near = mask[:, None] & (far.detach().abs() <= self.window)
        bell = torch.exp(-2 * (far / self.window).square())
        return AttentionWeights(masked_softmax(scores, near[:, None]) * bell[:, None].to(scores.dtype))
