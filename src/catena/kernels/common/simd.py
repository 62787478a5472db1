"""LLVM vector instructions for Numba: vector loads, broadcasts, prefetches, and reductions with exponentials.

Vectors have :data:`SIMD_LANES` numbers; LLVM splits them into as many registers as the processor needs. Single
precision.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from catena.kernels.common.floats import LOG2_E
from catena.kernels.common.jit import jit_function, jit_inline
from catena.kernels.common.vector_math import LEAST_32, LN2_HIGH_32, LN2_LOW_32, TERMS_32

SIMD_LANES = 16
"""Numbers of a vector; LLVM cuts it into as many registers as the processor needs."""

FLOAT, INDEX = ir.FloatType(), ir.IntType(64)
VECTOR = ir.VectorType(FLOAT, SIMD_LANES)


def vector_pointer(builder: Any, pointer: Any, offset: Any) -> Any:
    """The place of as many numbers as a vector holds."""
    return builder.bitcast(builder.gep(pointer, [offset]), VECTOR.as_pointer())


def fetch(builder: Any, pointer: Any) -> None:
    """Begin to fetch what is read soon."""
    address = builder.bitcast(pointer, ir.IntType(8).as_pointer())
    number = ir.IntType(32)
    kind = ir.FunctionType(ir.VoidType(), [address.type, number, number, number])
    function = builder.module.declare_intrinsic("llvm.prefetch", [address.type], kind)
    read = number(0)
    near = number(2)
    data = number(1)
    builder.call(function, [address, read, near, data])


def in_all_lanes(builder: Any, number: Any) -> Any:
    """A vector that has the number everywhere."""
    nothing = ir.Constant(VECTOR, ir.Undefined)
    one = builder.insert_element(nothing, number, ir.IntType(32)(0))
    return builder.shuffle_vector(
        one, nothing, ir.Constant(ir.VectorType(ir.IntType(32), SIMD_LANES), [0] * SIMD_LANES)
    )


@intrinsic
def _pointer_to(context: Any, array: Any, offset: Any) -> Any:
    """The place of a number in a contiguous array, counted from its first."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = cgutils.create_struct_proxy(signature.args[0])(context, builder, arguments[0]).data
        return builder.gep(data, [arguments[1]])

    return types.CPointer(array.dtype)(array, types.int64), generate


# A decorated intrinsic takes one argument less than its definition, which a type checker cannot know.
pointer_to: Any = _pointer_to
ZERO, ONE, NEVER = np.float32(0), np.float32(1), np.float32(-np.inf)
NUMBERS, PLACES = types.CPointer(types.float32), types.CPointer(types.int64)


@jit_function()
def round_up_to_vector(size: Any) -> Any:
    """The next multiple of the vector width, the length of arrays of offsets and scores."""
    return (size + SIMD_LANES - 1) // SIMD_LANES * SIMD_LANES


@jit_inline()
def exponentials(scores: Any, at: Any, size: Any, scale: Any) -> Any:
    """Put exp((x - most) scale) in the place of ``size`` scores from ``at`` on; their sum."""
    for s in range(at + size, at + round_up_to_vector(size)):
        scores[s] = NEVER
    return _exponentials(pointer_to(scores, at), round_up_to_vector(size), scale)


@jit_inline()
def largest_among(row: Any, low: Any, high: Any) -> Any:
    """The largest number of a contiguous row from ``low`` to ``high``, whose length is padded; nan is ignored."""
    return _most(pointer_to(row, low), high - low)


@jit_inline()
def mass(row: Any, most: Any) -> Any:
    """The sum of exp(x - most) over a contiguous row of a multiple of the vector width."""
    return _mass(pointer_to(row, 0), row.shape[0], most)


@intrinsic
def _exponentials_of(context: Any, scores: Any, n: Any, scale: Any) -> Any:
    """Put exp((x - most) scale) in the place of ``n`` scores, a multiple of the vector width, at least one; their sum.

    The same arithmetic as :func:`catena.kernels.common.vector_math.exp_less`, without rests of loops, which take the
    longest where there are few numbers.
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


def _over_vectors(builder: Any, numbers: Any, n: Any, start: Any, change: Any) -> Any:
    """Apply ``change(x, carried)`` to the vectors of an array and return the last carried value.

    ``change`` returns the vector to store instead of ``x``, or None, and the next carried value.
    """
    before = builder.block
    loop = builder.append_basic_block()
    after = builder.append_basic_block()
    builder.branch(loop)
    builder.position_at_end(loop)
    i = builder.phi(INDEX)
    carried = builder.phi(VECTOR)
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
        p = multiply_add(builder, _all(term), p, r)
    whole = ir.VectorType(ir.IntType(32), SIMD_LANES)
    bits = builder.shl(
        builder.add(builder.fptosi(n, whole), ir.Constant(whole, [127] * SIMD_LANES)),
        ir.Constant(whole, [23] * SIMD_LANES),
    )
    found = builder.fmul(p, builder.bitcast(bits, VECTOR))
    some = builder.select(builder.fcmp_ordered(">", x, least), found, x)  # nan stays nan
    return builder.select(builder.fcmp_ordered("<=", x, least), _all(ZERO), some)


def multiply_add(builder: Any, total: Any, a: Any, b: Any) -> Any:
    return builder.fadd(total, builder.fmul(a, b, flags=("contract",)), flags=("contract",))


def _larger(builder: Any, a: Any, b: Any) -> Any:
    return builder.select(builder.fcmp_ordered(">", a, b), a, b)


def _reduced(builder: Any, name: str, vector: Any) -> Any:
    """The sum or the largest of all lanes."""
    number = ir.FloatType()
    first = [ir.Constant(ir.FloatType(), 0.0)] if name == "fadd" else []
    function = _llvm(builder, f"vector.reduce.{name}", number, [x.type for x in first] + [VECTOR])
    return builder.call(function, [*first, vector], fastmath=("reassoc",) if first else ())


def _llvm(builder: Any, name: str, given: Any, taken: list[Any]) -> Any:
    """A function of LLVM's own for vectors."""
    return cgutils.get_or_insert_function(
        builder.module, ir.FunctionType(given, taken), f"llvm.{name}.v{SIMD_LANES}f32"
    )


def _all(number: Any) -> Any:
    return ir.Constant(VECTOR, [float(number)] * SIMD_LANES)


def zero_vectors(n: int) -> list[Any]:
    return [_all(ZERO)] * n


_exponentials: Any = _exponentials_of
_mass: Any = _mass_of
_most: Any = _most_of
