r"""Recurrent encoders: stacked recurrent layers, in one direction or both.

.. math::  \overrightarrow{h}_i = \mathrm{cell}(x_i, \overrightarrow{h}_{i-1}) \qquad
           \overleftarrow{h}_i = \mathrm{cell}'(x_i, \overleftarrow{h}_{i+1}) \qquad
           y_i = [\overrightarrow{h}_i; \overleftarrow{h}_i]

Schuster & Paliwal 1997; Goodfellow et al. 2016, section 10.3. Time O(t g d²) for each layer and direction,
with g gates.

Padding is after the real positions, where it cannot affect them; the backward direction reads each
sequence reversed within its own length. This is exact, and faster than packed sequences for batches of similar lengths.

Between layers units are dropped independently at each step or, if ``locked``, the same ones at all steps of a sequence
(Gal & Ghahramani 2016, variational dropout).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from catena.encoders.causal import CausalEncoder
from catena.encoders.cells import CellState, Recurrence
from catena.encoders.fused import FusedRecurrence, run_both_directions
from catena.encoders.layers import Dropout
from catena.kernels.lstm.ops import LSTMWeights, PackedLSTM

_States = tuple[CellState, ...]
"""The state of each layer."""


class Recurrent(CausalEncoder):
    """A stack of recurrent layers.

    The first half of the ``d_out`` features is the forward direction and the second half the backward one.

    Args:
        d_in: the size of an input vector.
        make: builds one direction of one layer, given its input size and the layer's index, from 1.
        n_layers: the number of layers.
        bidirectional: whether the sequence is read in both directions.
        connections: ``residual`` adds a layer's input to its output if the sizes are equal (He et al. 2016);
            ``skip`` feeds ``x`` to every layer in addition to the states below, and returns the states of all layers
            (Graves 2013, section 2).
        dropout: the probability of dropping a unit between layers.
        locked: whether the same units are dropped at all steps.
        joint_directions: whether both directions of a layer are computed as one on a GPU, if torch has a fused
            network of this kind (see :func:`catena.encoders.fused.run_both_directions`).
    """

    def __init__(
        self,
        d_in: int,
        make: Callable[[int, int], Recurrence],
        *,
        n_layers: int = 1,
        bidirectional: bool = False,
        connections: Literal["none", "residual", "skip"] = "none",
        dropout: float = 0.0,
        locked: bool = False,
        joint_directions: bool = False,
    ) -> None:
        super().__init__()
        self.d_in, self.bidirectional, self.connections = d_in, bidirectional, connections
        self.joint_directions = joint_directions
        self.looks_ahead = bidirectional
        self.forwards, self.backwards = nn.ModuleList(), nn.ModuleList()
        width = d_in
        for layer in range(1, n_layers + 1):
            wanted = width + d_in if connections == "skip" and layer > 1 else width
            ahead = make(wanted, layer)
            self.forwards.append(ahead)
            if bidirectional:
                self.backwards.append(make(wanted, layer))
            width = ahead.d * (2 if bidirectional else 1)
        self.d_out = width * (n_layers if connections == "skip" else 1)
        self.dropout = Dropout(dropout, time=0 if locked else None)
        self._packed: PackedLSTM | None = None

    def encode(
        self, x: Float[Tensor, "b t d_in"], lengths: Int[Tensor, "b"], mask: Bool[Tensor, "b t"]
    ) -> Float[Tensor, "b t d_out"]:
        layers = self._plain_lstm()
        if layers and PackedLSTM.suits(x, layers):
            if self._packed is None or not self._packed.is_current(layers):
                self._packed = PackedLSTM(layers)
            return self._packed(x, lengths)
        order = _reversed_rows(lengths, x.shape[1]) if self.bidirectional else None
        return self._run(x, order, None)[0]

    def begin(self, b: int, device: torch.device, dtype: torch.dtype) -> _States:
        self.check_causal()
        like = torch.empty(0, device=device, dtype=dtype)
        return tuple(cast(Recurrence, recurrence).start(b, like) for recurrence in self.forwards)

    def continue_(self, x: Float[Tensor, "b t d_in"], state: _States) -> tuple[Float[Tensor, "b t d_out"], _States]:
        return self._run(x, None, state)

    def whole(self, x: Float[Tensor, "b t d_in"]) -> Float[Tensor, "b t d_out"]:
        self.check_causal()
        return self._run(x, None, None)[0]

    def select(self, state: _States, rows: Int[Tensor, " m"]) -> _States:
        return tuple(tuple(part[rows] for part in layer) for layer in state)

    def join(self, states: Sequence[_States]) -> _States:
        layers = zip(*states, strict=True)
        return tuple(tuple(torch.cat(parts) for parts in zip(*layer, strict=True)) for layer in layers)

    def detach(self, state: _States) -> _States:
        return tuple(tuple(part.detach() for part in layer) for layer in state)

    def _run(
        self, x: Float[Tensor, "b t d_in"], order: Int[Tensor, " n"] | None, states: _States | None
    ) -> tuple[Float[Tensor, "b t d_out"], _States]:
        first = below = x.transpose(0, 1).contiguous()  # t b d
        layers: list[tuple[Tensor, ...]] = []
        after: list[CellState] = []
        for i in range(len(self.forwards)):
            read = self.dropout(below) if i > 0 else below
            if i > 0 and self.connections == "skip":
                read = torch.cat((read, first), dim=-1)
            if order is not None and self._is_joint(i, read):
                layers.append(self._both_directions(i, read, order))
            else:
                ahead, state = self.forwards[i](read, states[i] if states else None)
                after.append(state)
                layers.append((ahead,) if order is None else (ahead, self._backward(i, read, order)))
            above = torch.cat(layers[-1], dim=-1) if order is not None else layers[-1][0]
            below = above + below if self.connections == "residual" and above.shape == below.shape else above
        if self.connections == "skip":
            below = torch.cat([states for direction in zip(*layers, strict=True) for states in direction], dim=-1)
        return below.transpose(0, 1), tuple(after)

    def _backward(self, i: int, x: Float[Tensor, "t b d"], order: Int[Tensor, " n"]) -> Float[Tensor, "t b d_out"]:
        back, _ = self.backwards[i](_take_rows(x, order))
        return _take_rows(back, order)

    def _plain_lstm(self) -> list[list[LSTMWeights]]:
        """The weights of each layer and direction, if these are LSTMs that predict and are only stacked; else none."""
        if self.training or self.connections != "none":
            return []
        layers: list[list[LSTMWeights]] = []
        directions = (self.forwards, self.backwards) if self.bidirectional else (self.forwards,)
        for layer in zip(*directions, strict=True):
            if not all(isinstance(one, FusedRecurrence) and one.name == "lstm" for one in layer):
                return []
            layers.append([LSTMWeights(one.weight_x, one.weight_h, *one.vectors()) for one in layer])
        return layers

    def _is_joint(self, i: int, x: Float[Tensor, "t b d"]) -> bool:
        layer = self.forwards[i]
        return (
            self.joint_directions
            and x.is_cuda
            and isinstance(layer, FusedRecurrence)
            and not (self.training and layer.weight_dropout)
        )

    def _both_directions(
        self, i: int, x: Float[Tensor, "t b d"], order: Int[Tensor, " n"]
    ) -> tuple[Float[Tensor, "t b d_out"], Float[Tensor, "t b d_out"]]:
        forwards, backwards = cast(FusedRecurrence, self.forwards[i]), cast(FusedRecurrence, self.backwards[i])
        ahead, back = run_both_directions(forwards, backwards, x, _take_rows(x, order))
        return ahead, _take_rows(back, order)


def _reversed_rows(lengths: Int[Tensor, "b"], t: int) -> Int[Tensor, "n"]:
    """The permutation of the rows of a flattened time-major batch that reverses each sequence.

    Padding stays in place, so applying it twice restores the order.
    """
    b = lengths.shape[0]
    here = torch.arange(t, device=lengths.device)[:, None]
    there = torch.where(here < lengths, lengths - 1 - here, here)  # t b
    return (there * b + torch.arange(b, device=lengths.device)).flatten()


def _take_rows(x: Float[Tensor, "t b d"], rows: Int[Tensor, "n"]) -> Float[Tensor, "t b d"]:
    return x.flatten(0, 1).index_select(0, rows).view_as(x)
