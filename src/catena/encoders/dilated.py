r"""Dilated causal convolution: windows with gaps that double from layer to layer, for a large receptive field.

.. math::
    z^l_i &= \tanh\Big(\sum_{j=0}^{w-1} F^l_j\, x^l_{i - j r_l} + V^l_f h + U^l_f y_i\Big) \circ
             \sigma\Big(\sum_{j=0}^{w-1} G^l_j\, x^l_{i - j r_l} + V^l_g h + U^l_g y_i\Big) \\
    x^{l+1}_i &= x^l_i + R^l z^l_i \qquad o_i = W f\Big(\sum_l S^l z^l_i\Big)

with biases, f the ReLU and r_l the dilation of layer l: 1, 2, 4, … and again from 1 in the next block; h is a vector
for the whole sequence (a speaker) and y_i one for each position, if there are any. van den Oord et al. 2016, sections
2.1 to 2.5. The receptive field is :math:`1 + (w - 1) \sum_l r_l`. Time O(t w d²) for each layer; a step costs
O(w d² + r_l d), and O(w d²) with the queues of :mod:`catena.kernels.wavenet`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from catena.encoders.conv_state import CausalConvEncoder, ConvState, append_to_state
from catena.errors import ShapeError


class Condition(NamedTuple):
    """What the sequences of a batch are conditioned on; None for nothing."""

    constant: Float[Tensor, "b d_global"] | None = None
    """A vector for each sequence."""
    series: Float[Tensor, "b t d_local"] | None = None
    """A vector for each position."""


class DilatedLayer(nn.Module):
    """One gated dilated convolution, with a residual connection, unless it is ``last``, and a skip connection.

    Args:
        d: features of the input.
        window: positions of a window.
        gap: the distance between them.
        d_skip: features of the skip output; ``d`` if None.
        dropout: probability of dropping a gated unit.
        last: whether no layer follows.
        d_global: features of a vector for the whole sequence; 0 if there is none.
        d_local: features of a vector for each position; 0 if there are none.
    """

    def __init__(
        self,
        d: int,
        window: int,
        gap: int,
        *,
        d_skip: int | None = None,
        dropout: float = 0.0,
        last: bool = False,
        d_global: int = 0,
        d_local: int = 0,
    ) -> None:
        super().__init__()
        self.gap, self.reach = gap, (window - 1) * gap
        self.convolution = nn.Conv1d(d, 2 * d, window, dilation=gap)
        self.onward = None if last else nn.Linear(d, d)
        self.skip = nn.Linear(d, d_skip or d)
        self.from_global = nn.Linear(d_global, 2 * d, bias=False) if d_global else None
        self.from_local = nn.Linear(d_local, 2 * d, bias=False) if d_local else None
        self.dropout = nn.Dropout(dropout)

    def forward(
        self, x: Float[Tensor, "b s d"], bias: Float[Tensor, "b #t d2"] | None = None
    ) -> tuple[Float[Tensor, "b t d"], Float[Tensor, "b t d"]]:
        """The input of the next layer and the gated units, for all positions except the first ``reach``.

        ``bias`` is what a condition adds inside the gates.
        """
        t = x.shape[1] - self.reach
        # One product of the joined taps takes half the time of conv1d, which wants the features before the positions.
        taps = torch.cat([x[:, start : start + t] for start in range(0, self.reach + 1, self.gap)], dim=-1)
        weight = self.convolution.weight.transpose(1, 2).flatten(1)  # d2 d w -> d2 (w d)
        gates = F.linear(taps, weight, self.convolution.bias)
        value, gate = (gates if bias is None else gates + bias).chunk(2, dim=-1)
        z = self.dropout(torch.tanh(value) * torch.sigmoid(gate))
        here = x[:, self.reach :]
        return here if self.onward is None else here + self.onward(z), z

    def project(self, condition: Condition) -> Float[Tensor, "b #t d2"] | None:
        """What the condition adds inside the gates."""
        bias = None
        if condition.constant is not None and self.from_global is not None:
            bias = self.from_global(condition.constant)[:, None]
        if condition.series is not None and self.from_local is not None:
            local = self.from_local(condition.series)
            bias = local if bias is None else bias + local
        return bias


class Dilated(CausalConvEncoder):
    """Blocks of layers with dilations 1, 2, 4, …; inputs of another size than ``d`` are projected first.

    Args:
        d_in: features of the input.
        d: features between the layers.
        window: positions of a window.
        n_layers: layers of a block.
        n_blocks: blocks, each starting again with dilation 1.
        dropout: probability of dropping a gated unit.
        d_skip: features of the skip outputs, and of the output; ``d`` if None.
        final_relu: apply a ReLU to the output, as the last layer before a softmax in WaveNet expects.
        d_global: features of the vector that a sequence is conditioned on; 0 if there is none.
        d_local: features of the vectors that its positions are conditioned on; 0 if there are none.
    """

    def __init__(
        self,
        d_in: int,
        d: int,
        *,
        window: int = 2,
        n_layers: int = 6,
        n_blocks: int = 1,
        dropout: float = 0.0,
        d_skip: int | None = None,
        final_relu: bool = False,
        d_global: int = 0,
        d_local: int = 0,
    ) -> None:
        super().__init__()
        self.d_in, self.d, self.d_out = d_in, d, d_skip or d
        self.window, self.d_global, self.d_local = window, d_global, d_local
        self.enter = nn.Linear(d_in, d) if d_in != d else nn.Identity()
        self.gaps = [2**i for _ in range(n_blocks) for i in range(n_layers)]
        last = len(self.gaps) - 1
        layers = [
            DilatedLayer(
                d, window, gap, d_skip=d_skip, dropout=dropout, last=i == last, d_global=d_global, d_local=d_local
            )
            for i, gap in enumerate(self.gaps)
        ]
        self.layers = nn.ModuleList(layers)
        self.tail_sizes = [(layer.reach, d) for layer in layers]
        self.leave = nn.Linear(self.d_out, self.d_out)
        self.final_relu = final_relu
        self.field = 1 + (window - 1) * sum(self.gaps)
        """The receptive field: the number of positions that one output depends on."""

    def encode(
        self, x: Float[Tensor, "b t d_in"], lengths: Int[Tensor, " b"], mask: Bool[Tensor, "b t"]
    ) -> Float[Tensor, "b t d_out"]:
        return self.whole(x)

    def continue_(
        self,
        x: Float[Tensor, "b t d_in"],
        state: ConvState,
        biases: Sequence[Float[Tensor, "b #t d2"] | None] | None = None,
    ) -> tuple[Float[Tensor, "b t d_out"], ConvState]:
        """Read one or more positions, conditioned on what :meth:`project` returned for each layer."""
        tails, gated = [], []
        x = self.enter(x)
        for layer, tail, bias in zip(self.layers, state, biases or [None] * len(self.layers), strict=True):
            joined, after = append_to_state(tail, x)
            tails.append(after)
            x, z = layer(joined, bias)
            gated.append(z)
        return self._head(gated), tuple(tails)

    def without_padding(
        self, x: Float[Tensor, "b s d_in"], biases: Sequence[Float[Tensor, "b #s d2"] | None] | None = None
    ) -> Float[Tensor, "b t d_out"]:
        """The outputs of the last ``s - field + 1`` positions, which have a full receptive field in ``x``.

        Faster in training than :meth:`whole`: earlier positions are computed only where later ones depend on them.
        """
        t = x.shape[1] - self.field + 1
        if t < 1:
            raise ShapeError(f"x must have at least {self.field} positions, the field, got {x.shape[1]}. Pad it.")
        x = self.enter(x)
        gated = []
        for layer, bias in zip(self.dilated_layers(), biases or [None] * len(self.layers), strict=True):
            if bias is not None and bias.shape[1] > 1:
                bias = bias[:, bias.shape[1] - x.shape[1] + layer.reach :]
            x, z = layer(x, bias)
            gated.append(z[:, z.shape[1] - t :])
        return self._head(gated)

    def _head(self, gated: Sequence[Float[Tensor, "b t d"]]) -> Float[Tensor, "b t d_out"]:
        """The output from the gated units of all layers, whose skip connections are one product of the joined units."""
        skips = [layer.skip for layer in self.dilated_layers()]
        weight = torch.cat([skip.weight for skip in skips], dim=1)
        bias = torch.stack([skip.bias for skip in skips]).sum(dim=0)
        y = self.leave(F.relu(F.linear(torch.cat(list(gated), dim=-1), weight, bias)))
        return F.relu(y) if self.final_relu else y

    def project(self, condition: Condition) -> list[Float[Tensor, "b #t d2"] | None] | None:
        """What a condition adds inside the gates of each layer; constant in time without a series. None for nothing."""
        _check_condition(condition, self.d_global, self.d_local)
        if condition.constant is None and condition.series is None:
            return None
        return [layer.project(condition) for layer in self.dilated_layers()]

    def dilated_layers(self) -> Iterator[DilatedLayer]:
        """The layers from the first to the last."""
        for layer in self.layers:
            assert isinstance(layer, DilatedLayer)
            yield layer

    @torch.no_grad()
    def init_scaled_(self) -> None:
        """Xavier weights and zero biases; residual weights are divided by the square root of the depth.

        The sum of the residuals then begins with the size of one of them. Glorot & Bengio (2010); Zhang et al. (2019).
        """
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Conv1d):
                nn.init.xavier_uniform_(module.weight)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
        for layer in self.dilated_layers():
            if layer.onward is not None:
                layer.onward.weight /= len(self.gaps) ** 0.5


def _check_condition(condition: Condition, d_global: int, d_local: int) -> None:
    for name, given, d in (("constant", condition.constant, d_global), ("series", condition.series, d_local)):
        if given is not None and given.shape[-1] != d:
            cure = f"Pass vectors of size {d}." if d else f"Pass no {name}, or build the encoder with that size."
            raise ShapeError(f"condition.{name} must have {d} features, got {given.shape[-1]}. {cure}")
