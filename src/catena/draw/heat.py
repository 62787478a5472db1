"""Heat maps of tables of values, for attention weights, confusion tables and scores.

Non-negative values are shades of one color. Negative values are shades of a second color, and 0 is blank. Minus
infinity, the score of an impossible structure, is a blank cell with a dot.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal

import numpy as np
from jaxtyping import Float

from catena.draw.palette import on_heat
from catena.draw.picture import Picture
from catena.draw.scale import format_fixed, probability, short
from catena.draw.svg import SMALL, TINY, Box, Canvas
from catena.draw.text import clean, text_width
from catena.draw.values import NumberSequence, array, check_shape, check_some

LABEL_MOST, LEAST_CELL, WIDE_ENOUGH = 150.0, 16.0, 640.0
_Shades = Literal["all", "rows", "columns"]


def draw_heat(
    values: NumberSequence,
    rows: Sequence[str],
    columns: Sequence[str],
    *,
    row_title: str = "",
    column_title: str = "",
    numbers: bool | None = None,
    shades: _Shades = "all",
    title: str = "",
) -> Picture:
    """Draw a table of values as a heat map.

    Args:
        values: ``values[i, j]`` is the value of row ``i`` and column ``j``.
        rows: the names of the rows.
        columns: the names of the columns.
        row_title: title of the rows, such as "reference".
        column_title: title of the columns, such as "prediction".
        numbers: print the values in the cells; None prints them only in small tables.
        shades: scale the colors by the largest value of the table ("all"), of each row (as in a confusion table), or
            of each column.
        title: a heading.
    """
    check_some("rows", rows)
    check_some("columns", columns)
    table = array("values", values, "n m")
    check_shape("values", table, [len(rows), len(columns)], "rows by columns")
    if numbers is None:
        numbers = table.size <= 900
    texts = format_values(table)
    cell_width, cell_height = _cell(texts, columns, numbers)
    strengths = _strengths(table, shades)
    canvas = Canvas()
    canvas.rect(Box(0.0, 0.0, len(columns) * cell_width, len(rows) * cell_height), "faint", radius=2.0)
    for i in range(len(rows)):
        for j in range(len(columns)):
            box = Box(j * cell_width, i * cell_height, (j + 1) * cell_width, (i + 1) * cell_height)
            note = f"{rows[i]}, {columns[j]}: {texts[i][j]}"
            _draw_cell(canvas, box, float(table[i, j]), float(strengths[i, j]), texts[i][j] if numbers else "", note)
    _draw_frame(canvas, rows, columns, cell_width, cell_height)
    _draw_titles(canvas, row_title, column_title)
    return canvas.picture("Heat map", _described(table, rows, columns, row_title, column_title), title)


def format_values(table: Float[np.ndarray, "n m"]) -> list[list[str]]:
    """Return the values as text with equal decimals: none for counts, two without leading zero for probabilities."""
    finite = table[np.isfinite(table)]
    most = float(np.abs(finite).max()) if len(finite) else 0.0
    show: Callable[[float], str]
    if not (finite % 1).any() or not 0.1 <= most < 1e4:
        show = short
    elif finite.min() >= 0 and most <= 1:
        show = probability
    else:
        places = 2 if most < 100 else 1
        show = partial(format_fixed, places=places)
    return [
        ["·" if v == -math.inf else show(v) if math.isfinite(v) else short(v) for v in row] for row in table.tolist()
    ]


def _cell(texts: Sequence[Sequence[str]], columns: Sequence[str], numbers: bool) -> tuple[float, float]:
    if not numbers:
        return LEAST_CELL, LEAST_CELL
    widest = max(text_width(clean(text), TINY) for row in texts for text in row)
    names = max(text_width(clean(name), SMALL) for name in columns) + 10.0
    width = max(widest + 10.0, 30.0)
    return (max(names, width) if names * len(columns) <= WIDE_ENOUGH else width), 26.0


def _strengths(table: Float[np.ndarray, "n m"], shades: _Shades) -> Float[np.ndarray, "n m"]:
    """Return the color strength of each cell, in [0, 1]."""
    sizes = np.where(np.isfinite(table), np.abs(table), 0.0)
    most = sizes.max(axis={"all": None, "rows": 1, "columns": 0}[shades], keepdims=True)
    strengths = sizes / np.where(most > 0, most, 1.0)
    return np.where(np.isposinf(table), 1.0, strengths)


def _draw_cell(canvas: Canvas, box: Box, value: float, strength: float, text: str, note: str) -> None:
    if strength >= 0.005:
        color = "heat" if value >= 0 else "cold"
        canvas.rect(box.grown(-0.5), color, opacity=strength, tooltip="" if text else note)
    if text:
        canvas.text(*box.middle, text, size=TINY, color="soft" if text in ("0", "·") else on_heat(strength))


def _draw_frame(
    canvas: Canvas, rows: Sequence[str], columns: Sequence[str], cell_width: float, cell_height: float
) -> None:
    for i, name in enumerate(rows):
        canvas.text(-8.0, (i + 0.5) * cell_height, name, size=SMALL, anchor="end", most=LABEL_MOST)
    fits = all(text_width(clean(name), SMALL) <= cell_width - 4 for name in columns)
    for j, name in enumerate(columns):
        x = (j + 0.5) * cell_width
        if fits:
            canvas.text(x, -12.0, name, size=SMALL)
        else:
            canvas.slanted_text(x, -8.0, name, 45.0 if cell_width >= 22 else 90.0, size=SMALL, most=LABEL_MOST)


def _draw_titles(canvas: Canvas, row_title: str, column_title: str) -> None:
    assert canvas.box is not None
    box = canvas.box
    if column_title:
        canvas.text(0.0, box.y0 - 10.0, column_title + " \u2192", size=SMALL, color="soft", anchor="start")
    if row_title:
        canvas.text(
            -8.0,
            box.y0 - 10.0 if not column_title else -12.0,
            "\u2193 " + row_title,
            size=SMALL,
            color="soft",
            anchor="end",
        )


def _described(
    table: Float[np.ndarray, "n m"], rows: Sequence[str], columns: Sequence[str], row_title: str, column_title: str
) -> str:
    i, j = divmod(int(np.argmax(table)), table.shape[1])
    of = " of ".join(title for title in (row_title, column_title) if title)
    return (
        f"{len(rows)} rows and {len(columns)} columns{' (' + of + ')' if of else ''}; the largest number is "
        f"{short(float(table[i, j]))}, of {rows[i]} and {columns[j]}"
    )
