r"""CopyNet: a word is generated from the vocabulary or copied from the source, with one common normalizer.

.. math::
    ψ_g(y_t = v_i) &= (W_o s_t)_i + b_i, \quad v_i \in V \qquad
    ψ_c(y_t = x_j) = \tanh(h_j^\top W_c)\, s_t, \quad x_j \in X \\
    p(y_t \mid \cdot) &= \frac{1}{Z} \Big( [y_t \in V]\, e^{ψ_g(y_t)} + \sum_{j : x_j = y_t} e^{ψ_c(x_j)} \Big), \qquad
    Z = \sum_{v \in V} e^{ψ_g(v)} + \sum_j e^{ψ_c(x_j)}

Gu et al. 2016, equations 4 to 8. A word that occurs several times in the source is copied from all its positions, and
an out-of-vocabulary word can only be copied: it has an id from ``v`` on (:class:`Source`). The decoder
attends to the source as Bahdanau's does, and reads the last word by its vector and, selectively, by the states at its
positions in the source (equation 9):

.. math::
    s_t &= \mathrm{step}([e(y_{t-1}); ζ_{t-1}; c_t], s_{t-1}) \qquad ζ_t = \sum_j ρ_{tj} h_j \\
    ρ_{tj} &\propto [x_j = y_t]\, e^{ψ_c(x_j)}, \quad ζ_t = 0 \text{ where the source does not have } y_t

Time O(t (d² + s d + v d)). Works on ids only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from catena.attention.cross import PreparedKeys, build_cross
from catena.embeddings.table import EmbeddingTable
from catena.encoders import config as encoders
from catena.encoders.build import build_encoder, build_recurrence
from catena.encoders.cells import CellState
from catena.encoders.init import init_weights
from catena.errors import ConfigError, DataError
from catena.kernels.softmax.reference import wide
from catena.numerics import NEG_INF, log_add_exp, log_sum_exp, masked_softmax, safe_log
from catena.outputs.scores import WordScores
from catena.search.stepper import HasAttention, Stepper
from catena.seq2seq.base import EncoderDecoder, Memory, Source, VocabularyInfo, real_targets
from catena.seq2seq.config import CopyNetConfig
from catena.seq2seq.grouped import check_rows, live_sources
from catena.shapes import can_read_values, cat_padded, last_real, mask_from_lengths


class CopySourceState(NamedTuple):
    """The encoded sources, as inputs of every step."""

    states: Float[Tensor, "b s e"]
    real: Bool[Tensor, "b s"]
    copies: Int[Tensor, "b s"]
    """The target id of each source token; 0 at padding."""
    may: Bool[Tensor, "b s"]
    """Which tokens may be copied: not padding, and not ids that are forbidden in a target."""
    copied: Float[Tensor, "b s d"]
    """tanh(h W_c), the factors of the decoder's state."""
    looked: Float[Tensor, "b s _"]
    """The states prepared for the attention."""

    def select(self, rows: Int[Tensor, " m"]) -> CopySourceState:
        """The sources of the given rows."""
        return CopySourceState(*(part[rows] for part in self))

    @staticmethod
    def join(several: Sequence[CopySourceState]) -> CopySourceState:
        """Several sources, concatenated and padded to the longest."""
        s = max(last_real(one.real) for one in several)
        return CopySourceState(*(cat_padded(parts)[:, :s] for parts in zip(*several, strict=True)))


class CopyStep(NamedTuple):
    """The state of the decoder after a step."""

    cell: CellState
    copy_scores: Float[Tensor, "b s"]
    """ψ_c, -inf for tokens that cannot be copied."""
    weights: Float[Tensor, "b s"]
    """The attention weights."""


