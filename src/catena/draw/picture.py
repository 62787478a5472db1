"""A finished picture: SVG text that a notebook can show and that can be saved as SVG or PNG."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from catena.draw.png import to_png
from catena.errors import DataError
from catena.files import atomic_write


@dataclass(frozen=True)
class Picture:
    """A picture, the result of every drawing function. Pictures of the same values are equal.

    Args:
        svg: the picture as a self-contained SVG document.
    """

    svg: str

    def save(self, path: str | Path) -> Path:
        """Write the picture to ``name.svg`` or ``name.png`` atomically and return the path."""
        path = Path(path)
        suffix = path.suffix.lower()
        if suffix == ".png":
            return to_png(self.svg, path)
        if suffix != ".svg":
            raise DataError(f"path must end in .svg or .png, got {path.name!r}. Change the extension.")
        with atomic_write(path) as unfinished:
            unfinished.write_bytes(self.svg.encode("utf-8"))
        return path

    def _repr_svg_(self) -> str:
        return self.svg
