r"""Convolution over the positions of a sequence, with windows of several sizes.

.. math::  c^w_i = f\Big(b + \sum_{j=0}^{w-1} K_j\, x_{i + (j - \ell) r}\Big)

with dilation r and zeros outside of the sequence. ``same`` padding has :math:`\ell = \lfloor (w-1)/2 \rfloor`, so that
the window is centered; ``causal`` has :math:`\ell = w - 1`, so that it ends at i. Over the frames of a sound this is
the time-delay neural network (Waibel et al. 1989; with dilation, Peddinti et al. 2015). Collobert et al. 2011, section
3.2.2. Time O(t w d_in filters) for each window.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from catena.encoders.conv_state import CausalConvEncoder, ConvState, append_to_state
from catena.encoders.layers import Norm


class ConvolutionLayer(nn.Module):
    """Convolution with windows of several sizes, a norm and an activation; ``filters`` features for each size.

    Takes ``b t d`` that is 0 at padding, and returns zeros there.
    """

    def __init__(
        self,
        d_in: int,
        windows: Sequence[int],
        filters: int,
        activation: nn.Module,
        norm: Norm,
        *,
        padding: Literal["same", "causal"] = "same",
        dilation: int = 1,
    ) -> None:
        super().__init__()
        self.d_in, self.d_out = d_in, filters * len(windows)
        self.windows, self.causal, self.dilation = tuple(windows), padding == "causal", dilation
        self.reach = (max(windows) - 1) * dilation
        self.after = 0 if self.causal else max((w - 1 - (w - 1) // 2) * dilation for w in windows)
        self.convolutions = nn.ModuleList(nn.Conv1d(d_in, filters, window, dilation=dilation) for window in windows)
        self.activation, self.norm = activation, norm

    def forward(self, x: Float[Tensor, "b t d_in"], mask: Bool[Tensor, "b t"]) -> Float[Tensor, "b t d_out"]:
        channels = x.transpose(1, 2)
        found = []
        for window, convolution in zip(self.windows, self.convolutions, strict=True):
            before = window - 1 if self.causal else (window - 1) // 2
            edges = (before * self.dilation, (window - 1 - before) * self.dilation)
            found.append(convolution(F.pad(channels, edges)))
        features = self.norm(torch.cat(found, dim=1).transpose(1, 2), mask)
        return self.activation(features).masked_fill(~mask[..., None], 0.0)

    def continued(self, x: Float[Tensor, "b s d_in"], t: int) -> Float[Tensor, "b t d_out"]:
        """The outputs of the last ``t`` positions of ``x``, which also contains the positions that windows need."""
        channels = x.transpose(1, 2)
        found = [convolution(channels)[..., -t:] for convolution in self.convolutions]
        features = torch.cat(found, dim=1).transpose(1, 2)
        return self.activation(self.norm(features, features.new_ones(features.shape[:2], dtype=torch.bool)))


class Convolution(CausalConvEncoder):
    """Stacked convolution layers; ``residual`` adds a layer's input if the sizes are equal.

    Args:
        d_in: size of the input vectors.
        layers: the layers, from bottom to top.
        residual: whether the input of a layer is added to its output if the sizes are equal.
        dropout: fraction of features between layers that are set to 0 in training.
    """

    def __init__(
        self, d_in: int, layers: Sequence[ConvolutionLayer], *, residual: bool = False, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.d_in, self.d_out, self.residual = d_in, layers[-1].d_out, residual
        self.tail_sizes = [(layer.reach, layer.d_in) for layer in layers]
        self.looks_ahead = not all(layer.causal or layer.reach == 0 for layer in layers)
        self.layers = nn.ModuleList(layers)
        self.dropout = nn.Dropout(dropout)

    @property
    def context(self) -> tuple[int, int]:
        """The number of positions before and after its own that an output depends on, at most."""
        layers = [cast(ConvolutionLayer, layer) for layer in self.layers]
        return sum(layer.reach for layer in layers), sum(layer.after for layer in layers)

    def encode(
        self, x: Float[Tensor, "b t d_in"], lengths: Int[Tensor, "b"], mask: Bool[Tensor, "b t"]
    ) -> Float[Tensor, "b t d_out"]:
        for i, layer in enumerate(self.layers):
            above = layer(self.dropout(x) if i > 0 else x, mask)
            x = above + x if self.residual and above.shape == x.shape else above
        return x

    def continue_(self, x: Float[Tensor, "b t d_in"], state: ConvState) -> tuple[Float[Tensor, "b t d_out"], ConvState]:
        t, tails = x.shape[1], []
        for i, (layer, tail) in enumerate(zip(self.layers, state, strict=True)):
            joined, after = append_to_state(tail, self.dropout(x) if i > 0 else x)
            tails.append(after)
            above = cast(ConvolutionLayer, layer).continued(joined, t)
            x = above + x if self.residual and above.shape == x.shape else above
        return x, tuple(tails)
