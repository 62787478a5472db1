"""Saving pictures: atomic writes, SVG and PNG, and the install command if PNG support is missing."""

from __future__ import annotations

import builtins
import sys

import pytest

from catena.draw.picture import Picture
from catena.draw.png import png_bytes, to_png
from catena.draw.tree import draw_tree
from catena.errors import DataError, MissingExtraError

PICTURE = draw_tree(("S", ("NP", "dogs"), ("VP", "bark")))


def test_svg_is_saved_unchanged_and_folders_are_created(tmp_path):
    path = PICTURE.save(tmp_path / "new" / "tree.svg")
    assert path.read_text(encoding="utf-8") == PICTURE.svg
    assert [file.name for file in path.parent.iterdir()] == ["tree.svg"]
    assert PICTURE.save(str(tmp_path / "a.SVG")).exists()


def test_failed_write_leaves_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = PICTURE.save(tmp_path / "tree.svg")
    monkeypatch.setattr("catena.files.os.replace", lambda *_: (_ for _ in ()).throw(OSError("full")))
    with pytest.raises(OSError, match="full"):
        Picture("<svg/>").save(path)
    assert path.read_text(encoding="utf-8") == PICTURE.svg
    assert len(list(tmp_path.iterdir())) == 1


def test_other_extensions_raise(tmp_path):
    with pytest.raises(DataError, match=r"path must end in \.svg or \.png, got 'tree.pdf'"):
        PICTURE.save(tmp_path / "tree.pdf")


def test_pictures_are_frozen():
    with pytest.raises(AttributeError):
        PICTURE.svg = ""  # type: ignore[misc]


def test_missing_extra_error_shows_install_command(monkeypatch, tmp_path):
    monkeypatch.delitem(sys.modules, "resvg_py", raising=False)
    original = builtins.__import__

    def missing(name, *arguments, **options):
        if name == "resvg_py":
            raise ModuleNotFoundError("No module named 'resvg_py'", name="resvg_py")
        return original(name, *arguments, **options)

    monkeypatch.setattr("catena.extras.importlib.import_module", missing)
    with pytest.raises(MissingExtraError, match=r"drawing PNG files needs .* pip install resvg-py"):
        PICTURE.save(tmp_path / "tree.png")
    assert list(tmp_path.iterdir()) == []


def size_of(png: bytes) -> tuple[int, int]:
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    return int.from_bytes(png[16:20]), int.from_bytes(png[20:24])


def test_png_has_requested_size(tmp_path):
    pytest.importorskip("resvg_py")
    width, height = size_of(png_bytes(PICTURE.svg, scale=1))
    assert size_of(PICTURE.save(tmp_path / "tree.png").read_bytes()) == pytest.approx((2 * width, 2 * height), abs=2)
    assert size_of(to_png(PICTURE.svg, tmp_path / "b.png", scale=0.5).read_bytes())[0] == pytest.approx(
        width / 2, abs=1
    )


def test_png_comes_in_light_and_dark():
    pytest.importorskip("resvg_py")
    assert png_bytes(PICTURE.svg) != png_bytes(PICTURE.svg, dark=True)


def test_png_that_cannot_be_rendered_raises():
    pytest.importorskip("resvg_py")
    with pytest.raises(DataError, match="scale must be positive, got -1"):
        png_bytes(PICTURE.svg, scale=-1)
    with pytest.raises(DataError, match=r"at most 100,000,000 pixels, got .* Use a smaller scale, or save it as \.svg"):
        png_bytes(PICTURE.svg, scale=1000)
    with pytest.raises(DataError, match="The SVG could not be rendered as PNG"):
        png_bytes("<svg")
