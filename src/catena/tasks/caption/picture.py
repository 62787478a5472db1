"""The attention of captions over pictures, as a drawing and as text."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
from jaxtyping import Float, UInt8

from catena.data.images import read_image
from catena.data.media_config import ImageConfig
from catena.draw.overlay import draw_overlay
from catena.draw.picture import Picture
from catena.draw.text import clean
from catena.errors import DataError
from catena.seq2seq.caption import CaptionModel, GridReader
from catena.seq2seq.caption_config import FeatureEncoderConfig
from catena.tasks.caption.config import CaptionConfig
from catena.tasks.caption.predict import CaptionPrediction

_SHADES = " ░▒▓█"
_SIDE = 128
"""Longer side of the picture in a drawing, in pixels."""
_LINE = 100
"""Number of characters in a line of text."""


def draw_attention(prediction: CaptionPrediction, model: CaptionModel, config: CaptionConfig) -> Picture:
    """The picture, and a copy for each word whose brightness shows where it attends to."""
    maps, pixels = _maps(prediction, model, config), _read_pixels(config, Path(prediction.file))
    return draw_overlay(pixels, maps, prediction.tokens, title=prediction.caption)


def sketch_attention(prediction: CaptionPrediction, model: CaptionModel, config: CaptionConfig) -> str:
    """The caption, and below each word a grid of shades."""
    maps = _maps(prediction, model, config)
    shades = np.minimum(maps / maps.max(axis=(1, 2), keepdims=True) * len(_SHADES), len(_SHADES) - 1).astype(int)
    width = max(2 * maps.shape[2], *(len(word) for word in prediction.tokens))
    panels = [
        [clean(word).ljust(width), *("".join(2 * _SHADES[k] for k in row).ljust(width) for row in grid.tolist())]
        for word, grid in zip(prediction.tokens, shades, strict=True)
    ]
    lines = [f"{Path(prediction.file).name}: {prediction.caption}"]
    each = max(1, _LINE // (width + 2))
    for low in range(0, len(panels), each):
        lines += ["", *("  ".join(parts).rstrip() for parts in zip(*panels[low : low + each], strict=True))]
    return "\n".join(lines)


def _maps(
    prediction: CaptionPrediction, model: CaptionModel, config: CaptionConfig
) -> Float[np.ndarray, "t rows columns"]:
    """The attention of each word as a grid."""
    if not prediction.tokens or prediction.attention is None:
        raise DataError(f"The caption of {prediction.file} is empty, so there is nothing to draw. Use another picture.")
    n = prediction.attention.shape[1]
    if isinstance(model.pictures, GridReader):
        rows = model.pictures.grid[0]
    else:
        assert isinstance(config.model.encoder, FeatureEncoderConfig)
        rows = config.model.encoder.n_rows or math.isqrt(n)
        if n % rows or (not config.model.encoder.n_rows and rows * rows != n):
            raise DataError(f"n_rows must divide the {n} positions of a picture, got {rows}. Set n_rows in training.")
    return prediction.attention.reshape(-1, rows, n // rows).astype(np.float64)


def _read_pixels(config: CaptionConfig, path: Path) -> UInt8[np.ndarray, "height width 3"]:
    """The picture as the encoder sees it, in a size for a drawing; gray if only its features exist."""
    if not path.is_file():
        return np.full((_SIDE, _SIDE, 3), 160, np.uint8)
    own = config.model.input if config.data.features is None else ImageConfig(height=_SIDE, width=_SIDE, fit="stretch")
    scale = _SIDE / max(own.height, own.width)
    size = {"height": round(own.height * scale), "width": round(own.width * scale)}
    return read_image(path, own.model_copy(update=size))
