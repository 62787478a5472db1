"""Recurrent decoders as steppers: a state of the decoder for each row, and the sources that rows share.

A step costs O(s d) for the attention of a row and O(d²) for its layers, however many came before. Sources are kept
once, whatever the beam: see :mod:`catena.attention.shared`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from catena.attention.cross import CrossAttention, CrossAttentionResult, PreparedKeys
from catena.attention.shared import SharedKeys
from catena.search.stepper import HasAttention, Stepper
from catena.seq2seq.grouped import check_rows, live_sources
from catena.seq2seq.recurrent_decoder import DecoderState, RecurrentDecoder
from catena.shapes import cat_padded


@dataclass(frozen=True, eq=False, slots=True)
class StepState:
    """Targets that were read.

    Args:
        decoder: what the decoder remembers.
        vectors: what the next ids are predicted from.
        weights: where each row looked for it, ``n h s``; None where nothing looks.
        keys: the sources that the rows look at, if they look, and others that rows have looked at before.
        sources: the source of each row.
        shared: the same as the attention has it.
    """

    decoder: DecoderState
    vectors: Tensor
    weights: Float[Tensor, "n h s"] | None
    keys: PreparedKeys | None
    sources: Int[Tensor, " n"]
    shared: SharedKeys | None


class RecurrentStepper(Stepper[StepState]):
    """Targets after given sources.

    Args:
        decoder: what steps.
        embed: ids ``n t`` to vectors.
        predict: log-probabilities from a step's vectors, and the weights of where it looked.
        first: the decoder's state before anything is read, one row for each source.
        attention: what it looks with, if it does.
        keys: the sources as the attention has prepared them.
    """

    def __init__(
        self,
        decoder: RecurrentDecoder,
        embed: Callable[[Tensor], Tensor],
        predict: Callable[[Tensor, Tensor | None], Tensor],
        first: DecoderState,
        *,
        v: int,
        begin: int,
        end: int,
        attention: CrossAttention | None = None,
        keys: PreparedKeys | None = None,
    ) -> None:
        self.decoder, self.embed, self.predict, self.first = decoder, embed, predict, first
        self.attention_part, self.keys = attention, keys
        self.v, self.begin, self.end = v, begin, end

    @torch.no_grad()
    def start(self, n: int) -> StepState:
        check_rows(n, len(self.first.steps))
        sources = torch.arange(n, device=self.first.steps.device)
        shared = None if self.keys is None else SharedKeys.of(self.keys, sources)
        return self._read(self.first, torch.full_like(sources, self.begin), self.keys, sources, shared)

    @torch.no_grad()
    def log_probs(self, state: StepState) -> Float[Tensor, "n v"]:
        return self.predict(state.vectors, state.weights)

    @torch.no_grad()
    def advance(self, state: StepState, ids: Int[Tensor, " n"]) -> StepState:
        return self._read(state.decoder, ids, state.keys, state.sources, state.shared)

    @torch.no_grad()
    def select(self, state: StepState, rows: Int[Tensor, " m"]) -> StepState:
        shared = None if state.shared is None else SharedKeys.of(state.shared.keys, state.shared.sources[rows])
        weights = None if state.weights is None else state.weights[rows]
        decoder, sources = state.decoder.select(rows), state.sources[rows]
        return StepState(decoder, state.vectors[rows], weights, state.keys, sources, shared)

    @torch.no_grad()
    def join(self, states: Sequence[StepState]) -> StepState:
        several = [state for state in states if len(state.sources)] or list(states[:1])
        keys, sources = _joined_keys(several)
        decoder = DecoderState.join([state.decoder for state in several])
        vectors = cat_padded([state.vectors for state in several])
        if keys is None:
            return StepState(decoder, vectors, None, None, sources, None)
        s = keys.mask.shape[1]
        assert self.attention_part is not None
        if self.attention_part.apart:  # one vector for each source position
            vectors = vectors[:, :s]
        weights = cat_padded([state.weights for state in several if state.weights is not None])[:, :, :s]
        return StepState(decoder, vectors, weights, keys, sources, SharedKeys.of(keys, sources))

    def _read(
        self,
        before: DecoderState,
        ids: Int[Tensor, " n"],
        keys: PreparedKeys | None,
        sources: Int[Tensor, " n"],
        shared: SharedKeys | None,
    ) -> StepState:
        def look(query: Tensor, steps: Tensor) -> CrossAttentionResult:
            assert shared is not None
            assert self.attention_part is not None
            return shared.look(self.attention_part, query, steps)

        vectors, looked, after = self.decoder(self.embed(ids[:, None]), before, look)
        weights = None if looked is None else looked.weights[:, :, 0]
        return StepState(after, vectors[:, 0], weights, keys, sources, shared)


def _joined_keys(states: Sequence[StepState]) -> tuple[PreparedKeys | None, Int[Tensor, " n"]]:
    """The sources of several states, and which of them each row looks at.

    States of several steppers have sources of their own: those that rows look at are put together.
    """
    keys, each = states[0].keys, [state.sources for state in states]
    if keys is None or all(state.keys is keys for state in states):
        return keys, torch.cat(each)
    live, sources = live_sources(each)
    parts = [state.keys.select(own) for state, own in zip(states, live, strict=True) if state.keys is not None]
    return PreparedKeys.join(parts), sources


class AttentiveRecurrentStepper(RecurrentStepper, HasAttention[StepState]):
    """The same with an attention, which says where it looked: the mean of its heads."""

    def attention(self, state: StepState) -> Float[Tensor, "n s"]:
        assert state.weights is not None
        return state.weights.mean(dim=1)

    def source_mask(self, state: StepState) -> Bool[Tensor, "n s"]:
        assert state.keys is not None
        return state.keys.mask[state.sources]
