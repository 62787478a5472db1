"""Batches of pictures for a network, and the search for captions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, UInt8

from catena.data.augment import to_unit_scale
from catena.data.images import read_image
from catena.data.media_config import ImageConfig
from catena.draw.overlay import draw_overlay
from catena.draw.picture import Picture
from catena.draw.text import clean
from catena.errors import DataError
from catena.search.config import BaseSearchConfig
from catena.search.hypothesis import Hypothesis
from catena.seq2seq.base import Source
from catena.seq2seq.caption import CaptionModel, GridReader, PictureSource
from catena.seq2seq.caption_config import FeatureEncoderConfig
from catena.tasks.caption.config import CaptionConfig, CaptionOptions
from catena.tasks.caption.data import CaptionEncoding, CaptionExample
from catena.tasks.caption.predict import CaptionPrediction
from catena.tasks.text_search import HypothesisDetails, SearchModel, TextSearch
from catena.tasks.translate.config import OutputTextConfig


@dataclass(frozen=True, eq=False)
class EncodedPicture:
    """The pixels (height, width, 3) or features (positions, d) of a picture, and its number of positions."""

    content: np.ndarray
    n_positions: int

    def __len__(self) -> int:
        return self.n_positions


@dataclass(frozen=True, eq=False)
class CaptionNetwork(SearchModel[EncodedPicture]):
    """A network of an ensemble."""

    network: CaptionModel

    def code(self, content: np.ndarray) -> EncodedPicture:
        """An encoded picture."""
        reads_pixels = isinstance(self.network.pictures, GridReader)
        return EncodedPicture(content, self.network.n_positions if reads_pixels else len(content))

    def batch(self, sources: Sequence[EncodedPicture]) -> Source:
        return build_source(self.network, [one.content for one in sources])


def build_source(network: CaptionModel, contents: Sequence[np.ndarray]) -> PictureSource:
    """A batch of pictures on the device of a network, padded if their numbers of features differ."""
    device = network.device
    if isinstance(network.pictures, GridReader):
        return pixel_source(network, to_unit_scale(torch.from_numpy(np.stack(contents)).to(device)))
    lengths = torch.tensor([len(one) for one in contents])
    padded = np.zeros((len(contents), int(lengths.max()), contents[0].shape[1]), contents[0].dtype)
    for row, one in zip(padded, contents, strict=True):
        row[: len(one)] = one
    return PictureSource.build(torch.from_numpy(padded).to(device), lengths.to(device), padded.shape[1])


def pixel_source(network: CaptionModel, pixels: torch.Tensor) -> PictureSource:
    """A batch of pictures with values from 0 to 1."""
    n = network.n_positions
    return PictureSource.build(pixels, torch.full((len(pixels),), n, device=pixels.device), n)


class CaptionSearch(TextSearch[EncodedPicture]):
    """Searches for captions with one or more networks that have the same vocabulary."""

    def __init__(self, networks: Sequence[CaptionModel], encoding: CaptionEncoding, max_length: int) -> None:
        self.networks, self.encoding = [CaptionNetwork(network) for network in networks], encoding
        # The number of positions says nothing about the length of a caption.
        super().__init__(self.networks, encoding.target, OutputTextConfig(extra=max_length))

    def describe(
        self, examples: Sequence[CaptionExample], config: BaseSearchConfig, options: CaptionOptions
    ) -> list[list[CaptionPrediction]]:
        """The captions of each picture, best first."""
        coded = [[network.code(example.content) for network in self.networks] for example in examples]
        constraints = [example.constraints or options.constraints() for example in examples]
        found = self.search(coded, config, constraints, options.seed)
        rows = [(i, one) for i, listed in enumerate(found) for one in listed]
        details: list[HypothesisDetails | None] = [None] * len(rows)
        if options.scores or options.attention:
            sources, own = [coded[i] for i, _ in rows], [constraints[i] for i, _ in rows]
            details = list(self.details(sources, [one for _, one in rows], own, options.attention))
        ranked: list[list[CaptionPrediction]] = [[] for _ in examples]
        for (i, one), detail in zip(rows, details, strict=True):
            ranked[i].append(self._prediction(str(examples[i].path), one, detail, options))
        return ranked

    def _prediction(
        self, file: str, one: Hypothesis, details: HypothesisDetails | None, options: CaptionOptions
    ) -> CaptionPrediction:
        tokens = tuple(map(self.encoding.tokenizer.shown, self.encoding.vocabulary.tokens(one.ids)))
        made = CaptionPrediction(file, self.encoding.text(one.ids), tokens, one.log_prob, one.score, not one.finished)
        if details is None:
            return made
        if options.scores:
            made = replace(made, log_probs=details.log_probs[: len(tokens) + one.finished])
        if options.attention:
            made = replace(made, attention=details.attention[0][0, : len(tokens)])
        return made


# --- attention over pictures ------------------------------------------------------------------------------------------


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
