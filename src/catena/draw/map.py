"""Maps of labeled points in the plane, such as words by their vectors, without overlapping labels.

Eight positions around its point are tried for each label, nearest first; a label that fits nowhere is only in the
tooltip. Labels are placed in the given order, so put the important ones first. A grid finds nearby labels, so the
time is O(n) for points that are spread out.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from catena.draw.axes import draw_legend
from catena.draw.occupied_boxes import OccupiedBoxes
from catena.draw.palette import category
from catena.draw.picture import Picture
from catena.draw.svg import SMALL, Box, Canvas
from catena.draw.text import clean, shorten, text_width
from catena.draw.values import NumberSequence, array, check_count, check_shape, check_some
from catena.errors import DataError

DOT, LABEL_MOST = 3.2, 180.0


def draw_map(
    points: NumberSequence,
    labels: Sequence[str],
    *,
    groups: Sequence[str] | None = None,
    width: int = 640,
    height: int = 480,
    title: str = "",
) -> Picture:
    """Draw labeled points.

    Args:
        points: ``points[i]`` has the coordinates of point ``i``; x and y have the same scale.
        labels: ``labels[i]`` is its label, "" for none. Labels that would overlap earlier ones are left out.
        groups: ``groups[i]`` is its group: a color and an entry of the legend.
        width: the largest width of the point cloud, in pixels.
        height: the largest height of the point cloud, in pixels.
        title: a heading.
    """
    check_some("labels", labels)
    places = fit_points(array("points", points, "n c"), len(labels), width, height)
    colors = ["accent"] * len(labels)
    names: list[str] = []
    if groups is not None:
        check_count("groups", len(groups), len(labels), "points")
        names = list(dict.fromkeys(groups))
        colors = [category(names.index(group)) for group in groups]
    canvas = Canvas()
    for (x, y), color, label in zip(places, colors, labels, strict=True):
        canvas.circle(x, y, DOT, color, opacity=0.85, tooltip=label)
    found = placed_labels(places, labels)
    for box, label in zip(found, labels, strict=True):
        if box is not None:
            canvas.text(*box.middle, label, size=SMALL, most=LABEL_MOST)
    if names and canvas.box is not None:
        box = canvas.box
        draw_legend(
            canvas,
            names,
            [category(i) for i in range(len(names))],
            box.x0,
            box.y0 - 16.0,
            max(float(width), 200.0),
            False,
        )
    shown = sum(box is not None for box in found)
    return canvas.picture(
        "Map of points", f"{len(labels)} points, {shown} with their names: {', '.join(labels)}", title
    )


def fit_points(points: Float[np.ndarray, "n c"], n: int, width: int, height: int) -> list[tuple[float, float]]:
    """Return the points in pixels, as large as fits, y upwards."""
    check_shape("points", points, [n, 2], "x and y for each label")
    if not np.isfinite(points).all():
        raise DataError("points has a value that is not finite. Remove that point.")
    low = points.min(0)
    span = points.max(0) - low
    scale = min((space / s for space, s in zip((width, height), span.tolist(), strict=True) if s > 0), default=1.0)
    moved = (points - low) * scale
    return [(float(x), -float(y)) for x, y in moved]


def placed_labels(places: Sequence[tuple[float, float]], labels: Sequence[str]) -> list[Box | None]:
    """Return the box of each label, or None if it is empty or does not fit next to its point."""
    taken = OccupiedBoxes()
    for x, y in places:
        taken.add(Box(x, y, x, y).grown(DOT))
    found: list[Box | None] = []
    for (x, y), label in zip(places, labels, strict=True):
        width = text_width(shorten(clean(label), SMALL, LABEL_MOST), SMALL)
        free = (box for box in _around(x, y, width) if not taken.hit(box))
        box = next(free, None) if width else None
        if box is not None:
            taken.add(box)
        found.append(box)
    return found


def _around(x: float, y: float, width: float) -> list[Box]:
    """Return candidate boxes for a label around its point: right, left, above, below, and the corners."""
    half, away = SMALL * 0.62, DOT + 2.0
    sides = [(away + width / 2, 0.0), (-away - width / 2, 0.0), (0.0, -away - half), (0.0, away + half)]
    corners = [(dx * (away * 0.6 + width / 2), dy * (away * 0.6 + half)) for dy in (-1, 1) for dx in (1, -1)]
    middles = [(x + dx, y + dy) for dx, dy in (*sides, *corners)]
    return [Box(mx - width / 2, my - half, mx + width / 2, my + half) for mx, my in middles]
