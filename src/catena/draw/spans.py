"""Labeled spans in a text, such as names, slots and chunks. Words wrap as in a paragraph, each span on a colored bar.

The bar of a nested span is closer to the words; crossing spans are drawn as well. A span that reaches the end of a
line continues in the next.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import NamedTuple

from catena.draw.palette import category
from catena.draw.picture import Picture
from catena.draw.svg import LONGEST_WORD, TINY, WORD, Box, Canvas
from catena.draw.text import clean, is_right_to_left, shorten, text_width
from catena.draw.tree import Direction
from catena.draw.values import check_some
from catena.errors import DataError

BLANK, LINE, BAR_ROW, LONGEST_LABEL = 7.0, 26.0, 20.0, 200.0


class DrawnSpan(NamedTuple):
    """The words from ``start`` up to but not including ``end``, counted from 0."""

    start: int
    end: int
    label: str


def spans_of_tags(tags: Sequence[str]) -> list[DrawnSpan]:
    """Return the spans that BIO or BILOU tags encode. ``I-x`` after anything but ``x`` also opens a span.

    >>> spans_of_tags(["B-place", "I-place", "O", "B-time"])
    [DrawnSpan(start=0, end=2, label='place'), DrawnSpan(start=3, end=4, label='time')]
    """
    spans: list[DrawnSpan] = []
    start, label, is_open = 0, "", False
    for i, tag in enumerate(tags):
        kind, _, name = tag.partition("-")
        if kind not in ("B", "I", "L", "U", "S", "E", "O") or (kind == "O") == bool(name):
            raise DataError(f"tags[{i}] must be O or B-, I-, L-, E-, U- or S-label, got {tag!r}. Use BIO or BILOU.")
        goes_on = is_open and kind in "ILE" and name == label
        if is_open and not goes_on:
            spans.append(DrawnSpan(start, i, label))
        if not goes_on:
            start, label = i, name
        is_open = kind != "O" and kind not in "LEUS"
        if kind in ("L", "E", "U", "S"):
            spans.append(DrawnSpan(start, i + 1, label))
    if is_open:
        spans.append(DrawnSpan(start, len(tags), label))
    return spans


def draw_spans(
    words: Sequence[str],
    spans: Sequence[tuple[int, int, str]],
    *,
    width: int = 720,
    direction: Direction = "auto",
    title: str = "",
) -> Picture:
    """Draw labeled spans in a text.

    Args:
        words: the text.
        spans: ``(start, end, label)`` is a span over the words from ``start`` up to but not including ``end``,
            counted from 0. :func:`spans_of_tags` converts BIO tags.
        width: line width in pixels.
        direction: reading direction of the words; "auto" detects it from their script.
        title: a heading.
    """
    check_some("words", words)
    found = [_checked(i, span, len(words)) for i, span in enumerate(spans)]
    colors = {label: category(i) for i, label in enumerate(dict.fromkeys(span.label for span in found))}
    rows = assign_rows(found)
    widths = _word_widths(words, found)
    mirrored = direction == "right-to-left" or (direction == "auto" and is_right_to_left(words))
    canvas = Canvas()
    y = 0.0
    for first, last in _lines(widths, width):
        boxes = _placed(widths[first:last], y, mirrored)
        pieces = [(s, rows[i]) for i, s in enumerate(found) if s.start < last and first < s.end]
        for span, row in pieces:
            inside = boxes[max(span.start, first) - first : min(span.end, last) - first]
            _draw_bar(canvas, inside, row, span.label, colors[span.label])
        for box, word in zip(boxes, words[first:last], strict=True):
            canvas.text(box.middle[0], y, word)
        y += LINE + BAR_ROW * (1 + max((row for _, row in pieces), default=-1))
    description = "; ".join(f"{span.label}: {' '.join(words[span.start : span.end])}" for span in found)
    return canvas.picture("Spans in: " + " ".join(words), description or "no spans", title)


def _checked(number: int, span: tuple[int, int, str], t: int) -> DrawnSpan:
    found = DrawnSpan(*span)
    if not 0 <= found.start < found.end <= t:
        raise DataError(
            f"spans[{number}] must have 0 <= start < end <= {t}, the number of words, got "
            f"({found.start}, {found.end}, {found.label!r}). Count words from 0 and set end after the last word."
        )
    return found


def assign_rows(spans: Sequence[DrawnSpan]) -> list[int]:
    """Return the row of each span, 0 next to the words: below its nested spans, apart from any it crosses.

    >>> assign_rows([DrawnSpan(0, 5, "a"), DrawnSpan(1, 2, "b"), DrawnSpan(4, 6, "c")])
    [1, 0, 0]
    """
    rows = [-1] * len(spans)
    for i in sorted(range(len(spans)), key=lambda i: (spans[i].end - spans[i].start, i)):
        sharing = [j for j, b in enumerate(spans) if spans[i].start < b.end and b.start < spans[i].end]
        taken = {rows[j] for j in sharing}  # a span that blocks a row for an inner span also overlaps the outer one
        rows[i] = next(row for row in count() if row not in taken)
    return rows


def _shown_width(text: str, size: float, most: float) -> float:
    return text_width(shorten(clean(text), size, most), size)


def _word_widths(words: Sequence[str], spans: Sequence[DrawnSpan]) -> list[float]:
    """Return the width of each word, wider where a label is longer than its words."""
    widths = [_shown_width(word, WORD, LONGEST_WORD) + BLANK for word in words]
    for span in sorted(spans, key=lambda span: span.end - span.start):
        needed = _shown_width(span.label, TINY, LONGEST_LABEL) + 14.0
        missing = needed - sum(widths[span.start : span.end])
        if missing > 0:
            for i in range(span.start, span.end):
                widths[i] += missing / (span.end - span.start)
    return widths


def _lines(widths: Sequence[float], width: int) -> list[tuple[int, int]]:
    """Return the first word of each line and the one after its last. A line has at least one word."""
    lines, first, used = [], 0, 0.0
    for i, space in enumerate(widths):
        if i > first and used + space > width:
            lines.append((first, i))
            first, used = i, 0.0
        used += space
    return [*lines, (first, len(widths))]


def _placed(widths: Sequence[float], y: float, mirrored: bool) -> list[Box]:
    boxes, x = [], 0.0
    for space in widths:
        left = -x - space if mirrored else x
        boxes.append(Box(left, y - LINE / 2, left + space, y + LINE / 2))
        x += space
    return boxes


def _draw_bar(canvas: Canvas, boxes: Sequence[Box], row: int, label: str, color: str) -> None:
    x0, x1 = min(box.x0 for box in boxes) + 2.0, max(box.x1 for box in boxes) - 2.0
    top = boxes[0].y1 - 2.0 + row * BAR_ROW
    if row == 0:
        canvas.rect(Box(x0, boxes[0].y0 + 1.0, x1, top), color, opacity=0.16, radius=3.0)
    canvas.rect(Box(x0, top, x1, top + 3.0), color)
    space = x1 - x0
    canvas.text((x0 + x1) / 2, top + 10.5, label, size=TINY, color=color, most=min(space, LONGEST_LABEL))
