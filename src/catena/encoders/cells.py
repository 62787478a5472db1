r"""Recurrent cells written step by step: Elman and leaky units, LSTMs with peepholes or coupled gates, a GRU.

A recurrence is one layer in one direction. Its input projections are computed before the loop in one product; a step
then costs O(g d²) for each sequence, with g gates. Those with a fused implementation in torch are in
:mod:`catena.encoders.fused`.

The blocks of ``weight_x``, ``weight_h`` and ``bias`` are in the order given by each class. σ is the
logistic function, ∘ the elementwise product; h_0 = c_0 = 0 unless a state is given.

``weight_dropout`` drops recurrent weights, the same for all steps of a call (Wan et al. 2013; Merity et al. 2018,
section 2), noise that does not average out over a long sequence.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from catena.numerics import lerp

CellState = tuple[Tensor, ...]
"""The state of a recurrence, each ``b d``; the first is h."""


class Recurrence(nn.Module, ABC):
    """One recurrent layer in one direction, over time-major input."""

    d_in: int
    d: int
    n_states: int
    weight_dropout: float
    weight_x: Tensor
    """The input weights, ``gates d_in``."""
    weight_h: Tensor
    """The recurrent weights, ``gates d``."""
    bias: Tensor
    """``gates``"""

    @abstractmethod
    def step(
        self, projected: Float[Tensor, "b gates"], state: CellState, weight_h: Float[Tensor, "gates d"]
    ) -> CellState:
        """One step, from W_x x + b of all gates, the previous state, and the recurrent weights of this call."""

    @abstractmethod
    def forward(
        self, x: Float[Tensor, "t b d_in"], state: CellState | None = None
    ) -> tuple[Float[Tensor, "t b d"], CellState]:
        """The outputs h_1 … h_t and the state after the last step, from which a later call can continue."""

    @abstractmethod
    def input_blocks(self) -> list[Tensor]:
        """Views of the input matrices, one ``d d_in`` for each gate."""

    @abstractmethod
    def recurrent_blocks(self) -> list[Tensor]:
        """Views of the matrices of h or c, each ``d d``."""

    @abstractmethod
    def vectors(self) -> list[Tensor]:
        """Biases and other vectors that start at 0."""

    @abstractmethod
    def gates(self, x: Float[Tensor, "b d_in"], state: CellState) -> dict[str, Float[Tensor, "b d"]]:
        """The gates of one step, each between 0 and 1; for units without gates, how saturated ``state`` is."""

    @abstractmethod
    def forget_biases(self) -> list[Tensor]:
        """Views of the biases, each ``d``, whose sum is the bias of the forget gate; empty if there is none."""

    def start(self, b: int, like: Tensor) -> CellState:
        """The state before the first step: zeros."""
        return tuple(like.new_zeros(b, self.d) for _ in range(self.n_states))


class StepRecurrence(Recurrence):
    """A recurrence implemented as a loop over steps."""

    def __init__(self, d_in: int, d: int, n_gates: int, n_states: int) -> None:
        super().__init__()
        self.d_in, self.d, self.n_gates, self.n_states = d_in, d, n_gates, n_states
        self.weight_dropout = 0.0
        bound = 1 / math.sqrt(d)
        self.weight_x = nn.Parameter(torch.empty(n_gates * d, d_in).uniform_(-bound, bound))
        self.weight_h = nn.Parameter(torch.empty(n_gates * d, d).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(n_gates * d).uniform_(-bound, bound))

    def forward(
        self, x: Float[Tensor, "t b d_in"], state: CellState | None = None
    ) -> tuple[Float[Tensor, "t b d"], CellState]:
        state = state or self.start(x.shape[1], x)
        outputs = []
        weight_h = F.dropout(self.weight_h, self.weight_dropout, self.training)
        for projected in F.linear(x, self.weight_x, self.bias).unbind(0):
            state = self.step(projected, state, weight_h)
            outputs.append(state[0])
        return torch.stack(outputs), state

    def input_blocks(self) -> list[Tensor]:
        return list(self.weight_x.chunk(self.n_gates))

    def recurrent_blocks(self) -> list[Tensor]:
        return list(self.weight_h.chunk(self.n_gates))

    def vectors(self) -> list[Tensor]:
        return [self.bias]

    def forget_biases(self) -> list[Tensor]:
        return []

    def gates(self, x: Float[Tensor, "b d_in"], state: CellState) -> dict[str, Float[Tensor, "b d"]]:
        _, (h, *_) = self(x[None], state)
        return {"state": h.abs()}

    def _before_gates(self, x: Float[Tensor, "b d_in"], h: Float[Tensor, "b d"]) -> tuple[Tensor, ...]:
        """The preactivations of each block."""
        return (F.linear(x, self.weight_x, self.bias) + h @ self.weight_h.t()).chunk(self.n_gates, dim=1)


class Elman(StepRecurrence):
    r"""The Elman cell :math:`h_t = f(U x_t + W h_{t-1} + b)`.

    Elman 1990; Goodfellow et al. 2016, equations 10.8 and 10.9, with any activation f.
    """

    def __init__(self, d_in: int, d: int, activation: nn.Module) -> None:
        super().__init__(d_in, d, n_gates=1, n_states=1)
        self.activation = activation

    def step(
        self, projected: Float[Tensor, "b gates"], state: CellState, weight_h: Float[Tensor, "gates d"]
    ) -> CellState:
        return (self.activation(torch.addmm(projected, state[0], weight_h.t())),)


class Leaky(StepRecurrence):
    r"""The leaky cell :math:`h_t = (1 - a) \circ h_{t-1} + a \circ f(U x_t + W h_{t-1} + b)`.

    Leaky units (Jaeger et al. 2007; Goodfellow et al. 2016, section 10.9.2). The fraction a is fixed, or learned
    for each unit as the logistic function of a parameter, so that it stays between 0 and 1.
    """

    def __init__(self, d_in: int, d: int, activation: nn.Module, leak: float, learn_leak: bool = False) -> None:
        super().__init__(d_in, d, n_gates=1, n_states=1)
        self.activation = activation
        self.leak = leak
        self.leak_logit = nn.Parameter(torch.full((d,), math.log(leak / (1 - leak)))) if learn_leak else None

    def step(
        self, projected: Float[Tensor, "b gates"], state: CellState, weight_h: Float[Tensor, "gates d"]
    ) -> CellState:
        (h,) = state
        new = self.activation(torch.addmm(projected, h, weight_h.t()))
        return (lerp(h, new, self.leak if self.leak_logit is None else self.leak_logit.sigmoid()),)


class PeepholeLSTM(StepRecurrence):
    r"""An LSTM whose gates depend on the memory cell.

    .. math::
        f_t &= \sigma(W_f [c_{t-1}, h_{t-1}, x_t] + b_f) \\
        i_t &= \sigma(W_i [c_{t-1}, h_{t-1}, x_t] + b_i) \\
        c_t &= f_t \circ c_{t-1} + i_t \circ \tanh(W_c [h_{t-1}, x_t] + b_c) \\
        o_t &= \sigma(W_o [c_t, h_{t-1}, x_t] + b_o) \qquad h_t = o_t \circ \tanh(c_t)

    The output gate uses the new memory c_t. With ``diagonal`` peepholes each unit uses only its own memory:
    the matrices applied to c are diagonal (Gers & Schmidhuber 2000; Graves 2013, equations 7 to
    11). Blocks: i, f, c, o; peepholes: i, f, o.
    """

    def __init__(self, d_in: int, d: int, peephole: Literal["full", "diagonal"] = "full") -> None:
        super().__init__(d_in, d, n_gates=4, n_states=2)
        self.full = peephole == "full"
        bound = 1 / math.sqrt(d)
        self.peepholes = nn.Parameter(torch.empty((3 * d, d) if self.full else 3 * d).uniform_(-bound, bound))

    def step(
        self, projected: Float[Tensor, "b gates"], state: CellState, weight_h: Float[Tensor, "gates d"]
    ) -> CellState:
        h, c = state
        gates = torch.addmm(projected, h, weight_h.t())
        before, after = self.peepholes.split([2 * self.d, self.d])
        i, f = torch.sigmoid(gates[:, : 2 * self.d] + self._look(c, before)).chunk(2, dim=1)
        c = f * c + i * torch.tanh(gates[:, 2 * self.d : 3 * self.d])
        o = torch.sigmoid(gates[:, 3 * self.d :] + self._look(c, after))
        return o * torch.tanh(c), c

    def gates(self, x: Float[Tensor, "b d_in"], state: CellState) -> dict[str, Float[Tensor, "b d"]]:
        i, f, _, o = self._before_gates(x, state[0])
        see_i, see_f, see_o = self.peepholes.chunk(3)
        _, (_, c) = self(x[None], state)
        seen = {"input": i + self._look(state[1], see_i), "forget": f + self._look(state[1], see_f)}
        return {name: z.sigmoid() for name, z in (seen | {"output": o + self._look(c, see_o)}).items()}

    def _look(self, c: Tensor, peepholes: Tensor) -> Tensor:
        if self.full:
            return c @ peepholes.t()
        return (c[:, None] * peepholes.view(-1, self.d)).flatten(1)

    def recurrent_blocks(self) -> list[Tensor]:
        return [*super().recurrent_blocks(), *(self.peepholes.chunk(3) if self.full else ())]

    def vectors(self) -> list[Tensor]:
        return [self.bias] if self.full else [self.bias, self.peepholes]

    def forget_biases(self) -> list[Tensor]:
        return [self.bias[self.d : 2 * self.d]]


class CoupledLSTM(StepRecurrence):
    r"""An LSTM whose input gate is coupled to the forget gate: i = 1 - f, two gates instead of three.

    .. math::
        f_t &= \sigma(W_f [h_{t-1}, x_t] + b_f) \qquad o_t = \sigma(W_o [h_{t-1}, x_t] + b_o) \\
        c_t &= f_t \circ c_{t-1} + (1 - f_t) \circ \tanh(W_c [h_{t-1}, x_t] + b_c) \\
        h_t &= o_t \circ \tanh(c_t)

    Greff et al. 2017, who call it CIFG. Blocks: f, o, c.
    """

    def __init__(self, d_in: int, d: int) -> None:
        super().__init__(d_in, d, n_gates=3, n_states=2)

    def step(
        self, projected: Float[Tensor, "b gates"], state: CellState, weight_h: Float[Tensor, "gates d"]
    ) -> CellState:
        h, c = state
        gates = torch.addmm(projected, h, weight_h.t())
        f, o = torch.sigmoid(gates[:, : 2 * self.d]).chunk(2, dim=1)
        c = lerp(torch.tanh(gates[:, 2 * self.d :]), c, f)
        return o * torch.tanh(c), c

    def gates(self, x: Float[Tensor, "b d_in"], state: CellState) -> dict[str, Float[Tensor, "b d"]]:
        f, o, _ = self._before_gates(x, state[0])
        return {"forget": f.sigmoid(), "output": o.sigmoid()}

    def forget_biases(self) -> list[Tensor]:
        return [self.bias[: self.d]]


class GRUResetFirst(StepRecurrence):
    r"""The original GRU, with the reset gate before the product.

    .. math::
        z_t &= \sigma(U_z x_t + W_z h_{t-1} + b_z) \qquad r_t = \sigma(U_r x_t + W_r h_{t-1} + b_r) \\
        \tilde h_t &= \tanh(U x_t + W (r_t \circ h_{t-1}) + b) \\
        h_t &= (1 - z_t) \circ h_{t-1} + z_t \circ \tilde h_t

    Cho et al. 2014, section 2.3 (there z and 1 - z are exchanged). torch's fused implementation resets after the
    product, which is a different function. Blocks: z, r, h̃.
    """

    def __init__(self, d_in: int, d: int) -> None:
        super().__init__(d_in, d, n_gates=3, n_states=1)

    def step(
        self, projected: Float[Tensor, "b gates"], state: CellState, weight_h: Float[Tensor, "gates d"]
    ) -> CellState:
        (h,) = state
        to_gates, to_new = weight_h.split([2 * self.d, self.d])
        z, r = torch.sigmoid(torch.addmm(projected[:, : 2 * self.d], h, to_gates.t())).chunk(2, dim=1)
        new = torch.tanh(torch.addmm(projected[:, 2 * self.d :], r * h, to_new.t()))
        return (lerp(h, new, z),)

    def gates(self, x: Float[Tensor, "b d_in"], state: CellState) -> dict[str, Float[Tensor, "b d"]]:
        z, r, _ = self._before_gates(x, state[0])
        return {"update": z.sigmoid(), "reset": r.sigmoid()}
