"""A Transformer decoder as a stepper on a CPU in single precision: all layers of a step in one compiled call.

A row is a list of indices of pool entries, which hold the keys and values of its positions. The pool only grows, so
states are immutable, and reordering or repeating rows copies only these indices. States hold
their pool and their sources, so that states of several steppers can be joined: the entries in use are then copied into
one new pool. The reference implementation, :mod:`catena.seq2seq.transformer_stepper`, defines the correct result; see
:mod:`catena.engine.cpu_decoder`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from catena.accelerators import can_skip_kernels
from catena.encoders.transformer_step import PackedWeights, feed_forward_part, norm_part, transposed_linears
from catena.engine.encoder import COMPILED, can_compile
from catena.engine.pool import EntryPool, IntVector, PackedSources
from catena.outputs.base import OutputLayer
from catena.search.stepper import HasAttention, Stepper
from catena.seq2seq.base import Memory, Source
from catena.seq2seq.grouped import check_rows, live_sources
from catena.seq2seq.transformer import TransformerSeq2Seq
from catena.seq2seq.transformer_decoder import TransformerDecoder
from catena.shapes import mask_from_lengths

_Embed = Callable[[Int[Tensor, "n t"]], Float[Tensor, "n t d"]]


def compile_decoder(model: TransformerSeq2Seq, source: Source) -> CompiledStepper | None:
    """A stepper over target ids whose step is one compiled call.

    ``model.stepper`` uses it automatically.

    Args:
        model: the translation model, in eval mode.
        source: the sources to translate.

    Returns:
        None if the step does not support the decoder or is not faster: it needs a CPU, float32 or 8-bit weights, one of
        the activations identity, ReLU, GELU and Swish, one key head for each query head, and layers that fit in the
        cache or a single thread.
    """
    if not DecoderPlan.suits(model.decoder) or can_skip_kernels(_search_microseconds(model, source)):
        return None
    memory = model.encode(source)
    return CompiledStepper(model.embedded, model.decoder, model.output, model.begin, model.end, memory)


def _search_microseconds(model: TransformerSeq2Seq, source: Source) -> int:
    """The approximate time of a search with the reference implementation: 50 steps of 0.4 ms for each layer."""
    return 20_000 * len(model.decoder.layers) * (1 + len(source) // 4)


class DecoderPlan(PackedWeights):
    """Copies of the weights of a decoder in the layout of the compiled step."""

    def __init__(self, decoder: TransformerDecoder) -> None:
        super().__init__([*decoder.layers, decoder.leave])
        from catena.engine.cpu_decoder import DecoderWeights, LayerSpec  # compiled kernels, not needed in training
        from catena.engine.cpu_layers import as_wide_as_panels, stack_arrays
        from catena.kernels.linear.int8_weight import pack_panels

        layers: list[Any] = list(decoder.layers)
        first = layers[0].attention
        self.rotate = first.rotate
        self.d = first.d
        self.heads = (first.n_heads, first.d_head)
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
    own = layer.attention
    cross = layer.cross
    feed = feed_forward_part(layer)
    return [
        (own.query, own.keys, own.values),
        (own.output,),
        (cross.query,),
        (cross.output,),
        (cast(nn.Linear, feed[0]),),
        (cast(nn.Linear, feed[3]),),
    ]


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

    pool: EntryPool
    sources: PackedSources
    entries: Int[np.ndarray, "n t"]
    begins: IntVector
    of: IntVector
    hidden: Float[Tensor, "n d"]
    queries: Float[np.ndarray, "n d"]


class CompiledStepper(Stepper[CompiledState], HasAttention[CompiledState]):
    """A stepper over target ids given encoded sources."""

    single_rows = True

    def __init__(
        self, embed: _Embed, decoder: TransformerDecoder, output: OutputLayer, begin: int, end: int, memory: Memory
    ) -> None:
        from catena.engine.cpu_decoder import KVPool, SourceKV, step

        self.embed = embed
        self.decoder = decoder
        self.output = output
        self.v = output.v
        self.begin = begin
        self.end = end
        self.plan = get_plan(decoder)
        self._step = step
        self._source = SourceKV
        self._written = KVPool
        lengths = memory.lengths.numpy().astype(np.int64)
        width = memory.states.shape[1]
        data = self._projected(memory.states[mask_from_lengths(memory.lengths, width)])
        self.sources = PackedSources(data, lengths.cumsum() - lengths, lengths, width)
        self.pool = EntryPool(len(decoder.layers), *self.plan.heads)

    def start(self, n: int) -> CompiledState:
        check_rows(n, len(self.sources.lengths))
        nothing = np.zeros((n, 0), np.int64)
        begins = np.zeros(n, np.int64)
        hidden = torch.empty(n, 0)
        queries = np.empty((n, 0), np.float32)
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
        n, t = state.entries.shape
        pool = state.pool
        sources = state.sources
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
        of = state.of[chosen]
        hidden = state.hidden[rows]
        queries = state.queries[chosen]
        return CompiledState(state.pool, state.sources, entries, begins, of, hidden, queries)

    def join(self, states: Sequence[CompiledState]) -> CompiledState:
        several = [state for state in states if len(state.of)] or list(states[:1])
        pool, each = _joined_entries(several)
        t = max(own.shape[1] for own in each)
        entries = np.concatenate([np.pad(own, ((0, 0), (t - own.shape[1], 0))) for own in each])
        begins = np.concatenate([x.begins + t - own.shape[1] for x, own in zip(several, each, strict=True)])
        hidden = torch.cat([x.hidden for x in several])
        queries = np.concatenate([x.queries for x in several])
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


def _trimmed(entries: Int[np.ndarray, "n t"], begins: IntVector) -> tuple[Int[np.ndarray, "n _"], IntVector]:
    """Entries without the first columns that no row uses, and the start of each row in them."""
    unused = int(begins.min()) if len(begins) else 0
    return (entries[:, unused:], begins - unused) if unused else (entries, begins)


def _joined_entries(states: Sequence[CompiledState]) -> tuple[EntryPool, list[Int[np.ndarray, "_ _"]]]:
    """The pool of several states, a new one if they have different pools, and the entries of each state in it."""
    pool = states[0].pool
    if all(state.pool is pool for state in states):
        return pool, [state.entries for state in states]
    fresh = EntryPool(*pool.shape)
    return fresh, [fresh.copied(state.pool, state.entries, state.begins) for state in states]


def _joined_sources(states: Sequence[CompiledState]) -> tuple[PackedSources, IntVector]:
    """The sources of several states, and the source of each row among them."""
    if all(state.sources is states[0].sources for state in states):
        return states[0].sources, np.concatenate([state.of for state in states])
    live, of = live_sources([torch.from_numpy(state.of) for state in states])
    return PackedSources.join([(x.sources, own.numpy()) for x, own in zip(states, live, strict=True)]), of.numpy()
