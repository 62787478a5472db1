r"""The Transformer decoder: self-attention, attention to the source, a feed-forward layer.

.. math::
    \text{post} &: x' = \mathrm{norm}(x + \mathrm{part}(x)) \\
    \text{pre} &: x' = x + \mathrm{part}(\mathrm{norm}(x))

for each of the three sublayers. Vaswani et al. 2017, section 3.1. Time O(t² d + t s d + t d² + t d d_ff) for each
layer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from catena.attention.cache import KeyValueCache
from catena.attention.masks import causal_mask
from catena.attention.multihead import MultiHeadAttention
from catena.encoders.transformer import SelfAttentionFn, collect_weights
from catena.seq2seq.grouped import Projected


class DecoderLayer(nn.Module):
    """Three sublayers, each with a norm and a residual connection."""

    def __init__(
        self,
        attention: MultiHeadAttention,
        cross: MultiHeadAttention,
        d_ff: int,
        activation: nn.Module,
        *,
        norm_first: bool = True,
        dropout: float = 0.0,
        ff_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        d = attention.d
        self.attention, self.cross = attention, cross
        self.feed = nn.Sequential(
            nn.Linear(d, d_ff), activation, nn.Dropout(ff_dropout), nn.Linear(d_ff, d)
        )  # fmt: skip
        self.attention_norm, self.cross_norm, self.feed_norm = nn.LayerNorm(d), nn.LayerNorm(d), nn.LayerNorm(d)
        self.norm_first = norm_first
        self.dropout = nn.Dropout(dropout)
        for part in self.feed:
            if isinstance(part, nn.Linear):
                nn.init.xavier_uniform_(part.weight)
                nn.init.zeros_(part.bias)

    def forward(
        self, x: Float[Tensor, "b t d"], look_back: SelfAttentionFn, look_at_source: SelfAttentionFn
    ) -> Float[Tensor, "b t d"]:
        """Apply the layer; the two functions are its self-attention and its attention to the source."""
        parts = ((look_back, self.attention_norm), (look_at_source, self.cross_norm), (self.feed, self.feed_norm))
        for part, norm in parts:
            x = x + self.dropout(part(norm(x))) if self.norm_first else norm(x + self.dropout(part(x)))
        return x


class TransformerDecoder(nn.Module):
    """A stack of decoder layers.

    Args:
        layers: the layers.
        positions: adds positions to the vectors; None for rotary positions.
        dropout: the probability of dropping a unit of the input.
    """

    def __init__(self, layers: Sequence[DecoderLayer], positions: nn.Module | None, dropout: float = 0.0) -> None:
        super().__init__()
        self.positions = positions if positions is not None else nn.Identity()
        self.layers = nn.ModuleList(layers)
        self.leave = nn.LayerNorm(layers[0].attention.d) if layers[0].norm_first else nn.Identity()
        self.dropout = nn.Dropout(dropout)
        self.plan: object = None
        """The copies of the weights for compiled steps."""

    def train(self, mode: bool = True) -> Any:
        """Drop the copies of the weights when the mode changes: fused optimizers change weights unnoticed."""
        if mode != self.training:
            self.plan = None
        return super().train(mode)

    def layer(self, i: int) -> DecoderLayer:
        return cast(DecoderLayer, self.layers[i])

    def project(self, states: Float[Tensor, "b s d"]) -> list[Projected]:
        """The keys and values of a source in every layer."""
        return [cast(Projected, self.layer(i).cross.project(states)) for i in range(len(self.layers))]

    def forward(
        self, x: Float[Tensor, "b t d"], source: Sequence[Projected], mask: Bool[Tensor, "b 1 s"] | None
    ) -> Float[Tensor, "b t d"]:
        """Decode whole targets; each position attends to those before it and, by ``mask``, to the source."""
        x = self.enter(x, 0)
        for i, (keys, values) in enumerate(source):
            layer = self.layer(i)
            x = layer(x, layer.attention.causal, _looking(layer, keys, values, mask))
        return self.leave(x)

    def weights(
        self, x: Float[Tensor, "b t d"], source: Sequence[Projected], mask: Bool[Tensor, "b 1 s"] | None
    ) -> list[Float[Tensor, "b h t s"]]:
        """The attention weights over the source of each layer and head for whole targets."""
        found = []
        x = self.enter(x, 0)
        for i, (keys, values) in enumerate(source):
            layer = self.layer(i)
            seen: list[Tensor] = []
            x = layer(x, layer.attention.causal, _remembering(seen, _looking(layer, keys, values, mask)))
            found.append(layer.cross.weights(seen[0], keys, mask))
        return found

    def own_weights(
        self, x: Float[Tensor, "b t d"], source: Sequence[Projected], mask: Bool[Tensor, "b 1 s"] | None
    ) -> list[Float[Tensor, "b h t t"]]:
        """The self-attention weights of each layer and head for whole targets."""
        found: list[Tensor] = []
        before = causal_mask(x.shape[1], x.shape[1], x.device)[None]
        x = self.enter(x, 0)
        for i, (keys, values) in enumerate(source):
            layer = self.layer(i)
            x = layer(x, collect_weights(layer.attention, before, found), _looking(layer, keys, values, mask))
        return found

    def continue_(
        self,
        x: Float[Tensor, "n t d"],
        cache: KeyValueCache,
        source: Sequence[Projected],
        mask: Bool[Tensor, "b 1 s"] | None,
    ) -> tuple[Float[Tensor, "n t d"], KeyValueCache, Float[Tensor, "n t d"]]:
        """Decode more positions without gradients: the vectors, the cache, and the last layer's queries to the source.

        The ``n`` rows are the same number of adjacent rows for each of the ``b`` sources, treated as several queries of
        one row.
        """
        n, t, d = x.shape
        x = self.enter(x, cache.start)
        cache = cache.grown(t)
        own, seen = cache.mask(t), x
        for i, (keys, values) in enumerate(source):
            layer = self.layer(i)
            kept: list[Tensor] = []
            look = _remembering(kept, _looking(layer, keys, values, mask))

            def look_together(seen: Tensor, look: SelfAttentionFn = look, b: int = len(keys)) -> Tensor:
                return look(seen.reshape(b, n // b * t if b else t, d)).view(n, t, d)

            def look_back(seen: Tensor, i: int = i, attention: MultiHeadAttention = layer.attention) -> Tensor:
                return attention.continued(seen, cache, i, own)

            x = layer(x, look_back, look_together)
            seen = kept[0]
        return self.leave(x), cache, seen.view(n, t, d)

    def enter(self, x: Float[Tensor, "n t d"], start: int | Int[Tensor, " n"]) -> Float[Tensor, "n t d"]:
        """The vectors with their positions."""
        return self.dropout(x if isinstance(self.positions, nn.Identity) else self.positions(x, start))


def _looking(layer: DecoderLayer, keys: Tensor, values: Tensor, mask: Tensor | None) -> SelfAttentionFn:
    return lambda seen: layer.cross.look(seen, keys, values, mask)


def _remembering(seen: list[Tensor], look: SelfAttentionFn) -> SelfAttentionFn:
    def remember(x: Tensor) -> Tensor:
        seen.append(x)
        return look(x)

    return remember
