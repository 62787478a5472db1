r"""Recurrent decoders, by the order of the recurrent step and attention.

================  =============================================================================================
``NoAttentionDecoder``         :math:`s_t = \mathrm{step}(e_t, s_{t-1})`, without attention (Sutskever et al. 2014)
``LuongDecoder``         :math:`s_t = \mathrm{step}([e_t; \tilde h_{t-1}], s_{t-1})`, :math:`c_t = \mathrm{look}(s_t)`,
                  :math:`\tilde h_t = \tanh(W [c_t; s_t])`; without input feeding :math:`\tilde h_{t-1}` is left out
                  (Luong et al. 2015, sections 3 and 3.3)
``BahdanauDecoder``      :math:`c_t = \mathrm{look}(s_{t-1})`, :math:`s_t = \mathrm{step}([e_t; c_t], s_{t-1})`,
                  :math:`\tilde h_t = \tanh(W [s_t; c_t; e_t])` (Bahdanau et al. 2015, section 3.1 and appendix A.2)
``GNMTDecoder``          :math:`c_t = \mathrm{look}(s^1_{t-1})` of the lowest layer, and every layer reads
                  :math:`[s^{l-1}_t; c_t]` (Wu et al. 2016, section 3)
================  =============================================================================================

If a step does not depend on the attention, a layer runs over the whole target in one fused call; otherwise the
projections of the embeddings are computed before the loop.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from catena.attention.cross import CrossAttentionResult
from catena.encoders.cells import CellState, Recurrence

AttendFn = Callable[[Tensor, Tensor], CrossAttentionResult]
"""Attention of queries ``b t d`` to their rows' sources, given the index ``b t`` of each step, from 0."""


@dataclass(frozen=True, eq=False, slots=True)
class DecoderState:
    """The state of a decoder.

    Args:
        layers: the state of each layer.
        fed: the last attentional vector, if it is fed to the next step.
        steps: the number of steps of each row.
    """

    layers: tuple[CellState, ...]
    fed: Float[Tensor, "n d_fed"] | None
    steps: Int[Tensor, " n"]

    def select(self, rows: Int[Tensor, " m"]) -> DecoderState:
        layers = tuple(tuple(part[rows] for part in layer) for layer in self.layers)
        return DecoderState(layers, None if self.fed is None else self.fed[rows], self.steps[rows])

    @staticmethod
    def join(states: Sequence[DecoderState]) -> DecoderState:
        layers = zip(*(state.layers for state in states), strict=True)
        fed = [state.fed for state in states if state.fed is not None]
        return DecoderState(
            tuple(tuple(torch.cat(parts) for parts in zip(*layer, strict=True)) for layer in layers),
            torch.cat(fed) if fed else None,
            torch.cat([state.steps for state in states]),
        )


class DecoderOutput(NamedTuple):
    """Output of a decoder."""

    vectors: Tensor
    """``b t d_out``: the vectors that predict the next ids."""
    looked: CrossAttentionResult | None
    """The attention of all steps; None for a decoder without attention."""
    after: DecoderState


class RecurrentStack(nn.Module):
    """Stacked recurrent layers.

    Args:
        layers: the recurrences, the lowest first.
        residual_from: layers from this one on, counted from 0, add their input to their output.
        dropout: probability of dropping a unit between two layers.
    """

    def __init__(self, layers: Sequence[Recurrence], residual_from: int | None, dropout: float) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.residual_from = len(layers) if residual_from is None else residual_from
        self.dropout = nn.Dropout(dropout)
        self.d = layers[-1].d

    def __getitem__(self, i: int) -> Recurrence:
        return cast(Recurrence, self.layers[i])

    def __len__(self) -> int:
        return len(self.layers)

    def whole(
        self, x: Float[Tensor, "b t d_in"], states: Sequence[CellState], first: int = 0, beside: Tensor | None = None
    ) -> tuple[Float[Tensor, "b t d"], list[CellState]]:
        """All steps, layer by layer from ``first`` on; each layer reads ``beside`` in addition to the one below."""
        below, after = x.transpose(0, 1), []
        beside = None if beside is None else beside.transpose(0, 1)
        for i in range(first, len(self)):
            read = self.dropout(below) if i else below
            joined = read if beside is None else torch.cat((read, beside), dim=-1)
            above, state = self.layers[i](joined.contiguous(), states[i])
            below = above + read if i >= self.residual_from else above
            after.append(state)
        return below.transpose(0, 1), after

    def step(
        self, projected: Float[Tensor, "b gates"], states: Sequence[CellState]
    ) -> tuple[Tensor, tuple[CellState, ...]]:
        """One step of all layers, given the projected input of the lowest."""
        after = [self[0].step(projected, states[0], self[0].weight_h)]
        below = after[0][0]
        for i in range(1, len(self)):
            layer, read = self[i], self.dropout(below)
            after.append(layer.step(F.linear(read, layer.weight_x, layer.bias), states[i], layer.weight_h))
            below = after[i][0] + read if i >= self.residual_from else after[i][0]
        return below, tuple(after)


