"""Dependency trees in text: arcs of lines above the words."""

from __future__ import annotations

from collections.abc import Sequence

from catena.draw.arcs import DrawnArc, build_side, levels, ports
from catena.draw.terminal.grid import DOWN, Grid, cells
from catena.draw.values import check_some

WORD_GAP, PORT = 2, 2


def arcs_text(words: Sequence[str], heads: Sequence[int], labels: Sequence[str] | None = None) -> str:
    """Return a dependency tree as lines of text. See :func:`catena.draw.arcs.draw_arcs` for the arguments.

    >>> print(arcs_text(["dogs", "bark"], [2, 0], ["nsubj", "root"]), end="")
             root
     ┌─nsubj─┐ │
     ↓       │ ↓
    dogs     bark
    """
    check_some("words", words)
    side = build_side(words, "heads", heads, "labels", labels)
    ends = ports(side.arcs, len(words))
    at, lefts = _columns(words, side.arcs, side.texts, ends)
    heights = levels(side.arcs)
    grid = Grid()
    for left, word in zip(lefts, words, strict=True):
        grid.write(0, left, word)
    for number, (arc, text) in enumerate(zip(side.arcs, side.texts, strict=True)):
        end = at[number, False]
        row = -1 - heights[number]
        grid.down(end, row, -1)
        if arc.head >= 0:
            start = at[number, True]
            low, high = min(start, end), max(start, end)
            grid.across(row, low, high)
            grid.down(start, row, -1)
            grid.arm(-1, start, DOWN)
            grid.write(row, (low + high - cells(text)) // 2 + 1, text)
        else:
            grid.write(row, end - cells(text) // 2, text)
    for number in range(len(side.arcs)):
        grid.write(-1, at[number, False], "↓")
    return str(grid)


def _columns(
    words: Sequence[str], arcs: Sequence[DrawnArc], texts: Sequence[str], ends: Sequence[Sequence[tuple[int, bool]]]
) -> tuple[dict[tuple[int, bool], int], list[int]]:
    """Return the column of each arc end, and of the first character of each word."""
    at: dict[tuple[int, bool], int] = {}
    lefts: list[int] = []
    left = 0
    for i, word in enumerate(words):
        space = cells(word)
        needed = PORT * (len(ends[i]) - 1) + 1
        roots = max((cells(texts[n]) for n, _ in ends[i] if arcs[n].head < 0), default=0)
        span = max(space, needed, roots)
        start = left + (span - needed) // 2
        own = {end: start + PORT * place for place, end in enumerate(ends[i])}
        missing = [
            at[number, not is_head] + cells(texts[number]) + 3 - column
            for (number, is_head), column in own.items()
            if arcs[number].head >= 0 and arcs[number].right == i
        ]
        shift = max([0, *missing])
        at.update((end, column + shift) for end, column in own.items())
        lefts.append(left + shift + (span - space) // 2)
        left += shift + span + WORD_GAP
    return at, lefts
