r"""A recurrent encoder that attends to its own states.

.. math::  h_t = \mathrm{Enc}(x_t, h_{t-1}) \qquad a = \mathrm{Att}(H, h_t) \qquad d = \mathrm{softmax}(a)
           \qquad y_t = \mathrm{Dec}(h_t, H d)

with :math:`\mathrm{Dec}(h, m) = \tanh(W [h; m] + b)` (Luong et al. 2015, equation 5) and the states of the
whole sequence, or only up to t, as the columns of H (Cheng et al. 2016). Time O(t² d) in addition to the
recurrent encoder.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from catena.attention.base import attend
from catena.attention.masks import attention_mask
from catena.attention.scores import AttentionScore
from catena.encoders.base import Encoder


class SelfAttentiveRecurrent(Encoder):
    """The states of ``recurrent``, each combined with its attention to all of them.

    Args:
        recurrent: computes the states; with ``causal`` it must be unidirectional.
        score: the attention score.
        causal: each state attends only to itself and those before it.
    """

    def __init__(self, recurrent: Encoder, score: AttentionScore, *, causal: bool = False) -> None:
        super().__init__()
        self.d_in, self.d_out = recurrent.d_in, recurrent.d_out
        self.recurrent, self.score, self.causal = recurrent, score, causal
        self.join = nn.Linear(2 * self.d_out, self.d_out)

    def encode(
        self, x: Float[Tensor, "b t d_in"], lengths: Int[Tensor, "b"], mask: Bool[Tensor, "b t"]
    ) -> Float[Tensor, "b t d_out"]:
        states = self.recurrent(x, lengths)
        found = attend(states, states, states, attention_mask(lengths, x.shape[1], self.causal), self.score)
        return torch.tanh(self.join(torch.cat((states, found.context), dim=-1)))