class CopyNet(EncoderDecoder):
    """An encoder-decoder that copies words of the source.

    If both sides have one vocabulary and a source has no ``copies``, its ids are used as target ids.

    Args:
        settings: sizes, cell, encoder, attention, dropout.
        sides: sizes and special ids of both vocabularies.
    """

    copies = True
    """Sources must have the target id of each token."""

    def __init__(self, settings: CopyNetConfig, sides: VocabularyInfo) -> None:
        super().__init__()
        self.v, self.begin, self.end, self.selective = sides.v, sides.begin, sides.end, settings.selective
        self.shared = sides.shared
        d, e = settings.d, settings.d_embedding
        self.source = EmbeddingTable(sides.n_source, e, scale=0.1, dropout=settings.dropout)
        # The last row is the vector of all words that are not in the target vocabulary.
        self.target = EmbeddingTable(sides.v + 1, e, scale=0.1, dropout=settings.dropout)
        self.encoder = build_encoder(settings.encoder, e)
        d_memory = self.encoder.d_out
        self.first = nn.Linear(d_memory, d)
        self.looking = build_cross(settings.attention, d, d_memory)
        reads = e + d_memory * (2 if settings.selective else 1)
        self.cell = build_recurrence(encoders.RecurrentConfig(cell=settings.cell, d=d), reads)
        init_weights(self.cell, "default", forget_bias=1.0)
        self.copying = nn.Linear(d_memory, d, bias=False)
        self.generated = WordScores(d, sides.v, forbidden=sides.forbidden)
        self.dropout = nn.Dropout(settings.dropout)

    # --- the source ---------------------------------------------------------------------------------------------------

    def encode(self, source: Source) -> Memory:
        return Memory(self.encoder(self.source(source.ids), source.lengths), source.lengths, source)

    def source_attention(self, source: Source) -> list[Float[Tensor, "b h s s"]]:
        return self.encoder.self_attention(self.source(source.ids), source.lengths)

    def sources(self, memory: Memory) -> CopySourceState:
        """The inputs that are the same for all steps."""
        copies = memory.source.ids if self.shared else None
        copies = copies if memory.source.copies is None else memory.source.copies
        if copies is None:
            raise DataError(
                "Source.copies must have the target id of each source token if the vocabularies differ, got None. Set "
                "it, or choose another model for this task."
            )
        real = mask_from_lengths(memory.lengths, memory.states.shape[1])
        check_ids("the copies of a source", copies, real, self.v, memory.source.n_new)
        copies = copies.masked_fill(~real, 0)
        forbidden = self.generated.forbidden
        never = ~real if forbidden is None else ~real | forbidden[copies.clamp(max=self.v - 1)] & (copies < self.v)
        keys = self.looking.prepare(memory.states, real).keys[0]
        copied = torch.tanh(self.copying(memory.states))
        return CopySourceState(memory.states, real, copies, ~never, copied, keys)

    def started(self, sources: CopySourceState) -> CopyStep:
        """The decoder before the first step."""
        lengths = sources.real.sum(dim=1).clamp_min(1)
        h = torch.tanh(self.first(sources.states.sum(dim=1) / lengths[:, None]))
        rest = (torch.zeros_like(h) for _ in range(self.cell.n_states - 1))
        nothing = sources.states.new_zeros(sources.real.shape)
        return CopyStep((h, *rest), nothing.masked_fill(~sources.may, NEG_INF), nothing)

    # --- the target ---------------------------------------------------------------------------------------------------

    def step(
        self, read: Float[Tensor, "b gates"], ids: Int[Tensor, " b"], before: CopyStep, sources: CopySourceState
    ) -> CopyStep:
        """Read one id; ``read`` is the recurrent layer's projection of its vector."""
        keys = PreparedKeys((sources.looked,), (sources.states,), sources.real)
        looked = self.looking(before.cell[0][:, None], keys, ids[:, None])
        beside = looked.context[:, 0]
        if self.selective:
            here = masked_softmax(before.copy_scores, (sources.copies == ids[:, None]) & sources.may)
            beside = torch.cat(((here[:, None] @ sources.states)[:, 0], beside), dim=1)
        weight = self.cell.weight_x[:, self.target.d_out :]
        cell = self.cell.step(torch.addmm(read, beside, weight.t()), before.cell, self.cell.weight_h)
        return CopyStep(cell, self.copy_scores(cell[0][:, None], sources)[:, 0], looked.weights[:, 0, 0])

    def read(self, ids: Int[Tensor, "b t"]) -> Float[Tensor, "b t gates"]:
        """The recurrent layer's projections of the vectors of ids."""
        vectors = self.target(ids.clamp(max=self.v))
        return F.linear(vectors, self.cell.weight_x[:, : self.target.d_out], self.cell.bias)

    def unrolled(
        self, sources: CopySourceState, targets: Int[Tensor, "b t"]
    ) -> tuple[Float[Tensor, "b t d"], Float[Tensor, "b t s"]]:
        """The states that predict each target, and their attention weights."""
        before = self.shifted(targets)
        state, hidden, weights = self.started(sources), [], []
        for read, ids in zip(self.read(before).unbind(1), before.unbind(1), strict=True):
            state = self.step(read, ids, state, sources)
            hidden.append(state.cell[0])
            weights.append(state.weights)
        return torch.stack(hidden, dim=1), torch.stack(weights, dim=1)

    def copy_scores(self, hidden: Float[Tensor, "b t d"], sources: CopySourceState) -> Float[Tensor, "b t s"]:
        """ψ_c of every position; -inf at padding and for forbidden ids."""
        return (hidden @ sources.copied.transpose(1, 2)).masked_fill(~sources.may[:, None], NEG_INF)

    def word_scores(self, hidden: Float[Tensor, "*b d"]) -> Float[Tensor, "*b v"]:
        """ψ_g of every word; -inf for forbidden ids."""
        scores = F.linear(hidden, self.generated.weight.to(hidden.dtype)).to(wide(hidden.dtype))
        return scores + cast(Tensor, self.generated.effective_bias)

    def token_log_probs(
        self, source: Source, targets: Int[Tensor, "b t"], lengths: Int[Tensor, " b"]
    ) -> Float[Tensor, "b t"]:
        real = self._real(source, targets, lengths)
        sources = self.sources(self.encode(source))
        hidden = self.dropout(self.unrolled(sources, targets)[0])
        words, copied = self.word_scores(hidden), self.copy_scores(hidden, sources)
        copied = copied.to(words.dtype)
        total = log_add_exp(log_sum_exp(words, dim=-1), log_sum_exp(copied, dim=-1))
        own = words.gather(2, targets.clamp(max=self.v - 1)[..., None])[..., 0].masked_fill(targets >= self.v, NEG_INF)
        same = sources.copies[:, None] == targets[..., None]
        found = log_add_exp(own, log_sum_exp(copied.masked_fill(~same, NEG_INF), dim=-1)) - total
        return torch.where(real, found, 0.0)

    def loss(self, source: Source, targets: Int[Tensor, "b t"], lengths: Int[Tensor, " b"]) -> Float[Tensor, ""]:
        return -self.token_log_probs(source, targets, lengths).sum() / lengths.sum()

    def attention(
        self, source: Source, targets: Int[Tensor, "b t"], lengths: Int[Tensor, " b"]
    ) -> list[Float[Tensor, "b h t s"]]:
        """Where each word comes from: the copy probabilities, and the attention for generated words, in one head."""
        self._real(source, targets, lengths)
        sources = self.sources(self.encode(source))
        return [self.origins(*self.unrolled(sources, targets), sources)[:, None]]

    def origins(
        self, hidden: Float[Tensor, "b t d"], looked: Float[Tensor, "b t s"], sources: CopySourceState
    ) -> Float[Tensor, "b t s"]:
        """p(copied from j) + p(generated) · (the weight of j in the attention): rows sum to 1."""
        words = log_sum_exp(self.word_scores(hidden), dim=-1)[..., None]
        copied = self.copy_scores(hidden, sources).to(words.dtype)
        total = log_add_exp(words, log_sum_exp(copied, dim=-1)[..., None])
        return (copied - total).exp() + (words - total).exp() * looked

    def _real(self, source: Source, targets: Int[Tensor, "b t"], lengths: Int[Tensor, " b"]) -> Bool[Tensor, "b t"]:
        real = real_targets(len(source), targets, lengths)
        check_ids("targets", targets, real, self.v, source.n_new)
        return real

    def stepper(self, source: Source) -> CopyStepper:
        return CopyStepper(self, source)


