"""Pictures in and out: sizes, kinds of files, and one sentence for each bad one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from catena.data.images import image_size
from catena.errors import ConfigError, DataError, FormatError
from catena.niche.style.pictures import fit_size, open_picture, resize_picture, to_bytes, to_unit, write_picture
from tests.niche.style.networks import disk

Image = pytest.importorskip("PIL.Image")
MANY = 10**6


@pytest.mark.parametrize(
    ("size", "longest", "expected"),
    [((40, 30), 64, (40, 30)), ((400, 300), 64, (64, 48)), ((10, 1000), 50, (1, 50)), ((300, 400), 400, (300, 400))],
)
def test_fit_size_keeps_proportions_and_never_enlarges(
    size: tuple[int, int], longest: int, expected: tuple[int, int]
) -> None:
    assert fit_size(size, longest) == expected


@pytest.mark.parametrize("mode", ["RGB", "L", "RGBA", "LA", "P", "CMYK", "1"])
def test_every_kind_of_file_becomes_rgb(tmp_path: Path, mode: str) -> None:
    path = tmp_path / ("a.tiff" if mode == "CMYK" else "a.png")
    Image.fromarray(disk(40, 60)).convert(mode).save(path)
    found = open_picture(path, 30, MANY, "content")
    assert (found.shape, found.dtype) == ((20, 30, 3), np.uint8)
    assert found[10, 15].mean() > found[0, 0].mean() + 80  # the disk is lighter than the corner


def test_rotated_file_has_its_upright_size(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.fromarray(disk(40, 60)).save(tmp_path / "a.jpg", exif=exif)
    assert image_size(tmp_path / "a.jpg", MANY) == (60, 40)
    assert open_picture(tmp_path / "a.jpg", 30, MANY, "content").shape == (30, 20, 3)


def test_array_is_reduced_and_a_small_one_is_kept() -> None:
    assert open_picture(disk(40, 60), 30, MANY, "content").shape == (20, 30, 3)
    np.testing.assert_array_equal(open_picture(disk(40, 60), 60, MANY, "content"), disk(40, 60))


@pytest.mark.parametrize(
    "pixels",
    [np.zeros((4, 4), np.uint8), np.zeros((4, 4, 4), np.uint8), np.zeros((4, 4, 3)), np.zeros((0, 4, 3), np.uint8)],
)
def test_wrong_array_raises(pixels: np.ndarray) -> None:
    with pytest.raises(
        DataError, match=r"sample must be 8-bit pixels of shape \(height, width, 3\), got .* Convert it"
    ):
        open_picture(pixels, 32, MANY, "sample")  # type: ignore[arg-type]


def test_bad_files_raise(tmp_path: Path) -> None:
    Image.fromarray(disk(64, 64)).save(tmp_path / "a.png")
    whole = (tmp_path / "a.png").read_bytes()
    (tmp_path / "cut.png").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "empty.png").write_bytes(b"")
    (tmp_path / "text.png").write_text("no picture", encoding="utf-8")
    for name, message in (
        ("cut.png", "is damaged and cannot be decoded"),
        ("empty.png", "is empty. Remove it"),
        ("text.png", "is not a picture that Pillow can read"),
    ):
        with pytest.raises(FormatError, match=message):
            open_picture(tmp_path / name, 32, MANY, "content")
    with pytest.raises(DataError, match=r"must be at most 1,000, got 64 x 64. Make it smaller, or raise max_pixels."):
        open_picture(tmp_path / "a.png", 32, 1000, "content")


def test_bytes_are_clipped_and_rounded() -> None:
    np.testing.assert_array_equal(to_bytes(to_unit(disk())), disk())
    assert to_bytes(np.array([[[-0.5, 1.5, 0.4999]]])).tolist() == [[[0, 255, 127]]]


def test_resized_picture_averages_and_equal_size_is_the_same_array() -> None:
    half = np.zeros((8, 8, 3), np.uint8)
    half[:, ::2] = 200
    assert np.abs(resize_picture(half, (2, 2)).astype(int) - 100).max() < 15
    assert resize_picture(half, (8, 8)) is half


def test_written_picture_is_read_again_and_the_ending_is_checked(tmp_path: Path) -> None:
    write_picture(disk(), tmp_path / "a.PNG")
    np.testing.assert_array_equal(np.asarray(Image.open(tmp_path / "a.PNG")), disk())
    with pytest.raises(ConfigError, match=r"The output must end in .png, .jpg or another .*, got 'a.txt'. Use .png."):
        write_picture(disk(), tmp_path / "a.txt")
    assert [path.name for path in tmp_path.iterdir()] == ["a.PNG"]
