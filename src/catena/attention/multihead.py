r"""Attention with several heads.

.. math::  \mathrm{head}_i = \mathrm{softmax}\left(\frac{Q W^Q_i (K W^K_i)^\top}{\sqrt{d / h}}\right) V W^V_i
           \qquad y = [\mathrm{head}_1; \dots; \mathrm{head}_h] W^O

Vaswani et al. 2017, section 3.2. Time O((t + s) d² + t s d). Runs on torch's fused
``scaled_dot_product_attention``; only when the weights are asked for are they formed.
"""

from __future__ import annotations

import math

from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

from catena.attention.attend import Attended
from catena.errors import ShapeError
from catena.numerics import masked_softmax


class MultiHeadAttention(nn.Module):
    """Queries of size ``d`` look at keys of size ``d_keys`` (``d`` if omitted), with ``n_heads`` heads.

    Args:
        rotate: applied to queries and keys of each head, for rotary positions.
        dropout: probability with which a weight is dropped in training.
    """

    def __init__(
        self,
        d: int,
        n_heads: int,
        *,
        d_keys: int | None = None,
        dropout: float = 0.0,
        rotate: nn.Module | None = None,
    ) -> None:
        super().__init__()
        if d % n_heads:
            raise ShapeError(f"d = {d} cannot be shared by n_heads = {n_heads}: choose a d that n_heads divides")
        self.d, self.n_heads, self.dropout = d, n_heads, dropout
        self.query = nn.Linear(d, d)
        self.keys = nn.Linear(d_keys or d, d)
        self.values = nn.Linear(d_keys or d, d)
        self.output = nn.Linear(d, d)
        self.rotate = rotate
        for layer in (self.query, self.keys, self.values, self.output):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)

    def forward(
        self,
        query: Float[Tensor, "b t d"],
        keys: Float[Tensor, "b s d_keys"],
        mask: Bool[Tensor, "#b #t #s"] | None = None,
    ) -> Float[Tensor, "b t d"]:
        """A query that ``mask`` lets look at nothing gets the bias of the output map alone."""
        q, k, v = self._heads(query, keys)
        dropout = self.dropout if self.training else 0.0
        if mask is None:
            return self._join(F.scaled_dot_product_attention(q, k, v, dropout_p=dropout))
        # Backends differ on a row without keys: let it look everywhere, and drop what it finds.
        blind = ~mask.any(-1, keepdim=True)
        found = F.scaled_dot_product_attention(q, k, v, attn_mask=(mask | blind)[:, None], dropout_p=dropout)
        return self._join(found.masked_fill(blind[:, None], 0.0))

    def with_weights(
        self,
        query: Float[Tensor, "b t d"],
        keys: Float[Tensor, "b s d_keys"],
        mask: Bool[Tensor, "#b #t #s"] | None = None,
    ) -> Attended:
        """As the forward pass without dropout, with the weights of each head, ``b h t s``, beside the
        result."""
        q, k, v = self._heads(query, keys)
        scores = q @ k.transpose(-2, -1) / math.sqrt(self.d // self.n_heads)
        weights = masked_softmax(scores, None if mask is None else mask[:, None])
        return Attended(self._join(weights @ v), weights)

    def _heads(self, query: Tensor, keys: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        projected = self.query(query), self.keys(keys), self.values(keys)
        q, k, v = (x.unflatten(-1, (self.n_heads, -1)).transpose(1, 2) for x in projected)  # b h t d
        return (q, k, v) if self.rotate is None else (self.rotate(q), self.rotate(k), v)

    def _join(self, heads: Float[Tensor, "b h t d_head"]) -> Float[Tensor, "b t d"]:
        return self.output(heads.transpose(1, 2).flatten(-2))