class RecurrentDecoder(nn.Module, ABC):
    """Abstract decoder that reads embedded targets from left to right, from any state."""

    d_out: int
    d_fed: int = 0
    """The size of the vector that a step feeds to the next in addition to the layers' states; 0 for none."""
    remembers: bool = False
    """Whether later steps depend on earlier attention."""
    stack: RecurrentStack

    @abstractmethod
    def forward(self, x: Float[Tensor, "b t d_in"], state: DecoderState, look: AttendFn | None) -> DecoderOutput:
        """Read ``t`` more targets; ``look`` is the attention, None for a decoder without one."""

    def begin(self, layers: Sequence[CellState]) -> DecoderState:
        """The initial state, from the initial states of the layers."""
        h = layers[0][0]
        fed = h.new_zeros(len(h), self.d_fed) if self.d_fed else None
        return DecoderState(tuple(layers), fed, torch.zeros(len(h), dtype=torch.int64, device=h.device))

    def _before_loop(self, x: Float[Tensor, "b t d_in"]) -> tuple[tuple[Tensor, ...], Float[Tensor, "d gates"]]:
        """The lowest layer's projections of the embeddings, step by step, and its weights for additional inputs."""
        lowest, d = self.stack[0], x.shape[-1]
        return F.linear(x, lowest.weight_x[:, :d], lowest.bias).unbind(1), lowest.weight_x[:, d:].t()


def step_numbers(steps: Int[Tensor, " b"], t: int) -> Int[Tensor, "b t"]:
    """The number of steps before each of the next ``t``."""
    return steps[:, None] + torch.arange(t, device=steps.device)


def joined_steps(found: Sequence[CrossAttentionResult]) -> CrossAttentionResult:
    """The results of several steps, concatenated."""
    drawn = [one.log_prob for one in found if one.log_prob is not None]
    sampled_from = [one.probabilities for one in found if one.probabilities is not None]
    return CrossAttentionResult(
        torch.cat([one.context for one in found], dim=1),
        torch.cat([one.weights for one in found], dim=2),
        torch.cat(drawn, dim=1) if drawn else None,
        torch.cat(sampled_from, dim=2) if sampled_from else None,
    )


class NoAttentionDecoder(RecurrentDecoder):
    """A decoder without attention."""

    def __init__(self, stack: RecurrentStack, d_out: int | None = None) -> None:
        super().__init__()
        self.stack = stack
        self.readout = nn.Linear(stack.d, d_out, bias=False) if d_out and d_out != stack.d else None
        self.d_out = d_out or stack.d

    def forward(self, x: Float[Tensor, "b t d_in"], state: DecoderState, look: AttendFn | None) -> DecoderOutput:
        y, layers = self.stack.whole(x, state.layers)
        vectors = self.stack.dropout(y)
        after = DecoderState(tuple(layers), None, state.steps + x.shape[1])
        return DecoderOutput(vectors if self.readout is None else self.readout(vectors), None, after)


