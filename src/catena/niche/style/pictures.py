"""Pictures of texture synthesis and style transfer: files or arrays in, pixels from 0 to 1 and files out.

Files are read by :mod:`catena.data.images`. A large file is reduced while it is read. Tested in
tests/niche/style/test_pictures.py.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from jaxtyping import Float, UInt8

from catena.data.images import image_size, read_image, resize_image
from catena.data.media_config import ImageConfig
from catena.data.media_files import PICTURE_ENDINGS
from catena.errors import ConfigError, DataError
from catena.extras import require
from catena.files import atomic_write

PictureInput = Path | str | np.ndarray
"""A picture file, or 8-bit pixels in RGB."""
_FILTER = "lanczos"


def open_picture(picture: PictureInput, size: int, max_pixels: int, name: str) -> UInt8[np.ndarray, "height width 3"]:
    """The pixels of a picture, reduced so that its longer side is at most ``size``. It is never enlarged."""
    if not isinstance(picture, np.ndarray):
        height, width = fit_size(image_size(picture, max_pixels), size)
        return read_image(picture, _config(height, width, max_pixels))
    if picture.dtype != np.uint8 or picture.ndim != 3 or picture.shape[2] != 3 or 0 in picture.shape:
        raise DataError(
            f"{name} must be 8-bit pixels of shape (height, width, 3), got {picture.dtype} {picture.shape}. Convert "
            "it to RGB, or pass the path of a file."
        )
    return resize_picture(picture, fit_size((picture.shape[0], picture.shape[1]), size))


def fit_size(size: tuple[int, int], longest: int) -> tuple[int, int]:
    """Height and width in the same proportions, with the longer side at most ``longest``."""
    scale = min(1.0, longest / max(size))
    return max(1, round(size[0] * scale)), max(1, round(size[1] * scale))


def resize_picture(picture: UInt8[np.ndarray, "_ _ 3"], size: tuple[int, int]) -> UInt8[np.ndarray, "height width 3"]:
    """The picture in another height and width; a smaller one is averaged over the pixels that it replaces."""
    if picture.shape[:2] == size:
        return picture
    return resize_image(picture, _config(*size, max_pixels=picture.shape[0] * picture.shape[1]))


def _config(height: int, width: int, max_pixels: int) -> ImageConfig:
    return ImageConfig(height=height, width=width, fit="stretch", filter=_FILTER, max_pixels=max_pixels)


def to_unit(picture: UInt8[np.ndarray, "height width 3"]) -> Float[np.ndarray, "height width 3"]:
    """Values from 0 to 1."""
    return picture / 255


def to_bytes(pixels: Float[np.ndarray, "height width 3"]) -> UInt8[np.ndarray, "height width 3"]:
    """Values from 0 to 1, clipped and rounded to 8 bits."""
    return np.round(np.clip(pixels, 0, 1) * 255).astype(np.uint8)


def check_picture_path(path: Path) -> None:
    """Raise ConfigError if pictures are not written to files with this extension."""
    if path.suffix.lower() not in PICTURE_ENDINGS:
        raise ConfigError(
            f"The output must end in .png, .jpg or another ending of pictures, got {path.name!r}. Use .png."
        )


def write_picture(picture: UInt8[np.ndarray, "height width 3"], path: Path) -> None:
    """Write a picture to a file, complete or not at all; the extension decides the format."""
    check_picture_path(path)
    image = require("PIL.Image", "vision", "writing pictures")
    format = image.registered_extensions()[path.suffix.lower()]
    with atomic_write(path) as unfinished:
        image.fromarray(picture).save(unfinished, format=format)
