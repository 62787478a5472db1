r"""Products of few rows with a large matrix, for steps of a decoder on a CPU.

.. math::  y_{rj} \mathrel{+}= \sum_i x_{ri} w_{ij}

Libraries for matrix products are made for many rows. With one row the time is spent on reading the weights, with
sixteen that of the multiplications; either is met if the matrix is kept in panels of :data:`PANEL_COLUMNS` columns,
each a
contiguous piece of memory, and a tile of the result, a few rows by one panel, stays in registers while the sum over
``i`` runs. Compilers do not find this form by themselves, so the tile is written in vector instructions of LLVM,
which every processor has in its own width.

Single precision. Time O(n d_in d_out).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types
from numba.extending import intrinsic

from catena.kernels.common.jit import jit, jit_function, jit_inline
from catena.kernels.common.simd import INDEX, SIMD_LANES, VECTOR, fetch, in_all_lanes, pointer_to, vector_pointer

PANEL_COLUMNS = 32
"""Columns of a panel."""

_CACHE_LINE = 16
"""Numbers of a cache line."""

MAX_TILE_ROWS = 16
"""Rows whose products with 10,000 columns lie near."""


def pack_panels(matrix: np.ndarray) -> np.ndarray:
    """A matrix ``d_in d_out`` as panels, ``p d_in WIDE``; columns that are missing in the last one are zero."""
    d_in, d_out = matrix.shape
    filled = np.zeros((d_in, round_up_to_panel(d_out)), np.float32)
    filled[:, :d_out] = matrix
    panels = filled.reshape(d_in, filled.shape[1] // PANEL_COLUMNS, PANEL_COLUMNS).transpose(1, 0, 2)
    memory = np.empty(filled.size + _CACHE_LINE, np.float32)
    first = -memory.ctypes.data % (4 * _CACHE_LINE) // 4  # no vector is in two cache lines: 2 to 3 % less time
    packed = memory[first : first + filled.size].reshape(panels.shape)
    packed[:] = panels
    return packed


def round_up_to_panel(d: int) -> int:
    """The next multiple of the panel width."""
    return -(-d // PANEL_COLUMNS) * PANEL_COLUMNS


def _tile(n_rows: int) -> Any:
    """The function ``tile(x, x_stride, panel, d_in, first, first_stride, y, y_stride)`` of pointers.

    It writes the sum of a product and the values at ``first`` to ``n_rows`` rows of ``y``, as wide as a panel.
    """
    signature = types.void(*(types.CPointer(types.float32), types.int64) * 4)

    @intrinsic
    def tile(
        context: Any, x: Any, x_stride: Any, panel: Any, d_in: Any, first: Any, first_stride: Any, y: Any, y_stride: Any
    ) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            _write_tile(builder, n_rows, *arguments)
            return context.get_dummy_value()

        return signature, generate

    return tile


def _write_tile(
    builder: Any, n_rows: int, x: Any, x_stride: Any, panel: Any, d_in: Any, first: Any, first_stride: Any, y: Any,
    y_stride: Any,
) -> None:  # fmt: skip
    """The instructions of a tile: its numbers are loaded, pass through the loop over ``d_in``, and are stored."""
    places = _places(builder, n_rows, y, y_stride)
    starts = [builder.load(place, align=4) for place in _places(builder, n_rows, first, first_stride)]
    before = builder.block
    loop = builder.append_basic_block()
    after = builder.append_basic_block()
    builder.cbranch(builder.icmp_signed(">", d_in, INDEX(0)), loop, after)

    builder.position_at_end(loop)
    i = builder.phi(INDEX)
    sums = [builder.phi(VECTOR) for _ in places]
    offset = builder.mul(i, INDEX(PANEL_COLUMNS))
    weights = [
        builder.load(vector_pointer(builder, panel, builder.add(offset, INDEX(column))), align=4)
        for column in range(0, PANEL_COLUMNS, SIMD_LANES)
    ]
    if n_rows > 2:  # there is time to fetch the next panel meanwhile
        ahead = builder.add(offset, builder.mul(d_in, INDEX(PANEL_COLUMNS)))
        for column in range(0, PANEL_COLUMNS, SIMD_LANES):
            fetch(builder, builder.gep(panel, [builder.add(ahead, INDEX(column))]))
    added: list[Any] = []
    for row in range(n_rows):
        number = builder.load(builder.gep(x, [builder.add(builder.mul(INDEX(row), x_stride), i)]), align=4)
        everywhere = in_all_lanes(builder, number)
        for weight in weights:
            product = builder.fmul(everywhere, weight, flags=("contract",))
            added.append(builder.fadd(sums[len(added)], product, flags=("contract",)))
    following = builder.add(i, INDEX(1))
    builder.cbranch(builder.icmp_signed("<", following, d_in), loop, after)
    i.add_incoming(INDEX(0), before)
    i.add_incoming(following, loop)

    builder.position_at_end(after)
    for start, total, new in zip(starts, sums, added, strict=True):
        total.add_incoming(start, before)
        total.add_incoming(new, loop)
    results = [builder.phi(VECTOR) for _ in places]
    for result, start, new, place in zip(results, starts, added, places, strict=True):
        result.add_incoming(start, before)
        result.add_incoming(new, loop)
        builder.store(result, place, align=4)


def _places(builder: Any, n_rows: int, pointer: Any, stride: Any) -> list[Any]:
    """The vectors of ``n_rows`` rows, as wide as a panel."""
    return [
        vector_pointer(builder, pointer, builder.add(builder.mul(INDEX(row), stride), INDEX(column)))
        for row in range(n_rows)
        for column in range(0, PANEL_COLUMNS, SIMD_LANES)
    ]


_one, _two, _three, _four, _five, _six, _seven, _eight = (_tile(n_rows) for n_rows in range(1, 9))


@jit_inline()
def _rows_at_once(left: Any) -> Any:
    """The number of rows of the next tile: eight, but the last rows are halved.

    A tile of one row takes as long as one of two or three.
    """
    if left >= 16:
        return 8
    return left if left <= 8 else (left + 1) // 2


@jit_inline()
def add_tiles(
    x: Any, x_at: Any, x_stride: Any, panel: Any, d_in: Any, y: Any, y_at: Any, y_stride: Any, n: Any
) -> None:
    """Add the product of ``n`` rows with a panel, at a pointer, to as many rows. Rows of ``x``, of which ``d_in``
    numbers count, and of ``y``, as wide as a panel, begin where they are said to and lie their strides apart."""
    _tiles(x, x_at, x_stride, panel, d_in, y, y_at, y_stride, y, y_at, y_stride, n)


@jit_inline()
def _tiles(
    x: Any, x_at: Any, x_stride: Any, panel: Any, d_in: Any, first: Any, first_at: Any, first_stride: Any, y: Any,
    y_at: Any, y_stride: Any, n: Any,
) -> None:  # fmt: skip
    """As :func:`add_tiles`, but what the product is added to is read at another place."""
    row = 0
    while row < n:
        rows = _rows_at_once(n - row)
        left = pointer_to(x, x_at + row * x_stride)
        right = pointer_to(y, y_at + row * y_stride)
        start = pointer_to(first, first_at + row * first_stride)
        if rows == 8:
            _eight(left, x_stride, panel, d_in, start, first_stride, right, y_stride)
        elif rows == 7:
            _seven(left, x_stride, panel, d_in, start, first_stride, right, y_stride)
        elif rows == 6:
            _six(left, x_stride, panel, d_in, start, first_stride, right, y_stride)
        elif rows == 5:
            _five(left, x_stride, panel, d_in, start, first_stride, right, y_stride)
        elif rows == 4:
            _four(left, x_stride, panel, d_in, start, first_stride, right, y_stride)
        elif rows == 3:
            _three(left, x_stride, panel, d_in, start, first_stride, right, y_stride)
        elif rows == 2:
            _two(left, x_stride, panel, d_in, start, first_stride, right, y_stride)
        else:
            _one(left, x_stride, panel, d_in, start, first_stride, right, y_stride)
        row += rows


@jit_function()
def add_product(x: Any, panels: Any, y: Any, low: Any, high: Any) -> None:
    """y += x w in the columns of the panels from ``low`` to ``high``.

    ``x`` is ``n d_in`` or wider, panels are made by :func:`packed`, and ``y`` has ``n`` rows as wide as all panels; all
    are contiguous.
    """
    n, stride = x.shape
    d_in = panels.shape[1]
    wide = y.shape[1]
    for p in range(low, high):
        add_tiles(x, 0, stride, pointer_to(panels, p * d_in * PANEL_COLUMNS), d_in, y, p * PANEL_COLUMNS, wide, n)


@jit_function()
def put_product(x: Any, panels: Any, first: Any, y: Any, low: Any, high: Any) -> None:
    """y = x w + first in the same columns; ``first`` is as wide as all panels."""
    n, stride = x.shape
    d_in = panels.shape[1]
    wide = y.shape[1]
    for p in range(low, high):
        panel = pointer_to(panels, p * d_in * PANEL_COLUMNS)
        at = p * PANEL_COLUMNS
        _tiles(x, 0, stride, panel, d_in, first, at, 0, y, at, wide, n)


@jit("2", "3", "1", "2", "i", "i")
def multiply(x: Any, panels: Any, first: Any, y: Any, low: Any, high: Any) -> None:
    """y = x w + first in the columns of the panels from ``low`` to ``high``, as :func:`put_product` takes them."""
    put_product(x, panels, first, y, low, high)