class LuongDecoder(RecurrentDecoder):
    """Steps, then attends.

    Args:
        stack: the recurrent layers.
        d_context: the size of the context.
        d_out: the size of the output vectors.
        feeding: whether :math:`\\tilde h` is read by the next step.
    """

    def __init__(self, stack: RecurrentStack, d_context: int, d_out: int, *, feeding: bool) -> None:
        super().__init__()
        self.stack, self.d_out, self.feeding, self.remembers = stack, d_out, feeding, feeding
        self.d_fed = d_out if feeding else 0
        self.readout = nn.Linear(d_context + stack.d, d_out)

    def forward(self, x: Float[Tensor, "b t d_in"], state: DecoderState, look: AttendFn | None) -> DecoderOutput:
        assert look is not None
        if self.feeding:
            return self._step_by_step(x, state, look)
        y, layers = self.stack.whole(x, state.layers)
        looked = look(y, step_numbers(state.steps, x.shape[1]))
        after = DecoderState(tuple(layers), None, state.steps + x.shape[1])
        return DecoderOutput(self.read_out(looked.context, y), looked, after)

    def _step_by_step(self, x: Float[Tensor, "b t d_in"], state: DecoderState, look: AttendFn) -> DecoderOutput:
        projected, of_fed = self._before_loop(x)
        layers, fed, steps = state.layers, cast(Tensor, state.fed), state.steps
        vectors, found = [], []
        for at_step in projected:
            y, layers = self.stack.step(torch.addmm(at_step, fed, of_fed), layers)
            found.append(look(y[:, None], steps[:, None]))
            fed = self.read_out(found[-1].context.squeeze(1), y)
            vectors.append(fed)
            steps = steps + 1
        return DecoderOutput(torch.stack(vectors, dim=1), joined_steps(found), DecoderState(layers, fed, steps))

    def read_out(self, context: Float[Tensor, "*b d_context"], y: Float[Tensor, "*b d"]) -> Float[Tensor, "*b d_out"]:
        return self.stack.dropout(torch.tanh(self.readout(torch.cat((context, y), dim=-1))))


class BahdanauDecoder(RecurrentDecoder):
    """Attends with the previous state, then steps."""

    remembers = True

    def __init__(self, stack: RecurrentStack, d_in: int, d_context: int, d_out: int) -> None:
        super().__init__()
        self.stack, self.d_out = stack, d_out
        self.readout = nn.Linear(stack.d + d_context + d_in, d_out)

    def forward(self, x: Float[Tensor, "b t d_in"], state: DecoderState, look: AttendFn | None) -> DecoderOutput:
        assert look is not None
        projected, of_context = self._before_loop(x)
        layers, steps, vectors, found = state.layers, state.steps, [], []
        for at_step in projected:
            found.append(look(layers[-1][0][:, None], steps[:, None]))
            y, layers = self.stack.step(torch.addmm(at_step, found[-1].context.squeeze(1), of_context), layers)
            vectors.append(y)
            steps = steps + 1
        looked = joined_steps(found)
        read = torch.cat((torch.stack(vectors, dim=1), looked.context, x), dim=-1)
        return DecoderOutput(
            self.stack.dropout(torch.tanh(self.readout(read))), looked, DecoderState(layers, None, steps)
        )


class GNMTDecoder(RecurrentDecoder):
    """The lowest layer attends and steps; all above read the context, each in one call."""

    remembers = True

    def __init__(self, stack: RecurrentStack, d_out: int | None = None) -> None:
        super().__init__()
        self.stack = stack
        self.readout = nn.Linear(stack.d, d_out, bias=False) if d_out and d_out != stack.d else None
        self.d_out = d_out or stack.d

    def forward(self, x: Float[Tensor, "b t d_in"], state: DecoderState, look: AttendFn | None) -> DecoderOutput:
        assert look is not None
        projected, of_context = self._before_loop(x)
        lowest, low, steps, below, found = self.stack[0], state.layers[0], state.steps, [], []
        for at_step in projected:
            found.append(look(low[0][:, None], steps[:, None]))
            low = lowest.step(torch.addmm(at_step, found[-1].context.squeeze(1), of_context), low, lowest.weight_h)
            below.append(low[0])
            steps = steps + 1
        looked = joined_steps(found)
        y, layers = self.stack.whole(torch.stack(below, dim=1), state.layers, 1, looked.context)
        vectors = self.stack.dropout(y)
        after = DecoderState((low, *layers), None, steps)
        return DecoderOutput(vectors if self.readout is None else self.readout(vectors), looked, after)
