"""The state of causal convolutions: the last inputs of each layer that its window still needs."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from catena.encoders.causal import CausalEncoder

ConvState = tuple[Tensor, ...]
"""One ``b n d`` for each layer; zeros before the beginning of the sequence."""


def empty_tails(sizes: Sequence[tuple[int, int]], b: int, device: torch.device, dtype: torch.dtype) -> ConvState:
    """Tails of ``(n, d)`` zeros for each layer."""
    return tuple(torch.zeros(b, n, d, device=device, dtype=dtype) for n, d in sizes)


def append_to_state(
    tail: Float[Tensor, "b n d"], x: Float[Tensor, "b t d"]
) -> tuple[Float[Tensor, "b s d"], Float[Tensor, "b n d"]]:
    """The tail with ``x`` appended, and the new tail."""
    joined = torch.cat((tail, x), dim=1)
    return joined, joined[:, joined.shape[1] - tail.shape[1] :]


def select_tails(tails: ConvState, rows: Int[Tensor, " m"]) -> ConvState:
    """The tails of some rows, which may be repeated."""
    return tuple(tail[rows] for tail in tails)


def join_tails(states: Sequence[ConvState]) -> ConvState:
    """The tails of several batches, concatenated."""
    return tuple(torch.cat(tails) for tails in zip(*states, strict=True))


class CausalConvEncoder(CausalEncoder):
    """Abstract causal encoder whose state consists of tails."""

    tail_sizes: Sequence[tuple[int, int]]
    """The number of positions and features of each layer's tail."""

    def begin(self, b: int, device: torch.device, dtype: torch.dtype) -> ConvState:
        self.check_causal()
        return empty_tails(self.tail_sizes, b, device, dtype)

    def select(self, state: ConvState, rows: Int[Tensor, " m"]) -> ConvState:
        return select_tails(state, rows)

    def join(self, states: Sequence[ConvState]) -> ConvState:
        return join_tails(states)

    def detach(self, state: ConvState) -> ConvState:
        return tuple(tail.detach() for tail in state)
