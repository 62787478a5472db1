r"""What the heads of rows find among keys and values, in steps of a decoder on a CPU.

.. math::  f_h = \sum_s \mathrm{softmax}_s\Big(\frac{q_h \cdot k_{sh}}{\sqrt{d}}\Big)\, v_{sh}

Keys and values may lie anywhere, each position at an offset of its own: so one form serves caches, pools and sources.
Compilers fold the sum over the features of each key by itself, which takes longer than the products. So
:data:`TOGETHER` keys are scored at once and folded together, in vector instructions of LLVM; and what is read next,
the values of a head and then the keys of the next one, is fetched meanwhile. Rows take their turns with each head, so
that what they share is near, and there is time to fetch. Other head sizes use plain loops.
Single precision. Time O(n s d).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from catena.kernels.jit import SUMS, jit_function, jit_inline
from catena.kernels.panel_gemm import INDEX, SIMD_LANES, VECTOR, fetch, in_all_lanes, place_of, vector_pointer
from catena.kernels.vector_math import LEAST_32, LN2_HIGH_32, LN2_LOW_32, LOG2_E, TERMS_32

TOGETHER = 8
"""Keys that are scored at once."""

ZERO, ONE, NEVER = np.float32(0), np.float32(1), np.float32(-np.inf)
NUMBERS, PLACES = types.CPointer(types.float32), types.CPointer(types.int64)


@jit_function()
def round_up_to_vector(size: Any) -> Any:
    """The next multiple of the vector width, the length of arrays of offsets and scores."""
    return (size + SIMD_LANES - 1) // SIMD_LANES * SIMD_LANES


@jit_function(SUMS)
def attend_rows(
    queries: Any, keys: Any, values: Any, offsets: Any, size: Any, heads: Any, scores: Any, found: Any
) -> None:
    """What the heads of ``n`` rows find at the same ``size`` positions.

    Args:
        queries: ``n d`` or wider.
        keys: contiguous numbers; so are ``values``, at the same offsets.
        offsets: the first number of each position. The array is padded up to :func:`round_up_to_vector`.
        heads: how many there are, how many of keys and values, the size of one, and how far apart those of a position
            lie.
        scores: buffer of as many numbers, also rounded up, for each row.
        found: takes what was found, ``n d``.
    """
    n_heads, n_kv_heads, d_head, apart = heads
    n, stride, d, wide = found.shape[0], queries.shape[1], found.shape[1], round_up_to_vector(size)
    scale = ONE / np.sqrt(np.float32(d_head))
    repeat_last(offsets, 0, size)
    for h in range(n_heads):
        low, key, following = h * d_head, h * n_kv_heads // n_heads * apart, (h + 1) * n_kv_heads // n_heads * apart
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
                place_of(queries, low), d_head, place_of(keys, key), place_of(soon, key), place_of(offsets, begin + s),
                place_of(scores, to + s),
            )  # fmt: skip
    else:
        _score_plain(queries.ravel()[low : low + d_head], keys[key:], offsets[begin : begin + size], scores[to:])


@jit_inline()
def exponentials(scores: Any, at: Any, size: Any, scale: Any) -> Any:
    """Put exp((x - most) scale) in the place of ``size`` scores from ``at`` on; their sum."""
    for s in range(at + size, at + round_up_to_vector(size)):
        scores[s] = NEVER
    return _exponentials(place_of(scores, at), round_up_to_vector(size), scale)


@jit_inline()
def largest_among(row: Any, low: Any, high: Any) -> Any:
    """The largest number of a contiguous row from ``low`` to ``high``, whose length is padded; nan is ignored."""
    return _most(place_of(row, low), high - low)


@jit_inline()
def mass(row: Any, most: Any) -> Any:
    """The sum of exp(x - most) over a contiguous row of a multiple of the vector width."""
    return _mass(place_of(row, 0), row.shape[0], most)


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
                place_of(weights, at), size, place_of(values, value + j), place_of(soon, then + j),
                place_of(offsets, begin), place_of(found, to + j),
            )  # fmt: skip
            j += 4 * SIMD_LANES
        while j < d_head:
            _gather_1(
                place_of(weights, at), size, place_of(values, value + j), place_of(soon, then + j),
                place_of(offsets, begin), place_of(found, to + j),
            )  # fmt: skip
            j += SIMD_LANES
    else:
        _gather_plain(weights[at:], values[value:], offsets[begin : begin + size], found.ravel()[to : to + d_head])


@jit_function(SUMS)
def _score_plain(query: Any, keys: Any, offsets: Any, scores: Any) -> None:
    for s in range(offsets.shape[0]):
        total, first = ZERO, offsets[s]
        for j in range(query.shape[0]):
            total += query[j] * keys[first + j]
        scores[s] = total


@jit_function(SUMS)
def _gather_plain(weights: Any, values: Any, offsets: Any, here: Any) -> None:
    for j in range(here.shape[0]):
        here[j] = ZERO
    for s in range(offsets.shape[0]):
        weight, first = weights[s], offsets[s]
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
        before, loop, after = builder.block, builder.append_basic_block(), builder.append_basic_block()
        builder.branch(loop)

        builder.position_at_end(loop)
        j, sums = builder.phi(INDEX), [builder.phi(VECTOR) for _ in firsts]
        asked, added = builder.load(vector_pointer(builder, query, j), align=4), []
        for first, total in zip(firsts, sums, strict=True):
            place = builder.add(first, j)
            key = builder.load(vector_pointer(builder, keys, place), align=4)
            fetch(builder, builder.gep(soon, [place]))
            added.append(_plus_product(builder, total, asked, key))
        following = builder.add(j, INDEX(SIMD_LANES))
        builder.cbranch(builder.icmp_signed("<", following, d), loop, after)
        for phi, start, onward in zip([j, *sums], [INDEX(0), *_nothing(TOGETHER)], [following, *added], strict=True):
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
    low, high = (
        [*range(8), *range(SIMD_LANES, SIMD_LANES + 8)],
        [*range(8, SIMD_LANES), *range(SIMD_LANES + 8, 2 * SIMD_LANES)],
    )
    one, other = fours
    halves = builder.fadd(_chosen(builder, one, other, low), _chosen(builder, one, other, high))
    even, odd = [*range(4), *range(8, 12)], [*range(4, 8), *range(12, 16)]
    return builder.fadd(_chosen(builder, halves, halves, even), _chosen(builder, halves, halves, odd))


def _added(builder: Any, a: Any, b: Any, one: tuple[int, ...], other: tuple[int, ...]) -> Any:
    """The sum of two interleavings of vectors, given for their first quarters; the others are analogous."""
    each = [[i + first for first in range(0, SIMD_LANES, 4) for i in lanes] for lanes in (one, other)]
    return builder.fadd(*(_chosen(builder, a, b, lanes) for lanes in each))


def _chosen(builder: Any, a: Any, b: Any, lanes: list[int]) -> Any:
    return builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(ir.IntType(32), len(lanes)), lanes))


@intrinsic
def _exponentials_of(context: Any, scores: Any, n: Any, scale: Any) -> Any:
    """Put exp((x - most) scale) in the place of ``n`` scores, a multiple of the vector width, at least one; their sum.

    The same arithmetic as :func:`catena.kernels.vector_math.exp_less`, without rests of loops, which take the longest
    where there are few numbers.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        scores, n, scale = arguments
        tops = _over_vectors(builder, scores, n, _all(NEVER), lambda x, top: (None, _larger(builder, x, top)))
        most = in_all_lanes(builder, _reduced(builder, "fmax", tops))
        factor = in_all_lanes(builder, scale)

        def power(x: Any, mass: Any) -> Any:
            y = _exp(builder, builder.fmul(builder.fsub(x, most), factor))
            return y, builder.fadd(mass, y)

        return _reduced(builder, "fadd", _over_vectors(builder, scores, n, _all(ZERO), power))

    return types.float32(NUMBERS, types.int64, types.float32), generate


