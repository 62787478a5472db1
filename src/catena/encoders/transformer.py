r"""The Transformer encoder.

.. math::
    \text{post} &: y = \mathrm{norm}(x + \mathrm{attend}(x)) \quad z = \mathrm{norm}(y + \mathrm{feed}(y)) \\
    \text{pre} &: y = x + \mathrm{attend}(\mathrm{norm}(x)) \quad z = y + \mathrm{feed}(\mathrm{norm}(y))

with :math:`\mathrm{feed}(x) = W_2 f(W_1 x + b_1) + b_2`. Vaswani et al. 2017, sections 3.1 to 3.3; the pre
form, which ends with one more norm, Xiong et al. 2020, table 1. Time O(t² d + t d² + t d d_feed) for each
layer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from catena.attention.masks import attention_mask
from catena.attention.multihead import MultiHeadAttention
from catena.encoders.base import Encoder


class TransformerLayer(nn.Module):
    """Self-attention and a feed-forward layer, each with its norm and a way round it."""

    def __init__(
        self,
        attention: MultiHeadAttention,
        d_feed: int,
        activation: nn.Module,
        *,
        norm_first: bool = True,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        d = attention.d
        self.attention = attention
        self.feed = nn.Sequential(nn.Linear(d, d_feed), activation, nn.Dropout(dropout), nn.Linear(d_feed, d))
        self.attention_norm, self.feed_norm = nn.LayerNorm(d), nn.LayerNorm(d)
        self.norm_first = norm_first
        self.dropout = nn.Dropout(dropout)
        for part in self.feed:
            if isinstance(part, nn.Linear):
                nn.init.xavier_uniform_(part.weight)
                nn.init.zeros_(part.bias)

    def forward(self, x: Float[Tensor, "b t d"], mask: Bool[Tensor, "#b #t s"]) -> Float[Tensor, "b t d"]:
        if self.norm_first:
            seen = self.attention_norm(x)
            x = x + self.dropout(self.attention(seen, seen, mask))
            return x + self.dropout(self.feed(self.feed_norm(x)))
        x = self.attention_norm(x + self.dropout(self.attention(x, x, mask)))
        return self.feed_norm(x + self.dropout(self.feed(x)))

    @torch.no_grad()
    def shrink(self, layer: int) -> None:
        """Divide every matrix by the square root of the layer's number, from 1 (Zhang et al. 2019, section
        4)."""
        for module in self.modules():
            if isinstance(module, nn.Linear):
                module.weight /= math.sqrt(layer)


class Transformer(Encoder):
    """A stack of Transformer layers.

    Args:
        positions: adds positions to the vectors, or None where the attention turns them itself or none are
            wanted.
        causal: each position looks at itself and those before it alone.

    Vectors of another size than the layers' are first mapped to it.
    """

    def __init__(
        self,
        d_in: int,
        layers: Sequence[TransformerLayer],
        *,
        positions: nn.Module | None = None,
        causal: bool = False,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        d = layers[0].attention.d
        self.d_in, self.d_out, self.causal = d_in, d, causal
        self.enter = nn.Linear(d_in, d) if d_in != d else nn.Identity()
        self.positions = positions if positions is not None else nn.Identity()
        self.layers = nn.ModuleList(layers)
        self.leave = nn.LayerNorm(d) if layers[-1].norm_first else nn.Identity()
        self.dropout = nn.Dropout(dropout)

    def encode(
        self, x: Float[Tensor, "b t d_in"], lengths: Int[Tensor, "b"], mask: Bool[Tensor, "b t"]
    ) -> Float[Tensor, "b t d_out"]:
        may_look = attention_mask(lengths, x.shape[1], self.causal)
        x = self.dropout(self.positions(self.enter(x)))
        for layer in self.layers:
            x = layer(x, may_look)
        return self.leave(x)
