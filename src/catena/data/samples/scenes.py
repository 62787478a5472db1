"""Drawn pictures of two colored shapes with captions, as sample data for describing pictures.

Each picture has one shape in its left half and one in its right half, and two captions: one names the left shape first
and one the right shape. Everything is computed from a seed; nothing is stored.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import UInt8

from catena.data.samples.shapes import SHAPES, SUPERSAMPLING, fill_shape, turned_grid
from catena.extras import require
from catena.randomness import Randomness

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
