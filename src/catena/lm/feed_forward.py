r"""The encoder of the feed-forward language model: a hidden layer over the last n vectors.

.. math::  x = [C(w_{t-n+1}); \dots; C(w_t)] \qquad y_t = [\tanh(d + H x); x]

Bengio et al. 2003, section 2: an output layer on :math:`y_t` is their :math:`b + W x + U \tanh(d + H x)`. The second
part of y makes W the direct connections from the words to the output, and is omitted without them. Vectors before the
beginning of a sequence are 0. Time O(n d_in d) for each position.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from catena.encoders.conv_state import CausalConvEncoder, ConvState, append_to_state


class FeedForward(CausalConvEncoder):
    """Encodes each position together with the ``context - 1`` before it.

    Args:
        d_in: the size of an input vector.
        d: the number of hidden units; 0 for only direct connections.
        context: the number of vectors in a window; the order of the n-grams is one more.
        direct: whether to append the vectors themselves to the hidden units.
        dropout: the probability of dropping a hidden unit.
    """

    def __init__(self, d_in: int, d: int, context: int, *, direct: bool = True, dropout: float = 0.0) -> None:
        super().__init__()
        self.d_in, self.context, self.direct = d_in, context, direct
        self.d_out = d + (context * d_in if direct else 0)
        self.tail_sizes = [(context - 1, d_in)]
        self.hidden = nn.Linear(context * d_in, d)
        self.dropout = nn.Dropout(dropout)

    def encode(
        self, x: Float[Tensor, "b t d_in"], lengths: Int[Tensor, " b"], mask: Bool[Tensor, "b t"]
    ) -> Float[Tensor, "b t d_out"]:
        return self.whole(x)

    def continue_(self, x: Float[Tensor, "b t d_in"], state: ConvState) -> tuple[Float[Tensor, "b t d_out"], ConvState]:
        joined, tail = append_to_state(state[0], x)
        windows = joined.unfold(1, self.context, 1).transpose(2, 3).flatten(2)  # b t (context d_in), oldest first
        hidden = self.dropout(torch.tanh(self.hidden(windows)))
        return torch.cat((hidden, windows), dim=-1) if self.direct else hidden, (tail,)