def check_ids(name: str, ids: Int[Tensor, "b t"], real: Bool[Tensor, "b t"], v: int, n_new: int) -> None:
    """Raise DataError for ids that are neither in the vocabulary nor new. Skipped on a GPU, where it would wait."""
    if can_read_values(ids) and bool((wrong := real & ((ids < 0) | (ids >= v + n_new))).any()):
        raise DataError(
            f"{name} must be ids from 0 to {v + n_new - 1}, the {v} of the vocabulary and {n_new} new ones "
            f"(Source.n_new), got {int(ids[wrong][0])}. Raise n_new, or fix the ids."
        )


def combine_log_probs(
    words: Float[Tensor, "n v"], copied: Float[Tensor, "n s"], copies: Int[Tensor, "n s"], n_new: int
) -> Float[Tensor, "n w"]:
    """log p of every word and every new one, from the scores of generating and of copying; -inf is exact."""
    total = log_add_exp(log_sum_exp(words, dim=1), log_sum_exp(copied, dim=1))
    room = F.pad(words, (0, n_new), value=NEG_INF)
    best = room.scatter_reduce(1, copies, copied, "amax")
    top = torch.where(best == NEG_INF, 0.0, best)
    mass = (room - top).exp().scatter_add(1, copies, (copied - top.gather(1, copies)).exp())
    return safe_log(mass) + top - total[:, None]


