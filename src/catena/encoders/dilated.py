r"""Dilated causal convolution: windows with gaps that double from layer to layer, for a large receptive field.

.. math::
    z^l_i &= \tanh\Big(\sum_{j=0}^{w-1} F^l_j\, x^l_{i - j r_l}\Big) \circ
             \sigma\Big(\sum_{j=0}^{w-1} G^l_j\, x^l_{i - j r_l}\Big) \\
    x^{l+1}_i &= x^l_i + R^l z^l_i \qquad y_i = W f\Big(\sum_l S^l z^l_i\Big)

with biases, f the ReLU and r_l the dilation of layer l: 1, 2, 4, … and again from 1 in the next block. van den Oord et
al. 2016, sections 2.1 to 2.4. The receptive field is :math:`1 + (w - 1) \sum_l r_l`. Time O(t w d²) for each layer; a
step costs O(w d² + r_l d).
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from catena.encoders.conv_state import CausalConvEncoder, ConvState, append_to_state


class DilatedLayer(nn.Module):
    """One gated dilated convolution: its residual, unless it is ``last``, and its skip output."""

    def __init__(self, d: int, window: int, gap: int, dropout: float = 0.0, last: bool = False) -> None:
        super().__init__()
        self.reach = (window - 1) * gap
        self.convolution = nn.Conv1d(d, 2 * d, window, dilation=gap)
        self.onward = None if last else nn.Linear(d, d)
        self.skip = nn.Linear(d, d)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Float[Tensor, "b s d"], t: int) -> tuple[Float[Tensor, "b t d"], Float[Tensor, "b t d"]]:
        """The outputs of the last ``t`` positions of ``x``, which also contains ``reach`` positions before them."""
        value, gate = self.convolution(x.transpose(1, 2)).transpose(1, 2).chunk(2, dim=-1)
        z = self.dropout(torch.tanh(value) * torch.sigmoid(gate))
        here = x[:, x.shape[1] - t :]
        return here if self.onward is None else here + self.onward(z), self.skip(z)


class Dilated(CausalConvEncoder):
    """Blocks of layers with dilations 1, 2, 4, …; inputs of another size than ``d`` are projected first."""

    def __init__(
        self, d_in: int, d: int, *, window: int = 2, n_layers: int = 6, n_blocks: int = 1, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.d_in, self.d_out = d_in, d
        self.enter = nn.Linear(d_in, d) if d_in != d else nn.Identity()
        gaps = [2**i for _ in range(n_blocks) for i in range(n_layers)]
        last = len(gaps) - 1
        layers = [DilatedLayer(d, window, gap, dropout, i == last) for i, gap in enumerate(gaps)]
        self.layers = nn.ModuleList(layers)
        self.tail_sizes = [(layer.reach, d) for layer in layers]
        self.leave = nn.Linear(d, d)
        self.field = 1 + (window - 1) * sum(gaps)
        """The receptive field: the number of positions that one output depends on."""

    def encode(
        self, x: Float[Tensor, "b t d_in"], lengths: Int[Tensor, " b"], mask: Bool[Tensor, "b t"]
    ) -> Float[Tensor, "b t d_out"]:
        return self.whole(x)

    def continue_(self, x: Float[Tensor, "b t d_in"], state: ConvState) -> tuple[Float[Tensor, "b t d_out"], ConvState]:
        t = x.shape[1]
        tails, skips = [], []
        x = self.enter(x)
        for layer, tail in zip(self.layers, state, strict=True):
            joined, after = append_to_state(tail, x)
            tails.append(after)
            x, skip = layer(joined, t)
            skips.append(skip)
        return self.leave(F.relu(torch.stack(skips).sum(0))), tuple(tails)
