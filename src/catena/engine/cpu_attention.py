r"""Attention of a few queries to cached keys and values, in steps of a decoder on a CPU.

.. math::  f_h = \sum_s \mathrm{softmax}_s\Big(\frac{q_h \cdot k_{sh}}{\sqrt{d}}\Big)\, v_{sh}

Each position has its own memory offset, so that the same code reads caches, pools and sources. A compiler reduces the
products of each key to one score separately, which takes longer than the products themselves. Here :data:`TOGETHER`
keys are scored and reduced together in LLVM vector instructions, while the next data (the values of the head, then the
keys of the next head) is prefetched. The outer loop is over heads and the inner one over rows, so that positions with
several rows stay in the cache. Head sizes that are not a multiple of the vector width use simple loops. float32. Time
O(n s d).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from catena.kernels.common.jit import SUMS, jit_function, jit_inline
from catena.kernels.common.simd import (
    INDEX,
    NUMBERS,
    ONE,
    PLACES,
    SIMD_LANES,
    VECTOR,
    ZERO,
    exponentials,
    fetch,
    in_all_lanes,
    multiply_add,
    pointer_to,
    round_up_to_vector,
    vector_pointer,
    zero_vectors,
)

TOGETHER = 8
"""Number of keys that are scored together."""


@jit_function(SUMS)
def attend_rows(
    queries: Any, keys: Any, values: Any, offsets: Any, size: Any, heads: Any, scores: Any, found: Any
) -> None:
    """The attention output of all heads of ``n`` rows, which attend to the same ``size`` positions.

    Args:
        queries: ``n d`` or wider.
        keys: a contiguous array; ``values`` has the same layout.
        offsets: the memory offset of each position. The array is padded up to :func:`round_up_to_vector`.
        heads: number of query heads, number of key and value heads, size of a head, and the distance in memory between
            two heads of a position.
        scores: buffer of ``size`` values, also rounded up, for each row.
        found: receives the output, ``n d``.
    """
    n_heads, n_kv_heads, d_head, apart = heads
    n = found.shape[0]
    stride = queries.shape[1]
    d = found.shape[1]
    wide = round_up_to_vector(size)
    scale = ONE / np.sqrt(np.float32(d_head))
    repeat_last(offsets, 0, size)
    for h in range(n_heads):
        low = h * d_head
        key = h * n_kv_heads // n_heads * apart
        following = (h + 1) * n_kv_heads // n_heads * apart
        for r in range(n):
            score(queries, r * stride + low, d_head, keys, values, key, offsets, 0, size, scores, r * wide)
        for r in range(n):
            mass = exponentials(scores, r * wide, size, scale)
            gather(scores, r * wide, size, d_head, values, key, keys, following, offsets, 0, found, r * d + low)
            share = ONE / mass
            for j in range(low, low + d_head):
                found[r, j] *= share


@jit_inline()
def repeat_last(offsets: Any, begin: Any, size: Any) -> None:
    """Fill the padding after ``size`` offsets from ``begin`` on, since positions are scored :data:`TOGETHER`."""
    for s in range(begin + size, begin + round_up_to_vector(size)):
        offsets[s] = offsets[begin + size - 1]


@jit_inline()
def score(
    queries: Any, low: Any, d_head: Any, keys: Any, soon: Any, key: Any, offsets: Any, begin: Any, size: Any,
    scores: Any, to: Any,
) -> None:  # fmt: skip
    """Write the products of a query with the keys at ``size`` offsets to ``scores``, starting at ``to``.

    The query begins at ``low``, the keys at ``key`` plus the offsets from index ``begin``. ``soon`` is prefetched, in
    the array of the keys.
    """
    if d_head % SIMD_LANES == 0:
        for s in range(0, size, TOGETHER):
            _score(
                pointer_to(queries, low), d_head, pointer_to(keys, key), pointer_to(soon, key),
                pointer_to(offsets, begin + s), pointer_to(scores, to + s),
            )  # fmt: skip
    else:
        _score_plain(queries.ravel()[low : low + d_head], keys[key:], offsets[begin : begin + size], scores[to:])


@jit_inline()
def gather(
    weights: Any, at: Any, size: Any, d_head: Any, values: Any, value: Any, soon: Any, then: Any, offsets: Any,
    begin: Any, found: Any, to: Any,
) -> None:  # fmt: skip
    """Write the weighted sum of the values at ``size`` offsets to ``found``, starting at ``to``.

    The offsets start at index ``begin``, the weights at ``at``. ``soon`` is prefetched, ``then`` numbers after the same
    offsets.
    """
    if d_head % SIMD_LANES == 0:
        j = 0
        while j + 4 * SIMD_LANES <= d_head:
            _gather_4(
                pointer_to(weights, at), size, pointer_to(values, value + j), pointer_to(soon, then + j),
                pointer_to(offsets, begin), pointer_to(found, to + j),
            )  # fmt: skip
            j += 4 * SIMD_LANES
        while j < d_head:
            _gather_1(
                pointer_to(weights, at), size, pointer_to(values, value + j), pointer_to(soon, then + j),
                pointer_to(offsets, begin), pointer_to(found, to + j),
            )  # fmt: skip
            j += SIMD_LANES
    else:
        _gather_plain(weights[at:], values[value:], offsets[begin : begin + size], found.ravel()[to : to + d_head])


@jit_function(SUMS)
def _score_plain(query: Any, keys: Any, offsets: Any, scores: Any) -> None:
    for s in range(offsets.shape[0]):
        total = ZERO
        first = offsets[s]
        for j in range(query.shape[0]):
            total += query[j] * keys[first + j]
        scores[s] = total


@jit_function(SUMS)
def _gather_plain(weights: Any, values: Any, offsets: Any, here: Any) -> None:
    for j in range(here.shape[0]):
        here[j] = ZERO
    for s in range(offsets.shape[0]):
        weight = weights[s]
        first = offsets[s]
        for j in range(here.shape[0]):
            here[j] += weight * values[first + j]


# --- in instructions --------------------------------------------------------------------------------------------------
@intrinsic
def _score_together(context: Any, query: Any, d: Any, keys: Any, soon: Any, offsets: Any, scores: Any) -> Any:
    """The products of a query with :data:`TOGETHER` keys of ``d`` numbers, at least :data:`SIMD_LANES`.

    ``soon`` is prefetched at the same offsets.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        query, d, keys, soon, offsets, scores = arguments
        firsts = [builder.load(builder.gep(offsets, [INDEX(s)])) for s in range(TOGETHER)]
        before = builder.block
        loop = builder.append_basic_block()
        after = builder.append_basic_block()
        builder.branch(loop)

        builder.position_at_end(loop)
        j = builder.phi(INDEX)
        sums = [builder.phi(VECTOR) for _ in firsts]
        asked = builder.load(vector_pointer(builder, query, j), align=4)
        added = []
        for first, total in zip(firsts, sums, strict=True):
            place = builder.add(first, j)
            key = builder.load(vector_pointer(builder, keys, place), align=4)
            fetch(builder, builder.gep(soon, [place]))
            added.append(multiply_add(builder, total, asked, key))
        following = builder.add(j, INDEX(SIMD_LANES))
        builder.cbranch(builder.icmp_signed("<", following, d), loop, after)
        for phi, start, onward in zip(
            [j, *sums], [INDEX(0), *zero_vectors(TOGETHER)], [following, *added], strict=True
        ):
            phi.add_incoming(start, before)
            phi.add_incoming(onward, loop)

        builder.position_at_end(after)
        folded = _folded(builder, added)
        builder.store(folded, builder.bitcast(scores, folded.type.as_pointer()), align=4)
        return context.get_dummy_value()

    return types.void(NUMBERS, types.int64, NUMBERS, NUMBERS, PLACES, NUMBERS), generate


