"""Whether symbols spell a tree, by reading them with a plain recursive descent. Imports nothing of catena.

Symbols are ``("(", label)``, ``(")", label)`` and ``("leaf", name)``.
"""

from __future__ import annotations

from collections.abc import Sequence

Symbol = tuple[str, str]


def leaves_of(symbols: Sequence[Symbol]) -> int | None:
    """The number of leaves of the one tree that the symbols spell; None where they spell none."""

    def bracket(at: int) -> tuple[int, int] | None:
        """(next position, leaves) of the bracket that opens at a position."""
        if at >= len(symbols) or symbols[at][0] != "(":
            return None
        label, here, total, children = symbols[at][1], at + 1, 0, 0
        while here < len(symbols) and symbols[here][0] != ")":
            found = (here + 1, 1) if symbols[here][0] == "leaf" else bracket(here)
            if found is None:
                return None
            here, total, children = found[0], total + found[1], children + 1
        closed = here < len(symbols) and symbols[here] == (")", label)
        return (here + 1, total) if closed and children else None

    found = bracket(0)
    return found[1] if found is not None and found[0] == len(symbols) else None


def most_opened(symbols: Sequence[Symbol]) -> int:
    """The most brackets that are opened in a row."""
    best = run = 0
    for kind, _ in symbols:
        run = run + 1 if kind == "(" else 0
        best = max(best, run)
    return best
