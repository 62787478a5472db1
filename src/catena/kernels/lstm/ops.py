"""Stacks of LSTM layers on a CPU, for prediction, with a copy of the weights that is laid out for it.

``torch.nn.LSTM`` defines what is right. Nothing is compiled before the first call.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from catena.accelerators import can_skip_kernels
from catena.kernels.common.ops import is_plain
from catena.kernels.common.threads import in_row_blocks
from catena.kernels.linear.ops import weight_mark

_ROWS_AT_ONCE = 256
"""Rows whose gates are in memory together, so that they stay in the cache."""

_SEQUENCES_OF_THREAD = 8
"""Least number of sequences of a thread: steps of fewer rows take almost as long."""


class LSTMWeights(NamedTuple):
    """The weights of one direction of a layer, with a block of rows for each of the gates i, f, g, o."""

    x: Float[Tensor, "gates d_in"]
    h: Float[Tensor, "gates d"]
    bias_x: Float[Tensor, " gates"]
    bias_h: Float[Tensor, " gates"]


class PackedLSTM:
    """A stack of layers with packed weights.

    Args:
        layers: the weights of one or two directions of each layer. The second direction reads backwards.
    """

    def __init__(self, layers: Sequence[Sequence[LSTMWeights]]) -> None:
        self.layers = layers  # keeps the weights, so that no other ones can begin at their addresses
        self._made_of = _marks(layers)
        self._packed = [[_Direction(weights) for weights in layer] for layer in layers]

    @staticmethod
    def suits(x: Float[Tensor, "b t d_in"], layers: Sequence[Sequence[LSTMWeights]]) -> bool:
        """Whether a packed copy is faster: on a CPU, in single precision, without gradients."""
        tensors = [x, *(part for layer in layers for weights in layer for part in weights)]
        return (
            all(part.dtype == torch.float32 and part.device.type == "cpu" for part in tensors)
            and all(type(part) in (Tensor, torch.nn.Parameter) for part in tensors)
            and x.numel() > 0
            and not torch.is_grad_enabled()
            and not torch.jit.is_tracing()
            and is_plain()
            and not can_skip_kernels(100 + x.shape[0] * x.shape[1] * _count(layers) // 50_000)
        )

    def is_current(self, layers: Sequence[Sequence[LSTMWeights]]) -> bool:
        """Whether these are the weights, and they have not changed since."""
        return self._made_of == _marks(layers)

    def __call__(self, x: Float[Tensor, "b t d_in"], lengths: Int[Tensor, "b"]) -> Float[Tensor, "b t d_out"]:
        """The states of the last layer, 0 at padding."""
        b, t, d_in = x.shape
        rows, sizes = x.detach().reshape(b * t, d_in).numpy(), lengths.numpy()
        order = np.argsort(-sizes, kind="stable")
        n_groups = max(1, min(torch.get_num_threads(), b // _SEQUENCES_OF_THREAD))
        groups = [_Group(order[i::n_groups], sizes, rows, t) for i in range(n_groups)]  # all have as much work
        for layer in self._packed:
            self._run(layer, groups)
        states = np.zeros((b * t, groups[0].x.shape[1]), np.float32)
        for group in groups:
            states[group.places] = group.x
        return torch.from_numpy(states).view(b, t, -1)

    def _run(self, layer: Sequence[_Direction], groups: Sequence[_Group]) -> None:
        """Replace the inputs of each group by the states of a layer."""
        states = [np.empty((len(group.x), sum(one.d for one in layer)), np.float32) for group in groups]
        jobs = [(i, k) for i in range(len(groups)) for k in range(len(layer))]

        def run(low: int, high: int) -> None:
            for i, k in jobs[low:high]:
                layer[k].run(groups[i].x, groups[i].starts, states[i], k * layer[k].d, backwards=k > 0)

        size = sum(one.inputs.size + one.recurrent.size for one in layer)
        in_row_blocks(run, len(jobs), sum(len(group.x) for group in groups) * size)
        for group, own in zip(groups, states, strict=True):
            group.x = own


class _Group:
    """Some sequences, step by step.

    Args:
        order: the sequences, the longest first.
        sizes: the lengths of all sequences.
        rows: the inputs of all sequences, padded to ``t`` positions.
        t: the number of positions of a sequence in ``rows``.
    """

    def __init__(self, order: np.ndarray, sizes: np.ndarray, rows: np.ndarray, t: int) -> None:
        lengths = sizes[order]
        n_longer = np.searchsorted(-lengths, -np.arange(lengths[0]), side="left")  # the rows of step t
        self.starts = np.concatenate(([0], np.cumsum(n_longer)))
        positions = np.repeat(np.arange(len(n_longer)), n_longer)
        self.places = order[np.arange(len(positions)) - self.starts[positions]] * t + positions
        self.x = rows[self.places]


class _Direction:
    """One direction of a layer."""

    def __init__(self, weights: LSTMWeights) -> None:
        from catena.kernels.linear.cpu import pack_panels, round_up_to_panel

        x, h, bias_x, bias_h = (part.detach().numpy() for part in weights)
        self.inputs, self.recurrent, self.d = pack_panels(x.T), pack_panels(h.T), h.shape[1]
        self.bias = np.zeros(round_up_to_panel(len(x)), np.float32)
        self.bias[: len(x)] = bias_x + bias_h

    def run(self, x: np.ndarray, starts: np.ndarray, states: np.ndarray, column: int, backwards: bool) -> None:
        """Write the states into columns of ``states``."""
        from catena.kernels.lstm.cpu import run_lstm

        if not len(x):
            return
        b = int(starts[1])
        gates = np.empty((max(b, min(len(x), _ROWS_AT_ONCE)), len(self.bias)), np.float32)
        memory = np.zeros((b, self.d), np.float32)
        run_lstm(x, self.inputs, self.recurrent, self.bias, starts, backwards, gates, memory, states, column)


def _count(layers: Sequence[Sequence[LSTMWeights]]) -> int:
    return sum(weights.x.numel() + weights.h.numel() for layer in layers for weights in layer)


def _marks(layers: Sequence[Sequence[LSTMWeights]]) -> list[tuple[int, int]]:
    parts = [part for layer in layers for weights in layer for part in weights]
    return [weight_mark(part) for part in parts]
