"""Alignments as links between two sequences, or as a path through the grid of both."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from catena.draw.palette import on_heat
from catena.draw.picture import Picture
from catena.draw.scale import probability
from catena.draw.svg import LONGEST_WORD, TINY, WORD, Box, Canvas, Path
from catena.draw.text import clean, is_right_to_left, shorten, text_width
from catena.draw.values import NumberSequence, RealNumber, array, check_probabilities, check_shape, check_some
from catena.errors import DataError

BETWEEN, WORD_GAP, CELL, LABEL_MOST = 78.0, 20.0, 34.0, 150.0


def draw_links(
    source: Sequence[str],
    target: Sequence[str],
    links: Sequence[tuple[int, int] | tuple[int, int, RealNumber]],
    *,
    title: str = "",
) -> Picture:
    """Draw two sequences, one above the other, with links between aligned elements.

    Args:
        source: the upper sequence.
        target: the lower sequence.
        links: ``(i, j)`` links source ``i`` to target ``j``, counted from 0; ``(i, j, probability)`` also sets the
            opacity of the line.
        title: a heading.
    """
    check_some("source", source)
    check_some("target", target)
    found = [_checked(number, link, len(source), len(target)) for number, link in enumerate(links)]
    above, below = _row(source), _row(target)
    linked = {i for i, _, _ in found}, {j for _, j, _ in found}
    canvas = Canvas()
    for i, j, prob in sorted(found, key=lambda link: (link[2], link[:2])):
        x0, x1 = above[i], below[j]
        path = Path().move(x0, 12.0)
        path.curve((x0, BETWEEN * 0.55), (x1, BETWEEN * 0.45), (x1, BETWEEN - 12.0))
        note = f"{source[i]} \u2013 {target[j]}" + ("" if prob >= 1 else f": {probability(prob)}")
        strength = None if prob >= 1 else 0.1 + 0.9 * prob
        canvas.path(path, stroke="accent", width=1.0 + 1.2 * prob, opacity=strength, tooltip=note)
    for words, xs, y, side in ((source, above, 0.0, linked[0]), (target, below, BETWEEN, linked[1])):
        for i, (word, x) in enumerate(zip(words, xs, strict=True)):
            canvas.text(x, y, word, color="ink" if i in side else "soft")
    description = "; ".join(f"{source[i]} \u2013 {target[j]}" for i, j, _ in sorted(found))
    return canvas.picture(f"Alignment of: {' '.join(source)} | {' '.join(target)}", description or "no links", title)


def _checked(number: int, link: Sequence[RealNumber], n: int, m: int) -> tuple[int, int, float]:
    i, j, prob = int(link[0]), int(link[1]), float(link[2]) if len(link) > 2 else 1.0
    if not (0 <= i < n and 0 <= j < m and 0 <= prob <= 1 + 1e-6):
        raise DataError(
            f"links[{number}] must join one of {n} source and {m} target positions (from 0) with a probability in "
            f"[0, 1], got {tuple(link)}. Pass (i, j) or (i, j, probability)."
        )
    return i, j, min(prob, 1.0)


def _row(words: Sequence[str]) -> list[float]:
    """Return the center x of each word in a row that is centered at 0."""
    widths = [text_width(shorten(clean(word), WORD, LONGEST_WORD), WORD) for word in words]
    x, xs = -(sum(widths) + WORD_GAP * (len(words) - 1)) / 2, []
    for width in widths:
        xs.append(x + width / 2)
        x += width + WORD_GAP
    return [-x for x in xs] if is_right_to_left(words) else xs


def draw_alignment_path(
    source: Sequence[str],
    target: Sequence[str],
    path: Sequence[tuple[int, int]],
    *,
    probabilities: NumberSequence | None = None,
    title: str = "",
) -> Picture:
    """Draw a monotone alignment as a path from the upper left to the lower right of a grid.

    Args:
        source: the sequence along the left side, read downwards.
        target: the sequence along the top.
        path: points ``(i, j)`` after ``i`` source symbols and ``j`` target symbols. A step down reads a source symbol,
            a step to the right a target symbol, a diagonal step one of each. A diagonal step is green if the two
            symbols are equal and orange otherwise.
        probabilities: ``probabilities[i, j]`` is the probability that source ``i`` and target ``j`` are aligned; it
            sets the shade of the cell.
        title: a heading.
    """
    check_some("source", source)
    check_some("target", target)
    points = _checked_path(path, len(source), len(target))
    canvas = Canvas()
    width = max(CELL, *(text_width(shorten(clean(t), WORD, LABEL_MOST), WORD) + 12.0 for t in target))
    _draw_cells(canvas, len(source), len(target), width, probabilities)
    for (i, j), (k, m) in pairwise(points):
        ends = (j * width, i * CELL), (m * width, k * CELL)
        both = k > i and m > j
        color = "accent" if not both else "good" if source[i] == target[j] else "best"
        canvas.line(*ends, color, width=3.0)
    for i, j in points:
        canvas.circle(j * width, i * CELL, 3.5, "ink", "paper", width=1.0)
    for i, text in enumerate(source):
        canvas.text(-10.0, (i + 0.5) * CELL, text, anchor="end", most=LABEL_MOST)
    for j, text in enumerate(target):
        canvas.text((j + 0.5) * width, -14.0, text, most=LABEL_MOST)
    description = "; ".join(_step(source, target, a, b) for a, b in pairwise(points))
    return canvas.picture(f"Alignment of: {' '.join(source)} | {' '.join(target)}", description, title)


def path_of_operations(operations: Sequence[int]) -> list[tuple[int, int]]:
    """Return the path of a sequence of edit operations, as in the argmax of an alignment distribution.

    Operation 0 reads one symbol of both sequences, 1 one target symbol (an insertion), 2 one source symbol (a
    deletion). -1 is padding after the last operation.

    >>> path_of_operations([0, 2, 1, -1])
    [(0, 0), (1, 1), (2, 1), (2, 2)]
    """
    steps = {0: (1, 1), 1: (0, 1), 2: (1, 0)}
    path = [(0, 0)]
    for number, operation in enumerate(operations):
        if operation == -1:
            break
        if operation not in steps:
            raise DataError(f"operations[{number}] must be 0, 1, 2 or -1, got {operation}. Use -1 only as padding.")
        path.append((path[-1][0] + steps[operation][0], path[-1][1] + steps[operation][1]))
    return path


def _checked_path(path: Sequence[tuple[int, int]], n: int, m: int) -> list[tuple[int, int]]:
    check_some("path", path)
    points = [(int(i), int(j)) for i, j in path]
    for i, j in points:
        if not (0 <= i <= n and 0 <= j <= m):
            raise DataError(f"path must have points from (0, 0) to ({n}, {m}), got ({i}, {j}). Remove that point.")
    for a, b in pairwise(points):
        if (b[0] - a[0], b[1] - a[1]) not in ((0, 1), (1, 0), (1, 1)):
            raise DataError(
                f"path must advance by one symbol of one or both sequences per step, got {a} to {b}. Add the points "
                "between them."
            )
    return points


def _draw_cells(canvas: Canvas, n: int, m: int, width: float, probabilities: NumberSequence | None) -> None:
    canvas.rect(Box(0.0, 0.0, m * width, n * CELL), "faint")
    if probabilities is not None:
        table = array("probabilities", probabilities, "n m")
        check_shape("probabilities", table, [n, m], "source by target")
        check_probabilities("probabilities", table)
        for i in range(n):
            for j in range(m):
                box = Box(j * width, i * CELL, (j + 1) * width, (i + 1) * CELL)
                prob = min(max(float(table[i, j]), 0.0), 1.0)
                if prob >= 0.005:
                    canvas.rect(box, "heat", opacity=prob)
                    text = probability(prob)
                    canvas.text(box.x0 + 3.0, box.y1 - 7.0, text, size=TINY - 1, color=on_heat(prob), anchor="start")
    for i in range(n + 1):
        canvas.line((0.0, i * CELL), (m * width, i * CELL), "line")
    for j in range(m + 1):
        canvas.line((j * width, 0.0), (j * width, n * CELL), "line")


def _step(source: Sequence[str], target: Sequence[str], a: tuple[int, int], b: tuple[int, int]) -> str:
    read = source[a[0]] if b[0] > a[0] else "nothing"
    written = target[a[1]] if b[1] > a[1] else "nothing"
    return f"{read} \u2013 {written}"
