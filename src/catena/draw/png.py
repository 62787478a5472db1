"""PNG from SVG, by the library resvg, which needs nothing else. Knows nothing of what is drawn."""

from __future__ import annotations

import re
from pathlib import Path

from catena.draw.palette import in_the_dark
from catena.draw.saving import write_atomically
from catena.draw.values import RealNumber
from catena.errors import DataError
from catena.extras import require

_MOST_PIXELS = 100_000_000
"""Larger pictures would take gigabytes to render."""

_SIZE = re.compile(r'<svg [^>]*\bwidth="([\d.]+)" height="([\d.]+)"')


def to_png(svg: str, path: str | Path, scale: RealNumber = 2, dark: bool = False) -> Path:
    """Write an SVG to a PNG file, ``scale`` pixels for each pixel of the SVG, in light or dark colors."""
    path = Path(path)
    write_atomically(path, png_bytes(svg, scale, dark))
    return path


def png_bytes(svg: str, scale: RealNumber = 2, dark: bool = False) -> bytes:
    """The content of the PNG file of an SVG."""
    resvg = require("resvg_py", "png", "drawing PNG files")
    if not scale > 0:
        raise DataError(f"the scale of a PNG must be above 0, but it is {scale}")
    if size := _SIZE.search(svg):
        width, height = (float(side) * scale for side in size.groups())
        if width * height > _MOST_PIXELS:
            raise DataError(
                f"at scale {scale:g} the picture has {width:,.0f} x {height:,.0f} pixels, and at most "
                f"{_MOST_PIXELS:,} are drawn as PNG: give a smaller scale, or save it as .svg"
            )
    zoom = int(scale) if scale == int(scale) else scale  # older versions take whole numbers only
    try:
        return bytes(resvg.svg_to_bytes(svg_string=in_the_dark(svg) if dark else svg, zoom=zoom))
    except ValueError as error:
        raise DataError(f"this SVG cannot be drawn as PNG: {error}") from error