@intrinsic
def _most_of(context: Any, numbers: Any, n: Any) -> Any:
    """The largest of ``n`` numbers, a multiple of the vector width, at least one; nan is passed over."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        numbers, n = arguments
        tops = _over_vectors(builder, numbers, n, _all(NEVER), lambda x, top: (None, _larger(builder, x, top)))
        return _reduced(builder, "fmax", tops)

    return types.float32(NUMBERS, types.int64), generate


@intrinsic
def _mass_of(context: Any, numbers: Any, n: Any, most: Any) -> Any:
    """The sum of exp(x - most) over ``n`` numbers, a multiple of the vector width, at least one."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        numbers, n, most = arguments
        less = in_all_lanes(builder, most)

        def power(x: Any, mass: Any) -> Any:
            return None, builder.fadd(mass, _exp(builder, builder.fsub(x, less)))

        return _reduced(builder, "fadd", _over_vectors(builder, numbers, n, _all(ZERO), power))

    return types.float32(NUMBERS, types.int64, types.float32), generate


def _gathering(n_vectors: int) -> Any:
    """The function that puts ``n_vectors`` vectors of a weighted sum of values in their place."""

    @intrinsic
    def gather(context: Any, weights: Any, size: Any, values: Any, soon: Any, offsets: Any, here: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            weights, size, values, soon, offsets, here = arguments
            before, loop, after = builder.block, builder.append_basic_block(), builder.append_basic_block()
            builder.cbranch(builder.icmp_signed(">", size, INDEX(0)), loop, after)

            builder.position_at_end(loop)
            s, sums = builder.phi(INDEX), [builder.phi(VECTOR) for _ in range(n_vectors)]
            first = builder.load(builder.gep(offsets, [s]))
            weight, added = in_all_lanes(builder, builder.load(builder.gep(weights, [s]), align=4)), []
            for i, total in enumerate(sums):
                place = builder.add(first, INDEX(i * SIMD_LANES))
                value = builder.load(vector_pointer(builder, values, place), align=4)
                fetch(builder, builder.gep(soon, [place]))
                added.append(_plus_product(builder, total, weight, value))
            following = builder.add(s, INDEX(1))
            builder.cbranch(builder.icmp_signed("<", following, size), loop, after)
            nothing = _nothing(n_vectors)
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


def _over_vectors(builder: Any, numbers: Any, n: Any, start: Any, change: Any) -> Any:
    """Apply ``change(x, carried)`` to the vectors of an array and return the last carried value.

    ``change`` returns the vector to store instead of ``x``, or None, and the next carried value.
    """
    before, loop, after = builder.block, builder.append_basic_block(), builder.append_basic_block()
    builder.branch(loop)
    builder.position_at_end(loop)
    i, carried = builder.phi(INDEX), builder.phi(VECTOR)
    place = vector_pointer(builder, numbers, i)
    stored, onward = change(builder.load(place, align=4), carried)
    if stored is not None:
        builder.store(stored, place, align=4)
    following = builder.add(i, INDEX(SIMD_LANES))
    builder.cbranch(builder.icmp_signed("<", following, n), loop, after)
    for phi, first, later in ((i, INDEX(0), following), (carried, start, onward)):
        phi.add_incoming(first, before)
        phi.add_incoming(later, loop)
    builder.position_at_end(after)
    return onward


def _exp(builder: Any, x: Any) -> Any:
    """exp(x) for x ≤ 0."""
    least = _all(LEAST_32)
    y = _larger(builder, x, least)
    turns = builder.fadd(builder.fmul(y, _all(LOG2_E), flags=("contract",)), _all(0.5), flags=("contract",))
    n = builder.call(_llvm(builder, "floor", VECTOR, [VECTOR]), [turns])
    r = builder.fsub(y, builder.fmul(n, _all(LN2_HIGH_32), flags=("contract",)), flags=("contract",))
    r = builder.fsub(r, builder.fmul(n, _all(LN2_LOW_32), flags=("contract",)), flags=("contract",))
    p = _all(TERMS_32[-1])
    for term in (*reversed(TERMS_32[:-1]), ONE, ONE):
        p = _plus_product(builder, _all(term), p, r)
    whole = ir.VectorType(ir.IntType(32), SIMD_LANES)
    bits = builder.shl(
        builder.add(builder.fptosi(n, whole), ir.Constant(whole, [127] * SIMD_LANES)),
        ir.Constant(whole, [23] * SIMD_LANES),
    )
    found = builder.fmul(p, builder.bitcast(bits, VECTOR))
    some = builder.select(builder.fcmp_ordered(">", x, least), found, x)  # nan stays nan
    return builder.select(builder.fcmp_ordered("<=", x, least), _all(ZERO), some)


def _plus_product(builder: Any, total: Any, a: Any, b: Any) -> Any:
    return builder.fadd(total, builder.fmul(a, b, flags=("contract",)), flags=("contract",))


def _larger(builder: Any, a: Any, b: Any) -> Any:
    return builder.select(builder.fcmp_ordered(">", a, b), a, b)


def _reduced(builder: Any, name: str, vector: Any) -> Any:
    """The sum or the largest of all lanes."""
    number, first = ir.FloatType(), [ir.Constant(ir.FloatType(), 0.0)] if name == "fadd" else []
    function = _llvm(builder, f"vector.reduce.{name}", number, [x.type for x in first] + [VECTOR])
    return builder.call(function, [*first, vector], fastmath=("reassoc",) if first else ())


def _llvm(builder: Any, name: str, given: Any, taken: list[Any]) -> Any:
    """A function of LLVM's own for vectors."""
    return cgutils.get_or_insert_function(
        builder.module, ir.FunctionType(given, taken), f"llvm.{name}.v{SIMD_LANES}f32"
    )


def _all(number: Any) -> Any:
    return ir.Constant(VECTOR, [float(number)] * SIMD_LANES)


def _nothing(n: int) -> list[Any]:
    return [_all(ZERO)] * n


# A decorated intrinsic takes one argument less than its definition, which a type checker cannot know.
_score: Any = _score_together
_exponentials: Any = _exponentials_of
_mass: Any = _mass_of
_most: Any = _most_of
_gather_4: Any = _gathering(4)
_gather_1: Any = _gathering(1)
