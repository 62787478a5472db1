r"""Recurrent layers with a fused implementation in torch: Elman with tanh or ReLU, LSTM, GRU with a late reset.

.. math::
    \text{elman} &\quad h_t = f(U x_t + b + W h_{t-1} + b') \\
    \text{lstm} &\quad i, f, o = \sigma(\cdot) \quad g = \tanh(\cdot) \quad
                c_t = f \circ c_{t-1} + i \circ g \quad h_t = o \circ \tanh c_t \\
    \text{gru} &\quad \tilde h_t = \tanh(U x_t + b + r_t \circ (W h_{t-1} + b')) \quad
                h_t = (1 - z_t) \circ \tilde h_t + z_t \circ h_{t-1}

where each dot is :math:`U x_t + b + W h_{t-1} + b'` of its gate. Hochreiter & Schmidhuber 1997 with the
forget gate of Gers et al. 2000; Cho et al. 2014. Time O(t g d²), with g gates.
"""

from __future__ import annotations

import warnings
from typing import Literal, cast

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from catena.encoders.cells import CellState, Recurrence
from catena.kernels.linear.int8_weight import Int8Weight

_FusedName = Literal["elman_tanh", "elman_relu", "lstm", "gru"]


class FusedRecurrence(Recurrence):
    """One of torch's recurrent networks, one layer in one direction.

    Blocks: i, f, g, o for ``lstm``; r, z, h̃ for ``gru``.
    """

    def __init__(self, name: _FusedName, d_in: int, d: int) -> None:
        super().__init__()
        self.name, self.d_in, self.d = name, d_in, d
        self.weight_dropout = 0.0
        self.n_states = 2 if name == "lstm" else 1
        self.n_gates = {"lstm": 4, "gru": 3}.get(name, 1)
        self.network: nn.RNNBase
        if name == "lstm":
            self.network = nn.LSTM(d_in, d)
        elif name == "gru":
            self.network = nn.GRU(d_in, d)
        else:
            self.network = nn.RNN(d_in, d, nonlinearity=name.removeprefix("elman_"))

    def forward(
        self, x: Float[Tensor, "t b d_in"], state: CellState | None = None
    ) -> tuple[Float[Tensor, "t b d"], CellState]:
        if state is not None:
            state = tuple(part.contiguous() for part in state)  # cuDNN rejects slices of a wider tensor
        if self.training and self.weight_dropout:
            return self._with_dropped_weights(x, state or self.start(x.shape[1], x))
        if len(x) == 1 and isinstance(self.weight_h, Int8Weight):  # torch's networks would convert them to floats
            projected = F.linear(x[0], self.weight_x, self.bias)
            state = self.step(projected, state or self.start(x.shape[1], x), self.weight_h)
            return state[0][None], state
        if self.name == "lstm":
            given = None if state is None else (state[0][None], state[1][None])
            outputs, (h, c) = self.network(x, given)
            return outputs, (h[0], c[0])
        outputs, h = self.network(x, None if state is None else state[0][None])
        return outputs, (h[0],)

    @property
    def weight_x(self) -> Float[Tensor, "gates d_in"]:  # type: ignore[override]
        return cast(Tensor, self.network.weight_ih_l0)

    @property
    def weight_h(self) -> Float[Tensor, "gates d"]:  # type: ignore[override]
        return cast(Tensor, self.network.weight_hh_l0)

    @property
    def bias(self) -> Float[Tensor, " gates"]:  # type: ignore[override]
        """The sum of both biases, except in the GRU, where the second one is inside the reset: :meth:`step` adds it."""
        of_x, of_h = self.vectors()
        return of_x if self.name == "gru" else of_x + of_h

    def step(
        self, projected: Float[Tensor, "b gates"], state: CellState, weight_h: Float[Tensor, "gates d"]
    ) -> CellState:
        h, d = state[0], self.d
        if self.name == "gru":
            past = F.linear(h, weight_h, cast(Tensor, self.network.bias_hh_l0))
            r, z = torch.sigmoid(projected[:, : 2 * d] + past[:, : 2 * d]).chunk(2, dim=1)
            new = torch.tanh(torch.addcmul(projected[:, 2 * d :], r, past[:, 2 * d :]))
            return (new + z * (h - new),)  # lerp does not accept mixed precisions
        gates = torch.addmm(projected, h, weight_h.t())
        if self.name == "lstm":
            i, f, _, o = torch.sigmoid(gates).chunk(4, dim=1)
            c = torch.addcmul(f * state[1], i, torch.tanh(gates[:, 2 * d : 3 * d]))
            return o * torch.tanh(c), c
        return (torch.tanh(gates) if self.name == "elman_tanh" else torch.relu(gates),)

    def _with_dropped_weights(self, x: Tensor, state: CellState) -> tuple[Tensor, CellState]:
        """The same call with some recurrent weights set to 0 for this call."""
        weight_h = cast(Tensor, self.network.weight_hh_l0)
        dropped = F.dropout(weight_h, self.weight_dropout)
        weights = [cast(Tensor, self.network.weight_ih_l0), dropped, *self.vectors()]
        shape = (True, 1, 0.0, True, False, False)  # biases, layers, dropout, training, bidirectional, batch first
        with warnings.catch_warnings():
            # cuDNN needs contiguous weights and copies them if they are not; that is cheap compared to the call.
            warnings.filterwarnings("ignore", message="RNN module weights are not part of single contiguous chunk")
            if self.name == "lstm":
                outputs, h, c = torch._VF.lstm(x, [state[0][None], state[1][None]], weights, *shape)
                return outputs, (h[0], c[0])
            run = {"gru": torch._VF.gru, "elman_tanh": torch._VF.rnn_tanh, "elman_relu": torch._VF.rnn_relu}[self.name]
            outputs, h = run(x, state[0][None], weights, *shape)
            return outputs, (h[0],)

    def input_blocks(self) -> list[Tensor]:
        return list(cast(Tensor, self.network.weight_ih_l0).chunk(self.n_gates))

    def recurrent_blocks(self) -> list[Tensor]:
        return list(cast(Tensor, self.network.weight_hh_l0).chunk(self.n_gates))

    def vectors(self) -> list[Tensor]:
        return [cast(Tensor, self.network.bias_ih_l0), cast(Tensor, self.network.bias_hh_l0)]

    def forget_biases(self) -> list[Tensor]:
        return [bias[self.d : 2 * self.d] for bias in self.vectors()] if self.name == "lstm" else []

    def gates(self, x: Float[Tensor, "b d_in"], state: CellState) -> dict[str, Float[Tensor, "b d"]]:
        if self.n_gates == 1:
            _, (h,) = self(x[None], state)
            return {"state": h.abs()}
        weight_x, weight_h = cast(Tensor, self.network.weight_ih_l0), cast(Tensor, self.network.weight_hh_l0)
        blocks = (x @ weight_x.t() + state[0] @ weight_h.t() + sum(self.vectors())).sigmoid().chunk(self.n_gates, dim=1)
        if self.name == "lstm":
            return {"input": blocks[0], "forget": blocks[1], "output": blocks[3]}
        return {"reset": blocks[0], "update": blocks[1]}


