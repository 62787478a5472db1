"""Picture files: pixels of one size in RGB, for every kind of file.

CMYK, gray, palette and 16-bit pictures are converted to 8-bit RGB, transparent ones are put on white, the EXIF rotation
is applied, and the first frame of an animation is used. Resizing averages over the pixels that it replaces (Pillow's
filters), and a large JPEG file is decoded at a reduced size. The config of the transform is saved with a run, because
another filter changes accuracy by points. Needs the extra ``vision`` (Pillow). Tested in tests/data/test_images.py.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import UInt8

from catena.data.files import decompress, open_bytes
from catena.data.media_config import ImageConfig
from catena.errors import DataError, FormatError
from catena.extras import require

_Box = tuple[float, float, float, float]
_WIDE_MODES = ("I", "I;16", "I;16L", "I;16B", "I;16N")
"""Modes of Pillow for gray pictures with 16 bits, whose conversion to RGB would clip at 255."""
_ORIENTATION = 0x0112
"""The EXIF tag of the rotation."""
_SIDEWAYS = (5, 6, 7, 8)
"""Its values that exchange height and width."""


def read_image(path: Path | str, config: ImageConfig) -> UInt8[np.ndarray, "height width 3"]:
    """The pixels of a picture file in RGB, resized as ``config`` says.

    Args:
        path: a PNG, JPEG, GIF, BMP, TIFF, WebP or other file that Pillow reads.
        config: size, fit, filter and the largest number of pixels.

    Raises:
        FormatError: if the file is missing, empty, damaged or not a picture.
        DataError: if it has more than ``config.max_pixels`` pixels, or pixels without a known scale.
    """
    with quiet_pillow():
        return read_image_in_thread(path, config)


def read_image_in_thread(path: Path | str, config: ImageConfig) -> UInt8[np.ndarray, "height width 3"]:
    """As :func:`read_image`, for threads that the caller starts within :func:`quiet_pillow`."""
    path = Path(path)
    _check_not_empty(path)
    with decompress(path) as plain, _open_picture(path, plain, config.max_pixels) as picture:
        _reduce_jpeg(picture, config)
        return _decode(path, picture, config)


def image_size(path: Path | str, max_pixels: int) -> tuple[int, int]:
    """Height and width of a picture file after its EXIF rotation; raises the errors of :func:`read_image`."""
    path = Path(path)
    _check_not_empty(path)
    with quiet_pillow(), decompress(path) as plain, _open_picture(path, plain, max_pixels) as picture:
        width, height = picture.size
        return (width, height) if _get_orientation(picture) in _SIDEWAYS else (height, width)


@contextlib.contextmanager
def quiet_pillow() -> Iterator[None]:
    """Context without the warnings of Pillow about metadata and large pictures, which are checked here.

    Filters of warnings belong to the process, so threads must not enter it separately.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module=r"PIL\.")
        yield


def resize_image(pixels: UInt8[np.ndarray, "height width 3"], config: ImageConfig) -> UInt8[np.ndarray, "_ _ 3"]:
    """Pixels in RGB resized as :func:`read_image` does."""
    image = require("PIL.Image", "vision", "resizing pictures")
    return np.array(_fit_picture(image.fromarray(pixels), config))


# --- decoding ---------------------------------------------------------------------------------------------------------


def _check_not_empty(path: Path) -> None:
    with open_bytes(path) as stream:
        if not stream.read(1):
            raise FormatError(f"{path} is empty. Remove it, or copy it again.")


def _open_picture(path: Path, plain: Path, max_pixels: int) -> Any:
    """The opened picture, whose header was read and checked; no pixels are decoded."""
    image = require("PIL.Image", "vision", "reading pictures")
    try:
        picture = image.open(plain)
    except image.DecompressionBombError:
        raise _too_large(path, max_pixels, f"more than {2 * image.MAX_IMAGE_PIXELS:,}") from None
    except image.UnidentifiedImageError:
        raise FormatError(f"{path} is not a picture that Pillow can read. Convert it to PNG or JPEG.") from None
    except Exception as error:  # the decoders raise exceptions of many types for damaged files
        raise _damaged(path, error) from None
    width, height = picture.size
    if width * height > max_pixels:
        picture.close()
        raise _too_large(path, max_pixels, f"{width:,} x {height:,}")
    return picture


