r"""Products of vectors with a matrix of 8 bits, in integer arithmetic.

.. math::
    y_{rj} = b_j + s_r\, t_j \sum_i q_{ri} w_{ij}, \qquad
    q_{ri} = \mathrm{round}(x_{ri} / s_r), \quad s_r = \max_i |x_{ri}| / 127, \quad t_j = \max_i |W_{ij}| / 127

Each column of the matrix has a scale of its own, found once, and each vector one that is found when it comes, so that
the largest number of either is 127. The sum is exact. What is rounded is at most half a scale: with
:math:`\delta_j = t_j / 2` and :math:`\epsilon_r = s_r / 2`, a result is off by no more than
:math:`\sum_i |x_{ri}| \delta_j + |W_{ij}| \epsilon_r + \delta_j \epsilon_r`.

Processors with an instruction for four such products at once (x86: VNNI) have a form of the tile that uses it; others
get one in plain vector instructions of LLVM. Both give the same numbers. The layout is as in
:mod:`catena.kernels.linear.cpu`, with four neighboring ``i`` in a row: a panel of :data:`PANEL_COLUMNS` columns is a
line of
scales (float32), a line of sums (int32), and a line for every four ``i``.

Time O(n d_in d_out).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import llvmlite.binding
import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, overload

from catena.kernels.common.jit import jit, jit_function
from catena.kernels.common.simd import pointer_to
from catena.kernels.linear.cpu import PANEL_COLUMNS, put_product, round_up_to_panel

_LANES = 16
"""Columns of a vector, four bytes each."""

MOST = 127
"""The largest number of 8 bits that is used: as far from 0 on either side."""

HEAD = 2
"""Lines of a panel before its numbers: scales and sums."""

BYTE, WORD, INDEX, FLOAT = ir.IntType(8), ir.IntType(32), ir.IntType(64), ir.FloatType()
BYTES, WORDS, FLOATS = ir.VectorType(BYTE, 4 * _LANES), ir.VectorType(WORD, _LANES), ir.VectorType(FLOAT, _LANES)
_LINE = 4 * PANEL_COLUMNS
"""Bytes of a line."""


def quantize_rows(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A matrix ``d_out d_in`` of floats as numbers of 8 bits, and the scale of each row."""
    scales = np.abs(matrix).max(axis=1, initial=0).astype(np.float32) / np.float32(MOST)
    divisor = np.where(scales > 0, scales, np.float32(1))
    near = np.rint(matrix.astype(np.float32) / divisor[:, None])
    return near.clip(-MOST, MOST).astype(np.int8), scales  # the least scales of all are rounded far off themselves


