"""The frame of a diagram: grid lines, tick labels, axis titles and a legend.

Tested in tests/draw/test_bars.py and tests/draw/test_map.py.
"""

from __future__ import annotations

from collections.abc import Sequence

from catena.draw.scale import Axis, short
from catena.draw.svg import SMALL, TINY, Canvas
from catena.draw.text import clean, shorten, text_width

DASHES = ("", "7 3", "2 3", "9 3 2 3")
"""Dash patterns, so that lines differ by more than color."""

_LEGEND_MOST = 220.0


def tick_texts(axis: Axis) -> list[str]:
    """Return the tick labels, with as many digits as needed to make neighboring labels differ."""
    for digits in range(3, 16):
        texts = [short(mark, digits) for mark in axis.marks]
        if len(set(texts)) == len(texts):
            break
    return texts


def draw_axes(canvas: Canvas, x: Axis, y: Axis, x_title: str, y_title: str, x_grid: bool = False) -> None:
    """Draw horizontal grid lines with their values, the values along the bottom, and both axis titles."""
    left, right, bottom = min(x.start, x.end), max(x.start, x.end), y.start
    for mark, text in zip(y.marks, tick_texts(y), strict=True):
        place = y.at(mark)
        canvas.line((left, place), (right, place), "line", width=0.8)
        canvas.text(left - 8.0, place, text, size=TINY, color="soft", anchor="end")
    for mark, text in zip(x.marks, tick_texts(x), strict=True):
        place = x.at(mark)
        canvas.line((place, y.end if x_grid else bottom), (place, bottom + 4.0), "line", width=0.8)
        canvas.text(place, bottom + 13.0, text, size=TINY, color="soft")
    canvas.line((left, bottom), (right, bottom), "edge")
    if x_title:
        canvas.text((left + right) / 2, bottom + 31.0, x_title, size=SMALL, color="soft")
    if y_title:
        canvas.text(left, min(y.start, y.end) - 16.0, y_title, size=SMALL, color="soft", anchor="start")


def draw_legend(
    canvas: Canvas, names: Sequence[str], colors: Sequence[str], x: float, y: float, width: float, dashed: bool
) -> None:
    """Draw a sample and a name for each series, in rows that grow upwards from ``y``."""
    rows: list[list[tuple[float, int]]] = [[]]
    used = 0.0
    for number, name in enumerate(names):
        space = text_width(shorten(clean(name), SMALL, _LEGEND_MOST), SMALL) + 44.0
        if rows[-1] and used + space > width:
            rows.append([])
            used = 0.0
        rows[-1].append((used, number))
        used += space
    for height, row in enumerate(reversed(rows)):
        for offset, number in row:
            place = y - height * 18.0
            ends = (x + offset, place), (x + offset + 22.0, place)
            if dashed:
                canvas.line(*ends, colors[number], width=2.2, dash=DASHES[number % len(DASHES)])
            else:
                canvas.circle(x + offset + 15.0, place, 5.0, colors[number])
            canvas.text(x + offset + 28.0, place, names[number], size=SMALL, anchor="start", most=_LEGEND_MOST)
