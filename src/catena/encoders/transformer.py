r"""The Transformer encoder.

.. math::
    \text{post} &: y = \mathrm{norm}(x + \mathrm{attend}(x)) \quad z = \mathrm{norm}(y + \mathrm{feed}(y)) \\
    \text{pre} &: y = x + \mathrm{attend}(\mathrm{norm}(x)) \quad z = y + \mathrm{feed}(\mathrm{norm}(y))

with :math:`\mathrm{feed}(x) = W_2 f(W_1 x + b_1) + b_2`. Vaswani et al. 2017, sections 3.1 to 3.3; the pre
variant, which ends with one more norm, Xiong et al. 2020, table 1. Time O(t² d + t d² + t d d_ff) for each
layer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from catena.accelerators import accelerator
from catena.attention.cache import KeyValueCache
from catena.attention.masks import attention_mask
from catena.attention.multihead import MultiHeadAttention
from catena.encoders.causal import CausalEncoder
from catena.encoders.transformer_step import FlatPlan, StepPlan
from catena.shapes import mask_from_lengths

SelfAttentionFn = Callable[[Float[Tensor, "b t d"]], Float[Tensor, "b t d"]]
"""Self-attention of a layer."""


class TransformerLayer(nn.Module):
    """Self-attention and a feed-forward layer, each with a norm and a residual connection."""

    def __init__(
        self,
        attention: MultiHeadAttention,
        d_ff: int,
        activation: nn.Module,
        *,
        norm_first: bool = True,
        dropout: float = 0.0,
        ff_dropout: float | None = None,
    ) -> None:
        """``ff_dropout`` applies to the units of the feed-forward layer; ``dropout`` by default."""
        super().__init__()
        d = attention.d
        self.attention = attention
        within = nn.Dropout(dropout if ff_dropout is None else ff_dropout)
        self.feed = nn.Sequential(nn.Linear(d, d_ff), activation, within, nn.Linear(d_ff, d))
        self.attention_norm, self.feed_norm = nn.LayerNorm(d), nn.LayerNorm(d)
        self.norm_first = norm_first
        self.dropout = nn.Dropout(dropout)
        for part in self.feed:
            if isinstance(part, nn.Linear):
                nn.init.xavier_uniform_(part.weight)
                nn.init.zeros_(part.bias)

    def forward(
        self,
        x: Float[Tensor, "b t d"],
        look: SelfAttentionFn,
    ) -> Float[Tensor, "b t d"]:
        """``look`` is the self-attention, by this layer's weights."""
        if self.norm_first:
            x = x + self.dropout(look(self.attention_norm(x)))
            return x + self.dropout(self.feed(self.feed_norm(x)))
        x = self.attention_norm(x + self.dropout(look(x)))
        return self.feed_norm(x + self.dropout(self.feed(x)))

    @torch.no_grad()
    def draw_small(self, n_parts: int) -> None:
        """Initialize every matrix from a normal distribution with deviation 0.02 (Radford et al. 2019, section 2.3).

        Output matrices of sublayers are divided by the square root of the number of sublayers, so that the sum of all
        sublayers stays small.
        """
        last = (self.attention.output, self.feed[3])
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.normal_(module.weight, std=0.02 / math.sqrt(n_parts) if module in last else 0.02)


