"""Learning curves and other series of values over steps, with round tick values and a legend."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from catena.draw.axes import DASHES, draw_axes, draw_legend
from catena.draw.occupied_boxes import OccupiedBoxes
from catena.draw.palette import category
from catena.draw.picture import Picture
from catena.draw.scale import Axis, fit_axis, short
from catena.draw.svg import SMALL, Box, Canvas, Path, Point
from catena.draw.text import text_width
from catena.draw.values import RealNumber, check_some
from catena.errors import DataError

_MOST_DOTS = 40
"""A series with more points is drawn without a dot at each point."""

Series = Mapping[str, Sequence[tuple[RealNumber, RealNumber]]]


def series_of_rows(
    rows: Sequence[Mapping[str, Any]], x: str = "step", names: Sequence[str] | None = None
) -> dict[str, list[tuple[float, float]]]:
    """Return series from rows of values, such as the lines of ``metrics.jsonl`` in a run folder.

    Args:
        rows: the rows. Nested values get names with dots, such as ``scores.accuracy``. None becomes a gap.
        x: name of the value on the x axis.
        names: the series to return; all numeric ones if omitted.

    >>> series_of_rows([{"step": 1, "loss": 2.0, "scores": {"accuracy": 0.5}}])
    {'loss': [(1.0, 2.0)], 'scores.accuracy': [(1.0, 0.5)]}
    """
    found: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        flat = _flat(row)
        at = flat.pop(x, None)
        if at is not None:
            for name, value in flat.items():
                found.setdefault(name, []).append((at, math.nan if value is None else value))
    found = {name: points for name, points in found.items() if any(math.isfinite(value) for _, value in points)}
    for name in names or ():
        if name not in found:
            raise DataError(f"No row has {name!r} together with {x!r}. Choose from: {', '.join(found) or 'none'}.")
    return found if names is None else {name: found[name] for name in names}


def _flat(row: Mapping[str, Any], before: str = "") -> dict[str, float | None]:
    flat: dict[str, float | None] = {}
    for key, value in row.items():
        if isinstance(value, Mapping):
            flat.update(_flat(value, f"{before}{key}."))
        elif value is None or (isinstance(value, (int, float)) and not isinstance(value, bool)):
            flat[before + key] = None if value is None else float(value)
    return flat


def draw_curves(
    series: Series,
    *,
    x_title: str = "step",
    y_title: str = "",
    logarithmic: bool = False,
    mark: Literal["", "largest", "least"] = "",
    width: int = 560,
    height: int = 280,
    title: str = "",
) -> Picture:
    """Draw series of values as lines.

    Args:
        series: the points ``(x, y)`` of each named series, drawn in the order of x. A y that is not finite leaves a
            gap.
        x_title: title of the x axis.
        y_title: title of the y axis.
        logarithmic: use a logarithmic y axis.
        mark: mark the largest or least y of each series and print its value.
        width: width of the plot area in pixels.
        height: height of the plot area in pixels.
        title: a heading.
    """
    check_some("series", list(series))
    points = {
        name: sorted(((float(x), float(y)) for x, y in found), key=lambda p: p[0]) for name, found in series.items()
    }
    every = [point for found in points.values() for point in found if math.isfinite(point[1])]
    check_some("series", every)
    x_axis = fit_axis([x for x, _ in every], 0.0, float(width), tight=True)
    y_axis = fit_axis([y for _, y in every], 0.0, -float(height), logarithmic=logarithmic)
    canvas = Canvas()
    draw_axes(canvas, x_axis, y_axis, x_title, y_title)
    for number, found in enumerate(points.values()):
        _draw_series(canvas, found, x_axis, y_axis, number)
    taken = OccupiedBoxes()
    for number, found in enumerate(points.values()):
        _draw_mark(canvas, found, x_axis, y_axis, category(number), mark, taken)
    if len(points) > 1 or not y_title:
        colors = [category(number) for number in range(len(points))]
        draw_legend(canvas, list(points), colors, 0.0, -height - (36.0 if y_title else 18.0), float(width), dashed=True)
    description = "; ".join(f"{name}: {_summary(found)}" for name, found in points.items())
    return canvas.picture(y_title or ", ".join(points), description, title)


def _pieces(points: Sequence[Point]) -> list[list[Point]]:
    """Return the maximal runs of points whose y is finite."""
    pieces: list[list[Point]] = [[]]
    for point in points:
        if math.isfinite(point[1]):
            pieces[-1].append(point)
        elif pieces[-1]:
            pieces.append([])
    return [piece for piece in pieces if piece]


def _draw_series(canvas: Canvas, points: Sequence[Point], x: Axis, y: Axis, number: int) -> None:
    color = category(number)
    for piece in _pieces(points):
        pixels = [(x.at(a), y.at(b)) for a, b in piece]
        if len(pixels) > 1:
            path = Path().move(*pixels[0])
            for pixel in pixels[1:]:
                path.line(*pixel)
            canvas.path(path, stroke=color, width=2.0, dash=DASHES[number % len(DASHES)])
        if len(points) <= _MOST_DOTS or len(pixels) == 1:
            for pixel in pixels:
                canvas.circle(*pixel, 2.6, color)


def _draw_mark(
    canvas: Canvas, points: Sequence[Point], x: Axis, y: Axis, color: str, mark: str, taken: OccupiedBoxes
) -> None:
    """Draw a ring around the best point of a series, and its value if there is space."""
    finite = [point for point in points if math.isfinite(point[1])]
    if not mark or not finite:
        return
    best = (max if mark == "largest" else min)(finite, key=lambda point: point[1])
    left, top = x.at(best[0]), y.at(best[1])
    canvas.circle(left, top, 4.5, None, color, width=1.8)
    text = short(best[1])
    half = text_width(text, SMALL) / 2 + 2.0
    side = -14.0 if mark == "largest" else 14.0
    for dx, dy in ((0.0, side), (0.0, -side), (half + 8.0, 0.0), (-half - 8.0, 0.0)):
        box = Box(left + dx - half, top + dy - 8.0, left + dx + half, top + dy + 8.0)
        if y.end - 12.0 <= box.y0 and box.y1 <= y.start and not taken.hit(box):
            taken.add(box)
            canvas.text(left + dx, top + dy, text, size=SMALL, color=color)
            return


def _summary(points: Sequence[Point]) -> str:
    finite = [point for point in points if math.isfinite(point[1])]
    if not finite:
        return "no numbers"
    ys = [y for _, y in finite]
    return f"from {short(ys[0])} to {short(ys[-1])}, least {short(min(ys))}, largest {short(max(ys))}"
