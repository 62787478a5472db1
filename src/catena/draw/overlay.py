"""Maps over a picture, one panel for each word: which part of the picture each word of a caption attends to.

A map is enlarged by bilinear interpolation. Parts with less weight than the largest one are darker.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, UInt8

from catena.draw.picture import Picture
from catena.draw.png import encode_png
from catena.draw.scale import probability
from catena.draw.svg import SMALL, Box, Canvas
from catena.draw.values import NumberSequence, array, check_shape, check_some
from catena.errors import DataError

_PANEL, _GAP, _LABEL = 112.0, 10.0, 20.0
_DARKEST = 0.2
"""Brightness of parts without weight."""


def draw_overlay(
    pixels: UInt8[np.ndarray, "height width 3"],
    maps: NumberSequence,
    words: Sequence[str],
    *,
    columns: int = 6,
    title: str = "",
) -> Picture:
    """Draw a picture, and a copy for each word whose brightness shows a map.

    Args:
        pixels: the picture in RGB.
        maps: ``maps[t, row, column]`` is the weight of a part of the picture for word ``t``; not negative.
        words: the words.
        columns: panels in a row.
        title: a heading.
    """
    check_some("words", words)
    weights = array("maps", maps, "n r c")
    check_shape("maps", weights[:, 0, 0], [len(words)], "one for each word")
    if not (np.isfinite(weights).all() and (weights >= 0).all()):
        raise DataError("maps must be finite and not negative, got other values. Pass probabilities.")
    canvas = Canvas()
    size = _PANEL, _PANEL * pixels.shape[0] / pixels.shape[1]
    _draw_panel(canvas, 0, columns, size, pixels, "", "the picture")
    for t, word in enumerate(words, start=1):
        row, column = divmod(int(weights[t - 1].argmax()), weights.shape[2])
        note = f"{word}: most at row {row + 1}, column {column + 1} ({probability(float(weights[t - 1].max()))})"
        _draw_panel(canvas, t, columns, size, shade(pixels, weights[t - 1]), word, note)
    described = f"{len(words)} words over a picture, with the part of it that each word attends to"
    return canvas.picture("Attention over a picture", described, title)


def _draw_panel(
    canvas: Canvas, i: int, columns: int, size: tuple[float, float], pixels: np.ndarray, word: str, note: str
) -> None:
    x, y = i % columns * (size[0] + _GAP), i // columns * (size[1] + _GAP + _LABEL)
    canvas.image(Box(x, y, x + size[0], y + size[1]), encode_png(pixels), tooltip=note)
    if word:
        canvas.text(x + size[0] / 2, y + size[1] + _LABEL / 2, word, size=SMALL, most=size[0])


def shade(
    pixels: UInt8[np.ndarray, "height width 3"], weights: Float[np.ndarray, "rows columns"]
) -> UInt8[np.ndarray, "height width 3"]:
    """Return the picture with parts darkened in proportion to their weight relative to the largest one."""
    large = enlarge(weights / max(float(weights.max()), 1e-12), pixels.shape[0], pixels.shape[1])
    return np.round(pixels * (_DARKEST + (1 - _DARKEST) * large)[..., None]).astype(np.uint8)


def enlarge(values: Float[np.ndarray, "rows columns"], height: int, width: int) -> Float[np.ndarray, "height width"]:
    """Return a grid in another size by bilinear interpolation; values are at the centers of their cells."""
    below = values
    for axis, n in ((0, height), (1, width)):
        size = below.shape[axis]
        position = np.clip((np.arange(n) + 0.5) * size / n - 0.5, 0, size - 1)
        first = np.floor(position).astype(int)
        second = np.minimum(first + 1, size - 1)
        weight = (position - first).reshape((-1, 1) if axis == 0 else (1, -1))
        below = np.take(below, first, axis) * (1 - weight) + np.take(below, second, axis) * weight
    return below
