"""Maps over a picture: interpolation by hand, brightness in proportion, and the bytes of the images."""

from __future__ import annotations

import base64
import io
import re

import numpy as np
import pytest

from catena.draw.overlay import draw_overlay, enlarge, shade
from catena.draw.png import encode_png, png_bytes
from catena.errors import DataError, ShapeError

PIXELS = np.random.default_rng(0).integers(0, 256, (8, 12, 3), dtype=np.uint8)


def test_png_has_the_pixels() -> None:
    image = pytest.importorskip("PIL.Image")
    assert np.array_equal(np.asarray(image.open(io.BytesIO(encode_png(PIXELS)))), PIXELS)


def test_enlarged_grid_interpolates_between_centers() -> None:
    values = np.array([[0.0, 4.0], [8.0, 12.0]])
    assert enlarge(values, 2, 2).tolist() == values.tolist()
    assert enlarge(values, 2, 4)[0].tolist() == [0.0, 1.0, 3.0, 4.0]
    assert enlarge(values, 4, 2)[:, 1].tolist() == [4.0, 6.0, 10.0, 12.0]
    assert enlarge(values, 5, 5)[2, 2] == 6.0
    assert enlarge(np.array([[3.0]]), 2, 3).tolist() == [[3.0] * 3] * 2


def test_most_attended_part_keeps_its_brightness() -> None:
    white = np.full((4, 4, 3), 200, np.uint8)
    shaded = shade(white, np.array([[0.6, 0.0], [0.3, 0.0]]))
    assert shaded[0, 0].tolist() == [200] * 3
    assert shaded[0, 3].tolist() == [40] * 3
    assert 40 < shaded[3, 0, 0] < 200
    assert (shade(white, np.zeros((2, 2))) == 40).all()


def test_overlay_has_a_panel_for_the_picture_and_each_word() -> None:
    maps = np.zeros((2, 2, 3))
    maps[0, 1, 2] = maps[1, 0, 0] = 0.9
    svg = draw_overlay(PIXELS, maps, ["dog", "snow"], title="dog snow").svg
    images = [base64.b64decode(data) for data in re.findall(r"base64,([\w+/=]+)", svg)]
    assert images == [encode_png(x) for x in (PIXELS, shade(PIXELS, maps[0]), shade(PIXELS, maps[1]))]
    assert "dog: most at row 2, column 3 (.9)" in svg.replace(".90)", ".9)")
    assert svg.index("dog: most") < svg.index("snow: most at row 1, column 1")


def test_overlay_can_be_rendered() -> None:
    image = pytest.importorskip("PIL.Image")
    pytest.importorskip("resvg_py")
    red = np.zeros((4, 4, 3), np.uint8)
    red[..., 0] = 250
    png = png_bytes(draw_overlay(red, np.ones((1, 1, 1)), ["x"]).svg, 1)
    pixels = np.asarray(image.open(io.BytesIO(png)).convert("RGB"))
    assert (pixels == [250, 0, 0]).all(axis=-1).sum() > 2 * 100 * 100


def test_wrong_maps_raise() -> None:
    with pytest.raises(ShapeError, match="maps must have shape"):
        draw_overlay(PIXELS, np.ones((2, 1, 1)), ["x"])
    with pytest.raises(DataError, match="maps must be finite and not negative"):
        draw_overlay(PIXELS, -np.ones((1, 1, 1)), ["x"])
    with pytest.raises(DataError, match="nothing to draw"):
        draw_overlay(PIXELS, np.ones((0, 1, 1)), [])
