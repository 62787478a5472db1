"""PNG from SVG with the library resvg, which has no dependencies, and PNG from pixels without any library.

Tested in tests/draw/test_picture.py and tests/draw/test_overlay.py.
"""

from __future__ import annotations

import re
import struct
import zlib
from pathlib import Path

import numpy as np
from jaxtyping import UInt8

from catena.draw.palette import in_the_dark
from catena.draw.values import RealNumber
from catena.errors import DataError
from catena.extras import require
from catena.files import atomic_write

_MOST_PIXELS = 100_000_000
"""Larger pictures would take gigabytes to render."""

_SIZE = re.compile(r'<svg [^>]*\bwidth="([\d.]+)" height="([\d.]+)"')


def to_png(svg: str, path: str | Path, scale: RealNumber = 2, dark: bool = False) -> Path:
    """Write an SVG to a PNG file with ``scale`` PNG pixels per SVG pixel, in light or dark colors."""
    path = Path(path)
    with atomic_write(path) as unfinished:
        unfinished.write_bytes(png_bytes(svg, scale, dark))
    return path


def png_bytes(svg: str, scale: RealNumber = 2, dark: bool = False) -> bytes:
    """Return the bytes of the PNG file of an SVG."""
    resvg = require("resvg_py", "png", "drawing PNG files")
    if not scale > 0:
        raise DataError(f"scale must be positive, got {scale}. Use 2 for a sharp picture.")
    if size := _SIZE.search(svg):
        width, height = (float(side) * scale for side in size.groups())
        if width * height > _MOST_PIXELS:
            raise DataError(
                f"A PNG must have at most {_MOST_PIXELS:,} pixels, got {width:,.0f} x {height:,.0f} at scale "
                f"{scale:g}. Use a smaller scale, or save it as .svg."
            )
    zoom = int(scale) if scale == int(scale) else scale  # older versions accept only integers
    try:
        return bytes(resvg.svg_to_bytes(svg_string=in_the_dark(svg) if dark else svg, zoom=zoom))
    except ValueError as error:
        raise DataError(f"The SVG could not be rendered as PNG: {error}. Save it as .svg.") from error


def encode_png(pixels: UInt8[np.ndarray, "height width 3"]) -> bytes:
    """Return the bytes of a PNG file with these pixels in RGB."""
    height, width, _ = pixels.shape
    before = np.concatenate((np.zeros_like(pixels[:, :1]), pixels[:, :-1]), axis=1)
    differences = (pixels - before).reshape(height, -1)  # filter type 1: modulo 256, from the pixel to the left
    lines = np.concatenate((np.ones((height, 1), np.uint8), differences), axis=1)
    header = struct.pack(">2I5B", width, height, 8, 2, 0, 0, 0)  # 8 bits, RGB, no interlacing
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(lines.tobytes(), 9)), (b"IEND", b""))
    signed = ((name + data, len(data)) for name, data in chunks)
    coded = (struct.pack(">I", n) + chunk + struct.pack(">I", zlib.crc32(chunk)) for chunk, n in signed)
    return b"\x89PNG\r\n\x1a\n" + b"".join(coded)
