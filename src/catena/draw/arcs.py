"""Dependency trees as arcs above the words, with an optional second tree below for comparison.

Each arc leads from a head to a dependent and has round corners. If two arcs overlap horizontally, one of them is
higher: the outer one if they are nested, either one if they cross. Each arc touches a word at its own point. So arcs
never coincide, and no two labels at the same height overlap.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from typing import NamedTuple

from catena.draw.picture import Picture
from catena.draw.scale import probability
from catena.draw.svg import LONGEST_WORD, SMALL, WORD, Canvas, Path
from catena.draw.text import clean, is_right_to_left, shorten, text_width
from catena.draw.tree import Direction
from catena.draw.values import NumberSequence, array, check_count, check_probabilities, check_shape, check_some
from catena.errors import DataError

PORT, LEVEL, CORNER, WORD_GAP, LABEL_ROOM = 8.0, 26.0, 9.0, 20.0, 26.0


class DrawnArc(NamedTuple):
    """An arc from a head to a word, both counted from 0. The head is -1 for the root."""

    head: int
    word: int

    @property
    def left(self) -> int:
        """The first word that the arc spans. The arc of the root spans only its word."""
        return min(self) if self.head >= 0 else self.word

    @property
    def right(self) -> int:
        return max(self)


def levels(arcs: Sequence[DrawnArc]) -> list[int]:
    """Return the height of each arc, from 1: above all arcs it encloses, different from all it crosses, roots on top.

    >>> levels([DrawnArc(1, 0), DrawnArc(1, 2), DrawnArc(1, 3), DrawnArc(-1, 1)])
    [1, 1, 2, 3]
    """
    found = [0] * len(arcs)
    order = sorted((i for i, arc in enumerate(arcs) if arc.head >= 0), key=lambda i: (_length(arcs[i]), arcs[i].left))
    for place, i in enumerate(order):
        # An arc that blocks a height for an inner arc also overlaps the outer arc, so the outer arc is always higher.
        taken = {found[j] for j in order[:place] if arcs[j].left < arcs[i].right and arcs[i].left < arcs[j].right}
        found[i] = next(level for level in count(1) if level not in taken)
    top = max(found, default=0) + 1
    return [level or top for level in found]


def _length(arc: DrawnArc) -> int:
    return arc.right - arc.left


def ports(arcs: Sequence[DrawnArc], n_words: int) -> list[list[tuple[int, bool]]]:
    """Return the arc ends at each word, from left to right, as (index of the arc, whether it is the head's end).

    Arcs to the left come first, the longest last; then the root; then arcs to the right, the longest first. So nested
    arcs do not cross at a word.
    """
    at: list[list[tuple[tuple[int, int, int], tuple[int, bool]]]] = [[] for _ in range(n_words)]
    for i, arc in enumerate(arcs):
        for word, is_head in ((arc.head, True), (arc.word, False)):
            if word < 0:
                continue
            other = arc.word if is_head else arc.head
            side = 0 if arc.head < 0 else (-1 if other < word else 1)
            length = _length(arc) if side < 0 else -_length(arc)
            at[word].append(((side, length, is_head), (i, is_head)))
    return [[end for _, end in sorted(ends)] for ends in at]


def draw_arcs(
    words: Sequence[str],
    heads: Sequence[int],
    labels: Sequence[str] | None = None,
    *,
    tags: Sequence[str] | None = None,
    probabilities: NumberSequence | None = None,
    other_heads: Sequence[int] | None = None,
    other_labels: Sequence[str] | None = None,
    direction: Direction = "auto",
    title: str = "",
) -> Picture:
    """Draw a dependency tree, or any assignment of one head to each word.

    Args:
        words: the sentence.
        heads: ``heads[i]`` is the head of word ``i``, as in CoNLL-U: words are counted from 1, and 0 is the root. No
            arc is drawn for -1.
        labels: ``labels[i]`` is the label of the arc from ``heads[i]``.
        tags: small text below each word.
        probabilities: ``probabilities[i]`` is the probability of the arc from ``heads[i]``. It is printed at the arc
            and sets its opacity.
        other_heads: a second tree below the words, such as the reference. Arcs of the first that differ are red.
        other_labels: labels of the second tree.
        direction: reading direction of the words; "auto" detects it from their script.
        title: a heading.
    """
    check_some("words", words)
    above = build_side(words, "heads", heads, "labels", labels)
    below = None if other_heads is None else build_side(words, "other_heads", other_heads, "other_labels", other_labels)
    if tags is not None:
        check_count("tags", len(tags), len(words), "words")
    probs = None
    if probabilities is not None:
        probs = array("probabilities", probabilities, "t")
        check_shape("probabilities", probs, [len(words)], "one for each word")
        check_probabilities("probabilities", probs)
        above = above.with_probabilities([float(p) for p in probs])
    mirrored = direction == "right-to-left" or (direction == "auto" and is_right_to_left(words))
    layout = _layout(words, tags, [above, *([below] if below else [])], mirrored)
    canvas = Canvas()
    _draw_side(canvas, layout, above, below, up=True)
    if below:
        _draw_side(canvas, layout, below, None, up=False)
    for x, word in zip(layout.xs, words, strict=True):
        canvas.text(x, 0.0, word)
    for x, tag in zip(layout.xs, tags or (), strict=False):
        canvas.text(x, WORD + 5, tag, size=SMALL, color="soft")
    return canvas.picture("Dependencies of: " + " ".join(words), _described(words, above), title)


# --- the arcs of one side -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Side:
    """One tree: its arcs in word order, the text on each, and the opacity of each."""

    arcs: tuple[DrawnArc, ...]
    names: tuple[str, ...]
    texts: tuple[str, ...]
    strengths: tuple[float, ...]

    def with_probabilities(self, probs: Sequence[float]) -> Side:
        kept = [probs[arc.word] for arc in self.arcs]
        texts = tuple(f"{name} {probability(p)}".strip() for name, p in zip(self.names, kept, strict=True))
        return Side(self.arcs, self.names, texts, tuple(0.2 + 0.8 * min(max(p, 0.0), 1.0) for p in kept))


def build_side(
    words: Sequence[str], heads_name: str, heads: Sequence[int], labels_name: str, labels: Sequence[str] | None
) -> Side:
    """Return one tree over the words as checked, labeled arcs. Errors use the given argument names."""
    check_count(heads_name, len(heads), len(words), "words")
    if labels is not None:
        check_count(labels_name, len(labels), len(words), "words")
    arcs, names = [], []
    for word, head in enumerate(map(int, heads)):
        if not -1 <= head <= len(words):
            raise DataError(
                f"{heads_name}[{word}] must be from 0 (the root) to {len(words)} (the last word), or -1 for none, "
                f"got {head}. Count words from 1."
            )
        if head == word + 1:
            raise DataError(f"{heads_name}[{word}] must not be the word itself, got {head}. Count words from 1.")
        if head >= 0:
            arcs.append(DrawnArc(head - 1, word))
            names.append("" if labels is None else labels[word])
    texts = [name or ("root" if arc.head < 0 else "") for arc, name in zip(arcs, names, strict=True)]
    return Side(tuple(arcs), tuple(names), tuple(texts), (1.0,) * len(arcs))


# --- layout -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ArcLayout:
    """The center and half width of each word, the height of the text rows, and the sign of the direction."""

    xs: tuple[float, ...]
    floor: float
    mirrored: bool


def _shown_width(text: str, size: float) -> float:
    return text_width(shorten(clean(text), size, LONGEST_WORD), size)


def _layout(words: Sequence[str], tags: Sequence[str] | None, sides: Sequence[Side], mirrored: bool) -> ArcLayout:
    """Place the words from left to right, each as close to the previous ones as words, ports and labels allow."""
    ends = [ports(side.arcs, len(words)) for side in sides]
    widths = []
    for i, word in enumerate(words):
        space = max(_shown_width(word, WORD), _shown_width(tags[i], SMALL) if tags else 0.0)
        space = max([space, *((len(side[i]) - 1) * PORT for side in ends)])
        roots = [t for s in sides for arc, t in zip(s.arcs, s.texts, strict=True) if arc == DrawnArc(-1, i)]
        widths.append(max([space, *(_shown_width(text, SMALL) - WORD_GAP / 2 for text in roots)]))
    xs: list[float] = []
    for i in range(len(words)):
        x = xs[-1] + (widths[i - 1] + widths[i]) / 2 + WORD_GAP if xs else 0.0
        for side, at in zip(sides, ends, strict=True):
            for number, (arc, text) in enumerate(zip(side.arcs, side.texts, strict=True)):
                if arc.right == i and arc.head >= 0:
                    slack = _offset(at, arc.left, number, arc) - _offset(at, i, number, arc)
                    x = max(x, xs[arc.left] + slack + _shown_width(text, SMALL) + LABEL_ROOM)
        xs.append(x)
    if mirrored:
        xs = [-x for x in xs]
    return ArcLayout(tuple(xs), WORD + (SMALL + 5 if tags else 0.0), mirrored)


def _offset(ends: Sequence[Sequence[tuple[int, bool]]], word: int, number: int, arc: DrawnArc) -> float:
    """Return the distance from the center of a word to the point where an arc touches it, positive to the right."""
    place = ends[word].index((number, arc.head == word))
    return (place - (len(ends[word]) - 1) / 2) * PORT


def _draw_side(canvas: Canvas, layout: ArcLayout, side: Side, reference: Side | None, up: bool) -> None:
    """Draw the arcs of a tree, then their labels. A label may cover a crossing arc but never another label."""
    ends = ports(side.arcs, len(layout.xs))
    heights = levels(side.arcs)
    base = -WORD * 0.95 if up else layout.floor
    sign = -1.0 if up else 1.0
    known = None if reference is None else set(zip(reference.arcs, reference.names, strict=True))
    labels = []
    flip = -1.0 if layout.mirrored else 1.0
    for number, arc in enumerate(side.arcs):
        wrong = known is not None and (arc, side.names[number]) not in known
        color = "bad" if wrong else ("best" if arc.head < 0 else "accent")
        opacity = None if side.strengths[number] >= 1 else side.strengths[number]
        x = layout.xs[arc.word] + flip * _offset(ends, arc.word, number, arc)
        y = base + sign * (heights[number] * LEVEL + 2)
        start = x if arc.head < 0 else layout.xs[arc.head] + flip * _offset(ends, arc.head, number, arc)
        path = Path().move(x, y) if arc.head < 0 else _bracket(start, x, base, y)
        path.line(x, base + sign * 6.0)
        canvas.path(path, stroke=color, width=2.0 if wrong else 1.4, opacity=opacity)
        canvas.arrow_head((x, base), (0.0, -sign), color, opacity=side.strengths[number])
        labels.append(((start + x) / 2, y + (sign * 9.0 if arc.head < 0 else 0.0), side.texts[number], wrong))
    for x, y, text, wrong in labels:
        canvas.text(x, y, text, size=SMALL, color="bad" if wrong else "ink", backed=True, bold=wrong)


def _bracket(start: float, end: float, base: float, top: float) -> Path:
    """Return the path from the head up, over, and down to just above the word, with round corners."""
    side = 1.0 if end > start else -1.0
    up = 1.0 if top > base else -1.0
    corner = min(CORNER, abs(end - start) / 2, abs(top - base))
    bend = corner * 0.45  # distance of the control point from the corner that gives a quarter circle
    path = Path().move(start, base).line(start, top - up * corner)
    path.curve((start, top - up * bend), (start + side * bend, top), (start + side * corner, top))
    path.line(end - side * corner, top)
    return path.curve((end - side * bend, top), (end, top - up * bend), (end, top - up * corner))


def _described(words: Sequence[str], side: Side) -> str:
    parts = []
    for arc, text in zip(side.arcs, side.texts, strict=True):
        head = "root" if arc.head < 0 else words[arc.head]
        parts.append(f"{words[arc.word]} \u2190 {head}" + (f" ({text})" if text and arc.head >= 0 else ""))
    return "; ".join(parts)
