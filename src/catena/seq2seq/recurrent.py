r"""Recurrent encoder-decoders with or without attention, and scheduled sampling.

Recurrent encoder-decoders: embeddings, an encoder, a decoder with or without attention, an output layer.

.. math::  h_1 \dots h_s = \mathrm{encode}(x) \qquad \tilde h_t = \mathrm{decode}(y_{<t}, h) \qquad
           p(y_t \mid y_{<t}, x) = \mathrm{output}(\tilde h_t)

Sutskever et al. 2014; Bahdanau et al. 2015; Luong et al. 2015. The orders of step and attention are in
:mod:`catena.seq2seq.recurrent_decoder`; :mod:`catena.seq2seq.recurrent_build` builds the parts from a config.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from catena.attention.cross import CrossAttention, PreparedKeys
from catena.embeddings.table import Embedding
from catena.encoders.cells import CellState
from catena.outputs.base import OutputLayer
from catena.seq2seq.base import Memory, Source, VectorDecoder, VocabularyInfo, real_targets
from catena.seq2seq.config import ScheduledSamplingConfig
from catena.seq2seq.recurrent_bridge import StateBridge
from catena.seq2seq.recurrent_decoder import AttendFn, DecoderOutput, DecoderState, RecurrentDecoder, joined_steps
from catena.seq2seq.recurrent_encoder import RecurrentSource, reverse
from catena.seq2seq.recurrent_latent import Reinforce, marginal_log_prob, marginal_log_probs
from catena.seq2seq.recurrent_stepper import AttentiveRecurrentStepper, RecurrentStepper
from catena.shapes import mask_from_lengths


class RecurrentModel(VectorDecoder):
    """Abstract model whose target is read by a recurrent decoder; subclasses encode the source.

    The additional tensors of their memory are the first states of the decoder's layers.

    Args:
        target: the embedding of target ids.
        decoder: reads the target.
        output: from vectors to distributions.
        sides: the vocabularies.
        attention: the decoder's attention; None for none.
        reinforce: the loss, for an attention that samples positions.
        sampling: how often training reads the model's own predictions.
    """

    def __init__(
        self,
        target: Embedding,
        decoder: RecurrentDecoder,
        output: OutputLayer,
        sides: VocabularyInfo,
        *,
        attention: CrossAttention | None = None,
        reinforce: Reinforce | None = None,
        sampling: ScheduledSamplingConfig | None = None,
    ) -> None:
        super().__init__()
        self.target, self.decoder, self.looking, self.output = target, decoder, attention, output
        self.v, self.begin, self.end = sides.v, sides.begin, sides.end
        self.reinforce, self.sampling = reinforce, sampling or ScheduledSamplingConfig()
        self.set_progress(0)

    def set_progress(self, step: int) -> None:
        self.teacher_forcing_prob = teacher_forcing_prob(self.sampling, step)

    def hidden(self, memory: Memory, before: Int[Tensor, "b t"]) -> Float[Tensor, "b t d"]:
        vectors, looked, _ = self.decode(memory, before)
        if not self._apart:
            return vectors
        assert looked is not None
        return (looked.weights[:, 0, :, :, None] * vectors).sum(dim=2)

    def loss(self, source: Source, targets: Int[Tensor, "b t"], lengths: Int[Tensor, " b"]) -> Float[Tensor, ""]:
        real = real_targets(len(source), targets, lengths)
        decoded = self._decode_targets(self.encode(source), targets)
        drawn = None if decoded.looked is None else decoded.looked.log_prob
        if not self._apart and drawn is None:
            return self.output.loss(decoded.vectors[real], targets[real])
        log_probs = self._log_prob(decoded, targets, real)
        if drawn is None or self.reinforce is None:
            return -log_probs.sum() / real.sum()
        return self.reinforce(log_probs, drawn, real)

    def token_log_probs(
        self, source: Source, targets: Int[Tensor, "b t"], lengths: Int[Tensor, " b"]
    ) -> Float[Tensor, "b t"]:
        real = real_targets(len(source), targets, lengths)
        return self._log_prob(self.decode(self.encode(source), self.shifted(targets)), targets, real)

    def attention(
        self, source: Source, targets: Int[Tensor, "b t"], lengths: Int[Tensor, " b"]
    ) -> list[Float[Tensor, "b h t s"]]:
        real_targets(len(source), targets, lengths)
        looked = self.decode(self.encode(source), self.shifted(targets)).looked
        return [] if looked is None else [looked.weights]

    def stepper(self, source: Source) -> RecurrentStepper:
        with torch.no_grad():
            memory = self.encode(source)
            keys = self._keys(memory)
        output = self.output  # the current one: it may be restricted to a few ids while the stepper is built
        predict = self._predict if self._apart else lambda vectors, _: output.log_probs(vectors)
        return (RecurrentStepper if keys is None else AttentiveRecurrentStepper)(
            self.decoder,
            self.target,
            predict,
            self._first(memory),
            v=self.v,
            begin=self.begin,
            end=self.end,
            attention=self.looking,
            keys=keys,
        )

    def decode(self, memory: Memory, before: Int[Tensor, "b t"]) -> DecoderOutput:
        """Decode whole targets, with the start token first."""
        return self.decoder(self.target(before), self._first(memory), self._look(memory))

    # --- scheduled sampling -------------------------------------------------------------------------------------------

    def _decode_targets(self, memory: Memory, targets: Int[Tensor, "b t"]) -> DecoderOutput:
        before = self.shifted(targets)
        if not self.training or self.teacher_forcing_prob == 1:
            return self.decode(memory, before)
        true = bernoulli_mask(self.teacher_forcing_prob, targets)
        if self.sampling.way == "steps":
            return self._decode_mixed(memory, targets, true)
        with torch.no_grad():
            vectors, looked, _ = self.decode(memory, before)
            weights = None if looked is None else looked.weights.transpose(1, 2).flatten(0, 1)  # n h s
            own = draw(self._predict(vectors.flatten(0, 1), weights)).view_as(targets)
        return self.decode(memory, self.shifted(torch.where(true, targets, own)))

    def _decode_mixed(self, memory: Memory, targets: Int[Tensor, "b t"], true: Bool[Tensor, "b t"]) -> DecoderOutput:
        """Step by step, where each step reads the gold token or one sampled from the last step."""
        state, look, ids = self._first(memory), self._look(memory), self.shifted(targets)[:, 0]
        pieces: list[DecoderOutput] = []
        for t in range(targets.shape[1]):
            pieces.append(self.decoder(self.target(ids[:, None]), state, look))
            vectors, looked, state = pieces[-1]
            with torch.no_grad():
                own = draw(self._predict(vectors[:, 0], None if looked is None else looked.weights[:, :, 0]))
            ids = torch.where(true[:, t], targets[:, t], own)
        looks = [piece.looked for piece in pieces if piece.looked is not None]
        vectors = torch.cat([piece.vectors for piece in pieces], dim=1)
        return DecoderOutput(vectors, joined_steps(looks) if looks else None, state)

    # --- from vectors to probabilities --------------------------------------------------------------------------------

    @property
    def _apart(self) -> bool:
        return self.looking is not None and self.looking.apart

    def _log_prob(
        self, decoded: DecoderOutput, targets: Int[Tensor, "b t"], real: Bool[Tensor, "b t"]
    ) -> Float[Tensor, "b t"]:
        vectors = decoded.vectors[real]
        if self._apart:
            assert decoded.looked is not None
            found = marginal_log_prob(self.output, vectors, decoded.looked.weights[:, 0][real], targets[real])
        else:
            found = self.output.log_prob(vectors, targets[real])
        return found.new_zeros(targets.shape).masked_scatter(real, found)

    def _predict(self, vectors: Float[Tensor, "n *s d"], weights: Float[Tensor, "n h s"] | None) -> Tensor:
        if weights is None or not self._apart:
            return self.output.log_probs(vectors)
        return marginal_log_probs(self.output, vectors, weights[:, 0])

    # --- the initial state and the attention of the decoder -----------------------------------------------------------

    def _look(self, memory: Memory) -> AttendFn | None:
        keys = self._keys(memory)
        if keys is None or self.looking is None:
            return None
        looking = self.looking
        return lambda query, steps: looking(query, keys, steps)

    def _keys(self, memory: Memory) -> PreparedKeys | None:
        if self.looking is None:
            return None
        return self.looking.prepare(memory.states, mask_from_lengths(memory.lengths, memory.states.shape[1]))

    def _first(self, memory: Memory) -> DecoderState:
        n = self.decoder.stack[0].n_states
        layers: list[CellState] = [memory.more[i : i + n] for i in range(0, len(memory.more), n)]
        return self.decoder.begin(layers)


class RecurrentEncoderDecoder(RecurrentModel):
    """A model of p(target | source) by recurrent networks.

    Args:
        source: the embedding of source ids.
        target: the embedding of target ids.
        encoder: encodes the source.
        bridge: maps the encoder's last states to the decoder's first.
        decoder: reads the target.
        output: from vectors to distributions.
        sides: the vocabularies.
        attention: the decoder's attention; None for none.
        reversed_source: whether the source is read from its end; the memory keeps the source's order.
        reinforce: the loss, for an attention that samples positions.
        sampling: how often training reads the model's own predictions.
    """

    def __init__(
        self,
        source: Embedding,
        target: Embedding,
        encoder: RecurrentSource,
        bridge: StateBridge,
        decoder: RecurrentDecoder,
        output: OutputLayer,
        sides: VocabularyInfo,
        *,
        attention: CrossAttention | None = None,
        reversed_source: bool = False,
        reinforce: Reinforce | None = None,
        sampling: ScheduledSamplingConfig | None = None,
    ) -> None:
        super().__init__(target, decoder, output, sides, attention=attention, reinforce=reinforce, sampling=sampling)
        self.source, self.encoder, self.bridge, self.reversed_source = source, encoder, bridge, reversed_source

    def encode(self, source: Source) -> Memory:
        ids = reverse(source.ids, source.lengths) if self.reversed_source else source.ids
        states, last_states = self.encoder(self.source(ids), source.lengths)
        if self.reversed_source:
            states = reverse(states, source.lengths)
        first = self.bridge(states, source.lengths, last_states)
        return Memory(states, source.lengths, source, tuple(part for layer in first for part in layer))


# --- scheduled sampling -----------------------------------------------------------------------------------------------


def teacher_forcing_prob(settings: ScheduledSamplingConfig, step: int) -> float:
    r"""The probability of reading the gold token at this training step, counted from 0.

    Otherwise the decoder reads a token that is sampled from the model (Bengio et al. 2015, section 2.4):

    * linear: :math:`\epsilon_i = \max(\epsilon, k - c\, i)`
    * exponential: :math:`\epsilon_i = k^i`, k < 1
    * inverse sigmoid: :math:`\epsilon_i = k / (k + \exp(i / k))`, k ≥ 1

    ``least`` applies to all three. It depends only on the step, so that an interrupted training resumes exactly.
    """
    match settings.schedule:
        case "none":
            return 1.0
        case "linear":
            share = settings.k - settings.c * step
        case "exponential":
            share = settings.k**step
        case "inverse_sigmoid":
            # exp(-i / k) instead of exp(i / k), which overflows in long trainings.
            small = math.exp(-step / settings.k)
            share = settings.k * small / (settings.k * small + 1)
    return min(1.0, max(settings.least, share))


def draw(log_probs: Float[Tensor, "*b v"]) -> Int[Tensor, "*b"]:
    """A sampled id for each row, by torch's default generator; never one of log-probability -inf."""
    times = torch.empty_like(log_probs).exponential_().clamp_min(torch.finfo(log_probs.dtype).tiny)
    return (log_probs - times.log()).argmax(dim=-1)


def bernoulli_mask(share: float, like: Int[Tensor, "*b"]) -> Bool[Tensor, "*b"]:
    """True with probability ``share`` for each element, by torch's default generator."""
    return torch.rand(like.shape, device=like.device) < share
