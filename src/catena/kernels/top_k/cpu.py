"""The compiled loops that find the k largest values of each row."""

from __future__ import annotations

from typing import Any

from catena.kernels.common.jit import MAXIMA, jit, jit_function

_PIECE = 64
"""Numbers whose largest is found at once."""


@jit_function(MAXIMA)
def max_value(row: Any) -> Any:
    """The largest of numbers, of which there is one at least."""
    most = row[0]
    for j in range(row.shape[0]):
        most = max(most, row[j])
    return most


@jit_function()
def insert_top(piece: Any, first: Any, best: Any, at: Any, filled: Any) -> Any:
    """Put the numbers of a piece, which begins at ``first``, among the best so far, if they are; how many there are."""
    k = best.shape[0]
    for j in range(piece.shape[0]):
        if filled == k and piece[j] <= best[k - 1]:
            continue
        place = filled if filled < k else k - 1
        while place > 0 and best[place - 1] < piece[j]:
            best[place] = best[place - 1]
            at[place] = at[place - 1]
            place -= 1
        best[place] = piece[j]
        at[place] = first + j
        filled = min(filled + 1, k)
    return filled


@jit("2", "2", "i2", "i", "i")
def find_largest(x: Any, values: Any, places: Any, low: Any, high: Any) -> None:
    """The largest numbers of the rows from ``low`` to ``high`` in descending order, as many as ``values`` is wide."""
    v = x.shape[1]
    k = values.shape[1]
    for r in range(low, high):
        row = x[r]
        best = values[r]
        at = places[r]
        filled = 0
        for first in range(0, v, _PIECE):
            piece = row[first : min(first + _PIECE, v)]
            if filled == k and max_value(piece) <= best[k - 1]:
                continue
            filled = insert_top(piece, first, best, at, filled)