def _reduce_jpeg(picture: Any, config: ImageConfig) -> None:
    """Let the JPEG decoder halve the picture while both sides stay at least twice as long as needed."""
    side = 2 * max(config.height, config.width)  # the rotation is not known yet, so both sides get the longer one
    picture.draft("RGB", (side, side))


def _decode(path: Path, picture: Any, config: ImageConfig) -> UInt8[np.ndarray, "_ _ 3"]:
    try:
        picture.load()
        orientation = _get_orientation(picture)
        if orientation in _SIDEWAYS:
            config = config.model_copy(update={"height": config.width, "width": config.height})
        small = _fit_picture(_to_color(path, picture), config)  # first, because large copies need memory
        return np.array(_turn_upright(_put_on_white(small), orientation))
    except DataError:
        raise
    except Exception as error:  # as above: OSError, SyntaxError, ValueError, struct.error, zlib.error, …
        raise _damaged(path, error) from None


def _get_orientation(picture: Any) -> int:
    try:
        return int(picture.getexif().get(_ORIENTATION, 1))
    except Exception:  # damaged metadata of a readable picture
        return 1


def _turn_upright(picture: Any, orientation: int) -> Any:
    picture.getexif()[_ORIENTATION] = orientation
    return require("PIL.ImageOps", "vision", "reading pictures").exif_transpose(picture)


def _to_color(path: Path, picture: Any) -> Any:
    """The picture in RGB, or RGBA if it may be transparent."""
    if picture.mode in _WIDE_MODES:
        wide = np.asarray(picture)
        image = require("PIL.Image", "vision", "reading pictures")
        return image.fromarray(np.clip(wide // 256, 0, 255).astype(np.uint8)).convert("RGB")
    if picture.mode == "F":
        raise DataError(f"{path} has floating-point pixels without a known scale. Convert it to 8 bits.")
    transparent = {"A", "a"} & set(picture.getbands()) or "transparency" in picture.info
    mode = "RGBA" if transparent else "RGB"
    return picture if picture.mode == mode else picture.convert(mode)


def _put_on_white(picture: Any) -> Any:
    if picture.mode == "RGB":
        return picture
    image = require("PIL.Image", "vision", "reading pictures")
    white = image.new("RGBA", picture.size, (255, 255, 255, 255))
    return image.alpha_composite(white, picture).convert("RGB")


# --- resizing ---------------------------------------------------------------------------------------------------------


def _fit_picture(picture: Any, config: ImageConfig) -> Any:
    image = require("PIL.Image", "vision", "resizing pictures")
    resample = getattr(image.Resampling, config.filter.upper())
    if config.fit == "pad":
        return _pad_picture(picture, config, resample)
    size = (config.width, config.height)
    box = _centered_box(picture.size, size) if config.fit == "crop" else None
    return picture.resize(size, resample, box=box)


def _centered_box(size: tuple[int, int], wanted: tuple[int, int]) -> _Box:
    """The largest centered part of ``size`` with the proportions of ``wanted``: left, upper, right, lower."""
    scale = min(size[0] / wanted[0], size[1] / wanted[1])
    width, height = scale * wanted[0], scale * wanted[1]
    left, upper = (size[0] - width) / 2, (size[1] - height) / 2
    # Rounding may leave the picture by 1e-13, which Pillow rejects.
    return max(0.0, left), max(0.0, upper), min(float(size[0]), left + width), min(float(size[1]), upper + height)


def _pad_picture(picture: Any, config: ImageConfig, resample: Any) -> Any:
    image = require("PIL.Image", "vision", "resizing pictures")
    scale = min(config.width / picture.width, config.height / picture.height)
    inner = (max(1, round(picture.width * scale)), max(1, round(picture.height * scale)))
    canvas = image.new(picture.mode, (config.width, config.height), (0, 0, 0, 255)[: len(picture.mode)])
    canvas.paste(picture.resize(inner, resample), ((config.width - inner[0]) // 2, (config.height - inner[1]) // 2))
    return canvas


# --- errors -----------------------------------------------------------------------------------------------------------


def _too_large(path: Path, max_pixels: int, size: str) -> DataError:
    return DataError(
        f"The number of pixels of {path} must be at most {max_pixels:,}, got {size}. Make it smaller, or raise "
        "max_pixels."
    )


def _damaged(path: Path, error: Exception) -> FormatError:
    reason = str(error).strip().rstrip(".").replace("\n", " ") or type(error).__name__
    return FormatError(f"{path} is damaged and cannot be decoded: {reason}. Copy it again, or remove it.")
