"""A finished picture: SVG text that is shown by a notebook, or saved as SVG or PNG."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from catena.draw.png import to_png
from catena.draw.saving import write_atomically
from catena.errors import DataError


@dataclass(frozen=True)
class Picture:
    """What every drawing function returns. Two pictures of the same values are equal."""

    svg: str

    def save(self, path: str | Path) -> Path:
        """Write the picture to ``name.svg`` or ``name.png``; a reader sees the old file or the new, never a part."""
        path = Path(path)
        suffix = path.suffix.lower()
        if suffix == ".png":
            return to_png(self.svg, path)
        if suffix != ".svg":
            raise DataError(f"a picture is saved as .svg or .png, but the file is to be called {path.name!r}")
        write_atomically(path, self.svg.encode("utf-8"))
        return path

    def _repr_svg_(self) -> str:
        return self.svg
