"""Trellises: a column of tags for each word, with disc areas by probability and the best path highlighted."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from catena.draw.picture import Picture
from catena.draw.scale import probability
from catena.draw.svg import SMALL, TINY, WORD, Canvas
from catena.draw.text import clean, is_right_to_left, shorten, text_width
from catena.draw.tree import Direction
from catena.draw.values import NumberSequence, array, check_count, check_probabilities, check_shape, check_some
from catena.errors import DataError

ROW, LARGEST, SMALLEST, WIDEST = 50.0, 17.0, 3.0, 160.0
_ROOMY = 11.0
"""Least radius of a disc that holds its number inside."""

_FAINTEST = 0.01
"""Transitions that are less probable are not drawn."""


def draw_trellis(
    words: Sequence[str],
    tags: Sequence[str],
    marginals: NumberSequence,
    *,
    path: Sequence[str] | Sequence[int] | None = None,
    transitions: NumberSequence | None = None,
    numbers: bool = True,
    direction: Direction = "auto",
    title: str = "",
) -> Picture:
    """Draw the tag probabilities of a sequence as a trellis.

    Args:
        words: the headings of the columns.
        tags: the names of the rows.
        marginals: ``marginals[i, q]`` is the probability of tag ``q`` at position ``i``; it sets the area of the disc.
        path: the tag at each position, by name or index, drawn as a line through the columns.
        transitions: ``transitions[i, p, q]`` is the probability of tag ``q`` at position ``i`` right after tag ``p``;
            it sets the opacity of the line between them. ``transitions[0]`` is ignored.
        numbers: print each probability under its disc.
        direction: reading direction of the words; "auto" detects it from their script.
        title: a heading.
    """
    check_some("words", words)
    check_some("tags", tags)
    probs = array("marginals", marginals, "t k")
    check_shape("marginals", probs, [len(words), len(tags)], "words by tags")
    check_probabilities("marginals", probs)
    steps = _steps(transitions, probs)
    best = None if path is None else _as_numbers(path, tags, len(words))
    mirrored = direction == "right-to-left" or (direction == "auto" and is_right_to_left(words))
    xs = _columns(words, mirrored)
    ys = [(row + 1) * ROW for row in range(len(tags))]
    canvas = Canvas()
    _draw_steps(canvas, xs, ys, steps, best)
    if best is not None:
        for i in range(1, len(xs)):
            ends = (xs[i - 1], ys[best[i - 1]]), (xs[i], ys[best[i]])
            canvas.line(*ends, "best", width=3.0)
    _draw_discs(canvas, xs, ys, probs, best, numbers)
    _draw_names(canvas, xs, ys, words, tags, mirrored)
    return canvas.picture("Trellis of: " + " ".join(words), _described(words, tags, probs, best), title)


def _steps(transitions: NumberSequence | None, probs: Float[np.ndarray, "t k"]) -> Float[np.ndarray, "t k k"] | None:
    if transitions is None:
        return None
    t, k = probs.shape
    steps = array("transitions", transitions, "t k k")
    check_shape("transitions", steps, [t, k, k], "words by tags by tags")
    check_probabilities("transitions", steps[1:])
    return steps


def _as_numbers(path: Sequence[str] | Sequence[int], tags: Sequence[str], t: int) -> list[int]:
    check_count("path", len(path), t, "words")
    known = {tag: number for number, tag in enumerate(tags)}
    found = []
    for i, tag in enumerate(path):
        number = known.get(tag, -1) if isinstance(tag, str) else int(tag)  # type: ignore[call-overload]
        if not 0 <= number < len(tags):
            raise DataError(f"path[{i}] must be one of {len(tags)} tags, got {tag!r}. Use a name of tags or its index.")
        found.append(number)
    return found


def _columns(words: Sequence[str], mirrored: bool) -> list[float]:
    """Return the center of each column; wide words get wide columns."""
    xs: list[float] = []
    x = before = 0.0
    for word in words:
        half = max(text_width(shorten(clean(word), WORD, WIDEST), WORD) / 2 + 9.0, 32.0)
        x += before + half if xs else 0.0
        xs.append(-x if mirrored else x)
        before = half
    return xs


def _draw_steps(
    canvas: Canvas,
    xs: Sequence[float],
    ys: Sequence[float],
    steps: Float[np.ndarray, "t k k"] | None,
    best: Sequence[int] | None,
) -> None:
    """Draw lines between neighboring columns, by their probabilities if known, otherwise all equal and faint."""
    few = (len(xs) - 1) * len(ys) ** 2 <= 600
    for i in range(1, len(xs)):
        for p, y0 in enumerate(ys):
            for q, y1 in enumerate(ys):
                prob = None if steps is None else float(steps[i, p, q])
                if prob is None and few:
                    canvas.line((xs[i - 1], y0), (xs[i], y1), "line", width=0.8)
                elif prob is not None and prob >= _FAINTEST:
                    width = 0.8 + 4.0 * prob
                    canvas.line((xs[i - 1], y0), (xs[i], y1), "accent", width=width, opacity=0.25 + 0.5 * prob)


def _draw_discs(
    canvas: Canvas,
    xs: Sequence[float],
    ys: Sequence[float],
    probs: Float[np.ndarray, "t k"],
    best: Sequence[int] | None,
    numbers: bool,
) -> None:
    for i, x in enumerate(xs):
        for q, y in enumerate(ys):
            prob = min(max(float(probs[i, q]), 0.0), 1.0)
            radius = max(LARGEST * prob**0.5, SMALLEST)
            on_path = best is not None and best[i] == q
            canvas.circle(x, y, radius + 2.0, "paper")
            canvas.circle(x, y, radius, "best" if on_path else "accent" if prob >= 0.005 else "line")
            if numbers and radius >= _ROOMY:
                canvas.text(x, y, probability(prob), size=TINY, color="on-strong")
            elif numbers and prob >= 0.005:
                canvas.text(x, y + radius + 8.0, probability(prob), size=TINY, color="soft", backed=True)


def _draw_names(
    canvas: Canvas, xs: Sequence[float], ys: Sequence[float], words: Sequence[str], tags: Sequence[str], mirrored: bool
) -> None:
    for x, word in zip(xs, words, strict=True):
        canvas.text(x, 4.0, word, most=WIDEST)
    edge = xs[0] + 36.0 if mirrored else xs[0] - 36.0
    for y, tag in zip(ys, tags, strict=True):
        canvas.text(edge, y, tag, size=SMALL + 1, color="soft", anchor="start" if mirrored else "end", most=WIDEST)


def _described(
    words: Sequence[str], tags: Sequence[str], probs: Float[np.ndarray, "t k"], best: Sequence[int] | None
) -> str:
    likely = best or [int(q) for q in probs.argmax(-1)]
    pairs = [
        f"{word} {tags[q]} {probability(float(probs[i, q]))}"
        for i, (word, q) in enumerate(zip(words, likely, strict=True))
    ]
    return ("Best path: " if best else "Most probable tags: ") + "; ".join(pairs)