class CopyState(NamedTuple):
    """Target prefixes, the sources, and the source of each row."""

    step: CopyStep
    sources: CopySourceState
    owners: Int[Tensor, " n"]


class CopyStepper(Stepper[CopyState], HasAttention[CopyState]):
    """A stepper over target ids given sources; ids from ``v`` on are new words of each row's own source."""

    @torch.no_grad()
    def __init__(self, model: CopyNet, source: Source) -> None:
        self.model, self.n_new = model, source.n_new
        self.v, self.end = model.v + source.n_new, model.end
        self.sources = model.sources(model.encode(source))
        self._last = self.sources, torch.arange(len(source), device=source.ids.device), self.sources

    @torch.no_grad()
    def start(self, n: int) -> CopyState:
        check_rows(n, len(self.sources.real))
        owners = torch.arange(n, device=self.sources.real.device)
        first = CopyState(self.model.started(self.sources), self.sources, owners)
        return self.advance(first, torch.full_like(owners, self.model.begin))

    @torch.no_grad()
    def log_probs(self, state: CopyState) -> Float[Tensor, "n w"]:
        words = self.model.word_scores(state.step.cell[0])
        copied = state.step.copy_scores.to(words.dtype)
        return combine_log_probs(words, copied, self._sources_of(state).copies, self.n_new)

    @torch.no_grad()
    def advance(self, state: CopyState, ids: Int[Tensor, " n"]) -> CopyState:
        read = self.model.read(ids[:, None])[:, 0]
        return state._replace(step=self.model.step(read, ids, state.step, self._sources_of(state)))

    def _sources_of(self, state: CopyState) -> CopySourceState:
        """The source of each row, without a copy if the rows have not changed."""
        sources, owners, _ = self._last
        if sources is not state.sources or not torch.equal(owners, state.owners):
            self._last = state.sources, state.owners, state.sources.select(state.owners)
        return self._last[2]

    def select(self, state: CopyState, rows: Int[Tensor, " m"]) -> CopyState:
        cell, copy_scores, weights = state.step
        step = CopyStep(tuple(part[rows] for part in cell), copy_scores[rows], weights[rows])
        return CopyState(step, state.sources, state.owners[rows])

    def join(self, states: Sequence[CopyState]) -> CopyState:
        """Raise :class:`ConfigError` if a source has more new words than this stepper's vocabulary."""
        several = [state for state in states if len(state.owners)] or list(states[:1])
        sources, owners = self._joined_sources(several)
        s = sources.real.shape[1]
        cells = zip(*(state.step.cell for state in several), strict=True)
        step = CopyStep(
            tuple(torch.cat(parts) for parts in cells),
            cat_padded([state.step.copy_scores for state in several], NEG_INF)[:, :s],
            cat_padded([state.step.weights for state in several])[:, :s],
        )
        return CopyState(step, sources, owners)

    def _joined_sources(self, states: Sequence[CopyState]) -> tuple[CopySourceState, Int[Tensor, " n"]]:
        each = [state.owners for state in states]
        if all(state.sources is self.sources for state in states):
            return self.sources, torch.cat(each)
        live, owners = live_sources(each)
        sources = CopySourceState.join([state.sources.select(own) for state, own in zip(states, live, strict=True)])
        largest = int(sources.copies.max()) if sources.copies.numel() else 0
        if largest >= self.v:
            raise ConfigError(
                f"the new words of joined sources must have ids below {self.v}, got {largest}. Call join of the "
                f"stepper whose Source.n_new is the largest."
            )
        return sources, owners

    @torch.no_grad()
    def attention(self, state: CopyState) -> Float[Tensor, "n s"]:
        rows = self._sources_of(state)
        return self.model.origins(state.step.cell[0][:, None], state.step.weights[:, None], rows)[:, 0]

    def source_mask(self, state: CopyState) -> Bool[Tensor, "n s"]:
        return state.sources.real[state.owners]


def build_copy(settings: CopyNetConfig, sides: VocabularyInfo) -> CopyNet:
    """The CopyNet of a config, with random weights."""
    return CopyNet(settings, sides)
