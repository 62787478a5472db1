"""One step of a causal Transformer without gradients, written out flat.

A step for one position is so short that calls, not products, take most of its time, and products with one row are as
fast as the weights can be read. So the weights are kept a second time, joined and turned round for that, and the layers
are a few calls each. The plain form in :mod:`catena.encoders.transformer` defines what is right.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from catena.attention.cache import KeyValueCache


@dataclass(frozen=True, eq=False, slots=True)
class LayerWeights:
    """The weights of a layer: matrices ``d_in d_out``, those of queries, keys and values as one."""

    heads: tuple[Tensor, Tensor]
    """bias, matrix; so are the others."""
    output: tuple[Tensor, Tensor]
    rise: tuple[Tensor, Tensor]
    fall: tuple[Tensor, Tensor]
    attention_norm: tuple[Tensor, Tensor, float]
    feed_norm: tuple[Tensor, Tensor, float]


class StepPlan:
    """The copies of the weights, and a step with them. Made again when :meth:`is_current` says so."""

    def __init__(self, layers: Sequence[nn.Module]) -> None:
        first: Any = layers[0].attention
        self.d, self.d_head = first.d, first.d_head
        self.n_heads, self.n_kv_heads, self.rotate = first.n_heads, first.n_kv_heads, first.rotate
        self.norm_first, self.activation = bool(layers[0].norm_first), _feed(layers[0])[1]
        self.sources = [p for layer in layers for p in layer.parameters()]
        self.place = self.sources[0].data_ptr()
        self.tracked = [p for p in self.sources if not p.is_inference()]
        self.versions = [p._version for p in self.tracked]
        with torch.inference_mode(False), torch.no_grad():
            self.layers = [_weights_of(layer) for layer in layers]

    def is_current(self) -> bool:
        """Whether no weight has changed since, nor moved to another device or type."""
        return self.place == self.sources[0].data_ptr() and self.versions == [p._version for p in self.tracked]

    def step(self, x: Float[Tensor, "b d"], cache: KeyValueCache) -> Float[Tensor, "b d"]:
        """What the layers make of one more position, whose slot in the cache is there and still empty."""
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
        return x


def _weights_of(layer: nn.Module) -> LayerWeights:
    attention: Any = layer.attention
    feed = _feed(layer)
    return LayerWeights(
        _turned(attention.query, attention.keys, attention.values),
        _turned(attention.output),
        _turned(cast(nn.Linear, feed[0])),
        _turned(cast(nn.Linear, feed[3])),
        _norm(cast(nn.LayerNorm, layer.attention_norm)),
        _norm(cast(nn.LayerNorm, layer.feed_norm)),
    )


def _feed(layer: nn.Module) -> nn.Sequential:
    return cast(nn.Sequential, layer.feed)


def _turned(*maps: nn.Linear) -> tuple[Tensor, Tensor]:
    bias = torch.cat([m.bias.detach() for m in maps])
    return bias, torch.cat([m.weight.detach() for m in maps]).t().contiguous()


def _norm(norm: nn.LayerNorm) -> tuple[Tensor, Tensor, float]:
    return norm.weight.detach(), norm.bias.detach(), norm.eps
