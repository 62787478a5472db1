"""Points in the plane as text, each as its number."""

from __future__ import annotations

from catena.draw.terminal.grid import Grid
from catena.draw.values import NumberSequence, array, check_some

COLUMNS, ROWS = 48, 16


def sketch_points(points: NumberSequence) -> str:
    """Return the points as text, x and y each scaled to fit. A point may cover another."""
    check_some("points", list(points))
    given = array("points", points, "n c")
    low, high = given.min(axis=0), given.max(axis=0)
    grid = Grid()
    for number, (x, y) in enumerate(given):
        across, up = ((v - a) / (b - a) if b > a else 0.5 for v, a, b in zip((x, y), low, high, strict=True))
        grid.write(round((1 - up) * (ROWS - 1)), round(across * (COLUMNS - 1)), str(number))
    return str(grid).rstrip("\n")
