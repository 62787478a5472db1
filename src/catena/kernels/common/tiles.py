"""Products of small float64 matrices that begin anywhere in contiguous arrays.

A call of a library takes longer than the product of twenty rows with twenty columns, and compilers leave half of such a
loop without vector instructions, because twenty numbers are not a multiple of what they unroll. Here a tile of the
result, a few rows by at most three vectors, stays in registers while the sum runs.

Whole vectors are read and written: a row of the second matrix and of the result has :func:`round_up` numbers. Rows of
the result may overlap behind its columns. They are written from the first to the last, so that only what lies behind
the last row is overwritten.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from llvmlite.binding import get_host_cpu_features
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from catena.kernels.common.jit import jit_function, jit_inline
from catena.kernels.common.simd import INDEX, pointer_to

LANES = 8
"""Numbers of a vector."""

_MOST_ROWS = 4 if get_host_cpu_features().get("avx512f") else 2
"""Rows of a tile whose sums fit in the registers of this processor."""


def round_up(n: int) -> int:
    """The next multiple of the number of lanes."""
    return -(-n // LANES) * LANES


_VECTOR = ir.VectorType(ir.DoubleType(), LANES)
_ZERO = ir.Constant(_VECTOR, [0.0] * LANES)


def _address(builder: Any, pointer: Any, offset: Any) -> Any:
    return builder.bitcast(builder.gep(pointer, [offset]), _VECTOR.as_pointer())


def _in_all_lanes(builder: Any, number: Any) -> Any:
    undefined = ir.Constant(_VECTOR, ir.Undefined)
    one = builder.insert_element(undefined, number, ir.IntType(32)(0))
    return builder.shuffle_vector(one, undefined, ir.Constant(ir.VectorType(ir.IntType(32), LANES), None))


def _tile(n_rows: int, n_vectors: int) -> Any:
    """The function ``tile(x, x_row, x_step, y, y_row, depth, z, z_row, add)`` of pointers and strides.

    It writes z[r] = Σ x[r, k] y[k] for ``n_rows`` rows as wide as ``n_vectors``, or adds this to them.
    """
    numbers = types.CPointer(types.float64)
    whole = types.int64
    signature = types.void(numbers, whole, whole, numbers, whole, whole, numbers, whole, types.boolean)

    @intrinsic
    def tile(
        context: Any, x: Any, x_row: Any, x_step: Any, y: Any, y_row: Any, depth: Any, z: Any, z_row: Any, add: Any
    ) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            *others, add = arguments
            others.append(cgutils.as_bool_bit(builder, add))
            _write_tile(builder, n_rows, n_vectors, *others)
            return context.get_dummy_value()

        return signature, generate

    return tile


def _write_tile(
    builder: Any, n_rows: int, n_vectors: int, x: Any, x_row: Any, x_step: Any, y: Any, y_row: Any, depth: Any, z: Any,
    z_row: Any, add: Any,
) -> None:  # fmt: skip
    """The instructions of a tile: its numbers are zero or loaded, pass through the loop over ``depth``, are stored."""
    columns = [INDEX(v * LANES) for v in range(n_vectors)]
    rows = [builder.mul(INDEX(r), z_row) for r in range(n_rows)]
    results = [_address(builder, z, builder.add(row, column)) for row in rows for column in columns]
    before = builder.block
    loading, begin, loop, after = (builder.append_basic_block() for _ in range(4))
    builder.cbranch(add, loading, begin)

    builder.position_at_end(loading)
    given = [builder.load(result, align=8) for result in results]
    builder.branch(begin)

    builder.position_at_end(begin)
    starts = [builder.phi(_VECTOR) for _ in results]
    for start, value in zip(starts, given, strict=True):
        start.add_incoming(_ZERO, before)
        start.add_incoming(value, loading)
    builder.cbranch(builder.icmp_signed(">", depth, INDEX(0)), loop, after)

    builder.position_at_end(loop)
    k = builder.phi(INDEX)
    sums = [builder.phi(_VECTOR) for _ in results]
    down = builder.mul(k, y_row)
    along = builder.mul(k, x_step)
    row = [builder.load(_address(builder, y, builder.add(down, column)), align=8) for column in columns]
    added: list[Any] = []
    for r in range(n_rows):
        number = builder.load(builder.gep(x, [builder.add(builder.mul(INDEX(r), x_row), along)]), align=8)
        everywhere = _in_all_lanes(builder, number)
        for vector in row:
            product = builder.fmul(everywhere, vector, flags=("contract",))
            added.append(builder.fadd(sums[len(added)], product, flags=("contract",)))
    following = builder.add(k, INDEX(1))
    builder.cbranch(builder.icmp_signed("<", following, depth), loop, after)
    k.add_incoming(INDEX(0), begin)
    k.add_incoming(following, loop)

    builder.position_at_end(after)
    totals = [builder.phi(_VECTOR) for _ in results]
    for total, moving, start, new in zip(totals, sums, starts, added, strict=True):
        moving.add_incoming(start, begin)
        moving.add_incoming(new, loop)
        total.add_incoming(start, begin)
        total.add_incoming(new, loop)
    for total, result in zip(totals, results, strict=True):
        builder.store(total, result, align=8)


_ones = [_tile(1, n) for n in (1, 2, 3)]
_twos = [_tile(2, n) for n in (1, 2, 3)]
_fours = [_tile(4, n) for n in (1, 2, 3)]
_one_1, _one_2, _one_3 = _ones
_two_1, _two_2, _two_3 = _twos
_four_1, _four_2, _four_3 = _fours


@jit_inline()
def _rows_of_tile(left: Any) -> Any:
    return _MOST_ROWS if left >= _MOST_ROWS else (2 if left >= 2 else 1)


@jit_function()
def multiply(
    x: Any, x_at: Any, x_row: Any, x_step: Any, y: Any, y_at: Any, y_row: Any, depth: Any, z: Any, z_at: Any,
    z_row: Any, n_rows: Any, width: Any, add: Any,
) -> None:  # fmt: skip
    """z[r, c] = Σ x[r, k] y[k, c] for ``n_rows`` rows and ``width`` columns, or with ``add`` z += the product.

    Args:
        x: array, where ``x[r, k]`` is at ``x_at + r x_row + k x_step``.
        y: array, where ``y[k, c]`` is at ``y_at + k y_row + c``.
        z: array, where ``z[r, c]`` is at ``z_at + r z_row + c``.
        width: multiple of the number of lanes.
    """
    n_vectors = width // LANES
    row = 0
    while row < n_rows:
        rows = _rows_of_tile(n_rows - row)
        left = pointer_to(x, x_at + row * x_row)
        begin = n_vectors
        while begin > 0:
            vectors = 2 if begin == 4 else min(begin, 3)
            begin -= vectors
            right = pointer_to(y, y_at + begin * LANES)
            result = pointer_to(z, z_at + row * z_row + begin * LANES)
            if rows == 4:
                if vectors == 3:
                    _four_3(left, x_row, x_step, right, y_row, depth, result, z_row, add)
                elif vectors == 2:
                    _four_2(left, x_row, x_step, right, y_row, depth, result, z_row, add)
                else:
                    _four_1(left, x_row, x_step, right, y_row, depth, result, z_row, add)
            elif rows == 2:
                if vectors == 3:
                    _two_3(left, x_row, x_step, right, y_row, depth, result, z_row, add)
                elif vectors == 2:
                    _two_2(left, x_row, x_step, right, y_row, depth, result, z_row, add)
                else:
                    _two_1(left, x_row, x_step, right, y_row, depth, result, z_row, add)
            elif vectors == 3:
                _one_3(left, x_row, x_step, right, y_row, depth, result, z_row, add)
            elif vectors == 2:
                _one_2(left, x_row, x_step, right, y_row, depth, result, z_row, add)
            else:
                _one_1(left, x_row, x_step, right, y_row, depth, result, z_row, add)
        row += rows


@intrinsic
def _scale(context: Any, x: Any, factor: Any, z: Any, size: Any, add: Any) -> Any:
    """z = factor x, or z += factor x, for ``size`` numbers, a multiple of the number of lanes, at least one."""
    numbers = types.CPointer(types.float64)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        x, factor, z, size, add = arguments
        factors = _in_all_lanes(builder, factor)
        keep = cgutils.as_bool_bit(builder, add)
        before = builder.block
        loop = builder.append_basic_block()
        after = builder.append_basic_block()
        builder.branch(loop)
        builder.position_at_end(loop)
        i = builder.phi(INDEX)
        result = _address(builder, z, i)
        start = builder.select(keep, builder.load(result, align=8), _ZERO)
        product = builder.fmul(factors, builder.load(_address(builder, x, i), align=8), flags=("contract",))
        builder.store(builder.fadd(start, product, flags=("contract",)), result, align=8)
        following = builder.add(i, INDEX(LANES))
        builder.cbranch(builder.icmp_signed("<", following, size), loop, after)
        i.add_incoming(INDEX(0), before)
        i.add_incoming(following, loop)
        builder.position_at_end(after)
        return context.get_dummy_value()

    return types.void(numbers, types.float64, numbers, types.int64, types.boolean), generate


_scaled: Any = _scale


@jit_inline()
def scale_row(x: Any, x_at: Any, factor: Any, z: Any, z_at: Any, size: Any, add: Any) -> None:
    """z = factor x, or with ``add`` z += factor x, for ``size`` numbers from these places on.

    ``size`` is a positive multiple of the number of lanes.
    """
    _scaled(pointer_to(x, x_at), factor, pointer_to(z, z_at), size, add)
