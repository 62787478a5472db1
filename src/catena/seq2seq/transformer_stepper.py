"""The Transformer decoder as a stepper.

The keys and values of a source are computed once, and those of the target are cached.

Tested in tests/seq2seq/test_transformer.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from catena.attention.cache import KeyValueCache
from catena.outputs.base import OutputLayer
from catena.search.stepper import HasAttention, Stepper, checked_lengths
from catena.seq2seq.base import Memory
from catena.seq2seq.grouped import GroupedKeyValues, check_rows
from catena.seq2seq.transformer_decoder import TransformerDecoder
from catena.shapes import mask_from_lengths

_Embed = Callable[[Int[Tensor, "n t"]], Float[Tensor, "n t d"]]


@dataclass(frozen=True, eq=False, slots=True)
class TransformerState:
    """The state of target prefixes, for ``n / b`` adjacent rows of each of ``b`` sources.

    Args:
        cache: the keys and values of the target.
        sources: the keys and values of the sources.
        hidden: the vectors that predict the next ids.
        seen: the queries of the last layer to the source.
    """

    cache: KeyValueCache
    sources: GroupedKeyValues
    hidden: Float[Tensor, "n d"]
    seen: Float[Tensor, "n d"]

    @property
    def each(self) -> int:
        """The number of rows of a source."""
        return len(self.hidden) // len(self.sources) if len(self.sources) else 1


class TransformerStepper(Stepper[TransformerState], HasAttention[TransformerState]):
    """A stepper over target ids given encoded sources."""

    def __init__(
        self, embed: _Embed, decoder: TransformerDecoder, output: OutputLayer, begin: int, end: int, memory: Memory
    ) -> None:
        self.embed, self.decoder, self.output = embed, decoder, output
        self.v, self.begin, self.end = output.v, begin, end
        mask = mask_from_lengths(memory.lengths, memory.states.shape[1])
        self.sources = GroupedKeyValues(decoder.project(memory.states), mask, bool(mask.all()))

    @torch.no_grad()
    def start(self, n: int) -> TransformerState:
        check_rows(n, len(self.sources))
        keys, _ = self.sources.projected[0]
        attention = self.decoder.layer(0).attention
        shape = len(self.sources.projected), n, attention.n_kv_heads, attention.d_head
        cache = KeyValueCache.empty(*shape, keys.device, keys.dtype)
        return self._read_on(cache, self.sources, torch.full((n, 1), self.begin, device=keys.device))

    @torch.no_grad()
    def log_probs(self, state: TransformerState) -> Float[Tensor, "n v"]:
        return self.output.log_probs(state.hidden)

    @torch.no_grad()
    def top_log_probs(self, state: TransformerState, k: int) -> tuple[Float[Tensor, "n k"], Int[Tensor, "n k"]]:
        return self.output.top_log_probs(state.hidden, k)

    @torch.no_grad()
    def advance(self, state: TransformerState, ids: Int[Tensor, " n"]) -> TransformerState:
        return self._read_on(state.cache, state.sources, ids[:, None])

    @torch.no_grad()
    def select(self, state: TransformerState, rows: Int[Tensor, " m"]) -> TransformerState:
        sources = state.sources.of_rows(state.each, rows)
        return TransformerState(state.cache.select(rows), sources, state.hidden[rows], state.seen[rows])

    @torch.no_grad()
    def join(self, states: Sequence[TransformerState]) -> TransformerState:
        several = [state for state in states if len(state.hidden)] or list(states[:1])
        if len(several) == 1:
            return several[0]
        return TransformerState(
            KeyValueCache.join([state.cache for state in several]),
            GroupedKeyValues.of_states([(state.sources, state.each) for state in several]),
            torch.cat([state.hidden for state in several]),
            torch.cat([state.seen for state in several]),
        )

    @torch.no_grad()
    def extend(self, state: TransformerState, ids: Int[Tensor, "n t"], lengths: Int[Tensor, " n"]) -> TransformerState:
        counts = checked_lengths(ids, lengths)
        if len(set(counts)) <= 1 and counts and counts[0]:
            return self._read_on(state.cache, state.sources, ids[:, : counts[0]])
        return super().extend(state, ids, lengths)

    @torch.no_grad()
    def attention(self, state: TransformerState) -> Float[Tensor, "n s"]:
        """The mean over the heads of the last layer."""
        sources = state.sources
        keys, _ = sources.projected[-1]
        seen = state.seen.view(len(sources), state.each, state.seen.shape[1])
        last = self.decoder.layer(len(sources.projected) - 1)
        return last.cross.weights(seen, keys, sources.may_look).mean(dim=1).flatten(0, 1)

    def source_mask(self, state: TransformerState) -> Bool[Tensor, "n s"]:
        return state.sources.mask.repeat_interleave(state.each, dim=0)

    def _read_on(self, cache: KeyValueCache, sources: GroupedKeyValues, ids: Int[Tensor, "n t"]) -> TransformerState:
        x = self.embed(ids)
        made, cache, seen = self.decoder.continue_(x, cache, sources.projected, sources.may_look)
        return TransformerState(cache, sources, made[:, -1], seen[:, -1])
