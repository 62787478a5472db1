"""The state of convolutions that go on: of each layer, the last inputs that its window still reaches."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from catena.encoders.causal import CausalEncoder

ConvState = tuple[Tensor, ...]
"""One ``b n d`` for each layer; zeros where the sequence had not begun."""


def empty_tails(sizes: Sequence[tuple[int, int]], b: int, device: torch.device, dtype: torch.dtype) -> ConvState:
    """Tails of ``(n, d)`` zeros for each layer."""
    return tuple(torch.zeros(b, n, d, device=device, dtype=dtype) for n, d in sizes)


def append_to_state(
    tail: Float[Tensor, "b n d"], x: Float[Tensor, "b t d"]
) -> tuple[Float[Tensor, "b s d"], Float[Tensor, "b n d"]]:
    """The tail and what follows it in one, and the new tail."""
    joined = torch.cat((tail, x), dim=1)
    return joined, joined[:, joined.shape[1] - tail.shape[1] :]


def select_tails(tails: ConvState, rows: Int[Tensor, " m"]) -> ConvState:
    """The tails of some rows, of one several times where it was chosen so: a search reorders by this."""
    return tuple(tail[rows] for tail in tails)


def join_tails(states: Sequence[ConvState]) -> ConvState:
    """The tails of several batches as those of one."""
    return tuple(torch.cat(tails) for tails in zip(*states, strict=True))


class CausalConvEncoder(CausalEncoder):
    """A causal encoder that remembers tails and nothing else. A leaf gives their sizes and reads on."""

    tail_sizes: Sequence[tuple[int, int]]
    """The positions and the features of each layer's tail."""

    def begin(self, b: int, device: torch.device, dtype: torch.dtype) -> ConvState:
        self.check_causal()
        return empty_tails(self.tail_sizes, b, device, dtype)

    def select(self, state: ConvState, rows: Int[Tensor, " m"]) -> ConvState:
        return select_tails(state, rows)

    def join(self, states: Sequence[ConvState]) -> ConvState:
        return join_tails(states)

    def detach(self, state: ConvState) -> ConvState:
        return tuple(tail.detach() for tail in state)
