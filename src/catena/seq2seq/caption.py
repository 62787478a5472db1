r"""Captions of pictures: a recurrent decoder that attends to a grid of vectors, with soft or hard attention.

.. math::
    e_{ti} &= v^\top \tanh(W_a a_i + W_h h_{t-1}) \qquad α_t = \mathrm{softmax}(e_t) \qquad
    β_t = σ(w_β^\top h_{t-1} + b_β) \\
    z_t &= β_t \sum_i α_{ti} a_i \qquad (h_t, c_t) = \mathrm{LSTM}([E y_{t-1}; z_t], (h_{t-1}, c_{t-1})) \\
    p(y_t \mid y_{<t}, a) &= \mathrm{softmax}(L_o (E y_{t-1} + L_h h_t + L_z z_t)) \qquad
    h_0 = \tanh(W_0 \bar a), \quad c_0 = \tanh(W_1 \bar a)

Xu et al. 2015, equations 4 to 9. The vectors :math:`a_i` are the last grid of a convolutional network or features of a
file, normalized to mean 0 and deviation 1. The loss of a caption is

.. math::  -\sum_t \log p(y_t) + λ \sum_i \Big(1 - \sum_t α_{ti}\Big)^2

(equation 14, "doubly stochastic"). With ``word_weight`` :math:`γ`, training also predicts which words are in the
caption, without their order, from the mean part, as word detectors are learned by Fang et al. 2015 (section 3):

.. math::  -γ \sum_{v \in y} \log σ(u_v^\top \bar a + b_v) - γ \sum_{v \notin y} \log σ(-u_v^\top \bar a - b_v)

With hard attention a position :math:`s_t` is sampled from :math:`α_t`, and :math:`z_t = β_t a_{s_t}`; for a fraction of
the captions the expectation is used instead. The gradient of a sampled caption is (equation 12)

.. math::
    \nabla \log p(y \mid s) + λ_r \sum_t (R_t - b_t) \nabla \log p(s_t \mid s_{<t}) + λ_e \sum_t \nabla H(α_t)

where :math:`R_t` sums the log-probabilities of the words from t on, the only ones that :math:`s_t` can change. Every
search and constraint of :mod:`catena.search` works with the model's stepper. Tested in tests/seq2seq/test_caption.py.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from catena.attention.cross import CrossAttention, CrossAttentionResult, build_cross
from catena.attention.hard import SampledHardAttention, one_hot
from catena.embeddings.table import EmbeddingTable
from catena.encoders import config as encoders
from catena.encoders.build import build_recurrence
from catena.encoders.image_base import DenseHead, PixelNorm
from catena.encoders.images import build_image_encoder
from catena.encoders.init import init_weights
from catena.numerics import masked_softmax
from catena.outputs.build import build_output
from catena.seq2seq.base import Memory, Source, VocabularyInfo, real_targets
from catena.seq2seq.caption_config import FeatureEncoderConfig, HardCaptionConfig, SoftCaptionConfig
from catena.seq2seq.recurrent import RecurrentModel
from catena.seq2seq.recurrent_decoder import (
    AttendFn,
    DecoderOutput,
    DecoderState,
    RecurrentDecoder,
    RecurrentStack,
    joined_steps,
)
from catena.seq2seq.recurrent_latent import Reinforce
from catena.shapes import mask_from_lengths


@dataclass(frozen=True, eq=False, slots=True)
class PictureSource(Source):
    """A batch of pictures; ``ids`` are zeros, one for each position of the grid.

    Args:
        content: pixels from 0 to 1 (m c height width), or features (m s d), any values at padding.
        rows: the index in ``content`` of each row of the batch, if rows have pictures in common, which are then encoded
            once; None if every row has its own.
    """

    content: Float[Tensor, "m ..."] = field(kw_only=True)
    rows: Int[Tensor, " b"] | None = field(kw_only=True, default=None)

    @classmethod
    def build(cls, content: Float[Tensor, "b ..."], lengths: Int[Tensor, " b"], n_positions: int) -> PictureSource:
        """Pictures whose numbers of positions are ``lengths``, at most ``n_positions``."""
        ids = torch.zeros(len(content), n_positions, dtype=torch.int64, device=content.device)
        return cls(ids, lengths, content=content)

    def select(self, rows: Int[Tensor, " n"]) -> PictureSource:
        content = self.content[rows if self.rows is None else self.rows[rows]]
        return PictureSource(self.ids[rows], self.lengths[rows], content=content)

    def repeat(self, rows: Int[Tensor, " n"]) -> PictureSource:
        """The sources of the given rows, as by :meth:`select`, but with each picture stored and encoded once."""
        own = rows if self.rows is None else self.rows[rows]
        return PictureSource(self.ids[rows], self.lengths[rows], content=self.content, rows=own)

    def to(self, device: torch.device) -> PictureSource:
        rows = None if self.rows is None else self.rows.to(device)
        return PictureSource(self.ids.to(device), self.lengths.to(device), content=self.content.to(device), rows=rows)


class FeatureReader(nn.Module):
    """Features of a file, normalized."""

    def __init__(self, config: FeatureEncoderConfig) -> None:
        super().__init__()
        self.d_out, self.n_positions = config.d_features, config.n_positions
        self.norm = nn.LayerNorm(self.d_out)

    def forward(self, content: Float[Tensor, "b s d"]) -> Float[Tensor, "b s d"]:
        return self.norm(content)


class GridReader(nn.Module):
    """The last grid of a convolutional network over pixels, row by row, normalized."""

    def __init__(self, config: SoftCaptionConfig) -> None:
        super().__init__()
        assert not isinstance(config.encoder, FeatureEncoderConfig)
        size = (config.input.height, config.input.width)
        self.pixels, self.frozen = PixelNorm(), config.frozen
        self.network = build_image_encoder(config.encoder, size)
        for name, part in list(self.network.named_children()):
            if isinstance(part, DenseHead):  # only the grid is used
                setattr(self.network, name, nn.Identity())
        self.network.requires_grad_(not self.frozen)
        self.network.eval()
        with torch.no_grad():
            _, self.d_out, *grid = self.network.encode_grid(torch.zeros(1, 3, *size)).shape
        self.grid = (grid[0], grid[1])
        self.n_positions = grid[0] * grid[1]
        self.norm = nn.LayerNorm(self.d_out)
        self.train()

    def train(self, mode: bool = True) -> GridReader:
        super().train(mode)
        if self.frozen:
            self.network.eval()  # the statistics of its batch normalization stay
        return self

    def forward(self, content: Float[Tensor, "b c height width"]) -> Float[Tensor, "b s d"]:
        pixels = self.pixels(content)
        if pixels.is_cuda:  # scaled pictures have their channels first, with which convolutions on a GPU are slower
            pixels = pixels.contiguous(memory_format=torch.channels_last)
        grid = self.network.encode_grid(pixels)
        return self.norm(grid.flatten(2).transpose(1, 2))  # b d rows columns -> b s d


class WordPredictor(nn.Module):
    """Independent probabilities that words are in a caption, for training an encoder of pictures.

    Args:
        d: the size of the vector of a picture.
        sides: the vocabulary; its forbidden ids and the end symbol are not predicted.
    """

    predicted: Tensor

    def __init__(self, d: int, sides: VocabularyInfo) -> None:
        super().__init__()
        self.logits = nn.Linear(d, sides.v)
        predicted = torch.ones(sides.v, dtype=torch.bool)
        predicted[[*sides.forbidden, sides.end]] = False
        self.register_buffer("predicted", predicted, persistent=False)
        frequency = torch.tensor(sides.counts, dtype=torch.float32) / max(1, sides.counts[sides.end])
        nn.init.zeros_(self.logits.weight)
        with torch.no_grad():  # a new predictor knows how frequent words are
            self.logits.bias.copy_(torch.logit(frequency.clamp(1e-5, 0.9)))

    def loss(self, vectors: Float[Tensor, "b d"], targets: Int[Tensor, "b t"]) -> Float[Tensor, ""]:
        """-log of the probability of exactly the words of each target, summed over all targets."""
        return self.cross_entropies(vectors, self.occurrences(targets)).sum()

    def occurrences(self, targets: Int[Tensor, "b t"]) -> Float[Tensor, "b v"]:
        """1 for each word of a target, otherwise 0."""
        zeros = self.logits.weight.new_zeros(len(targets), self.logits.out_features)
        return zeros.scatter_(1, targets, 1.0)

    def cross_entropies(self, vectors: Float[Tensor, "b d"], fractions: Float[Tensor, "b v"]) -> Float[Tensor, " b"]:
        """The cross-entropy of each row between the fractions of captions that have a word and its probability."""
        logits = self.logits(vectors).to(fractions.dtype)  # half precision would round the logits of rare words
        each = F.binary_cross_entropy_with_logits(logits, fractions, reduction="none")
        return each.masked_fill(~self.predicted, 0.0).sum(dim=1)


def _mix_rows(x: Float[Tensor, "b ..."], weights: Float[Tensor, " b"]) -> Float[Tensor, "b ..."]:
    """w_i x_i + (1 - w_i) x_(i - 1)."""
    weights = weights.to(x.dtype).reshape(-1, *[1] * (x.ndim - 1))
    return weights * x + (1 - weights) * x.roll(1, dims=0)


def _mean_part(states: Float[Tensor, "b s d"], lengths: Int[Tensor, " b"]) -> Float[Tensor, "b d"]:
    return states.sum(dim=1) / lengths[:, None]


class GatedAttentionDecoder(RecurrentDecoder):
    """Attends with the previous state, weights the context by a gate, steps, and adds up all three for the output.

    Args:
        stack: the recurrent layer.
        d_in: the size of a word vector, and of the output vectors.
        d_context: the size of the context.
        gate: whether there is a gate.
    """

    remembers = True

    def __init__(self, stack: RecurrentStack, d_in: int, d_context: int, *, gate: bool) -> None:
        super().__init__()
        self.stack, self.d_out = stack, d_in
        self.gate = nn.Linear(stack.d, 1) if gate else None
        self.of_state = nn.Linear(stack.d, d_in)
        self.of_context = nn.Linear(d_context, d_in, bias=False)

    def forward(self, x: Float[Tensor, "b t d_in"], state: DecoderState, look: AttendFn | None) -> DecoderOutput:
        assert look is not None
        projected, of_context = self._before_loop(x)
        layers, steps, states, contexts, found = state.layers, state.steps, [], [], []
        for at_step in projected:
            before = layers[-1][0]
            found.append(look(before[:, None], steps[:, None]))
            context = found[-1].context.squeeze(1)
            contexts.append(context if self.gate is None else torch.sigmoid(self.gate(before)) * context)
            y, layers = self.stack.step(torch.addmm(at_step, contexts[-1], of_context), layers)
            states.append(y)
            steps = steps + 1
        vectors = x + self.of_state(torch.stack(states, dim=1)) + self.of_context(torch.stack(contexts, dim=1))
        return DecoderOutput(self.stack.dropout(vectors), joined_steps(found), DecoderState(layers, None, steps))


class CaptionModel(RecurrentModel):
    """A model of p(caption | picture).

    Args:
        config: soft or hard attention, the encoder and the sizes.
        sides: the vocabulary of captions.
    """

    target: EmbeddingTable
    looking: CrossAttention

    def __init__(self, config: SoftCaptionConfig, sides: VocabularyInfo) -> None:
        reader = FeatureReader(config.encoder) if isinstance(config.encoder, FeatureEncoderConfig) else None
        pictures = reader or GridReader(config)
        d_memory = pictures.d_out
        cell = build_recurrence(encoders.RecurrentConfig(cell=config.cell, d=config.d), config.d_embedding + d_memory)
        init_weights(cell, "default", forget_bias=1.0)
        hard = config if isinstance(config, HardCaptionConfig) else None
        sampler = SampledHardAttention()
        focus = sampler if hard and hard.evaluation == "best" else None
        super().__init__(
            EmbeddingTable(sides.v, config.d_embedding, scale=0.1, dropout=config.dropout),
            GatedAttentionDecoder(
                RecurrentStack([cell], None, config.dropout), config.d_embedding, d_memory, gate=config.gate
            ),
            build_output(config.output, config.d_embedding, sides.counts, forbidden=sides.forbidden),
            sides,
            attention=build_cross("additive", config.d, d_memory, d=config.d_attention, focus=focus),
            reinforce=None if hard is None else _build_reinforce(hard),
            sampling=config.sampling,
        )
        self.pictures, self.sampler = pictures, sampler
        self.first = nn.ModuleList(nn.Linear(d_memory, config.d) for _ in range(cell.n_states))
        self.blind, self.doubly_stochastic = config.blind, config.doubly_stochastic
        self.words = WordPredictor(d_memory, sides) if config.word_weight else None
        self.word_weight = config.word_weight
        self.entropy_weight, self.mixing = (hard.entropy_weight, hard.mixing) if hard else (0.0, 0.0)
        self.compares = hard is not None and hard.baseline == "caption"

    @property
    def n_positions(self) -> int:
        """The largest number of positions of a picture."""
        return self.pictures.n_positions

    def encode(self, source: Source) -> Memory:
        assert isinstance(source, PictureSource)
        real = mask_from_lengths(source.lengths, source.ids.shape[1])
        if self.blind:
            states = self.target.weight.new_zeros(*source.ids.shape, self.pictures.d_out)
        else:
            encoded = self.pictures(source.content.to(self.target.weight.dtype))
            states = torch.where(real[..., None], encoded if source.rows is None else encoded[source.rows], 0.0)
        mean = _mean_part(states, source.lengths)
        return Memory(states, source.lengths, source, tuple(torch.tanh(to_first(mean)) for to_first in self.first))

    def loss(self, source: Source, targets: Int[Tensor, "b t"], lengths: Int[Tensor, " b"]) -> Float[Tensor, ""]:
        real = real_targets(len(source), targets, lengths)
        memory = self.encode(source)
        decoded = self._decode_targets(memory, targets)
        assert decoded.looked is not None
        if self.reinforce is None or decoded.looked.log_prob is None:
            total = self.output.loss(decoded.vectors[real], targets[real])
        else:
            own = self._evaluated_log_probs(source, targets, lengths) if self.compares else None
            total = self.reinforce(self._log_prob(decoded, targets, real), decoded.looked.log_prob, real, own)
        if not self.training:
            return total
        more = self._penalty(decoded.looked, source, real)
        if self.words is not None:
            mean = _mean_part(memory.states, memory.lengths)
            more = more + self.word_weight * self.words.loss(mean, targets.masked_fill(~real, self.end))
        return total + more / real.sum()

    def word_losses(
        self,
        source: PictureSource,
        targets: Int[Tensor, "b t"],
        lengths: Int[Tensor, " b"],
        weights: Float[Tensor, " m"] | None = None,
    ) -> Float[Tensor, " m"]:
        """The loss of the words of each picture, without a decoder.

        With f_v the fraction of the captions of the picture that have the word v, and p_v its probability given the
        mean part, it is -sum_v f_v log p_v + (1 - f_v) log(1 - p_v): the mean over captions of the loss of
        ``word_weight``.

        Args:
            source: the pictures; its rows are the captions.
            targets: the ids of each caption.
            lengths: their numbers.
            weights: mixes picture i and its words with the weight w_i with picture i - 1 and its words with 1 - w_i
                (Zhang et al. 2018); None for no mixing.
        """
        assert self.words is not None
        content = source.content.to(self.target.weight.dtype)
        rows = torch.arange(len(targets), device=targets.device) if source.rows is None else source.rows
        occurrences = self.words.occurrences(
            targets.masked_fill(~real_targets(len(source), targets, lengths), self.end)
        )
        fractions = occurrences.new_zeros(len(content), occurrences.shape[1]).index_add_(0, rows, occurrences)
        n_captions = occurrences.new_zeros(len(content), 1).index_add_(0, rows, torch.ones_like(occurrences[:, :1]))
        fractions = fractions / n_captions
        if weights is not None:
            content = _mix_rows(content, weights)
            fractions = _mix_rows(fractions, weights)
        return self.words.cross_entropies(self.pictures(content).mean(dim=1), fractions)

    @torch.no_grad()
    def _evaluated_log_probs(
        self, source: Source, targets: Int[Tensor, "b t"], lengths: Int[Tensor, " b"]
    ) -> Float[Tensor, "b t"]:
        """log p of each target with the attention of evaluation, which does not depend on the samples of training."""
        self.eval()
        try:
            return self.token_log_probs(source, targets, lengths)
        finally:
            self.train()

    def _penalty(self, looked: CrossAttentionResult, source: Source, real: Bool[Tensor, "b t"]) -> Float[Tensor, ""]:
        """The doubly stochastic term minus the weighted entropy, summed over all captions."""
        weights = (looked.weights if looked.probabilities is None else looked.probabilities)[:, 0]
        weights = weights.masked_fill(~real[..., None], 0.0)  # b t s
        uneven = (1 - weights.sum(dim=1)).square()
        uneven = uneven.masked_fill(~mask_from_lengths(source.lengths, uneven.shape[1]), 0.0).sum()
        entropy = -(weights * weights.masked_fill(weights == 0, 1.0).log()).sum()
        return self.doubly_stochastic * uneven - self.entropy_weight * entropy

    def _look(self, memory: Memory) -> AttendFn | None:
        """The attention; in training of hard attention, to one sampled position, or to the expectation."""
        if self.reinforce is None or not self.training:
            return super()._look(memory)
        keys = self._keys(memory)
        assert keys is not None
        expects = torch.rand(len(memory.lengths), device=memory.states.device) < self.mixing

        def look(query: Tensor, steps: Tensor) -> CrossAttentionResult:
            scores = self.looking.scores[0].compare(query, keys.keys[0]).unsqueeze(1)  # type: ignore[operator]
            soft = masked_softmax(scores, keys.mask[:, None, None])  # b 1 t s
            drawn = self.sampler.draw(soft.detach())
            log_prob = soft.gather(-1, drawn[..., None])[:, 0, :, 0].log().masked_fill(expects[:, None], 0.0)
            weights = torch.where(expects[:, None, None, None], soft, one_hot(drawn, soft))
            return CrossAttentionResult(weights.squeeze(1) @ keys.values[0], weights, log_prob, soft)

        return look


def _build_reinforce(config: HardCaptionConfig) -> Reinforce:
    return Reinforce(remembers=True, momentum=config.baseline_momentum, weight=config.reward_weight)
