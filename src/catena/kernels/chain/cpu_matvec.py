r"""Four rows times a square matrix, as all loops over chains want it.

.. math::  y_{iq} = \sum_p v_{ip} m_{pq}, \qquad i = 1 \dots 4

A block of columns of the four results stays in registers while the sum over ``p`` runs. Compilers do not find this
form by themselves: they cannot know that the rows do not overlap, and test it again for every row of the matrix. So the
block is written in vector instructions of LLVM. The last block of a row reaches back over the one before it, and
writes the same numbers there again. For a matrix with long rows, whose blocks lie too far apart for the cache, the
plain loop is faster.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from catena.kernels.common.jit import SUMS, jit_function, jit_inline

TOGETHER = 4
"""How many rows go through a matrix together. The loops are written out for this number."""

_WIDE = 64
"""Bytes of a block of columns; there are blocks of a half and of a quarter of it, too."""

LONG = 800
"""Bytes of a row of the matrix beyond which the plain loop is faster."""

_INDEX = ir.IntType(64)


def _block(size: int) -> Any:
    """The function that writes ``size`` bytes of each row of the result, from column ``q`` on."""

    @intrinsic
    def block(context: Any, v: Any, matrices: Any, w: Any, q: Any, result: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            arrays = [
                context.make_array(kind)(context, builder, value)
                for kind, value in zip(signature.args, arguments, strict=True)
                if isinstance(kind, types.Array)
            ]
            k = builder.extract_value(arrays[0].shape, 1)
            vector = ir.VectorType(context.get_value_type(v.dtype), 8 * size // v.dtype.bitwidth)
            first, second, third = (x.data for x in arrays)
            _write_block(builder, vector, first, second, third, k, *arguments[2:4])
            return context.get_dummy_value()

        return types.void(v, matrices, types.int64, types.int64, result), generate

    return block


def _write_block(builder: Any, vector: Any, v: Any, matrices: Any, result: Any, k: Any, w: Any, q: Any) -> None:
    """The instructions of a block: four sums pass through the loop over ``p``, and are stored."""
    first = builder.gep(matrices, [builder.add(builder.mul(w, builder.mul(k, k)), q)])
    before = builder.block
    loop = builder.append_basic_block()
    after = builder.append_basic_block()
    builder.branch(loop)

    builder.position_at_end(loop)
    p = builder.phi(_INDEX)
    sums = [builder.phi(vector) for _ in range(TOGETHER)]
    row = builder.load(_as_vector(builder, vector, first, builder.mul(p, k)), align=4)
    added = []
    for i, total in enumerate(sums):
        number = builder.load(builder.gep(v, [builder.add(builder.mul(_INDEX(i), k), p)]))
        product = builder.fmul(_in_all_lanes(builder, vector, number), row, flags=("contract",))
        added.append(builder.fadd(total, product, flags=("contract",)))
    following = builder.add(p, _INDEX(1))
    for phi, start, onward in zip([p, *sums], [_INDEX(0), *_zeros(vector)], [following, *added], strict=True):
        phi.add_incoming(start, before)
        phi.add_incoming(onward, loop)
    builder.cbranch(builder.icmp_signed("<", following, k), loop, after)

    builder.position_at_end(after)
    for i, total in enumerate(added):
        place = builder.add(builder.mul(_INDEX(i), k), q)
        builder.store(total, _as_vector(builder, vector, result, place), align=4)


def _zeros(vector: Any) -> Sequence[Any]:
    return [ir.Constant(vector, [0.0] * vector.count)] * TOGETHER


def _as_vector(builder: Any, vector: Any, pointer: Any, offset: Any) -> Any:
    return builder.bitcast(builder.gep(pointer, [offset]), vector.as_pointer())


def _in_all_lanes(builder: Any, vector: Any, number: Any) -> Any:
    nothing = ir.Constant(vector, ir.Undefined)
    lane = ir.IntType(32)
    one = builder.insert_element(nothing, number, lane(0))
    return builder.shuffle_vector(one, nothing, ir.Constant(ir.VectorType(lane, vector.count), [0] * vector.count))


# A decorated intrinsic takes one argument less than its definition, which a type checker cannot know.
_wide: Any = _block(_WIDE)
_half: Any = _block(_WIDE // 2)
_quarter: Any = _block(_WIDE // 4)


@jit_function(SUMS)
def _four_times_plain(v: Any, matrices: Any, w: int, result: Any) -> None:
    """The same by a plain loop, four p at a time."""
    k = result.shape[1]
    matrix = matrices[w]
    r0, r1, r2, r3 = result[0], result[1], result[2], result[3]
    for q in range(k):
        r0[q] = r1[q] = r2[q] = r3[q] = 0
    p = 0
    while p + 4 <= k:
        a0, a1, a2, a3 = v[0, p], v[1, p], v[2, p], v[3, p]
        b0, b1, b2, b3 = v[0, p + 1], v[1, p + 1], v[2, p + 1], v[3, p + 1]
        c0, c1, c2, c3 = v[0, p + 2], v[1, p + 2], v[2, p + 2], v[3, p + 2]
        d0, d1, d2, d3 = v[0, p + 3], v[1, p + 3], v[2, p + 3], v[3, p + 3]
        row_a, row_b, row_c, row_d = matrix[p], matrix[p + 1], matrix[p + 2], matrix[p + 3]
        for q in range(k):
            a = row_a[q]
            b = row_b[q]
            c = row_c[q]
            d = row_d[q]
            r0[q] += (a0 * a + b0 * b) + (c0 * c + d0 * d)
            r1[q] += (a1 * a + b1 * b) + (c1 * c + d1 * d)
            r2[q] += (a2 * a + b2 * b) + (c2 * c + d2 * d)
            r3[q] += (a3 * a + b3 * b) + (c3 * c + d3 * d)
        p += 4
    while p < k:
        a0, a1, a2, a3 = v[0, p], v[1, p], v[2, p], v[3, p]
        row_a = matrix[p]
        for q in range(k):
            r0[q] += a0 * row_a[q]
            r1[q] += a1 * row_a[q]
            r2[q] += a2 * row_a[q]
            r3[q] += a3 * row_a[q]
        p += 1


@jit_inline()
def four_times_matrix(v: Any, matrices: Any, w: int, result: Any) -> None:
    """result[i, q] = Σ_p v[i, p] matrices[w, p, q] for four rows i. Arrays are contiguous.

    Rows that are not there cost nothing: it is reading the matrix that takes the time.
    """
    k = v.shape[1]
    wide = _WIDE // v.itemsize
    half = wide // 2
    quarter = wide // 4
    if k < quarter or k * v.itemsize > LONG:
        _four_times_plain(v, matrices, w, result)
        return
    q = 0
    while q + wide <= k:
        _wide(v, matrices, w, q, result)
        q += wide
    rest = k - q
    if rest > half and k > wide:
        _wide(v, matrices, w, k - wide, result)
    elif rest > quarter and k >= half:
        if rest > half:
            _half(v, matrices, w, 0, result)
        _half(v, matrices, w, k - half, result)
    elif rest > 0:
        if rest > quarter:
            _quarter(v, matrices, w, 0, result)
        _quarter(v, matrices, w, k - quarter, result)
