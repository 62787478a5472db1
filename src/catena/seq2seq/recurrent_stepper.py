"""Recurrent decoders as steppers: a decoder state for each row, and sources that several rows use.

A step costs O(s d) for the attention of a row and O(d²) for its layers, for any prefix length. Sources are stored
once, for any beam size: see :mod:`catena.attention.shared`.
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
    """The state of target prefixes.

    Args:
        decoder: the decoder's state.
        vectors: the vectors that predict the next ids.
        weights: the attention weights of each row, ``n h s``; None without attention.
        keys: the sources of the rows, if there is attention, and sources of earlier rows.
        sources: the source of each row.
        shared: the same, prepared for the attention.
    """

    decoder: DecoderState
    vectors: Tensor
    weights: Float[Tensor, "n h s"] | None
    keys: PreparedKeys | None
    sources: Int[Tensor, " n"]
    shared: SharedKeys | None


class RecurrentStepper(Stepper[StepState]):
    """A stepper over target ids given sources.

    Args:
        decoder: the decoder.
        embed: from ids ``n t`` to vectors.
        predict: from a step's vectors and attention weights to log-probabilities.
        first: the decoder's initial state, one row for each source.
        v: the size of the target vocabulary.
        begin: the id of the start token.
        end: the id that ends a sequence.
        attention: the attention; None for none.
        keys: the sources prepared for the attention.
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
    """The sources of several states, and the source of each row.

    States of several steppers have different sources: those with rows are concatenated.
    """
    keys, each = states[0].keys, [state.sources for state in states]
    if keys is None or all(state.keys is keys for state in states):
        return keys, torch.cat(each)
    live, sources = live_sources(each)
    parts = [state.keys.select(own) for state, own in zip(states, live, strict=True) if state.keys is not None]
    return PreparedKeys.join(parts), sources


class AttentiveRecurrentStepper(RecurrentStepper, HasAttention[StepState]):
    """A recurrent stepper with attention weights, the mean of its heads."""

    def attention(self, state: StepState) -> Float[Tensor, "n s"]:
        assert state.weights is not None
        return state.weights.mean(dim=1)

    def source_mask(self, state: StepState) -> Bool[Tensor, "n s"]:
        assert state.keys is not None
        return state.keys.mask[state.sources]
