"""A grid of terminal cells in which lines join and wide characters take two cells."""

from __future__ import annotations

from catena.draw.text import clean
from catena.metrics.text_table import width

UP, DOWN, LEFT, RIGHT = 1, 2, 4, 8
_LINES = " ╵╷│╴┘┐┤╶└┌├─┴┬┼"
"""The line character for each set of arms, indexed by their bits."""


def cells(text: str) -> int:
    """Return the number of columns of a text."""
    return width(clean(text))


class Grid:
    """Cells by row and column. Text covers lines."""

    def __init__(self) -> None:
        self.lines: dict[tuple[int, int], int] = {}
        self.texts: dict[tuple[int, int], str] = {}

    def arm(self, row: int, column: int, arms: int) -> None:
        """Add arms to the line in a cell."""
        self.lines[row, column] = self.lines.get((row, column), 0) | arms

    def across(self, row: int, start: int, end: int) -> None:
        """Draw a line from the center of one cell to the center of another in the same row."""
        for column in range(start, end):
            self.arm(row, column, RIGHT)
            self.arm(row, column + 1, LEFT)

    def down(self, column: int, start: int, end: int) -> None:
        """Draw a line from the center of one cell to the center of another below it."""
        for row in range(start, end):
            self.arm(row, column, DOWN)
            self.arm(row + 1, column, UP)

    def write(self, row: int, column: int, text: str) -> None:
        """Write text from a cell on. A wide character leaves the next cell empty, a mark joins the previous one."""
        last = None
        for character in clean(text):
            columns = width(character)
            if columns == 0 and last is not None:
                self.texts[last] += character
            elif columns > 0:
                last = (row, column)
                self.texts[last] = character
                for beyond in range(1, columns):
                    self.texts[row, column + beyond] = ""
                column += columns

    def __str__(self) -> str:
        filled = [*self.lines, *self.texts]
        if not filled:
            return ""
        rows = range(min(row for row, _ in filled), max(row for row, _ in filled) + 1)
        left, right = min(column for _, column in filled), max(column for _, column in filled)
        shown = ["".join(self._cell(row, column) for column in range(left, right + 1)).rstrip() for row in rows]
        return "\n".join(shown) + "\n"

    def _cell(self, row: int, column: int) -> str:
        found = self.texts.get((row, column))
        return _LINES[self.lines.get((row, column), 0)] if found is None else found
