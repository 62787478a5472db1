"""The decoder of a Transformer as a stepper.

The keys and values of a source are made once. Rows of a state are always as many neighbours for each of its sources,
so that a beam looks at one source with as many queries as it has hypotheses, and no source is copied for them; sources
that no row belongs to any more are left out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from catena.attention.cache import KeyValueCache
from catena.decoding.stepper import Attentive, Stepper, checked_lengths
from catena.errors import ShapeError
from catena.outputs.base import OutputLayer
from catena.seq2seq.base import Memory
from catena.seq2seq.transformer_decoder import Projected, TransformerDecoder
from catena.shapes import mask_from_lengths

Embed = Callable[[Int[Tensor, "n t"]], Float[Tensor, "n t d"]]


@dataclass(frozen=True, eq=False, slots=True)
class Sources:
    """What the layers look at.

    Args:
        projected: keys and values of each layer.
        mask: True where a position is real.
        whole: whether all of them are.
    """

    projected: list[Projected]
    mask: Bool[Tensor, "b s"]
    whole: bool

    def __len__(self) -> int:
        return len(self.mask)

    @property
    def may_look(self) -> Bool[Tensor, "b 1 s"] | None:
        return None if self.whole else self.mask[:, None]

    def select(self, rows: Int[Tensor, " m"]) -> Sources:
        """The given sources; these themselves if they are all of them."""
        if len(rows) == len(self) and bool((rows == torch.arange(len(self), device=rows.device)).all()):
            return self
        return Sources([(keys[rows], values[rows]) for keys, values in self.projected], self.mask[rows], self.whole)

    @staticmethod
    def join(several: Sequence[Sources]) -> Sources:
        """Sources of one width, one after another."""
        layers = zip(*(sources.projected for sources in several), strict=True)
        projected = [(torch.cat([k for k, _ in layer]), torch.cat([v for _, v in layer])) for layer in layers]
        return Sources(projected, torch.cat([s.mask for s in several]), all(s.whole for s in several))


@dataclass(frozen=True, eq=False, slots=True)
class TransformerState:
    """What was written, for ``n / b`` neighbouring rows of each of ``b`` sources.

    Args:
        hidden: the vectors that predict what comes next.
        seen: the vectors that the last layer looked at the source with.
    """

    cache: KeyValueCache
    sources: Sources
    hidden: Float[Tensor, "n d"]
    seen: Float[Tensor, "n d"]

    @property
    def each(self) -> int:
        """Rows of a source."""
        return len(self.hidden) // len(self.sources) if len(self.sources) else 1


class TransformerStepper(Stepper[TransformerState], Attentive[TransformerState]):
    """Target ids one after another, given sources that were read."""

    def __init__(
        self, embed: Embed, decoder: TransformerDecoder, output: OutputLayer, begin: int, end: int, memory: Memory
    ) -> None:
        self.embed, self.decoder, self.output = embed, decoder, output
        self.v, self.begin, self.end = output.v, begin, end
        mask = mask_from_lengths(memory.lengths, memory.states.shape[1])
        self.sources = Sources(decoder.project(memory.states), mask, bool(mask.all()))

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
    def advance(self, state: TransformerState, ids: Int[Tensor, " n"]) -> TransformerState:
        return self._read_on(state.cache, state.sources, ids[:, None])

    @torch.no_grad()
    def select(self, state: TransformerState, rows: Int[Tensor, " m"]) -> TransformerState:
        of = rows // state.each
        sources = state.sources.select(of[:: equal_runs(of)])
        return TransformerState(state.cache.select(rows), sources, state.hidden[rows], state.seen[rows])

    @torch.no_grad()
    def join(self, states: Sequence[TransformerState]) -> TransformerState:
        several = [state for state in states if len(state.hidden)] or list(states[:1])
        if len(several) == 1:
            return several[0]
        each = math.gcd(*(state.each for state in several))
        sources = [
            state.sources
            if state.each == each
            else state.sources.select(
                torch.arange(len(state.sources), device=state.hidden.device).repeat_interleave(state.each // each)
            )
            for state in several
        ]
        return TransformerState(
            KeyValueCache.join([state.cache for state in several]),
            Sources.join(sources),
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

    def _read_on(self, cache: KeyValueCache, sources: Sources, ids: Int[Tensor, "n t"]) -> TransformerState:
        x = self.embed(ids)
        made, cache, seen = self.decoder.continue_(x, cache, sources.projected, sources.may_look)
        return TransformerState(cache, sources, made[:, -1], seen[:, -1])


def check_rows(n: int, b: int) -> None:
    """A search begins with one row for each source."""
    if n != b:
        raise ShapeError(f"a search begins with one row for each of {b} sources, but {n} rows were asked for")


def equal_runs(of: Int[Tensor, " n"]) -> int:
    """The largest k such that the numbers come in runs of k, or of a multiple of it."""
    _, counts = of.unique_consecutive(return_counts=True)
    return max(1, math.gcd(*counts.tolist()))