def _folded(builder: Any, sums: list[Any]) -> Any:
    """The sum of the lanes of each of eight vectors, as one vector of eight.

    Neighbors are interleaved and added until each quarter of a vector holds the sums of four; then quarters are added.
    """
    fours: list[Any] = []
    for a, b, c, e in (sums[:4], sums[4:]):
        ab, ce = (
            _added(builder, x, y, (0, SIMD_LANES, 1, SIMD_LANES + 1), (2, SIMD_LANES + 2, 3, SIMD_LANES + 3))
            for x, y in ((a, b), (c, e))
        )
        fours.append(
            _added(builder, ab, ce, (0, 1, SIMD_LANES, SIMD_LANES + 1), (2, 3, SIMD_LANES + 2, SIMD_LANES + 3))
        )
    low = [*range(8), *range(SIMD_LANES, SIMD_LANES + 8)]
    high = [*range(8, SIMD_LANES), *range(SIMD_LANES + 8, 2 * SIMD_LANES)]
    one, other = fours
    halves = builder.fadd(_chosen(builder, one, other, low), _chosen(builder, one, other, high))
    even = [*range(4), *range(8, 12)]
    odd = [*range(4, 8), *range(12, 16)]
    return builder.fadd(_chosen(builder, halves, halves, even), _chosen(builder, halves, halves, odd))


