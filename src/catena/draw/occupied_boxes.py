"""Occupied boxes of a picture, to avoid overlapping labels.

Tested in tests/draw/test_curves.py and tests/draw/test_map.py.
"""

from __future__ import annotations

from catena.draw.svg import Box

_BUCKET = 64.0


class OccupiedBoxes:
    """A set of occupied boxes, in buckets by position."""

    def __init__(self) -> None:
        self.buckets: dict[tuple[int, int], list[Box]] = {}

    def _keys(self, box: Box) -> list[tuple[int, int]]:
        columns = range(int(box.x0 // _BUCKET), int(box.x1 // _BUCKET) + 1)
        rows = range(int(box.y0 // _BUCKET), int(box.y1 // _BUCKET) + 1)
        return [(column, row) for column in columns for row in rows]

    def add(self, box: Box) -> None:
        """Mark a box as occupied."""
        for key in self._keys(box):
            self.buckets.setdefault(key, []).append(box)

    def hit(self, box: Box) -> bool:
        """Return whether a box overlaps an occupied one."""
        return any(box.overlaps(other) for key in self._keys(box) for other in self.buckets.get(key, ()))
