r"""Reference implementation of the steps of a WaveNet, with a queue of past inputs for each layer.

.. math::
    g_l &= [x_{t - (w-1) r_l}; \dots; x_t]\, T_l + b_l + c_{t,l} \qquad
    z_l = \tanh(g_l^{1:d}) \circ \sigma(g_l^{d+1:2d}) \qquad x \leftarrow x + z_l R_l \\
    h &= f\big(f([z_1; \dots; z_L]\, S + s)\, W + b\big) \qquad p(\cdot) = \mathrm{softmax}(h O + o)

for one position t: :math:`c_{t,l}` is what a condition adds, f the ReLU. The queue of layer l holds its last
:math:`(w-1) r_l` inputs; the input of position t is in slot :math:`t \bmod (w-1) r_l`, where the oldest one, which is
read first, was. A step so costs O(L w d²) for any receptive field (Le Paine et al. 2016), and no queue is moved.

Any device and dtype. ``cpu`` and ``gpu`` have the same functions as kernels; ``ops`` selects. Tested in
tests/kernels/wavenet.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor


class StepWeights(NamedTuple):
    """The weights of all layers, with inputs on the first axis of each matrix."""

    embedding: Float[Tensor, "v d"]
    taps: Float[Tensor, "l wd d2"]
    """The gated convolutions; the oldest position first, and the values before the gates."""
    taps_bias: Float[Tensor, "l d2"]
    onward: Float[Tensor, "l d d"]
    """The residual connections; zeros in the last layer."""
    onward_bias: Float[Tensor, "l d"]
    skip: Float[Tensor, "ld d_skip"]
    """The skip connections of all layers, one after another."""
    skip_bias: Float[Tensor, " d_skip"]
    leave: Float[Tensor, "d_skip d_skip"]
    leave_bias: Float[Tensor, " d_skip"]
    output: Float[Tensor, "d_skip v"]
    output_bias: Float[Tensor, " v"]
    gaps: tuple[int, ...]
    """The dilation of each layer."""

    @property
    def sizes(self) -> list[int]:
        """The number of slots of each layer's queue."""
        window = self.taps.shape[1] // self.embedding.shape[1]
        return [(window - 1) * gap for gap in self.gaps]


class Step(NamedTuple):
    """What changes from step to step; all of it is changed in place."""

    queues: Float[Tensor, "n s d"]
    """The queues of all layers, one after another."""
    time: Int[Tensor, " n"]
    """The number of positions that were read, at least since the queues were empty."""
    hidden: Float[Tensor, "n d_skip"]
    """The vector that predicts the next level."""


Biases = Float[Tensor, "#n #k l d2"]
"""What the condition adds inside the gates, for each row, step and layer."""


def read_(weights: StepWeights, step: Step, levels: Int[Tensor, "n k"], biases: Biases | None = None) -> None:
    """Read ``k`` given levels in each row.

    Args:
        weights: of the model.
        step: the state, which is changed in place.
        levels: from 0 to v - 1.
        biases: the condition of the level after each given one.
    """
    for k in range(levels.shape[1]):
        _read_one(weights, step, levels[:, k], None if biases is None else biases[:, k % biases.shape[1]])


def generate_(
    weights: StepWeights,
    step: Step,
    uniforms: Float[Tensor, "n k"],
    temperature: float = 1.0,
    biases: Biases | None = None,
) -> Int[Tensor, "n k"]:
    """Sample and read ``k`` levels in each row.

    A level is the first one whose cumulative probability exceeds the uniform number.

    Args:
        weights: of the model.
        step: the state, which is changed in place.
        uniforms: numbers in [0, 1), one for each level.
        temperature: divisor of the logits; 0 for the most probable level.
        biases: the condition of the level after each sampled one.
    """
    n, k = uniforms.shape
    levels = torch.empty(n, k, dtype=torch.int64, device=uniforms.device)
    for i in range(k):
        logits = step.hidden @ weights.output + weights.output_bias
        levels[:, i] = _choose(logits, uniforms[:, i], temperature)
        _read_one(weights, step, levels[:, i], None if biases is None else biases[:, i % biases.shape[1]])
    return levels


def _choose(logits: Float[Tensor, "n v"], uniforms: Float[Tensor, " n"], temperature: float) -> Int[Tensor, " n"]:
    if temperature == 0:
        return logits.argmax(dim=-1)
    edges = torch.softmax(logits.double() / temperature, dim=-1).cumsum(dim=-1)
    reached = uniforms.double()[:, None] * edges[:, -1:]
    return (edges <= reached).sum(dim=-1).clamp(max=logits.shape[-1] - 1)


def _read_one(
    weights: StepWeights, step: Step, levels: Int[Tensor, " n"], bias: Float[Tensor, "#n l d2"] | None
) -> None:
    rows = torch.arange(len(levels), device=levels.device)
    x = weights.embedding[levels]
    gated = []
    start = 0
    for layer, (gap, size) in enumerate(zip(weights.gaps, weights.sizes, strict=True)):
        slots = [start + (step.time + past) % size for past in range(0, size, gap)]  # oldest first
        taps = torch.cat([*(step.queues[rows, slot] for slot in slots), x], dim=-1)
        step.queues[rows, slots[0]] = x
        gates = taps @ weights.taps[layer] + weights.taps_bias[layer]
        value, gate = (gates if bias is None else gates + bias[:, layer]).chunk(2, dim=-1)
        gated.append(torch.tanh(value) * torch.sigmoid(gate))
        x = x + gated[-1] @ weights.onward[layer] + weights.onward_bias[layer]
        start += size
    skip = torch.relu(torch.cat(gated, dim=-1) @ weights.skip + weights.skip_bias)
    step.hidden.copy_(torch.relu(skip @ weights.leave + weights.leave_bias))
    step.time.add_(1)
