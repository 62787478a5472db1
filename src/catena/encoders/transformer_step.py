"""One step of a causal Transformer without gradients, optimized for single positions.

In a step for one position, call overhead takes most of the time, and products with few rows are limited by memory
bandwidth. So a second copy of the weights is kept, concatenated and laid out for that. :class:`FlatPlan` makes a few
calls of torch for each layer; the engine (``catena.engine``) has a compiled step for a CPU in single precision. The
reference implementation in :mod:`catena.encoders.transformer` defines the correct result.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, cast

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from catena.attention.cache import KeyValueCache

_VERSION = attrgetter("_version")
"""The version counter of a tensor."""


class PackedWeights:
    """Copies of the weights of layers, to be rebuilt when :meth:`is_current` is False."""

    def __init__(self, layers: Sequence[nn.Module]) -> None:
        self.sources = [p for layer in layers for p in layer.parameters()]
        self.place = self.sources[0].data_ptr()
        self.tracked = [p for p in self.sources if not p.is_inference()]
        self.versions = list(map(_VERSION, self.tracked))

    def is_current(self) -> bool:
        """Whether no weight has changed since, or moved to another device or dtype."""
        return self.place == self.sources[0].data_ptr() and self.versions == list(map(_VERSION, self.tracked))


class StepPlan(PackedWeights, ABC):
    """Abstract copy of the weights of layers, with a step."""

    @abstractmethod
    def takes(self, x: Float[Tensor, "b 1 d"], cache: KeyValueCache) -> bool:
        """Whether this plan supports such vectors and such a cache."""

    @abstractmethod
    def step(self, x: Float[Tensor, "b d"], cache: KeyValueCache) -> Float[Tensor, "b d"]:
        """The output of the layers and the final norm for one more position, whose cache slot is still empty."""


@dataclass(frozen=True, eq=False, slots=True)
class LayerWeights:
    """The weights of a layer: matrices ``d_in d_out``, with queries, keys and values concatenated."""

    heads: tuple[Tensor, Tensor]
    """(bias, matrix), as the others."""
    output: tuple[Tensor, Tensor]
    rise: tuple[Tensor, Tensor]
    fall: tuple[Tensor, Tensor]
    attention_norm: tuple[Tensor, Tensor, float]
    feed_norm: tuple[Tensor, Tensor, float]


class FlatPlan(StepPlan):
    """A few calls of torch for each layer, for sequences of one length."""

    @torch.inference_mode(False)
    @torch.no_grad()
    def __init__(self, layers: Sequence[nn.Module], leave: nn.Module) -> None:
        super().__init__([*layers, leave])
        first: Any = layers[0].attention
        self.d, self.d_head = first.d, first.d_head
        self.n_heads, self.n_kv_heads, self.rotate = first.n_heads, first.n_kv_heads, first.rotate
        self.norm_first, self.activation = bool(layers[0].norm_first), feed_forward_part(layers[0])[1]
        self.layers, self.leave = [layer_weights(layer) for layer in layers], leave

    def takes(self, x: Float[Tensor, "b 1 d"], cache: KeyValueCache) -> bool:
        return cache.begins is None

    def step(self, x: Float[Tensor, "b d"], cache: KeyValueCache) -> Float[Tensor, "b d"]:
        b, d, place = x.shape[0], (self.d,), cache.used - 1
        turned, kept = self.n_heads + self.n_kv_heads, (b, 2, self.n_kv_heads, self.d_head)
        grouped = (b, self.n_kv_heads, self.n_heads // self.n_kv_heads, self.d_head)
        pre, post, slots, filled = self.norm_first, not self.norm_first, cache.last_slots(), cache.every_layer()
        for i, layer in enumerate(self.layers):
            weight, bias, eps = layer.attention_norm
            seen = torch.layer_norm(x, d, weight, bias, eps) if pre else x
            heads = torch.addmm(layer.heads[0], seen, layer.heads[1]).view(b, turned + self.n_kv_heads, self.d_head)
            if self.rotate is not None:
                heads = torch.cat((self.rotate(heads[:, :turned, None], place)[:, :, 0], heads[:, turned:]), dim=1)
            slots[i].copy_(heads[:, self.n_heads :].view(kept).transpose(0, 1))
            queries = heads[:, : self.n_heads].view(grouped)
            found = F.scaled_dot_product_attention(queries, filled[2 * i], filled[2 * i + 1])
            x = torch.addmm(layer.output[0], found.reshape(b, self.d), layer.output[1]).add_(x)
            if post:
                x = torch.layer_norm(x, d, weight, bias, eps)
            weight, bias, eps = layer.feed_norm
            seen = torch.layer_norm(x, d, weight, bias, eps) if pre else x
            fed = self.activation(torch.addmm(layer.rise[0], seen, layer.rise[1]))
            x = torch.addmm(layer.fall[0], fed, layer.fall[1]).add_(x)
            if post:
                x = torch.layer_norm(x, d, weight, bias, eps)
        return cast(Tensor, self.leave(x))


def layer_weights(layer: nn.Module) -> LayerWeights:
    attention: Any = layer.attention
    feed = feed_forward_part(layer)
    return LayerWeights(
        transposed_linears(attention.query, attention.keys, attention.values),
        transposed_linears(attention.output),
        transposed_linears(cast(nn.Linear, feed[0])),
        transposed_linears(cast(nn.Linear, feed[3])),
        norm_part(cast(nn.LayerNorm, layer.attention_norm)),
        norm_part(cast(nn.LayerNorm, layer.feed_norm)),
    )


def feed_forward_part(layer: nn.Module) -> nn.Sequential:
    """The feed-forward sublayer of a layer."""
    return cast(nn.Sequential, layer.feed)


def transposed_linears(*maps: nn.Linear) -> tuple[Tensor, Tensor]:
    """The bias and the matrix ``d_in d_out`` of several linear layers, concatenated."""
    bias = torch.cat([m.bias.detach() for m in maps])
    return bias, torch.cat([m.weight.detach() for m in maps]).t().contiguous()


def norm_part(norm: nn.LayerNorm) -> tuple[Tensor, Tensor, float]:
    """Weight, bias, and epsilon of a layer norm."""
    return norm.weight.detach(), norm.bias.detach(), norm.eps
