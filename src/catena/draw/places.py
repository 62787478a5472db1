"""Which places of a picture are taken, so that names need not lie on one another."""

from __future__ import annotations

from catena.draw.svg import Box

_BUCKET = 64.0


class OccupiedBoxes:
    """Boxes that are in use, in buckets by where they lie."""

    def __init__(self) -> None:
        self.buckets: dict[tuple[int, int], list[Box]] = {}

    def _keys(self, box: Box) -> list[tuple[int, int]]:
        columns = range(int(box.x0 // _BUCKET), int(box.x1 // _BUCKET) + 1)
        rows = range(int(box.y0 // _BUCKET), int(box.y1 // _BUCKET) + 1)
        return [(column, row) for column in columns for row in rows]

    def add(self, box: Box) -> None:
        """From now on this place is taken."""
        for key in self._keys(box):
            self.buckets.setdefault(key, []).append(box)

    def hit(self, box: Box) -> bool:
        """Whether a place overlaps with one that is taken."""
        return any(box.overlaps(other) for key in self._keys(box) for other in self.buckets.get(key, ()))
