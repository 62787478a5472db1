r"""Recurrent encoders that also return their last states, from which a decoder starts.

.. math::  h_i = [\overrightarrow{h}_i; \overleftarrow{h}_i] \qquad
           \text{last states: } [\overrightarrow{h}_{|x|}; \overleftarrow{h}_1] \text{ of each layer}

Sutskever et al. 2014, section 2; Bahdanau et al. 2015, section 3.2. The last state is at the source's last real
token, for any padding. Time O(s g d²) for each layer, with g gates.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from catena.encoders.cells import CellState, Recurrence
from catena.shapes import mask_from_lengths


class Layer(nn.Module, ABC):
    """Abstract layer, in one direction or both."""

    d_out: int

    @abstractmethod
    def forward(
        self, x: Float[Tensor, "b s d_in"], lengths: Int[Tensor, " b"]
    ) -> tuple[Float[Tensor, "b s d_out"], CellState]:
        """The states, undefined at padding, and the last ones, each ``b d_out``, with both directions concatenated."""


class FusedLayer(Layer):
    """One of torch's networks, with packed sequences if lengths differ."""

    def __init__(self, network: nn.RNNBase) -> None:
        super().__init__()
        self.network = network
        self.d_out = network.hidden_size * (2 if network.bidirectional else 1)

    def forward(
        self, x: Float[Tensor, "b s d_in"], lengths: Int[Tensor, " b"]
    ) -> tuple[Float[Tensor, "b s d_out"], CellState]:
        counts = lengths.cpu()
        if bool((counts == x.shape[1]).all()):
            states, last = self.network(x)
        else:
            packed, last = self.network(pack_padded_sequence(x, counts, batch_first=True, enforce_sorted=False))
            states, _ = pad_packed_sequence(packed, batch_first=True, total_length=x.shape[1])
        parts = last if isinstance(last, tuple) else (last,)
        return states, tuple(torch.cat(tuple(part), dim=-1) for part in parts)


class SteppedLayer(Layer):
    """Recurrent cells in a loop over steps; finished rows keep their state."""

    def __init__(self, ahead: Recurrence, back: Recurrence | None = None) -> None:
        super().__init__()
        self.ahead, self.back = ahead, back
        self.d_out = ahead.d * (1 if back is None else 2)

    def forward(
        self, x: Float[Tensor, "b s d_in"], lengths: Int[Tensor, " b"]
    ) -> tuple[Float[Tensor, "b s d_out"], CellState]:
        mask = mask_from_lengths(lengths, x.shape[1])
        ahead, last = _run(self.ahead, x, mask)
        if self.back is None:
            return ahead, last
        back, first = _run(self.back, reverse(x, lengths), mask)
        joined = tuple(torch.cat(pair, dim=-1) for pair in zip(last, first, strict=True))
        return torch.cat((ahead, reverse(back, lengths)), dim=-1), joined


class AdditiveLayer(Layer):
    r"""A cumulative sum :math:`h_n = h_{n-1} + \tanh(W x_n + b)`, without a matrix between two states.

    All positions are computed in parallel, in O(s d²), and the state forgets nothing. Its memory cells, for a decoder
    that has them, are 0.
    """

    def __init__(self, d_in: int, d: int, n_states: int) -> None:
        super().__init__()
        self.input, self.n_states, self.d_out = nn.Linear(d_in, d), n_states, d

    def forward(
        self, x: Float[Tensor, "b s d_in"], lengths: Int[Tensor, " b"]
    ) -> tuple[Float[Tensor, "b s d_out"], CellState]:
        mask = mask_from_lengths(lengths, x.shape[1])
        states = torch.tanh(self.input(x)).masked_fill(~mask[..., None], 0.0).cumsum(dim=1)
        return states, (states[:, -1], *(torch.zeros_like(states[:, -1]) for _ in range(self.n_states - 1)))


def _run(
    recurrence: Recurrence, x: Float[Tensor, "b s d_in"], mask: Bool[Tensor, "b s"]
) -> tuple[Float[Tensor, "b s d"], CellState]:
    state, found = recurrence.start(len(x), x), []
    steps = nn.functional.linear(x, recurrence.weight_x, recurrence.bias).unbind(1)
    for projected, real in zip(steps, mask.unbind(1), strict=True):
        after = recurrence.step(projected, state, recurrence.weight_h)
        state = tuple(torch.where(real[:, None], new, old) for new, old in zip(after, state, strict=True))
        found.append(state[0])
    return torch.stack(found, dim=1), state


def reverse(x: Tensor, lengths: Int[Tensor, " b"]) -> Tensor:
    """Each row reversed within its own length; padding stays at the end. ``x`` is ``b s ...``."""
    here = torch.arange(x.shape[1], device=x.device)
    there = torch.where(here < lengths[:, None], lengths[:, None] - 1 - here, here)
    return x.gather(1, there.view(*there.shape, *(1 for _ in x.shape[2:])).expand_as(x))


class RecurrentSource(nn.Module):
    """Stacked layers over a source.

    Args:
        d_in: the size of an input vector.
        n_layers: the number of layers.
        make: builds layer ``i``, from 0, given the size of its input.
        residual_from: layers from this one on, counted from 0, add their input to their output (Wu et al. 2016,
            section 3.1); None for no such layer.
        dropout: probability of dropping a unit between two layers.
    """

    def __init__(
        self,
        d_in: int,
        n_layers: int,
        make: Callable[[int, int], Layer],
        *,
        residual_from: int | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.layers = nn.ModuleList()
        for i in range(n_layers):
            layer = make(i, d_in)
            self.layers.append(layer)
            d_in = layer.d_out
        self.d_out = d_in
        self.residual_from = n_layers if residual_from is None else residual_from
        self.dropout = nn.Dropout(dropout)

    def forward(
        self, x: Float[Tensor, "b s d_in"], lengths: Int[Tensor, " b"]
    ) -> tuple[Float[Tensor, "b s d_out"], Sequence[CellState]]:
        """The states of the top layer, 0 at padding, and the last states of every layer."""
        last_states: list[CellState] = []
        for i, layer in enumerate(self.layers):
            read = self.dropout(x) if i else x
            states, last = layer(read, lengths)
            x = states + read if i >= self.residual_from else states
            last_states.append(last)
        return x.masked_fill(~mask_from_lengths(lengths, x.shape[1])[..., None], 0.0), last_states
