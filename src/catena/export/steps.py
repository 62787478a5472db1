"""Encoder-decoders as pure functions of tensors, for exporters that trace a call.

No state is kept between calls, and no size is read as a Python int: positions are counted from a tensor.
"""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from catena.embeddings.positions import LearnedPositions, RotaryPositions, SinusoidalPositions
from catena.errors import ConfigError
from catena.seq2seq.base import EncoderDecoder, Memory, Source
from catena.seq2seq.recurrent import RecurrentEncoderDecoder
from catena.seq2seq.recurrent_decoder import DecoderState
from catena.seq2seq.recurrent_encoder import SteppedLayer
from catena.seq2seq.transformer import TransformerSeq2Seq


class StepModule(nn.Module, ABC):
    """A module whose call is one decoding step: ids, position and states → log-probabilities and states."""

    begin: int
    end: int
    changing: tuple[int, ...]
    """The states that a step changes, in the order of its outputs."""
    growing: list[dict[int, str]]
    """The dynamic axes of each state after the first, by name."""

    @abstractmethod
    def read(self, ids: Tensor, lengths: Tensor) -> tuple[Tensor, ...]:
        """Return the states before the first step; ``ids`` is ``b s``."""

    @abstractmethod
    def forward(self, ids: Tensor, position: Tensor, *states: Tensor) -> tuple[Tensor, ...]:
        """Return the log-probabilities after one more id in each row, and the states that changed."""

    def after(self, states: tuple[Tensor, ...], changed: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """Return the states with the changed ones replaced."""
        found = list(states)
        for index, state in zip(self.changing, changed, strict=True):
            found[index] = state
        return tuple(found)


def step_module(model: EncoderDecoder) -> StepModule:
    """Return a copy of the model as a step module."""
    if isinstance(model, TransformerSeq2Seq):
        return TransformerSteps(copy.deepcopy(model).cpu().float().eval())
    if isinstance(model, RecurrentEncoderDecoder):
        return RecurrentSteps(copy.deepcopy(model).cpu().float().eval())
    raise ConfigError(
        f"{type(model).__name__} cannot be exported to ONNX. Use a model of kind transformer or recurrent."
    )


class TransformerSteps(StepModule):
    """A Transformer.

    States: keys and values of the target prefix, ``n l 2 h t d``; those of the source, ``n l 2 h s d``; source lengths.
    """

    changing = (0,)

    def __init__(self, model: TransformerSeq2Seq) -> None:
        super().__init__()
        self.begin, self.end, self.model = model.begin, model.end, model
        self.growing = [{4: "t"}, {4: "s"}, {}]
        sides: tuple[Any, Any] = (model.encoder, model.decoder)
        for side in sides:
            side.positions = _counted(side.positions)
            for layer in side.layers:
                if layer.attention.rotate is not None:
                    layer.attention.rotate = CountedTurns(layer.attention.rotate)

    def read(self, ids: Tensor, lengths: Tensor) -> tuple[Tensor, ...]:
        states = self.model.encode(Source(ids, lengths)).states
        source = torch.stack([torch.stack(pair, dim=1) for pair in self.model.decoder.project(states)], dim=1)
        return source[:, :, :, :, :0], source, lengths

    def forward(self, ids: Tensor, position: Tensor, *states: Tensor) -> tuple[Tensor, ...]:
        written, source, lengths = states
        decoder = self.model.decoder
        x = self.model.embedded(ids[:, None])
        x = x if isinstance(decoder.positions, nn.Identity) else decoder.positions(x, position)
        mask = torch.arange(source.shape[4])[None] < lengths[:, None]
        kept = []
        for i in range(len(decoder.layers)):
            layer, past = decoder.layer(i), written[:, i]

            def look_back(seen: Tensor, layer: Any = layer, past: Tensor = past) -> Tensor:
                own = layer.attention
                q, k, v = own._heads(seen, seen, position)
                both = torch.cat((past, torch.stack((k, v), dim=1)), dim=3)
                kept.append(both)
                return own._join(F.scaled_dot_product_attention(q, both[:, 0], both[:, 1]))

            def look_at_source(seen: Tensor, layer: Any = layer, i: int = i) -> Tensor:
                return layer.cross.look(seen, source[:, i, 0], source[:, i, 1], mask[:, None])

            x = layer(x, look_back, look_at_source)
        return self.model.output.log_probs(decoder.leave(x)[:, 0]), torch.stack(kept, dim=1)


class CountedPositions(nn.Module):
    """Additive positions, counted from a tensor."""

    def __init__(self, d: int, base: float, table: Tensor | None) -> None:
        super().__init__()
        self.d, self.base = d, base
        self.register_buffer("table", table)

    def forward(self, x: Tensor, start: int | Tensor = 0) -> Tensor:
        positions = torch.arange(x.shape[-2]) + start
        if self.table is not None:
            return x + cast(Tensor, self.table)[positions]
        angles = _angles(positions, self.d, self.base)
        return x + torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(-2)[:, : self.d]


class CountedTurns(nn.Module):
    """Rotary positions, counted from a tensor."""

    def __init__(self, turns: RotaryPositions) -> None:
        super().__init__()
        self.d, self.base = turns.d, turns.base

    def forward(self, x: Tensor, start: int | Tensor = 0) -> Tensor:
        # Counted along the tensor itself: its size after splitting off heads would be traced as a constant.
        positions = torch.cumsum(0 * x[0, 0, :, 0] + 1, dim=0) - 1 + start
        angles = _angles(positions, self.d, self.base)
        sin, cos = angles.sin(), angles.cos()
        even, odd = x[..., 0::2], x[..., 1::2]
        return torch.stack((even * cos - odd * sin, even * sin + odd * cos), dim=-1).flatten(-2)


def _counted(positions: nn.Module) -> nn.Module:
    if isinstance(positions, SinusoidalPositions):
        return CountedPositions(positions.d, positions.base, None)
    if isinstance(positions, LearnedPositions):
        return CountedPositions(positions.weight.shape[1], 0.0, positions.weight.detach())
    return positions


def _angles(positions: Tensor, d: int, base: float) -> Tensor:
    rates = torch.exp(torch.arange(0, d, 2) * (-math.log(base) / d))
    return positions[:, None].float() * rates


class RecurrentSteps(StepModule):
    """A recurrent model.

    States: the encoder output, ``n s d``; source lengths; the input feeding of the next step, if any; and the states of
    the decoder layers.
    """

    def __init__(self, model: RecurrentEncoderDecoder) -> None:
        super().__init__()
        for layer in model.encoder.layers:
            if isinstance(layer, SteppedLayer):  # its loop would be unrolled to the length of the example
                raise ConfigError(
                    f"An encoder of {type(layer.ahead).__name__} uses a loop that ONNX cannot represent. Train with "
                    "cell = 'lstm', 'gru' or 'elman'."
                )
        self.begin, self.end, self.model = model.begin, model.end, model
        self.fed = 1 if model.decoder.d_fed else 0
        self.each = model.decoder.stack[0].n_states
        n = 2 + self.fed + self.each * len(model.decoder.stack)
        self.changing = tuple(range(2, n))
        self.growing = [{1: "s"}, *[{} for _ in range(n - 1)]]

    def read(self, ids: Tensor, lengths: Tensor) -> tuple[Tensor, ...]:
        memory = self.model.encode(Source(ids, lengths))
        first = memory.more[0]
        fed = [first.new_zeros(first.shape[0], self.model.decoder.d_fed)] if self.fed else []
        return memory.states, lengths, *fed, *memory.more

    def forward(self, ids: Tensor, position: Tensor, *states: Tensor) -> tuple[Tensor, ...]:
        made, lengths, *rest = states
        nothing = Source(lengths[:, None], torch.ones_like(lengths))  # its ids are not used
        memory = Memory(made, lengths, nothing)
        parts = rest[self.fed :]
        layers = tuple(tuple(parts[i : i + self.each]) for i in range(0, len(parts), self.each))
        before = DecoderState(layers, rest[0] if self.fed else None, position.expand(ids.shape[0]))
        decoded = self.model.decoder(self.model.target(ids[:, None]), before, self.model._look(memory))
        weights = None if decoded.looked is None else decoded.looked.weights[:, :, 0]
        return self.model._predict(decoded.vectors[:, 0], weights), *_parts(decoded.after)


def _parts(state: DecoderState) -> list[Tensor]:
    """Return the tensors of a state, input feeding first."""
    fed = [] if state.fed is None else [state.fed]
    return [*fed, *(part for layer in state.layers for part in layer)]
