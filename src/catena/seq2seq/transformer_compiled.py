"""A Transformer decoder as a stepper on a CPU in single precision: all layers of a step in one compiled call.

A row is a list of indices of pool entries, which hold the keys and values of its positions. The pool only grows, so
states are immutable, and reordering or repeating rows copies only these indices. States hold
their pool and their sources, so that states of several steppers can be joined: the entries in use are then copied into
one new pool. The reference implementation, :mod:`catena.seq2seq.transformer_stepper`, defines the correct result; see
:mod:`catena.kernels.decoder_step`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from catena.encoders.transformer_step import (
    COMPILED,
    PackedWeights,
    can_compile,
    feed_forward_part,
    norm_part,
    transposed_linears,
)
from catena.kernels.scratch import scratch_array
from catena.outputs.base import OutputLayer
from catena.search.stepper import HasAttention, Stepper
from catena.seq2seq.base import Memory
from catena.seq2seq.grouped import check_rows, live_sources
from catena.seq2seq.transformer_decoder import TransformerDecoder
from catena.shapes import mask_from_lengths

_Embed = Callable[[Int[Tensor, "n t"]], Float[Tensor, "n t d"]]
_Numbers = Int[np.ndarray, " n"]

LEAST_ROOM = 512
"""The number of entries of a new pool."""


class DecoderPlan(PackedWeights):
    """Copies of the weights of a decoder in the layout of the compiled step."""

    def __init__(self, decoder: TransformerDecoder) -> None:
        super().__init__([*decoder.layers, decoder.leave])
        from catena.kernels.decoder_step import (  # compiled kernels, not needed in training
            DecoderWeights,
            LayerSpec,
        )
        from catena.kernels.int8_weight import pack_panels
        from catena.kernels.transformer_step import as_wide_as_panels, stack_arrays

        layers: list[Any] = list(decoder.layers)
        first = layers[0].attention
        self.rotate, self.d, self.heads = first.rotate, first.d, (first.n_heads, first.d_head)
        self.make = LayerSpec(layers[0].norm_first, COMPILED[type(feed_forward_part(layers[0])[1])])
        maps: list[np.ndarray] = []
        for parts in zip(*(_maps(layer) for layer in layers), strict=True):
            pairs = [transposed_linears(*part) for part in parts]
            maps.append(np.stack([pack_panels(matrix) for _, matrix in pairs]))
            maps.append(stack_arrays([as_wide_as_panels(bias.numpy()) for bias, _ in pairs]))
        norms = [[norm_part(norm) for norm in (x.attention_norm, x.cross_norm, x.feed_norm)] for x in layers]
        last = decoder.leave if isinstance(decoder.leave, nn.LayerNorm) else layers[-1].feed_norm
        norms.append([norm_part(last)] * 3)
        rows = [torch.stack([x for weight, bias, _ in three for x in (weight, bias)]).numpy() for three in norms]
        eps = [np.array([eps for _, _, eps in three]) for three in norms]
        self.weights = DecoderWeights._make([*maps, stack_arrays(rows), stack_arrays(eps)])

    @staticmethod
    def suits(decoder: TransformerDecoder) -> bool:
        """Whether the compiled step supports this decoder and is faster."""
        first = decoder.layer(0).attention
        return not decoder.training and first.n_heads == first.n_kv_heads and can_compile(list(decoder.layers))


def get_plan(decoder: TransformerDecoder) -> DecoderPlan:
    """The plan of a decoder, rebuilt if its weights have changed."""
    plan = decoder.plan
    if not isinstance(plan, DecoderPlan) or not plan.is_current():
        with torch.inference_mode(False), torch.no_grad():
            decoder.plan = plan = DecoderPlan(decoder)
    return plan


def _maps(layer: Any) -> list[tuple[nn.Linear, ...]]:
    own, cross, feed = layer.attention, layer.cross, feed_forward_part(layer)
    return [
        (own.query, own.keys, own.values),
        (own.output,),
        (cross.query,),
        (cross.output,),
        (cast(nn.Linear, feed[0]),),
        (cast(nn.Linear, feed[3]),),
    ]


class _Sources(NamedTuple):
    """Keys and values of all real positions of the sources, concatenated; ``width`` is the padded length."""

    data: Float[np.ndarray, "l 2 m h d_head"]
    first: _Numbers
    lengths: _Numbers
    width: int

    @staticmethod
    def join(several: Sequence[tuple[_Sources, Int[np.ndarray, " _"]]]) -> _Sources:
        """The given sources of several batches, concatenated."""
        data = []
        for sources, own in several:
            ends = sources.first[own] + sources.lengths[own]
            positions = [np.arange(first, end) for first, end in zip(sources.first[own], ends, strict=True)]
            data.append(sources.data.take(np.concatenate(positions), axis=2))
        lengths = np.concatenate([sources.lengths[own] for sources, own in several])
        return _Sources(np.concatenate(data, axis=2), lengths.cumsum() - lengths, lengths, int(lengths.max()))


@dataclass(frozen=True, eq=False, slots=True)
class CompiledState:
    """The state of target prefixes.

    Args:
        pool: the keys and values of the positions.
        sources: the sources that the rows attend to.
        entries: the pool entries of each row's positions.
        begins: the first real one of each row.
        of: the source of each row.
        hidden: the vectors that predict the next ids.
        queries: the queries of the last layer to the source.
    """

    pool: _Pool
    sources: _Sources
    entries: Int[np.ndarray, "n t"]
    begins: _Numbers
    of: _Numbers
    hidden: Float[Tensor, "n d"]
    queries: Float[np.ndarray, "n d"]


class CompiledStepper(Stepper[CompiledState], HasAttention[CompiledState]):
    """A stepper over target ids given encoded sources."""

    single_rows = True

    def __init__(
        self, embed: _Embed, decoder: TransformerDecoder, output: OutputLayer, begin: int, end: int, memory: Memory
    ) -> None:
        from catena.kernels.decoder_step import KVPool, SourceKV, step

        self.embed, self.decoder, self.output = embed, decoder, output
        self.v, self.begin, self.end = output.v, begin, end
        self.plan, self._step, self._source, self._written = get_plan(decoder), step, SourceKV, KVPool
        lengths, width = memory.lengths.numpy().astype(np.int64), memory.states.shape[1]
        data = self._projected(memory.states[mask_from_lengths(memory.lengths, width)])
        self.sources = _Sources(data, lengths.cumsum() - lengths, lengths, width)
        self.pool = _Pool(len(decoder.layers), *self.plan.heads)

    def start(self, n: int) -> CompiledState:
        check_rows(n, len(self.sources.lengths))
        nothing, begins = np.zeros((n, 0), np.int64), np.zeros(n, np.int64)
        hidden, queries = torch.empty(n, 0), np.empty((n, 0), np.float32)
        before = CompiledState(self.pool, self.sources, nothing, begins, np.arange(n), hidden, queries)
        return self.advance(before, torch.full((n,), self.begin))

    @torch.no_grad()
    def log_probs(self, state: CompiledState) -> Float[Tensor, "n v"]:
        return self.output.log_probs(state.hidden)

    @torch.no_grad()
    def top_log_probs(self, state: CompiledState, k: int) -> tuple[Float[Tensor, "n k"], Int[Tensor, "n k"]]:
        return self.output.top_log_probs(state.hidden, k)

    @torch.no_grad()
    def advance(self, state: CompiledState, ids: Int[Tensor, " n"]) -> CompiledState:
        (n, t), pool, sources = state.entries.shape, state.pool, state.sources
        places = t - state.begins
        alike = not state.begins.any()
        x = self.decoder.enter(self.embed(ids[:, None]), t if alike else torch.from_numpy(places))[:, 0]
        made = np.array(x.numpy(), order="C")
        entries = np.empty((n, t + 1), np.int64)
        entries[:, :t] = state.entries
        entries[:, t] = pool.taken(n)
        turns = np.empty((0, 0), np.float32) if self.plan.rotate is None else self.plan.rotate.turns(places)
        written = self._written(pool.data, entries, state.begins, *pool.blocks.of(entries, state.begins))
        source = self._source(sources.data, sources.first[state.of], sources.lengths[state.of])
        queries = np.empty_like(made)
        self._step(made, self.plan.weights, self.plan.make, written, source, turns, queries)
        return CompiledState(pool, sources, entries, state.begins, state.of, torch.from_numpy(made), queries)

    def select(self, state: CompiledState, rows: Int[Tensor, " m"]) -> CompiledState:
        chosen = rows.numpy()
        entries, begins = _trimmed(state.entries[chosen], state.begins[chosen])
        of, hidden, queries = state.of[chosen], state.hidden[rows], state.queries[chosen]
        return CompiledState(state.pool, state.sources, entries, begins, of, hidden, queries)

    def join(self, states: Sequence[CompiledState]) -> CompiledState:
        several = [state for state in states if len(state.of)] or list(states[:1])
        pool, each = _joined_entries(several)
        t = max(own.shape[1] for own in each)
        entries = np.concatenate([np.pad(own, ((0, 0), (t - own.shape[1], 0))) for own in each])
        begins = np.concatenate([x.begins + t - own.shape[1] for x, own in zip(several, each, strict=True)])
        hidden, queries = torch.cat([x.hidden for x in several]), np.concatenate([x.queries for x in several])
        sources, of = _joined_sources(several)
        return CompiledState(pool, sources, *_trimmed(entries, begins), of, hidden, queries)

    def attention(self, state: CompiledState) -> Float[Tensor, "n s"]:
        """The mean over the heads of the last layer."""
        sources = state.sources
        keys = torch.from_numpy(sources.data[-1, 0])
        queries = torch.from_numpy(state.queries).view(-1, *self.plan.heads)
        places = torch.from_numpy(sources.first[state.of, None] + np.arange(sources.width)).clamp(max=len(keys) - 1)
        scores = torch.einsum("nhd,nshd->nhs", queries, keys[places]) * keys.shape[-1] ** -0.5
        return scores.masked_fill(~self.source_mask(state)[:, None], -torch.inf).softmax(dim=-1).mean(dim=1)

    def source_mask(self, state: CompiledState) -> Bool[Tensor, "n s"]:
        return torch.arange(state.sources.width) < torch.from_numpy(state.sources.lengths)[state.of, None]

    def _projected(self, rows: Float[Tensor, "m d"]) -> Float[np.ndarray, "l 2 m h d_head"]:
        """Keys and values of the real positions of all sources, in every layer."""
        found = np.empty((len(self.decoder.layers), 2, len(rows), self.plan.d), np.float32)
        for i in range(len(self.decoder.layers)):
            cross = self.decoder.layer(i).cross
            for part, name in enumerate((cross.keys, cross.values)):
                torch.addmm(name.bias, rows, name.weight.t(), out=torch.from_numpy(found[i, part]))
        return found.reshape(*found.shape[:3], *self.plan.heads)


def _trimmed(entries: Int[np.ndarray, "n t"], begins: _Numbers) -> tuple[Int[np.ndarray, "n _"], _Numbers]:
    """Entries without the first columns that no row uses, and the start of each row in them."""
    unused = int(begins.min()) if len(begins) else 0
    return (entries[:, unused:], begins - unused) if unused else (entries, begins)


def _joined_entries(states: Sequence[CompiledState]) -> tuple[_Pool, list[Int[np.ndarray, "_ _"]]]:
    """The pool of several states, a new one if they have different pools, and the entries of each state in it."""
    pool = states[0].pool
    if all(state.pool is pool for state in states):
        return pool, [state.entries for state in states]
    fresh = _Pool(*pool.shape)
    return fresh, [fresh.copied(state.pool, state.entries, state.begins) for state in states]


def _joined_sources(states: Sequence[CompiledState]) -> tuple[_Sources, _Numbers]:
    """The sources of several states, and the source of each row among them."""
    if all(state.sources is states[0].sources for state in states):
        return states[0].sources, np.concatenate([state.of for state in states])
    live, of = live_sources([torch.from_numpy(state.of) for state in states])
    return _Sources.join([(x.sources, own.numpy()) for x, own in zip(states, live, strict=True)]), of.numpy()


class _Pool:
    """Keys and values of all positions, one entry for each.

    Args:
        n_layers: the number of decoder layers.
        n_heads: the number of heads of each.
        d_head: the size of a head.
    """

    def __init__(self, n_layers: int, n_heads: int, d_head: int) -> None:
        self.shape = n_layers, n_heads, d_head
        self.data = self._room(LEAST_ROOM)
        self.filled = 0
        self.blocks = _Blocks(n_layers, n_heads, d_head)

    def taken(self, n: int) -> _Numbers:
        """The indices of ``n`` new entries. The pool doubles when it is full."""
        first, self.filled = self.filled, self.filled + n
        if self.filled > (room := self.data.shape[2]):
            grown = self._room(max(self.filled, 2 * room))
            grown[:, :, :first] = self.data[:, :, :first]
            self.data = grown
        return np.arange(first, self.filled)

    def copied(self, other: _Pool, entries: Int[np.ndarray, "n t"], begins: _Numbers) -> Int[np.ndarray, "n t"]:
        """Copy the entries of some rows of another pool, and return their indices in this one."""
        real = np.arange(entries.shape[1]) >= begins[:, None]
        old, number = np.unique(entries[real], return_inverse=True)
        new = self.taken(len(old))
        self.data[:, :, new] = other.data[:, :, old]
        self.blocks.copy(other.blocks, old, new)
        found = np.zeros_like(entries)
        found[real] = new[number]
        return found

    def _room(self, least: int) -> Float[np.ndarray, "l 2 m h d_head"]:
        """Memory for at least ``least`` entries."""
        n_layers, n_heads, d_head = self.shape
        each = n_layers * 2 * n_heads * d_head
        memory = scratch_array(least * each)
        room = len(memory) // each
        return memory[: room * each].reshape(n_layers, 2, room, n_heads, d_head)


class _Blocks:
    """Blocks of consecutive entries in one memory layout, for rows longer than a block.

    An entry belongs to one prefix: in every row the same entries come before it. So a block is identified by
    the last of its entries.
    """

    def __init__(self, n_layers: int, n_heads: int, d_head: int) -> None:
        from catena.kernels.kv_blocks import BLOCK

        self.size, self.each = BLOCK, (n_layers, 2, n_heads, BLOCK * d_head)
        self.possible = d_head % BLOCK == 0
        self.data = np.empty((0, *self.each), np.float32)
        self.filled = 0
        self.ending = np.empty(0, np.int64)
        """The block that ends with an entry; -1 if there is none."""

    def of(
        self, entries: Int[np.ndarray, "n t"], begins: _Numbers
    ) -> tuple[Float[np.ndarray, "m l 2 h s"], Int[np.ndarray, "n k"], _Numbers]:
        """All blocks, the blocks of each row, and the new ones that end with the last of its entries; -1 for none."""
        n, t = entries.shape
        fresh = np.full(n, -1)
        if t < self.size or not self.possible:
            return self.data, np.empty((n, 0), np.int64), fresh
        (ending,) = np.nonzero((t - begins) % self.size == 0)
        self._make_room(self.filled + len(ending), int(entries[:, -1].max(initial=0)) + 1)
        fresh[ending] = self._taken(entries[ending, -1])
        last = begins[:, None] + np.arange(self.size - 1, t, self.size)
        ids = self.ending[np.take_along_axis(entries, last.clip(max=t - 1), axis=1)]
        return self.data, np.where(last < t, ids, -1), fresh

    def copy(self, other: _Blocks, old: _Numbers, new: _Numbers) -> None:
        """Copy the blocks of another pool that end with its entries ``old``, sorted, which are ``new`` in this one."""
        old = old[: np.searchsorted(old, len(other.ending))]  # no block ends with later entries
        (ending,) = np.nonzero(other.ending[old] >= 0)
        self._make_room(self.filled + len(ending), int(new.max(initial=-1)) + 1)
        self.data[self._taken(new[ending])] = other.data[other.ending[old[ending]]]

    def _taken(self, last: _Numbers) -> _Numbers:
        """New blocks that end with the given entries."""
        first, self.filled = self.filled, self.filled + len(last)
        self.ending[last] = np.arange(first, self.filled)
        return np.arange(first, self.filled)

    def _make_room(self, n_blocks: int, n_entries: int) -> None:
        """Grow the capacity to at least this many blocks and entries, doubling it if needed."""
        if n_blocks > len(self.data):
            each = math.prod(self.each)
            memory = scratch_array(max(n_blocks, 2 * len(self.data)) * each)
            room = len(memory) // each
            grown = memory[: room * each].reshape(room, *self.each)
            grown[: self.filled] = self.data[: self.filled]
            self.data = grown
        if n_entries > len(self.ending):
            more = max(n_entries, 2 * len(self.ending)) - len(self.ending)
            self.ending = np.append(self.ending, np.full(more, -1))