class TransformerEncoder(CausalEncoder):
    """A stack of Transformer layers. Inputs of another size than the layers' are projected first.

    Args:
        d_in: the size of an input vector.
        layers: the layers.
        positions: adds positions to the vectors; None for rotary or no positions.
        causal: each position attends only to itself and those before it.
        dropout: the probability of dropping a unit of the input.
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
        self.looks_ahead = not causal
        self.cache_shape = layers[0].attention.n_kv_heads, layers[0].attention.d_head
        self.enter = nn.Linear(d_in, d) if d_in != d else nn.Identity()
        self.positions = positions if positions is not None else nn.Identity()
        self.layers = nn.ModuleList(layers)
        self.leave = nn.LayerNorm(d) if layers[-1].norm_first else nn.Identity()
        self.dropout = nn.Dropout(dropout)
        self._plan: StepPlan | None = None

    def encode(
        self, x: Float[Tensor, "b t d_in"], lengths: Int[Tensor, "b"], mask: Bool[Tensor, "b t"]
    ) -> Float[Tensor, "b t d_out"]:
        if self.causal:  # padding is after all real positions, which do not attend to it
            return self.whole(x)
        may_look = attention_mask(lengths, x.shape[1])
        x = self._enter(x, 0)
        if x.device.type == "cpu" and not torch.is_grad_enabled() and not torch.jit.is_tracing():
            return self._without_padding(x, mask, may_look)
        for layer in self.layers:
            x = layer(x, lambda seen, attention=layer.attention: attention(seen, seen, may_look))
        return self.leave(x)

    def _without_padding(
        self, x: Float[Tensor, "b t d"], mask: Bool[Tensor, "b t"], may_look: Bool[Tensor, "b 1 t"]
    ) -> Float[Tensor, "b t d"]:
        """The same, with positionwise layers applied to the real positions only."""
        places = mask.flatten().nonzero()[:, 0]
        real = x.flatten(0, 1)[places][None]
        for layer in self.layers:
            attention = cast(TransformerLayer, layer).attention
            real = layer(real, lambda seen, attention=attention: attention.packed(seen, places, may_look))
        return torch.zeros_like(x).flatten(0, 1).index_copy_(0, places, self.leave(real)[0]).view(x.shape)

    @torch.no_grad()
    def self_attention(self, x: Float[Tensor, "b t d_in"], lengths: Int[Tensor, "b"]) -> list[Float[Tensor, "b h t t"]]:
        t = x.shape[1]
        real = mask_from_lengths(lengths, t)
        may_look = attention_mask(lengths, t, self.causal)
        found: list[Tensor] = []
        x = self._enter(x.masked_fill(~real[..., None], 0.0), 0)
        for layer in self.layers:
            x = layer(x, collect_weights(cast(TransformerLayer, layer).attention, may_look, found))
        return [weights.masked_fill(~real[:, None, :, None], 0.0) for weights in found]

    def whole(self, x: Float[Tensor, "b t d_in"]) -> Float[Tensor, "b t d_out"]:
        self.check_causal()
        x = self._enter(x, 0)
        for layer in self.layers:
            x = layer(x, cast(TransformerLayer, layer).attention.causal)
        return self.leave(x)

    def train(self, mode: bool = True) -> Any:
        """Drop the copies of the weights when the mode changes: fused optimizers change weights unnoticed."""
        if mode != self.training:
            self._plan = None
        return super().train(mode)

    def begin(self, b: int, device: torch.device, dtype: torch.dtype) -> KeyValueCache:
        self.check_causal()
        return KeyValueCache.empty(len(self.layers), b, *self.cache_shape, device, dtype)

    def continue_(
        self, x: Float[Tensor, "b t d_in"], state: KeyValueCache
    ) -> tuple[Float[Tensor, "b t d_out"], KeyValueCache]:
        """Read one or more positions. No gradient flows into the past: a cache holds values only."""
        t = x.shape[1]
        x = self._enter(x, state.start)
        state = state.grown(t)
        if t == 1 and not self.training and not torch.is_grad_enabled():
            plan = self._step_plan()
            if plan.takes(x, state):
                return plan.step(x[:, 0], state)[:, None], state
        mask = state.mask(t)
        for i, layer in enumerate(self.layers):
            x = layer(x, lambda seen, i=i, attention=layer.attention: attention.continued(seen, state, i, mask))
        return self.leave(x), state

    def select(self, state: KeyValueCache, rows: Int[Tensor, " m"]) -> KeyValueCache:
        return state.select(rows)

    def join(self, states: Sequence[KeyValueCache]) -> KeyValueCache:
        return KeyValueCache.join(states)

    def detach(self, state: KeyValueCache) -> KeyValueCache:
        return state

    def _step_plan(self) -> StepPlan:
        if self._plan is None or not self._plan.is_current():
            self._plan = accelerator("encoder")(self) or FlatPlan(list(self.layers), self.leave)
        return self._plan

    def _enter(self, x: Float[Tensor, "b t d_in"], start: int | Int[Tensor, " b"]) -> Float[Tensor, "b t d"]:
        x = x if isinstance(self.enter, nn.Identity) else self.enter(x)
        x = x if isinstance(self.positions, nn.Identity) else self.positions(x, start)
        return self.dropout(x) if self.training else x


def collect_weights(
    attention: MultiHeadAttention, mask: Bool[Tensor, "#b #t t"], kept: list[Tensor]
) -> SelfAttentionFn:
    """Self-attention that appends its weights, ``b h t t``, to ``kept``."""

    def look(seen: Float[Tensor, "b t d"]) -> Float[Tensor, "b t d"]:
        found, weights = attention.with_weights(seen, seen, mask)
        kept.append(weights)
        return found

    return look
