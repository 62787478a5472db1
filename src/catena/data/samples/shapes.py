"""Drawn pictures of four shapes: one shape to classify, or two with captions to describe.

A picture of one shape has it in random color, size, position and rotation on a background of another color, with noise.
A scene has one shape in its left half and one in its right half, and two captions: one names the left shape first and
one the right shape. Everything is computed from a seed; nothing is stored.

Tested in tests/data/test_media_samples.py and tests/tasks/caption/test_task.py.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, UInt8

from catena.extras import require
from catena.randomness import Randomness

SHAPES = ("circle", "cross", "square", "triangle")
SUPERSAMPLING = 4
"""Points in each direction for one pixel, so that edges are smooth."""


def draw_shapes(n: int, size: int = 32, seed: int = 0) -> tuple[UInt8[np.ndarray, "n size size 3"], list[str]]:
    """``n`` pictures of ``size`` x ``size`` pixels and their labels, in which all shapes are equally frequent."""
    labels = [SHAPES[i % len(SHAPES)] for i in range(n)]
    pictures = [_draw_shape(label, size, Randomness(seed).numpy("shapes", i)) for i, label in enumerate(labels)]
    return np.stack(pictures), labels


def write_shapes(folder: Path | str, n: int, size: int = 32, seed: int = 0) -> None:
    """Write ``n`` pictures as PNG files, in one subfolder for each label."""
    image = require("PIL.Image", "vision", "writing pictures")
    for i, (pixels, label) in enumerate(zip(*draw_shapes(n, size, seed), strict=True)):
        path = Path(folder) / label / f"{i:05d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        image.fromarray(pixels).save(path)


def _draw_shape(label: str, size: int, rng: np.random.Generator) -> UInt8[np.ndarray, "size size 3"]:
    radius = rng.uniform(0.25, 0.4)
    center = rng.uniform(radius, 1 - radius, 2)
    inside = fill_shape(label, turned_grid(size, center, radius, rng.uniform(0, 2 * np.pi)))
    cover = inside.reshape(size, SUPERSAMPLING, size, SUPERSAMPLING).mean(axis=(1, 3))[..., None]
    front, back = _choose_colors(rng)
    pixels = cover * front + (1 - cover) * back + rng.normal(0, 12, (size, size, 3))
    return np.clip(pixels, 0, 255).astype(np.uint8)


def turned_grid(
    size: int, center: Float[np.ndarray, " 2"], radius: float, angle: float
) -> tuple[Float[np.ndarray, "m m"], Float[np.ndarray, "m m"]]:
    """The coordinates of all points relative to the shape, which has radius 1 and is upright."""
    points = (np.arange(size * SUPERSAMPLING) + 0.5) / (size * SUPERSAMPLING)
    y, x = np.meshgrid(points - center[0], points - center[1], indexing="ij")
    return (np.cos(angle) * x + np.sin(angle) * y) / radius, (np.cos(angle) * y - np.sin(angle) * x) / radius


def fill_shape(label: str, grid: tuple[Float[np.ndarray, "m m"], Float[np.ndarray, "m m"]]) -> Bool[np.ndarray, "m m"]:
    """The points inside of a shape of radius 1."""
    x, y = grid
    if label == "circle":
        return x**2 + y**2 < 0.8
    if label == "square":
        return np.maximum(np.abs(x), np.abs(y)) < 0.75
    if label == "cross":
        return (np.minimum(np.abs(x), np.abs(y)) < 0.22) & (np.maximum(np.abs(x), np.abs(y)) < 0.95)
    return (y > -0.5) & (np.sqrt(3) * np.abs(x) < 1 - y)


def _choose_colors(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Two colors that differ clearly."""
    while True:
        front, back = rng.uniform(0, 255, (2, 3))
        if np.abs(front - back).sum() > 200:
            return front, back


# --- scenes -----------------------------------------------------------------------------------------------------------


COLORS = {"red": (220, 40, 40), "green": (40, 170, 60), "blue": (50, 80, 220), "yellow": (240, 210, 40)}


class Scene(NamedTuple):
    """A picture and its captions."""

    pixels: UInt8[np.ndarray, "size size 3"]
    captions: tuple[str, str]


def draw_scene(i: int, size: int = 32, seed: int = 0) -> Scene:
    """Scene ``i`` of a seed, with ``size`` x ``size`` pixels."""
    rng = Randomness(seed).numpy("scenes", i)
    pixels: np.ndarray = np.full((size, size, 3), 235.0)
    names = []
    for middle in (0.27, 0.73):
        shape, color = str(rng.choice(SHAPES)), str(rng.choice(list(COLORS)))
        center = np.array([rng.uniform(0.3, 0.7), middle])
        inside = fill_shape(shape, turned_grid(size, center, rng.uniform(0.2, 0.25), 0.0))
        cover = inside.reshape(size, SUPERSAMPLING, size, SUPERSAMPLING).mean(axis=(1, 3))[..., None]
        pixels = cover * np.array(COLORS[color]) + (1 - cover) * pixels
        names.append(f"a {color} {shape}")
    left, right = names
    noisy = np.clip(pixels + rng.normal(0, 6, pixels.shape), 0, 255).astype(np.uint8)
    return Scene(noisy, (f"{left} and {right}", f"{right} and {left}"))


def write_scenes(folder: Path | str, n: int, size: int = 32, seed: int = 0) -> Path:
    """Write ``n`` pictures as PNG files, and their captions as ``captions.tsv``, whose path is returned."""
    image = require("PIL.Image", "vision", "writing pictures")
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    lines = ["image\tcaption"]
    for i in range(n):
        scene, name = draw_scene(i, size, seed), f"{i:05d}.png"
        image.fromarray(scene.pixels).save(folder / name)
        lines += [f"{name}\t{caption}" for caption in scene.captions]
    (folder / "captions.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder / "captions.tsv"
