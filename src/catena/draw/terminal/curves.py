"""Curves in text: one series in braille dots, several series with one character for each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from catena.draw.axes import tick_texts
from catena.draw.curves import Series
from catena.draw.scale import Axis, fit_axis
from catena.draw.terminal.grid import DOWN, LEFT, UP, Grid, cells
from catena.draw.values import check_some

_MARKS = "●○▲△■□◆◇"
_BRAILLE = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
"""The bit of a dot in a braille character, by row and column within it."""


def curves_text(series: Series, width: int = 72, height: int = 16, logarithmic: bool = False) -> str:
    """Return series of values as a diagram of ``width`` by ``height`` characters, without the frame.

    Args:
        series: the points ``(x, y)`` of each named series, as in :func:`catena.draw.curves.draw_curves`.
        width: number of columns.
        height: number of rows.
        logarithmic: use a logarithmic y axis.
    """
    check_some("series", list(series))
    finite = {
        name: sorted((float(x), float(y)) for x, y in found if math.isfinite(y)) for name, found in series.items()
    }
    every = [point for found in finite.values() for point in found]
    check_some("series", every)
    fine = (2, 4) if len(series) == 1 else (1, 1)
    x = fit_axis([a for a, _ in every], 0.0, width * fine[0] - 1.0, tight=True)
    y = fit_axis([b for _, b in every], height * fine[1] - 1.0, 0.0, most=4, logarithmic=logarithmic)
    grid = Grid()
    _draw_frame(grid, x, y, fine, width, height)
    if len(series) == 1:
        _write_braille(grid, _trace(next(iter(finite.values())), x, y))
    for mark, (name, points) in zip(_MARKS * len(series), finite.items(), strict=False):
        if len(series) > 1:
            for column, row in sorted(_trace(points, x, y)):
                grid.write(row, column, mark)
        legend = f"{mark} {name}" if len(series) > 1 else name
        grid.write(height + 2 + list(series).index(name), 0, legend)
    return str(grid)


def _trace(points: Sequence[tuple[float, float]], x: Axis, y: Axis) -> set[tuple[int, int]]:
    """Return the dots on the line through the points."""
    places = [(round(x.at(a)), round(y.at(b))) for a, b in points]
    dots = set(places)
    for (x0, y0), (x1, y1) in pairwise(places):
        steps = max(abs(x1 - x0), abs(y1 - y0))
        dots.update((round(x0 + (x1 - x0) * k / steps), round(y0 + (y1 - y0) * k / steps)) for k in range(1, steps))
    return dots


def _write_braille(grid: Grid, dots: set[tuple[int, int]]) -> None:
    patterns: dict[tuple[int, int], int] = {}
    for column, row in dots:
        cell = row // 4, column // 2
        patterns[cell] = patterns.get(cell, 0) | _BRAILLE[row % 4][column % 2]
    for (row, column), pattern in sorted(patterns.items()):
        grid.write(row, column, chr(0x2800 + pattern))


def _draw_frame(grid: Grid, x: Axis, y: Axis, fine: tuple[int, int], width: int, height: int) -> None:
    grid.down(-1, 0, height)
    grid.arm(0, -1, UP)
    grid.across(height, -1, width - 1)
    for mark, text in zip(y.marks, tick_texts(y), strict=True):
        row = round(y.at(mark)) // fine[1]
        grid.arm(row, -1, LEFT)
        grid.write(row, -2 - cells(text), text)
    free = -1
    for mark, text in zip(x.marks, tick_texts(x), strict=True):
        column = round(x.at(mark)) // fine[0]
        grid.arm(height, column, DOWN)
        start = max(column - cells(text) // 2, 0)
        if start > free:
            grid.write(height + 1, start, text)
            free = start + cells(text)
