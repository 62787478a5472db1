"""The decoder of convolutional sequence to sequence as a stepper, which keeps the window of each layer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from catena.encoders.conv_state import ConvState, empty_tails, join_tails, select_tails
from catena.outputs.base import OutputLayer
from catena.search.stepper import HasAttention, Stepper, checked_lengths
from catena.seq2seq.base import Memory
from catena.seq2seq.grouped import GroupedKeyValues, check_rows
from catena.shapes import cat_padded, mask_from_lengths

_Embed = Callable[[Int[Tensor, "n t"], Int[Tensor, " n"]], Float[Tensor, "n t d"]]


@dataclass(frozen=True, eq=False, slots=True)
class ConvolutionalState:
    """The state of target prefixes, for ``n / b`` adjacent rows of each of ``b`` sources.

    Args:
        tails: the last inputs of each layer.
        places: the number of ids that each row has read.
        sources: the keys and values of the sources.
        hidden: the vectors that predict the next ids.
        looked: the attention weights of the last layer.
    """

    tails: ConvState
    places: Int[Tensor, " n"]
    sources: GroupedKeyValues
    hidden: Float[Tensor, "n d"]
    looked: Float[Tensor, "n s"]

    @property
    def each(self) -> int:
        """The number of rows of a source."""
        return len(self.hidden) // len(self.sources) if len(self.sources) else 1


class ConvolutionalStepper(Stepper[ConvolutionalState], HasAttention[ConvolutionalState]):
    """A stepper over target ids, given encoded sources. ``decoder`` returns vectors, tails and weights."""

    def __init__(self, embed: _Embed, decoder: Any, output: OutputLayer, begin: int, end: int, memory: Memory) -> None:
        self.embed, self.decoder, self.output = embed, decoder, output
        self.v, self.begin, self.end = output.v, begin, end
        mask = mask_from_lengths(memory.lengths, memory.states.shape[1])
        self.sources = GroupedKeyValues([(memory.states[:, None], memory.more[0][:, None])], mask, bool(mask.all()))

    @torch.no_grad()
    def start(self, n: int) -> ConvolutionalState:
        check_rows(n, len(self.sources))
        states, _ = self.sources.projected[0]
        tails = empty_tails(self.decoder.tail_sizes, n, states.device, states.dtype)
        first = torch.full((n, 1), self.begin, device=states.device)
        return self._read_on(tails, torch.zeros(n, dtype=torch.long, device=states.device), self.sources, first)

    @torch.no_grad()
    def log_probs(self, state: ConvolutionalState) -> Float[Tensor, "n v"]:
        return self.output.log_probs(state.hidden)

    @torch.no_grad()
    def top_log_probs(self, state: ConvolutionalState, k: int) -> tuple[Float[Tensor, "n k"], Int[Tensor, "n k"]]:
        return self.output.top_log_probs(state.hidden, k)

    @torch.no_grad()
    def advance(self, state: ConvolutionalState, ids: Int[Tensor, " n"]) -> ConvolutionalState:
        return self._read_on(state.tails, state.places, state.sources, ids[:, None])

    @torch.no_grad()
    def select(self, state: ConvolutionalState, rows: Int[Tensor, " m"]) -> ConvolutionalState:
        return ConvolutionalState(
            select_tails(state.tails, rows),
            state.places[rows],
            state.sources.of_rows(state.each, rows),
            state.hidden[rows],
            state.looked[rows],
        )

    @torch.no_grad()
    def join(self, states: Sequence[ConvolutionalState]) -> ConvolutionalState:
        several = [state for state in states if len(state.hidden)] or list(states[:1])
        if len(several) == 1:
            return several[0]
        sources = GroupedKeyValues.of_states([(state.sources, state.each) for state in several])
        return ConvolutionalState(
            join_tails([state.tails for state in several]),
            torch.cat([state.places for state in several]),
            sources,
            torch.cat([state.hidden for state in several]),
            cat_padded([state.looked for state in several])[:, : sources.mask.shape[1]],
        )

    @torch.no_grad()
    def extend(
        self, state: ConvolutionalState, ids: Int[Tensor, "n t"], lengths: Int[Tensor, " n"]
    ) -> ConvolutionalState:
        counts = checked_lengths(ids, lengths)
        if len(set(counts)) <= 1 and counts and counts[0]:
            return self._read_on(state.tails, state.places, state.sources, ids[:, : counts[0]])
        return super().extend(state, ids, lengths)

    def attention(self, state: ConvolutionalState) -> Float[Tensor, "n s"]:
        """The weights of the last layer."""
        return state.looked

    def source_mask(self, state: ConvolutionalState) -> Bool[Tensor, "n s"]:
        return state.sources.mask.repeat_interleave(state.each, dim=0)

    def _read_on(
        self, tails: ConvState, places: Int[Tensor, " n"], sources: GroupedKeyValues, ids: Int[Tensor, "n t"]
    ) -> ConvolutionalState:
        made = self.decoder(self.embed(ids, places), tails, sources.projected[0], sources.mask)
        looked = made.weights[-1][:, -1]
        return ConvolutionalState(made.tails, places + ids.shape[1], sources, made.vectors[:, -1], looked)
