r"""Attention of a checklist model to the words of its goal and its items.

The words are encoded by a bidirectional network. The state after each step attends to them, and the context is added to
the language model's vector, which the next step reads with its word:

.. math::
    w_{tj} = \mathrm{softmax}_j(v \cdot \tanh(Q h_t + K m_j)) \qquad c_t = \sum_j w_{tj} m_j \qquad
    \tilde h_t = \tanh(P h_t + S c_t)

The score of Bahdanau et al. 2015 in the order of Luong et al. 2015: attention before the step would not know the last
word. The agenda represents an item only as the sum of its words, without their order and its position on
the list; so an item's score also depends on its encoded words. A text starts from the last states
of both directions.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from catena.encoders.build import build_encoder
from catena.encoders.config import RecurrentConfig
from catena.numerics import NEG_INF
from catena.shapes import mask_from_lengths

LEAST = 1e-12
"""The smallest sum whose logarithm is taken."""


class AgendaWords(NamedTuple):
    """The encoded words of a source, projected once."""

    states: Float[Tensor, "b s c"]
    keys: Float[Tensor, "b s a"]
    closed: Float[Tensor, "b s"]
    """0 for a word, -inf for padding."""
    last: Float[Tensor, "b c"]
    """The last states of both directions."""


class ChecklistEncoder(nn.Module):
    """A bidirectional recurrent network over the words, and an additive attention of ``d`` units to its states.

    Args:
        d_embedding: the size of a word vector.
        d: the number of units, even, half for each direction.
    """

    def __init__(self, d_embedding: int, d: int) -> None:
        super().__init__()
        settings = RecurrentConfig(cell="gru", d=d // 2, bidirectional=True)
        self.encoder = build_encoder(settings, d_embedding)
        self.d_query, self.d_out = d, self.encoder.d_out
        self.keys = nn.Linear(self.d_out, d)
        self.weight = nn.Linear(d, 1, bias=False)

    def forward(self, embedded: Float[Tensor, "b s e"], lengths: Int[Tensor, " b"]) -> AgendaWords:
        states = self.encoder(embedded, lengths)
        real = mask_from_lengths(lengths, states.shape[1])
        closed = torch.zeros_like(states[..., 0]).masked_fill(~real, NEG_INF)
        rows, half = torch.arange(len(states), device=states.device), self.d_out // 2
        last = torch.cat((states[rows, lengths - 1, :half], states[:, 0, half:]), dim=1)
        return AgendaWords(states, self.keys(states), closed, last)

    def look(
        self,
        query: Float[Tensor, "b a"],
        states: Float[Tensor, "b s c"],
        keys: Float[Tensor, "b s a"],
        closed: Float[Tensor, "b s"],
    ) -> tuple[Float[Tensor, "b s"], Float[Tensor, "b c"]]:
        """The attention scores of a query for each word, and the context."""
        scores = self.weight(torch.tanh(query[:, None] + keys))[:, :, 0] + closed
        return scores, torch.bmm(torch.softmax(scores, dim=1)[:, None], states)[:, 0]


def log_sums(scores: Float[Tensor, "b s"], belongs: Float[Tensor, "b s n"]) -> Float[Tensor, "b n"]:
    """log Σ exp of the scores that belong to each of n; finite also where none does."""
    top = scores.amax(dim=1, keepdim=True).detach()
    sums = torch.bmm((scores - top).exp()[:, None], belongs)[:, 0]
    return sums.clamp(min=LEAST).log() + top