def run_both_directions(
    forwards: FusedRecurrence,
    backwards: FusedRecurrence,
    x: Float[Tensor, "t b d_in"],
    turned: Float[Tensor, "t b d_in"],
) -> tuple[Float[Tensor, "t b d"], Float[Tensor, "t b d"]]:
    """The outputs of two recurrent networks of the same kind, computed as one network of twice the size.

    Its matrices are block-diagonal. The time of a small network on a GPU depends on the number of steps and hardly on
    the size, so this is for GPUs; on a CPU the zeros cost time.

    Args:
        forwards: reads ``x``.
        backwards: reads ``turned``.
        x: the inputs of the first network.
        turned: the inputs of the second network.
    """
    d = forwards.d
    weights = [
        _join_gates(_gates(forwards, name), _gates(backwards, name))
        for name in ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")
    ]
    start = x.new_zeros(1, x.shape[1], 2 * d)
    # biases, layers, dropout, training, bidirectional, batch first
    shape = (True, 1, 0.0, forwards.training, False, False)
    both = torch.cat((x, turned), dim=-1)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="RNN module weights are not part of single contiguous chunk")
        if forwards.name == "lstm":
            outputs = torch._VF.lstm(both, [start, start], weights, *shape)[0]
        else:
            run = {"gru": torch._VF.gru, "elman_tanh": torch._VF.rnn_tanh, "elman_relu": torch._VF.rnn_relu}
            outputs = run[forwards.name](both, start, weights, *shape)[0]
    return outputs[..., :d], outputs[..., d:]


def _gates(recurrence: FusedRecurrence, name: str) -> Tensor:
    """A matrix or vector of the network with an axis for its gates."""
    weight = cast(Tensor, getattr(recurrence.network, name))
    return weight.view(recurrence.n_gates, recurrence.d, *weight.shape[1:])


def _join_gates(first: Tensor, second: Tensor) -> Tensor:
    """The block-diagonal matrices of each gate, or the concatenated vectors, as one matrix or vector."""
    if first.ndim == 3:
        width = first.shape[-1]
        first, second = F.pad(first, (0, width)), F.pad(second, (width, 0))
    return torch.cat((first, second), dim=1).flatten(0, 1)
