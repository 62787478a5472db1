"""Bar charts of one value per label, with optional intervals, and histograms."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int

from catena.draw.axes import draw_axes, tick_texts
from catena.draw.picture import Picture
from catena.draw.scale import Axis, fit_axis, nice_step, short
from catena.draw.svg import SMALL, TINY, Box, Canvas
from catena.draw.values import NumberSequence, array, check_shape, check_some
from catena.errors import DataError

ROW, THICK, LABEL_MOST = 26.0, 16.0, 200.0
_MOST_BINS = 60


def draw_bars(
    labels: Sequence[str],
    values: NumberSequence,
    *,
    intervals: NumberSequence | None = None,
    x_title: str = "",
    width: int = 420,
    title: str = "",
) -> Picture:
    """Draw a horizontal bar for each value, to the left if it is negative.

    Args:
        labels: the names of the bars, from the top.
        values: ``values[i]`` is the length of bar ``i``.
        intervals: ``intervals[i]`` is ``(low, high)``, drawn as a line over the end of bar ``i``.
        x_title: title of the value axis.
        width: width of the plot area in pixels.
        title: a heading.
    """
    check_some("labels", labels)
    lengths = _finite("values", array("values", values, "n"))
    check_shape("values", lengths, [len(labels)], "one for each label")
    reach = [float(v) for v in lengths]
    ranges = None
    if intervals is not None:
        ranges = _finite("intervals", array("intervals", intervals, "n c"))
        check_shape("intervals", ranges, [len(labels), 2], "low and high for each label")
        reach += [float(v) for v in ranges.ravel()]
    axis = fit_axis(reach, 0.0, float(width), most=5, zero=True)
    canvas = Canvas()
    bottom = len(labels) * ROW
    for mark, text in zip(axis.marks, tick_texts(axis), strict=True):
        canvas.line((axis.at(mark), 0.0), (axis.at(mark), bottom + 4.0), "line", width=0.8)
        canvas.text(axis.at(mark), bottom + 13.0, text, size=TINY, color="soft")
    for i in range(len(labels)):
        interval = None if ranges is None else (float(ranges[i, 0]), float(ranges[i, 1]))
        _draw_bar(canvas, axis, (i + 0.5) * ROW, float(lengths[i]), interval)
    left = 0.0 if canvas.box is None else min(canvas.box.x0, 0.0)
    for i, label in enumerate(labels):
        canvas.text(left - 10.0, (i + 0.5) * ROW, label, size=SMALL, anchor="end", most=LABEL_MOST)
    canvas.line((axis.at(0.0), 0.0), (axis.at(0.0), bottom), "edge")
    if x_title:
        canvas.text(width / 2, bottom + 31.0, x_title, size=SMALL, color="soft")
    description = "; ".join(f"{label}: {short(float(v))}" for label, v in zip(labels, lengths, strict=True))
    return canvas.picture(x_title or "Bars", description, title)


def _finite(name: str, values: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
    if not np.isfinite(values).all():
        raise DataError(f"{name} must be finite, got {values[~np.isfinite(values)][0]}. Remove or replace that value.")
    return values


def _draw_bar(canvas: Canvas, axis: Axis, y: float, value: float, interval: tuple[float, float] | None) -> None:
    x0, x1 = sorted((axis.at(0.0), axis.at(value)))
    canvas.rect(Box(x0, y - THICK / 2, x1, y + THICK / 2), "accent", opacity=0.85, radius=1.5)
    end = axis.at(value)
    if interval is not None:
        low, high = axis.at(interval[0]), axis.at(interval[1])
        canvas.line((low, y), (high, y), "ink", width=1.4)
        for x in (low, high):
            canvas.line((x, y - 4.0), (x, y + 4.0), "ink", width=1.4)
        end = min(low, end) if value < 0 else max(high, end)
    if value < 0:
        canvas.text(end - 6.0, y, short(value), size=TINY, anchor="end", backed=True)
    else:
        canvas.text(end + 6.0, y, short(value), size=TINY, anchor="start", backed=True)


def histogram_bins(
    values: Float[np.ndarray, " n"], bins: int | None = None
) -> tuple[Float[np.ndarray, " m"], Int[np.ndarray, " b"]]:
    """Return the edges of equal bins at round values, and the number of values in each bin.

    The bin width follows Freedman & Diaconis (1981), 2 IQR n^(-1/3), or the range divided by ``bins``, rounded to 1, 2
    or 5 times a power of ten. Integers are never split. The last edge belongs to the last bin.
    """
    low, high = float(values.min()), float(values.max())
    if low == high:
        step = 1.0 if float(low).is_integer() else (abs(low) * 0.1 or 1.0)
        edges = np.array([low, low + step])
        return edges, np.array([len(values)])
    spread = float(np.subtract(*np.percentile(values, [75, 25])))
    wanted = 2 * spread / len(values) ** (1 / 3)
    count = bins or (_MOST_BINS if wanted <= 0 else math.ceil((high - low) / wanted))
    step = nice_step(high - low, min(max(count, 1), _MOST_BINS))
    if bool((values % 1 == 0).all()):
        step = max(step, 1.0)
    first = math.floor(low / step + 1e-9)
    n = max(1, math.floor(high / step + 1e-9) - first + 1)
    places = np.clip(np.floor(values / step + 1e-9).astype(np.int64) - first, 0, n - 1)
    return (first + np.arange(n + 1)) * step, np.bincount(places, minlength=n)


def draw_histogram(
    values: NumberSequence,
    *,
    bins: int | None = None,
    x_title: str = "",
    y_title: str = "count",
    width: int = 480,
    height: int = 220,
    title: str = "",
) -> Picture:
    """Draw a histogram with equal bins and round bin edges.

    Args:
        values: the values to count.
        bins: approximate number of bins; chosen from the spread of the values if omitted.
        x_title: title of the value axis.
        y_title: title of the count axis.
        width: width of the plot area in pixels.
        height: height of the plot area in pixels.
        title: a heading.
    """
    found = _finite("values", array("values", values, "n"))
    check_some("values", found.tolist())
    edges, counts = histogram_bins(found, bins)
    y = fit_axis([float(c) for c in counts], 0.0, -float(height), most=4, zero=True)
    marks = fit_axis([float(edges[0]), float(edges[-1])], 0.0, float(width), most=6).marks
    kept = tuple(mark for mark in marks if edges[0] - 1e-9 <= mark <= edges[-1] + 1e-9)
    x = Axis(float(edges[0]), float(edges[-1]), 0.0, float(width), kept)
    canvas = Canvas()
    draw_axes(canvas, x, y, x_title, y_title)
    for left, right, count in zip(edges, edges[1:], counts, strict=False):
        if count:
            box = Box(x.at(float(left)) + 0.5, y.at(float(count)), x.at(float(right)) - 0.5, y.at(0.0))
            note = f"{short(float(left))} to {short(float(right))}: {count}"
            canvas.rect(box, "accent", opacity=0.85, tooltip=note)
    low, mean, high = (short(float(v)) for v in (found.min(), found.mean(), found.max()))
    description = f"{len(found)} numbers from {low} to {high}, mean {mean}"
    return canvas.picture(f"Histogram of {x_title or 'numbers'}", description, title)
