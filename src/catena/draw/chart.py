"""CKY charts: a pyramid with a cell for each span, the whole sentence on top, the best tree highlighted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float

from catena.draw.heat import format_values
from catena.draw.palette import on_heat
from catena.draw.picture import Picture
from catena.draw.svg import TINY, WORD, Box, Canvas
from catena.draw.text import clean, is_right_to_left, shorten, text_width
from catena.draw.tree import Direction
from catena.draw.values import NumberSequence, array, check_shape, check_some
from catena.errors import DataError, ShapeError

HEIGHT, LEAST_WIDTH, WIDEST = 38.0, 52.0, 150.0


def draw_chart(
    words: Sequence[str],
    scores: NumberSequence,
    labels: Sequence[str] | None = None,
    *,
    tree: NumberSequence | None = None,
    direction: Direction = "auto",
    title: str = "",
) -> Picture:
    """Draw a score, and a label if there are labels, for every span of a sentence.

    Args:
        words: the sentence.
        scores: ``scores[i, j]`` is the score of the span from word ``i`` to word ``j``, both included. With labels,
            ``scores[i, j, q]`` is the score of label ``q``, and the cell shows the best label. Entries with ``i > j``
            are ignored. Minus infinity leaves the cell empty.
        labels: the names of the labels.
        tree: the spans of a tree, in rows ``(first, last)`` or ``(first, last, label)``; rows of -1 are ignored.
            Their cells get a frame and show the label of the tree.
        direction: reading direction of the words; "auto" detects it from their script.
        title: a heading.
    """
    check_some("words", words)
    spans = _spans(tree, len(words), 0 if labels is None else len(labels))
    table, names = _cells(words, scores, labels, spans)
    texts, strengths = format_values(table), _strengths(table)
    width = _width(words, names, texts)
    mirrored = direction == "right-to-left" or (direction == "auto" and is_right_to_left(words))
    canvas = Canvas()
    for i, j in _cells_of(len(words)):
        lines = [names[i][j], texts[i][j]] if np.isfinite(table[i, j]) else []
        note = f"{' '.join(words[i : j + 1])}: {' '.join(lines).strip() or 'impossible'}"
        _draw_cell(canvas, _box(i, j, width, mirrored), float(strengths[i, j]), [line for line in lines if line], note)
    for first, last in sorted(spans):
        canvas.rect(_box(first, last, width, mirrored).grown(-2.0), None, "best", width=2.5, radius=4.0)
    for i, word in enumerate(words):
        canvas.text(_box(i, i, width, mirrored).middle[0], 14.0, word, most=WIDEST)
    shown = sorted(spans) or [(0, len(words) - 1)]
    cells = [f"{' '.join(words[i : j + 1])}: {names[i][j]} {texts[i][j]}".replace("  ", " ") for i, j in shown]
    return canvas.picture("Chart of: " + " ".join(words), "; ".join(cells), title)


def _cells_of(t: int) -> list[tuple[int, int]]:
    """Return all spans, the longest first."""
    return [(i, i + span - 1) for span in range(t, 0, -1) for i in range(t - span + 1)]


def _box(i: int, j: int, width: float, mirrored: bool) -> Box:
    x, y = (i + j + 1) / 2 * width * (-1 if mirrored else 1), -(j - i + 1) * HEIGHT
    return Box(x - width / 2, y, x + width / 2, y + HEIGHT)


def _spans(tree: NumberSequence | None, t: int, k: int) -> dict[tuple[int, int], int]:
    """Return the spans of the tree with their labels, -1 if the tree has none."""
    if tree is None:
        return {}
    rows = array("tree", tree, "n c").astype(int)
    if rows.shape[1] not in (2, 3):
        raise ShapeError(
            f"tree must have rows of 2 or 3 entries, got {rows.shape[1]}. Pass (first, last) or (first, last, label)."
        )
    spans = {}
    for row, (first, last, *label) in enumerate(rows.tolist()):
        if first < 0:
            continue
        if not first <= last < t:
            raise DataError(f"tree[{row}] must be a span of {t} words, got ({first}, {last}). Count words from 0.")
        if label and k and not 0 <= label[0] < k:
            raise DataError(f"tree[{row}] must have one of {k} labels, got {label[0]}. Count labels from 0.")
        spans[first, last] = label[0] if label and k else -1
    return spans


def _cells(
    words: Sequence[str], scores: NumberSequence, labels: Sequence[str] | None, spans: Mapping[tuple[int, int], int]
) -> tuple[Float[np.ndarray, "t t"], list[list[str]]]:
    """Return the score of each span, minus infinity below the diagonal, and the name of its label."""
    t = len(words)
    if labels is None:
        table = array("scores", scores, "t t")
        check_shape("scores", table, [t, t], "words by words")
        table, names = table.copy(), [[""] * t for _ in range(t)]
    else:
        check_some("labels", labels)
        cube = array("scores", scores, "t t k")
        check_shape("scores", cube, [t, t, len(labels)], "words by words by labels")
        chosen = cube.argmax(-1)
        for span, label in spans.items():
            chosen[span] = label if label >= 0 else chosen[span]
        table = np.take_along_axis(cube, chosen[..., None], -1)[..., 0]
        names = [[labels[q] for q in row] for row in chosen]
    table[np.tril_indices(t, -1)] = -np.inf
    return table, names


def _strengths(table: Float[np.ndarray, "t t"]) -> Float[np.ndarray, "t t"]:
    """Return color strengths in [0, 1], by size for non-negative tables and by rank in the range otherwise."""
    finite = table[np.isfinite(table)]
    if not len(finite):
        return np.zeros_like(table)
    low, high = min(float(finite.min()), 0.0), float(finite.max())
    span = high - low
    strengths = (np.where(np.isfinite(table), table, low) - low) / span if span > 0 else np.isfinite(table) * 0.5
    return np.where(table == np.inf, 1.0, strengths)


def _width(words: Sequence[str], names: Sequence[Sequence[str]], texts: Sequence[Sequence[str]]) -> float:
    wide = [text_width(shorten(clean(word), WORD, WIDEST), WORD) for word in words]
    wide += [text_width(shorten(clean(name), TINY, WIDEST, True), TINY, True) for row in names for name in row]
    wide += [text_width(text, TINY) for row in texts for text in row]
    return max(LEAST_WIDTH, max(wide) + 12.0)


def _draw_cell(canvas: Canvas, box: Box, strength: float, lines: Sequence[str], note: str) -> None:
    inner = box.grown(-2.0)
    canvas.rect(inner, "faint", radius=4.0, tooltip="" if lines else note)
    if lines and strength >= 0.005:
        canvas.rect(inner, "heat", radius=4.0, opacity=strength, tooltip=note)
    x, y = box.middle
    for row, line in enumerate(lines):
        place = y + (row - (len(lines) - 1) / 2) * 13.0
        bold = len(lines) == 2 and row == 0
        canvas.text(x, place, line, size=TINY, color=on_heat(strength), bold=bold, most=WIDEST)
