r"""Pointer networks: the output is a sequence of positions of the input.

.. math::  u_{tj} = v^\top \tanh(W q_t + U h_j) \qquad p(c_t = j \mid c_{<t}, x) = \mathrm{softmax}_j(u_{tj})

Vinyals et al. 2015, equation 3: the attention scores are the output, so the output vocabulary is as long
as the input. h are the states of an encoder, and q those of a decoder, which reads the state of the last position
it pointed at. With glimpses (Vinyals et al. 2016, section 4.2; Bello et al. 2017) the decoder first attends to the
allowed positions:

.. math::  q_t \leftarrow q_t + G \sum_j \mathrm{softmax}_j(u'_{tj}) \, h_j

Positions that a rule (:mod:`catena.seq2seq.pointing`) forbids have probability 0 in training and search, so every
output is valid. Targets are known in training, so all steps are computed in parallel. Time O(t s d) in addition to
encoder and decoder.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.functional import pad

from catena.attention.base import attend
from catena.attention.scores import AttentionScore, build_score
from catena.embeddings.table import EmbeddingTable
from catena.encoders.base import Encoder
from catena.encoders.build import build_causal, build_encoder
from catena.encoders.causal import CausalEncoder
from catena.errors import ConfigError
from catena.numerics import NEG_INF
from catena.search.stepper import HasAttention, Stepper
from catena.seq2seq.base import real_targets
from catena.seq2seq.config import PointerNetworkConfig
from catena.seq2seq.grouped import check_rows, live_sources
from catena.seq2seq.pointing import END, RULES, allowed_after, allowed_ids
from catena.shapes import cat_padded, checked_lengths, last_real, mask_from_lengths


@dataclass(frozen=True, eq=False, slots=True)
class PointerInputs:
    """A padded batch of inputs to point at: points with features, or ids of tokens.

    Args:
        values: features ``b s f``, or ids ``b s``.
        lengths: the number of real positions, at least 1.
    """

    values: Float[Tensor, "b s f"] | Int[Tensor, "b s"]
    lengths: Int[Tensor, " b"]

    def __post_init__(self) -> None:
        checked_lengths("the lengths of things", self.lengths, self.values.shape[1], least=1)

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def real(self) -> Bool[Tensor, "b s"]:
        return mask_from_lengths(self.lengths, self.values.shape[1])


class PointReader(nn.Module):
    """Vectors of points: a projection of their features after normalization to mean 0 and deviation 1."""

    mean: Tensor
    scale: Tensor

    def __init__(self, n_features: int, d: int) -> None:
        super().__init__()
        self.map = nn.Linear(n_features, d)
        self.register_buffer("mean", torch.zeros(n_features))
        self.register_buffer("scale", torch.ones(n_features))

    @torch.no_grad()
    def start_at(self, points: Float[Tensor, "n f"], alike: bool) -> None:
        """Set mean and deviation from these points; the flag uses one deviation for all features (keeps distances)."""
        spread = points.std(dim=0, correction=0)
        spread = spread.square().mean().sqrt().expand_as(spread) if alike else spread
        self.mean.copy_(points.mean(dim=0))
        self.scale.copy_(torch.where(spread > 0, spread, 1.0))

    def forward(self, points: Float[Tensor, "b s f"]) -> Float[Tensor, "b s d"]:
        return self.map((points - self.mean) / self.scale)


class PointerNetwork(nn.Module):
    """A model of p(positions | input). Targets are ids as in :mod:`catena.seq2seq.pointing`, the last one ``END``.

    Args:
        reader: maps the values of :class:`PointerInputs` to vectors.
        encoder: encodes them.
        decoder: reads the states of the positions pointed at.
        pointer: the score of a position.
        glimpses: the scores of the glimpses before it.
        rule: the name of the rule for allowed positions.
        dropout: the probability of dropping a unit.
    """

    def __init__(
        self,
        reader: nn.Module,
        encoder: Encoder,
        decoder: CausalEncoder,
        pointer: AttentionScore,
        glimpses: Sequence[AttentionScore],
        rule: str,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        RULES[rule]  # raises for unknown names
        self.reader, self.encoder, self.decoder, self.pointer, self.rule = reader, encoder, decoder, pointer, rule
        self.glimpses = nn.ModuleList(glimpses)
        self.looked = nn.ModuleList(nn.Linear(encoder.d_out, decoder.d_out) for _ in glimpses)
        self.begin = nn.Linear(encoder.d_out, encoder.d_out)
        self.end_key = nn.Parameter(torch.randn(encoder.d_out) / encoder.d_out**0.5)
        self.dropout = nn.Dropout(dropout)

    def encode(self, things: PointerInputs) -> Float[Tensor, "b s d"]:
        """A vector for each position; 0 at padding."""
        return self.encoder(self.dropout(self.reader(things.values)), things.lengths)

    def first(self, states: Float[Tensor, "b s d"], lengths: Int[Tensor, " b"]) -> Float[Tensor, "b d"]:
        """The first input of the decoder: a projection of the mean of all states."""
        return self.begin(states.sum(dim=1) / lengths.clamp_min(1)[:, None])

    def read(self, states: Float[Tensor, "b s d"], ids: Int[Tensor, "b t"]) -> Float[Tensor, "b t d"]:
        """The states of the positions pointed at; 0 for the end."""
        table = pad(states, (0, 0, 1, 0))
        return table.gather(1, ids[..., None].expand(-1, -1, table.shape[-1]))

    def look(
        self, query: Float[Tensor, "b t d"], states: Float[Tensor, "b s e"], may: Bool[Tensor, "b t v"]
    ) -> Float[Tensor, "b t v"]:
        """log p of every id, exactly -inf for forbidden ones."""
        keys = torch.cat((self.end_key.expand(len(states), 1, -1), states), dim=1)
        for score, looked in zip(self.glimpses, self.looked, strict=True):
            query = query + looked(attend(query, keys, keys, may, score).context)  # type: ignore[arg-type]
        scores = self.pointer(self.dropout(query), keys)
        scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
        return scores.masked_fill(~may, NEG_INF).log_softmax(dim=-1)

    def log_probs(self, things: PointerInputs, targets: Int[Tensor, "b t"]) -> Float[Tensor, "b t v"]:
        """log p(id | targets before it), for every step of the targets and every id."""
        states = self.encode(things)
        before = targets[:, :-1]
        first = self.first(states, things.lengths)[:, None]
        query = self.decoder.whole(torch.cat((first, self.read(states, before)), dim=1))
        return self.look(query, states, allowed_ids(self.rule, before, things.real))

    def token_log_probs(
        self, things: PointerInputs, targets: Int[Tensor, "b t"], lengths: Int[Tensor, " b"]
    ) -> Float[Tensor, "b t"]:
        """``[i, t]`` is log p(targets[i, t] | targets[i, :t], input i); 0 at padding."""
        real = real_targets(len(things.values), targets, lengths)
        found = self.log_probs(things, targets).gather(2, targets[..., None])[..., 0]
        return torch.where(real, found, 0.0)

    def loss(self, things: PointerInputs, targets: Int[Tensor, "b t"], lengths: Int[Tensor, " b"]) -> Float[Tensor, ""]:
        """The mean of -log p over all steps, including those that a rule determines."""
        return -self.token_log_probs(things, targets, lengths).sum() / lengths.sum()

    def stepper(self, things: PointerInputs) -> PointerStepper:
        """The output as a stepper, for search, without gradients."""
        return PointerStepper(self, things)


class Inputs(NamedTuple):
    """Encoded inputs of a pointer network."""

    states: Float[Tensor, "b s d"]
    real: Bool[Tensor, "b s"]


class PointerState(NamedTuple):
    """Prefixes, one for each row, and the input of each."""

    decoder: Any
    inputs: Inputs
    query: Float[Tensor, "n d"]
    owners: Int[Tensor, " n"]
    written: Int[Tensor, "n t"]
    """The ids so far, padded with 0 after ``lengths``."""
    lengths: Int[Tensor, " n"]


class PointerStepper(Stepper[PointerState], HasAttention[PointerState]):
    """A stepper over ids of positions, with ``END`` = 0, for the inputs of a :class:`PointerInputs`."""

    end = END

    @torch.no_grad()
    def __init__(self, model: PointerNetwork, things: PointerInputs) -> None:
        self.model, self.things = model, things
        self.inputs = Inputs(model.encode(things), things.real)
        self.v = things.real.shape[1] + 1

    @torch.no_grad()
    def start(self, n: int) -> PointerState:
        check_rows(n, len(self.things))
        first = self.model.first(self.inputs.states, self.things.lengths)
        begun = self.model.decoder.begin(n, first.device, first.dtype)
        query, decoder = self.model.decoder.continue_(first[:, None], begun)
        rows = torch.arange(n, device=first.device)
        return PointerState(decoder, self.inputs, query[:, 0], rows, rows.new_zeros(n, 0), torch.zeros_like(rows))

    @torch.no_grad()
    def log_probs(self, state: PointerState) -> Float[Tensor, "n v"]:
        states, real = (part[state.owners] for part in state.inputs)
        may = allowed_after(self.model.rule, state.written, state.lengths, real)
        return self.model.look(state.query[:, None], states, may[:, None])[:, 0]

    @torch.no_grad()
    def advance(self, state: PointerState, ids: Int[Tensor, " n"]) -> PointerState:
        inputs = self.model.read(state.inputs.states[state.owners], ids[:, None])
        query, decoder = self.model.decoder.continue_(inputs, state.decoder)
        written = pad(state.written, (0, 1)).scatter(1, state.lengths[:, None], ids[:, None])
        return PointerState(decoder, state.inputs, query[:, 0], state.owners, written, state.lengths + 1)

    def select(self, state: PointerState, rows: Int[Tensor, " m"]) -> PointerState:
        decoder = self.model.decoder.select(state.decoder, rows)
        query, owners, written, lengths = (part[rows] for part in state[2:])
        return PointerState(decoder, state.inputs, query, owners, _trimmed(written, lengths), lengths)

    def join(self, states: Sequence[PointerState]) -> PointerState:
        """Raise :class:`ConfigError` if an input has more positions than those of this stepper."""
        inputs, owners = self._joined_inputs(states)
        decoder = self.model.decoder.join([state.decoder for state in states])
        query, lengths = torch.cat([state.query for state in states]), torch.cat([state.lengths for state in states])
        written = _trimmed(cat_padded([state.written for state in states]), lengths)
        return PointerState(decoder, inputs, query, owners, written, lengths)

    def _joined_inputs(self, states: Sequence[PointerState]) -> tuple[Inputs, Int[Tensor, " n"]]:
        """The inputs of the rows, padded to the width of this stepper, and the input of each row."""
        if all(state.inputs is self.inputs for state in states):
            return self.inputs, torch.cat([state.owners for state in states])
        live, owners = live_sources([state.owners for state in states])
        parts = [Inputs(*(x[own] for x in state.inputs)) for state, own in zip(states, live, strict=True)]
        longest, width = max(last_real(part.real) for part in parts), self.v - 1
        if longest > width:
            raise ConfigError(
                f"joined inputs must have at most {width} positions, got {longest}. Call join of the stepper with the "
                f"longest input."
            )
        widest = [*parts, Inputs(*(part[:0] for part in self.inputs))]
        inputs = Inputs(*(cat_padded(each)[:, :width] for each in zip(*widest, strict=True)))
        return inputs, owners

    def attention(self, state: PointerState) -> Float[Tensor, "n s"]:
        return self.log_probs(state)[:, 1:].exp()

    def source_mask(self, state: PointerState) -> Bool[Tensor, "n s"]:
        return state.inputs.real[state.owners]


def _trimmed(written: Int[Tensor, "n t"], lengths: Int[Tensor, " n"]) -> Int[Tensor, "n _"]:
    """The ids without columns that no row uses."""
    return written[:, : int(lengths.max())] if len(lengths) else written[:, :0]


def build_pointer(
    settings: PointerNetworkConfig, rule: str, *, n_features: int = 0, n_tokens: int = 0, pad_id: int = 0
) -> PointerNetwork:
    """The pointer network of a config, for points of ``n_features`` values or for ids below ``n_tokens``."""
    if bool(n_features) == bool(n_tokens):
        raise ConfigError(
            f"exactly one of n_features and n_tokens must be positive, got {n_features} and {n_tokens}. Pass just one."
        )
    reader: nn.Module = (
        EmbeddingTable(n_tokens, settings.d, pad_id=pad_id) if n_tokens else PointReader(n_features, settings.d)
    )
    encoder = build_encoder(settings.encoder, settings.d)
    decoder = build_causal(settings.decoder, encoder.d_out)
    scores = [
        build_score(settings.score, decoder.d_out, encoder.d_out, settings.d) for _ in range(settings.glimpses + 1)
    ]
    return PointerNetwork(reader, encoder, decoder, scores[0], scores[1:], rule, settings.dropout)
