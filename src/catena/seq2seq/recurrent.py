r"""Recurrent encoder-decoders: an embedding for each side, an encoder, a decoder that may look back, an output layer.

.. math::  h_1 \dots h_s = \mathrm{encode}(x) \qquad \tilde h_t = \mathrm{decode}(y_{<t}, h) \qquad
           p(y_t \mid y_{<t}, x) = \mathrm{output}(\tilde h_t)

Sutskever et al. 2014; Bahdanau et al. 2015; Luong et al. 2015. The orders of stepping and looking are in
:mod:`catena.seq2seq.recurrent_decoder`; :mod:`catena.seq2seq.recurrent_build` makes the parts from settings.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from catena.attention.cross import CrossAttention
from catena.embeddings.table import Embedding
from catena.encoders.cells import State
from catena.outputs.base import OutputLayer
from catena.seq2seq.base import Memory, Source, VectorDecoder
from catena.seq2seq.recurrent_decoder import Decoded, Decoder, DecoderState, Look
from catena.seq2seq.recurrent_encoder import RecurrentSource, reverse
from catena.seq2seq.recurrent_handover import Handover
from catena.seq2seq.recurrent_stepper import AttentiveRecurrentStepper, RecurrentStepper
from catena.seq2seq.sides import Sides
from catena.shapes import mask_from_lengths


class RecurrentEncoderDecoder(VectorDecoder):
    """p(target | source) by recurrent networks.

    Args:
        source: vectors of source ids.
        target: vectors of target ids.
        encoder: reads the source.
        handover: from the encoder's last states to the decoder's first.
        decoder: reads the target.
        attention: what the decoder looks with; None if it does not look.
        output: a vector to a distribution.
        reversed_source: whether the source is read from its end; what is attended to keeps the source's order.
    """

    def __init__(
        self,
        source: Embedding,
        target: Embedding,
        encoder: RecurrentSource,
        handover: Handover,
        decoder: Decoder,
        output: OutputLayer,
        sides: Sides,
        *,
        attention: CrossAttention | None = None,
        reversed_source: bool = False,
    ) -> None:
        super().__init__()
        self.source, self.target, self.encoder, self.handover = source, target, encoder, handover
        self.decoder, self.looking, self.output = decoder, attention, output
        self.reversed_source = reversed_source
        self.v, self.begin, self.end = sides.v, sides.begin, sides.end

    def encode(self, source: Source) -> Memory:
        ids = reverse(source.ids, source.lengths) if self.reversed_source else source.ids
        states, handed = self.encoder(self.source(ids), source.lengths)
        if self.reversed_source:
            states = reverse(states, source.lengths)
        first = self.handover(states, source.lengths, handed)
        return Memory(states, source.lengths, source, tuple(part for layer in first for part in layer))

    def hidden(self, memory: Memory, before: Int[Tensor, "b t"]) -> Float[Tensor, "b t d"]:
        return self.decode(memory, before).vectors

    def attention(
        self, source: Source, targets: Int[Tensor, "b t"], lengths: Int[Tensor, " b"]
    ) -> list[Float[Tensor, "b h t s"]]:
        looked = self.decode(self.encode(source), self.shifted(targets)).looked
        return [] if looked is None else [looked.weights]

    def stepper(self, source: Source) -> RecurrentStepper:
        with torch.no_grad():
            memory = self.encode(source)
            parts = (self.decoder, self.target, self.output, self._first(memory))
            if self.looking is None:
                return RecurrentStepper(*parts, begin=self.begin, end=self.end)
            keys = self.looking.prepare(memory.states, mask_from_lengths(memory.lengths, memory.states.shape[1]))
            return AttentiveRecurrentStepper(*parts, begin=self.begin, end=self.end, attention=self.looking, keys=keys)

    def decode(self, memory: Memory, before: Int[Tensor, "b t"]) -> Decoded:
        """Read whole targets."""
        return self.decoder(self.target(before), self._first(memory), self._look(memory))

    def _look(self, memory: Memory) -> Look | None:
        if self.looking is None:
            return None
        keys = self.looking.prepare(memory.states, mask_from_lengths(memory.lengths, memory.states.shape[1]))
        looking = self.looking
        return lambda query, steps: looking(query, keys, steps)

    def _first(self, memory: Memory) -> DecoderState:
        n = self.decoder.stack[0].n_states
        layers: list[State] = [memory.more[i : i + n] for i in range(0, len(memory.more), n)]
        return self.decoder.begin(layers)