def _added(builder: Any, a: Any, b: Any, one: tuple[int, ...], other: tuple[int, ...]) -> Any:
    """The sum of two interleavings of vectors, given for their first quarters; the others are analogous."""
    each = [[i + first for first in range(0, SIMD_LANES, 4) for i in lanes] for lanes in (one, other)]
    return builder.fadd(*(_chosen(builder, a, b, lanes) for lanes in each))


def _chosen(builder: Any, a: Any, b: Any, lanes: list[int]) -> Any:
    return builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(ir.IntType(32), len(lanes)), lanes))


def _gathering(n_vectors: int) -> Any:
    """The function that puts ``n_vectors`` vectors of a weighted sum of values in their place."""

    @intrinsic
    def gather(context: Any, weights: Any, size: Any, values: Any, soon: Any, offsets: Any, here: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            weights, size, values, soon, offsets, here = arguments
            before = builder.block
            loop = builder.append_basic_block()
            after = builder.append_basic_block()
            builder.cbranch(builder.icmp_signed(">", size, INDEX(0)), loop, after)

            builder.position_at_end(loop)
            s = builder.phi(INDEX)
            sums = [builder.phi(VECTOR) for _ in range(n_vectors)]
            first = builder.load(builder.gep(offsets, [s]))
            weight = in_all_lanes(builder, builder.load(builder.gep(weights, [s]), align=4))
            added = []
            for i, total in enumerate(sums):
                place = builder.add(first, INDEX(i * SIMD_LANES))
                value = builder.load(vector_pointer(builder, values, place), align=4)
                fetch(builder, builder.gep(soon, [place]))
                added.append(multiply_add(builder, total, weight, value))
            following = builder.add(s, INDEX(1))
            builder.cbranch(builder.icmp_signed("<", following, size), loop, after)
            nothing = zero_vectors(n_vectors)
            for phi, start, onward in zip([s, *sums], [INDEX(0), *nothing], [following, *added], strict=True):
                phi.add_incoming(start, before)
                phi.add_incoming(onward, loop)

            builder.position_at_end(after)
            results = [builder.phi(VECTOR) for _ in added]
            for i, (result, start, onward) in enumerate(zip(results, nothing, added, strict=True)):
                result.add_incoming(start, before)
                result.add_incoming(onward, loop)
                builder.store(result, vector_pointer(builder, here, INDEX(i * SIMD_LANES)), align=4)
            return context.get_dummy_value()

        return types.void(NUMBERS, types.int64, NUMBERS, NUMBERS, PLACES, NUMBERS), generate

    return gather


# A decorated intrinsic takes one argument less than its definition, which a type checker cannot know.
_score: Any = _score_together
_gather_4: Any = _gathering(4)
_gather_1: Any = _gathering(1)