def packed8(numbers: np.ndarray, scales: np.ndarray) -> np.ndarray:
    """Numbers ``d_out d_in`` and the scales of their rows as panels of bytes, ``p HEAD+d_in/4 LINE``.

    The last panel, and the last four ``i``, are padded with zeros.
    """
    d_out, d_in = numbers.shape
    groups = -(-d_in // 4)
    n_panels = round_up_to_panel(d_out) // PANEL_COLUMNS
    filled = np.zeros((n_panels * PANEL_COLUMNS, 4 * groups), np.int8)
    filled[:d_out, :d_in] = numbers
    of_columns = np.zeros(n_panels * PANEL_COLUMNS, np.float32)
    of_columns[:d_out] = scales
    panels = np.empty((n_panels, HEAD + groups, _LINE), np.int8)
    panels[:, 0] = of_columns.reshape(n_panels, PANEL_COLUMNS).view(np.int8)
    # Vectors come with 128 added to each number, for instructions that take no sign: it is taken off again here.
    panels[:, 1] = (128 * filled.sum(axis=1, dtype=np.int32)).reshape(n_panels, PANEL_COLUMNS).view(np.int8)
    panels[:, HEAD:] = (
        filled.reshape(n_panels, PANEL_COLUMNS, groups, 4).transpose(0, 2, 1, 3).reshape(n_panels, groups, _LINE)
    )
    return panels


def unpacked8(panels: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Some rows of the numbers that were packed, with zeros behind them up to a whole four, and their scales."""
    p = rows // PANEL_COLUMNS
    j = rows % PANEL_COLUMNS
    by_four = panels[:, HEAD:].reshape(len(panels), -1, PANEL_COLUMNS, 4)
    scales = np.ascontiguousarray(panels[:, 0]).view(np.float32)
    return by_four[p, :, j].reshape(len(rows), 4 * by_four.shape[1]), scales[p, j]


# --- the tile, in instructions ----------------------------------------------------------------------------------------
@lru_cache(maxsize=1)
def simd_variant() -> str:
    """How four products at once are written for this processor: ``vnni512``, ``vnni256`` or ``plain``."""
    if any(getattr(numba.config, name, None) for name in ("CPU_NAME", "CPU_FEATURES")):
        return "plain"  # portable code is requested
    features = llvmlite.binding.get_host_cpu_features()
    if features.get("avx512vnni") and features.get("avx512f"):
        return "vnni512"
    return "vnni256" if features.get("avxvnni") else "plain"


def _tile(n_rows: int) -> Any:
    """The function ``tile(q, q_stride, panel, groups, y, y_stride, scales, bias)`` of pointers.

    It writes a product to ``n_rows`` rows of ``y``, as wide as a panel.
    """
    byte = types.CPointer(types.uint8)
    real = types.CPointer(types.float32)
    whole = types.int64
    signature = types.void(byte, whole, types.CPointer(types.int8), whole, real, whole, real, real)

    @intrinsic
    def tile(
        context: Any, q: Any, q_stride: Any, panel: Any, groups: Any, y: Any, y_stride: Any, scales: Any, bias: Any
    ) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            write_tile(builder, n_rows, simd_variant(), *arguments)
            return context.get_dummy_value()

        return signature, generate

    return tile


def write_tile(
    builder: Any, n_rows: int, how: str, q: Any, q_stride: Any, panel: Any, groups: Any, y: Any, y_stride: Any,
    scales: Any, bias: Any,
) -> None:  # fmt: skip
    """The instructions of a tile: sums start at 0, pass through the loop over groups of four, are scaled and stored."""
    n_vectors = PANEL_COLUMNS // _LANES
    nothing = ir.Constant(WORDS, [WORD(0)] * _LANES)
    before = builder.block
    loop = builder.append_basic_block()
    after = builder.append_basic_block()
    builder.cbranch(builder.icmp_signed(">", groups, INDEX(0)), loop, after)

    builder.position_at_end(loop)
    g = builder.phi(INDEX)
    sums = [builder.phi(WORDS) for _ in range(n_rows * n_vectors)]
    line = builder.mul(builder.add(g, INDEX(HEAD)), INDEX(_LINE))
    weights = [
        builder.load(_at(builder, panel, builder.add(line, INDEX(4 * _LANES * k)), BYTES), align=1)
        for k in range(n_vectors)
    ]
    added: list[Any] = []
    for row in range(n_rows):
        place = builder.add(builder.mul(INDEX(row), q_stride), builder.mul(g, INDEX(4)))
        four = _everywhere(builder, builder.load(_at(builder, q, place, WORD), align=1), WORDS)
        for weight in weights:
            added.append(_four_products(builder, how, sums[len(added)], builder.bitcast(four, BYTES), weight))
    following = builder.add(g, INDEX(1))
    builder.cbranch(builder.icmp_signed("<", following, groups), loop, after)
    g.add_incoming(INDEX(0), before)
    g.add_incoming(following, loop)

    builder.position_at_end(after)
    results = [builder.phi(WORDS) for _ in sums]
    for total, new, result in zip(sums, added, results, strict=True):
        total.add_incoming(nothing, before)
        total.add_incoming(new, loop)
        result.add_incoming(nothing, before)
        result.add_incoming(new, loop)
    heads = []
    for k in range(n_vectors):
        at = INDEX(4 * _LANES * k)
        of_column = builder.load(_at(builder, panel, at, FLOATS), align=1)
        less = builder.load(_at(builder, panel, builder.add(at, INDEX(_LINE)), WORDS), align=1)
        first = builder.load(_at(builder, bias, INDEX(_LANES * k), FLOATS), align=4)
        heads.append((of_column, less, first))
    for row in range(n_rows):
        scale = _everywhere(builder, builder.load(builder.gep(scales, [INDEX(row)]), align=4), FLOATS)
        for k, (of_column, less, first) in enumerate(heads):
            whole = builder.sitofp(builder.sub(results[row * n_vectors + k], less), FLOATS)
            found = builder.fadd(builder.fmul(whole, builder.fmul(scale, of_column)), first)
            place = builder.add(builder.mul(INDEX(row), y_stride), INDEX(_LANES * k))
            builder.store(found, _at(builder, y, place, FLOATS), align=4)


def _four_products(builder: Any, how: str, total: Any, x: Any, w: Any) -> Any:
    """total + the sum of each four neighboring products of bytes, those of ``x`` without a sign."""
    if how == "vnni512":
        return _by_instruction(builder, "llvm.x86.avx512.vpdpbusd.512", total, x, w, _LANES)
    if how == "vnni256":
        halves = []
        for low in (0, _LANES // 2):
            one, two, three = (
                _part(builder, v, range(low, low + _LANES // 2)) for v in (total, *_words(builder, x, w))
            )
            halves.append(_by_instruction(builder, "llvm.x86.avx512.vpdpbusd.256", one, two, three, _LANES // 2))
        both = ir.Constant(ir.VectorType(WORD, _LANES), list(range(_LANES)))
        return builder.shuffle_vector(*halves, both)
    wide = ir.VectorType(WORD, 4 * _LANES)
    products = builder.mul(builder.zext(x, wide), builder.sext(w, wide))
    two = builder.add(*(_part(builder, products, range(k, 4 * _LANES, 2)) for k in range(2)))
    four = builder.add(*(_part(builder, two, range(k, 2 * _LANES, 2)) for k in range(2)))
    return builder.add(total, four)


def _by_instruction(builder: Any, name: str, total: Any, x: Any, w: Any, lanes: int) -> Any:
    kind = ir.VectorType(WORD, lanes)
    function = cgutils.get_or_insert_function(builder.module, ir.FunctionType(kind, [kind] * 3), name)
    return builder.call(function, [total, *_words(builder, x, w)])


def _words(builder: Any, *vectors: Any) -> list[Any]:
    """Vectors of bytes as vectors of four bytes each."""
    return [
        v if v.type.element == WORD else builder.bitcast(v, ir.VectorType(WORD, v.type.count // 4)) for v in vectors
    ]


def _part(builder: Any, vector: Any, lanes: range) -> Any:
    mask = ir.Constant(ir.VectorType(WORD, len(lanes)), list(lanes))
    return builder.shuffle_vector(vector, ir.Constant(vector.type, ir.Undefined), mask)


def _at(builder: Any, pointer: Any, offset: Any, kind: Any) -> Any:
    return builder.bitcast(builder.gep(pointer, [offset]), kind.as_pointer())


def _everywhere(builder: Any, number: Any, kind: Any) -> Any:
    nothing = ir.Constant(kind, ir.Undefined)
    one = builder.insert_element(nothing, number, WORD(0))
    return builder.shuffle_vector(one, nothing, ir.Constant(ir.VectorType(WORD, _LANES), [0] * _LANES))


# A decorated intrinsic takes one argument less than its definition, which a type checker cannot know.
_tile_of_8: Any = _tile(8)
_tile_of_4: Any = _tile(4)
_tile_of_2: Any = _tile(2)
_tile_of_1: Any = _tile(1)
# --- rows and matrices ------------------------------------------------------------------------------------------------
_WITHOUT_SIGN = np.int32(0x7FFFFFFF)
"""All bits of a float but its sign. Read as integers, they are in the order of the floats, and nan is last."""

_NO_NUMBER = np.int32(0x7F800000)
"""The bits of infinity."""

ZERO, LIMIT, SHIFT, NOT_A_NUMBER = np.float32(0), np.float32(MOST), np.float32(128), np.float32(np.nan)


def _quantize(x: Any, q: Any, scales: Any) -> None:
    """Rows of floats as numbers from 1 to 255, 128 being 0, with the scale of each row; nan where a row has one."""
    n = x.shape[0]
    d = min(x.shape[1], q.shape[1])
    bits = np.zeros(1, np.int32)
    for r in range(n):
        row = x[r, :d]
        numbers = x[r].view(np.int32)
        most = np.int32(0)
        for i in range(d):
            most = max(most, numbers[i] & _WITHOUT_SIGN)
        bits[0] = most
        largest = bits.view(np.float32)[0]
        scales[r] = largest / LIMIT if most < _NO_NUMBER else NOT_A_NUMBER
        factor = LIMIT / largest if ZERO < largest < np.inf else ZERO
        for i in range(d):
            q[r, i] = np.uint8(np.int32(np.rint(row[i] * factor) + SHIFT))
        for i in range(d, q.shape[1]):
            q[r, i] = np.uint8(128)


def _multiply(y: Any, q: Any, panels: Any, scales: Any, bias: Any, low: Any, high: Any) -> None:
    """y = bias + x w in the columns of the panels from ``low`` to ``high``, for rows that :func:`quantize` has made."""
    n = y.shape[0]
    wide = y.shape[1]
    stride = q.shape[1]
    size = panels.shape[1] * panels.shape[2]
    groups = panels.shape[1] - HEAD
    for p in range(low, high):
        panel = pointer_to(panels, p * size)
        first = pointer_to(bias, p * PANEL_COLUMNS)
        row = 0
        while row + 8 <= n:
            left = pointer_to(q, row * stride)
            right = pointer_to(y, row * wide + p * PANEL_COLUMNS)
            _tile_of_8(left, stride, panel, groups, right, wide, pointer_to(scales, row), first)
            row += 8
        if row + 4 <= n:
            left = pointer_to(q, row * stride)
            right = pointer_to(y, row * wide + p * PANEL_COLUMNS)
            _tile_of_4(left, stride, panel, groups, right, wide, pointer_to(scales, row), first)
            row += 4
        if row + 2 <= n:
            left = pointer_to(q, row * stride)
            right = pointer_to(y, row * wide + p * PANEL_COLUMNS)
            _tile_of_2(left, stride, panel, groups, right, wide, pointer_to(scales, row), first)
            row += 2
        if row < n:
            left = pointer_to(q, row * stride)
            right = pointer_to(y, row * wide + p * PANEL_COLUMNS)
            _tile_of_1(left, stride, panel, groups, right, wide, pointer_to(scales, row), first)


_quantize_called: Callable[..., None] = jit_function()(_quantize)
_multiply_called: Callable[..., None] = jit_function()(_multiply)
quantize: Callable[..., None] = jit("2", "u2", "1")(_quantize)
multiply8: Callable[..., None] = jit("2", "u2", "c3", "1", "1", "i", "i")(_multiply)


@jit_function()
def map_rows8(x: Any, panels: Any, bias: Any, y: Any) -> None:
    """y = bias + x w for panels of bytes; ``x`` may be wider than the matrix. Callable from compiled loops only."""
    q = np.empty((x.shape[0], 4 * (panels.shape[1] - HEAD)), np.uint8)
    scales = np.empty(x.shape[0], np.float32)
    _quantize_called(x, q, scales)
    _multiply_called(y, q, panels, scales, bias, 0, panels.shape[0])


def linear_rows(x: Any, panels: Any, bias: Any, y: Any) -> None:
    """y = bias + x w, for panels of floats or of bytes. Callable from compiled loops only."""
    raise NotImplementedError("map_rows is for compiled loops: call multiply or multiply8")


@overload(linear_rows)
def _by_kind(x: Any, panels: Any, bias: Any, y: Any) -> Callable[..., None]:
    rows = map_rows8 if panels.dtype == types.int8 else _map_rows

    def call(x: Any, panels: Any, bias: Any, y: Any) -> None:
        rows(x, panels, bias, y)

    return call


@jit_function()
def _map_rows(x: Any, panels: Any, bias: Any, y: Any) -> None:
    put_product(x, panels, bias, y, 0, panels.shape[0])
