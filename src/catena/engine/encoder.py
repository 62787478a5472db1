"""The compiled step of a causal Transformer encoder.

All layers of a step are one compiled call (:mod:`catena.engine.cpu_encoder`), on a CPU in single precision. The
reference implementation, :mod:`catena.encoders.transformer`, defines the correct result.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from catena.attention.cache import KeyValueCache
from catena.encoders.transformer import TransformerEncoder
from catena.encoders.transformer_step import StepPlan, feed_forward_part, layer_weights, norm_part

COMPILED = {nn.Identity: "identity", nn.ReLU: "relu", nn.GELU: "gelu", nn.SiLU: "swish"}
"""The activations that the compiled step supports."""

_NEAR = 64 * 2**20
"""The approximate size of a processor's cache in bytes. Larger models are limited by memory and run faster with all of
torch's threads."""


def can_compile(layers: Sequence[nn.Module]) -> bool:
    """Whether a compiled step supports these layers and is faster."""
    weights = [p for layer in layers for p in layer.parameters()]
    if any(p.device.type != "cpu" or p.dtype != torch.float32 for p in weights):
        return False
    size = sum(4 * p.numel() for p in weights)
    activation = feed_forward_part(layers[0])[1]
    exact = getattr(activation, "approximate", "none") == "none"
    return type(activation) in COMPILED and exact and (size <= _NEAR or torch.get_num_threads() == 1)


def compile_encoder(encoder: TransformerEncoder) -> CompiledPlan | None:
    """The compiled step of a causal Transformer encoder.

    ``encoder.continue_`` uses it automatically.

    Args:
        encoder: a causal Transformer, in eval mode.

    Returns:
        None if the step does not support the encoder or is not faster: it needs a CPU, float32 or 8-bit weights, one of
        the activations identity, ReLU, GELU and Swish, and layers that fit in the cache or a single thread.
    """
    layers = list(encoder.layers)
    return CompiledPlan(layers, encoder.leave) if can_compile(layers) else None


class CompiledPlan(StepPlan):
    """All layers in one compiled call, for sequences of any lengths."""

    @torch.inference_mode(False)
    @torch.no_grad()
    def __init__(self, layers: Sequence[nn.Module], leave: nn.Module) -> None:
        super().__init__([*layers, leave])
        from catena.engine.cpu_encoder import Make, TransformerWeights, step
        from catena.engine.cpu_layers import as_wide_as_panels, stack_arrays
        from catena.kernels.linear.int8_weight import pack_panels  # compiled kernels, not needed in training

        first: Any = layers[0].attention
        self.rotate = first.rotate
        self._step = step
        activation = COMPILED[type(feed_forward_part(layers[0])[1])]
        self.make = Make(first.n_heads, first.n_kv_heads, bool(layers[0].norm_first), activation)
        plain = [layer_weights(layer) for layer in layers]
        maps: list[np.ndarray] = []
        for name in ("heads", "output", "rise", "fall"):
            pairs = [getattr(layer, name) for layer in plain]
            maps.append(np.stack([pack_panels(matrix) for _, matrix in pairs]))
            maps.append(stack_arrays([as_wide_as_panels(bias.numpy()) for bias, _ in pairs]))
        norms = [torch.stack((*layer.attention_norm[:2], *layer.feed_norm[:2])).numpy() for layer in plain]
        eps = [np.array([layer.attention_norm[2], layer.feed_norm[2]]) for layer in plain]
        if isinstance(leave, nn.LayerNorm):
            weight, bias, last = norm_part(leave)
            norms.append(torch.stack((weight, bias) * 2).numpy())
            eps.append(np.array([last, last]))
        self.weights = TransformerWeights._make([*maps, stack_arrays(norms), stack_arrays(eps)])

    def takes(self, x: Float[Tensor, "b 1 d"], cache: KeyValueCache) -> bool:
        return x.dtype == cache.dtype == torch.float32

    def step(self, x: Float[Tensor, "b d"], cache: KeyValueCache) -> Float[Tensor, "b d"]:
        made = np.array(x.numpy(), order="C")
        slots, begins = cache.arrays()
        turns = np.empty((0, 0), np.float32)
        if self.rotate is not None:
            turns = self.rotate.turns(cache.used - 1 - begins)
        self._step(made, self.weights, self.make, slots, cache.used, begins, turns)
        return torch.from_numpy(made)
