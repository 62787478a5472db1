"""Picture files: every mode becomes the same RGB pixels, and each bad file raises one sentence."""

from __future__ import annotations

import io
import resource
import struct
import subprocess
import sys
import warnings
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from catena.data.images import read_image, resize_image
from catena.data.media_config import ImageConfig
from catena.errors import DataError, FormatError, MissingExtraError

Image = pytest.importorskip("PIL.Image")

SMALL = ImageConfig(height=8, width=8)


def squares(h: int = 8, w: int = 8) -> np.ndarray:
    """Four colors, one in each quarter."""
    pixels = np.zeros((h, w, 3), np.uint8)
    pixels[: h // 2, : w // 2] = (200, 40, 40)
    pixels[: h // 2, w // 2 :] = (40, 200, 40)
    pixels[h // 2 :, : w // 2] = (40, 40, 200)
    pixels[h // 2 :, w // 2 :] = (200, 200, 40)
    return pixels


def save(path: Path, picture: Any, **options: Any) -> Path:
    picture.save(path, **options)
    return path


def exact(h: int, w: int, **options: Any) -> ImageConfig:
    return ImageConfig(height=h, width=w, **options)


def test_read_image_returns_stored_pixels(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (5, 9, 3), dtype=np.uint8)
    path = save(tmp_path / "a.png", Image.fromarray(pixels))
    np.testing.assert_array_equal(read_image(path, exact(5, 9)), pixels)
    assert read_image(path, exact(5, 9)).flags.writeable


@pytest.mark.parametrize("mode", ["L", "1", "P", "RGBA", "LA", "CMYK", "I;16"])
def test_every_mode_gives_the_same_gray_levels(tmp_path: Path, mode: str) -> None:
    levels = np.where(np.arange(8)[:, None] < 4, 255, 0).repeat(8, 1).astype(np.uint8)
    gray = Image.fromarray(levels)
    if mode == "I;16":
        picture = Image.fromarray(levels.astype(np.uint16) * 257)
    else:
        picture = gray.convert(mode)
    suffix = "tiff" if mode == "CMYK" else "png"
    found = read_image(save(tmp_path / f"a.{suffix}", picture), SMALL)
    np.testing.assert_array_equal(found, np.repeat(levels[..., None], 3, axis=2))


def test_sixteen_bit_gray_is_scaled_not_clipped(tmp_path: Path) -> None:
    levels = np.full((8, 8), 300, np.uint16)
    levels[4:] = 40_000
    found = read_image(save(tmp_path / "a.png", Image.fromarray(levels)), SMALL)
    assert set(found[..., 0].flatten().tolist()) == {1, 156}


def test_cmyk_jpeg_keeps_its_colors(tmp_path: Path) -> None:
    path = save(tmp_path / "a.jpg", Image.fromarray(squares(64, 64)).convert("CMYK"), quality=95)
    found = read_image(path, exact(64, 64)).astype(int)
    assert np.abs(found - squares(64, 64))[8:24, 8:24].max() < 12
    assert np.abs(found - squares(64, 64))[40:56, 40:56].max() < 12


def test_transparent_pixels_become_white(tmp_path: Path) -> None:
    rgba = np.dstack((squares(), np.full((8, 8), 255, np.uint8)))
    rgba[:4, :4, 3] = 0
    found = read_image(save(tmp_path / "a.png", Image.fromarray(rgba)), SMALL)
    assert (found[:4, :4] == 255).all()
    np.testing.assert_array_equal(found[4:], squares()[4:])


def test_transparent_palette_becomes_white(tmp_path: Path) -> None:
    indices = Image.fromarray(np.where(np.arange(64).reshape(8, 8) < 32, 0, 1).astype(np.uint8)).convert("P")
    indices.putpalette([10, 20, 30, 200, 100, 50])
    found = read_image(save(tmp_path / "a.png", indices, transparency=0), SMALL)
    assert (found[:4] == 255).all()
    assert (found[4:] == (200, 100, 50)).all()


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("suffix", ["png", "jpg", "webp"])
def test_exif_rotation_is_applied(tmp_path: Path, orientation: int, suffix: str) -> None:
    upright = squares(48, 32)
    turned = {
        1: upright,
        2: upright[:, ::-1],
        3: upright[::-1, ::-1],
        4: upright[::-1],
        5: upright.transpose(1, 0, 2),
        6: np.rot90(upright, 1),
        7: upright[::-1, ::-1].transpose(1, 0, 2),
        8: np.rot90(upright, -1),
    }[orientation]
    exif = Image.Exif()
    exif[0x0112] = orientation
    picture = Image.fromarray(np.ascontiguousarray(turned))
    path = save(tmp_path / f"a.{suffix}", picture, exif=exif, **({} if suffix == "png" else {"quality": 95}))
    found = read_image(path, exact(48, 32)).astype(int)
    for rows, columns in ((slice(6, 18), slice(4, 12)), (slice(30, 42), slice(20, 28)), (slice(6, 18), slice(20, 28))):
        assert np.abs(found[rows, columns] - upright[rows, columns]).max() < 20


def test_damaged_exif_does_not_drop_the_picture(tmp_path: Path) -> None:
    path = save(tmp_path / "a.jpg", Image.fromarray(squares(64, 64)), exif=b"Exif\0\0MM\0*\xff\xff\xff\xff", quality=95)
    assert np.abs(read_image(path, exact(64, 64)).astype(int) - squares(64, 64))[8:24, 8:24].max() < 12


def test_first_frame_of_an_animation_is_read(tmp_path: Path) -> None:
    frames = [Image.fromarray(np.full((8, 8, 3), level, np.uint8)) for level in (10, 120, 250)]
    frames[0].save(tmp_path / "a.gif", save_all=True, append_images=frames[1:])
    frames[0].save(tmp_path / "a.webp", save_all=True, append_images=frames[1:], lossless=True)
    for name in ("a.gif", "a.webp"):
        assert (read_image(tmp_path / name, SMALL) == 10).all()


def test_crop_takes_the_centered_part() -> None:
    pixels = np.zeros((8, 20, 3), np.uint8)
    pixels[:, 6:14] = squares()
    np.testing.assert_array_equal(resize_image(pixels, SMALL), squares())
    np.testing.assert_array_equal(resize_image(pixels.transpose(1, 0, 2), SMALL), squares().transpose(1, 0, 2))


def test_pad_keeps_proportions_with_black_borders() -> None:
    pixels = np.full((8, 16, 3), 200, np.uint8)
    found = resize_image(pixels, exact(8, 8, fit="pad"))
    assert (found[2:6] == 200).all()
    assert (found[:2] == 0).all()
    assert (found[6:] == 0).all()


def test_resizing_averages_over_the_replaced_pixels() -> None:
    """A checkerboard of single pixels becomes gray; without antialias it would stay black or white."""
    board = (255 * (np.indices((64, 64)).sum(0) % 2)).astype(np.uint8)[..., None].repeat(3, 2)
    for name in ("box", "bilinear", "bicubic", "lanczos"):
        found = resize_image(board, exact(8, 8, filter=name))[1:-1, 1:-1].astype(int)
        assert np.abs(found - 127.5).max() < 3
    assert set(resize_image(board, exact(8, 8, filter="nearest")).flatten().tolist()) <= {0, 255}


def test_box_resizing_equals_means_of_blocks() -> None:
    pixels = np.random.default_rng(3).integers(0, 256, (24, 32, 3), dtype=np.uint8)
    wanted = pixels.reshape(8, 3, 8, 4, 3).mean(axis=(1, 3))
    assert (
        np.abs(resize_image(pixels, exact(8, 8, fit="stretch", filter="box")) - wanted).max() <= 1.01
    )  # it rounds after each axis


def test_large_jpeg_is_decoded_at_a_reduced_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from PIL import JpegImagePlugin

    path = save(tmp_path / "a.jpg", Image.fromarray(squares(1024, 1024)), quality=95)
    sizes = []
    load = JpegImagePlugin.JpegImageFile.load
    monkeypatch.setattr(JpegImagePlugin.JpegImageFile, "load", lambda self: (sizes.append(self.size), load(self))[1])
    found = read_image(path, exact(32, 32)).astype(int)
    assert sizes[0] == (128, 128)
    assert np.abs(found - squares(32, 32))[2:14, 2:14].max() < 12


def test_large_picture_below_the_limit_gives_no_warning(tmp_path: Path) -> None:
    path = save(tmp_path / "large.png", Image.new("1", (9_500, 9_500)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read_image(path, SMALL).shape == (8, 8, 3)


def png_header(width: int, height: int) -> bytes:
    chunk = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    body = struct.pack(">I", 13) + chunk + struct.pack(">I", zlib.crc32(chunk))
    data = b"IDAT" + zlib.compress(b"")
    return b"\x89PNG\r\n\x1a\n" + body + struct.pack(">I", len(data) - 4) + data + struct.pack(">I", zlib.crc32(data))


@pytest.mark.parametrize(
    ("size", "got"), [((10_001, 10_000), "10,001 x 10,000"), ((60_000, 60_000), "more than 178,956,970")]
)
def test_picture_above_the_pixel_limit_raises_before_decoding(tmp_path: Path, size: Any, got: str) -> None:
    path = tmp_path / "huge.png"
    path.write_bytes(png_header(*size))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(DataError, match=rf"must be at most 100,000,000, got {got}\. Make it smaller"):
        read_image(path, SMALL)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000


def encoded(container: str) -> bytes:
    target = io.BytesIO()
    noise = np.random.default_rng(4).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    Image.fromarray(noise).save(target, format=container)
    return target.getvalue()


def scrambled_png() -> bytes:
    content = bytearray(encoded("PNG"))
    content[len(content) // 2 : len(content) // 2 + 100] = bytes(100)
    return bytes(content)


BAD = {
    "empty.png": (b"", FormatError, r"is empty\. Remove it"),
    "text.jpg": (b"some text\n" * 30, FormatError, r"is not a picture that Pillow can read\. Convert it to PNG"),
    "page.svg": (b"<svg xmlns='http://www.w3.org/2000/svg'/>", FormatError, r"is not a picture .*Convert it to PNG"),
    "cut.jpg": (encoded("JPEG")[:2000], FormatError, r"is damaged and cannot be decoded: .*\. Copy it again"),
    "cut.png": (encoded("PNG")[:4000], FormatError, r"is damaged and cannot be decoded: .*\. Copy it again"),
    "scrambled.png": (scrambled_png(), FormatError, r"is damaged and cannot be decoded: .*\. Copy it again"),
    "cut.gif": (encoded("GIF")[:1500], FormatError, r"is damaged and cannot be decoded: .*\. Copy it again"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_picture_raises_one_sentence_with_cure(tmp_path: Path, name: str) -> None:
    content, error, sentence = BAD[name]
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(error, match=sentence) as caught:
        read_image(path, SMALL)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_floating_point_pixels_raise(tmp_path: Path) -> None:
    path = save(tmp_path / "a.tiff", Image.fromarray(np.ones((8, 8), np.float32)))
    with pytest.raises(DataError, match=r"has floating-point pixels without a known scale\. Convert"):
        read_image(path, SMALL)


def test_missing_file_raises(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="File not found"):
        read_image(tmp_path / "a.png", SMALL)


def test_missing_pillow_raises_with_install_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = save(tmp_path / "a.png", Image.fromarray(squares()))
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    with pytest.raises(MissingExtraError, match=r"reading pictures needs .* pip install pillow$"):
        read_image(path, SMALL)


def test_module_does_not_import_pillow_or_torch() -> None:
    code = "import sys, catena.data.images; assert not {'PIL', 'torch'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.data
def test_evaluation_pictures_are_read(real_data: Path) -> None:
    for path in sorted((real_data / "images").glob("*.[jp][pn]g")):
        found = read_image(path, exact(64, 64))
        assert found.shape == (64, 64, 3)
        assert found.std() > 10
    path = next((real_data / "cifar10_small" / "train" / "cat").iterdir())
    np.testing.assert_array_equal(read_image(path, exact(32, 32)), np.asarray(Image.open(path).convert("RGB")))
