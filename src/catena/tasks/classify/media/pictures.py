"""Classification of pictures as a task."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import UInt8
from torch import Tensor

from catena.data.augment import N_IMAGE_UNIFORMS, augment_images, to_unit_scale
from catena.data.media import DecodedImages, decode_images
from catena.data.media_batches import ImageStore
from catena.data.reading import ReadCounter
from catena.encoders.images import ImageNetwork
from catena.extras import require
from catena.randomness import Randomness
from catena.tasks.classify.config import ClassifyConfig
from catena.tasks.classify.media.data import MediaRows
from catena.tasks.classify.media.task import MediaBatch, MediaEncoding, MediaNetwork, MediaTask
from catena.tasks.classify.media_config import PictureClassifierConfig
from catena.tasks.config import model_section

if TYPE_CHECKING:
    from catena.tasks.baselines.fitting import BaselineSuite


class PictureTask(MediaTask):
    """A classifier of pictures."""

    media = "picture"

    def __init__(self, config: ClassifyConfig, encoding: MediaEncoding, network: MediaNetwork) -> None:
        super().__init__(config, encoding, network)
        self._store: tuple[MediaRows, ImageStore] | None = None

    @classmethod
    def decode_files(
        cls, config: ClassifyConfig, paths: Sequence[Path], counter: ReadCounter, *, use_cache: bool = False
    ) -> tuple[Any, np.ndarray, np.ndarray]:
        require("PIL.Image", "vision", "reading pictures")
        cache = Path(config.data.cache) if use_cache and config.data.cache else None
        images = decode_images(paths, model_section(config, PictureClassifierConfig).input, counter, cache=cache)
        return images.pixels, images.files, images.files

    @classmethod
    def build_network(
        cls, config: ClassifyConfig, encoding: MediaEncoding, report: list[str] | None = None
    ) -> MediaNetwork:
        model = model_section(config, PictureClassifierConfig)
        return MediaNetwork(ImageNetwork(model.encoder, (model.input.height, model.input.width), len(encoding.names)))

    def baselines(self) -> BaselineSuite:
        from catena.tasks.classify.baselines import PictureSuite

        return PictureSuite(self)

    def fit_norm(self, rows: MediaRows) -> None:
        images = DecodedImages(_as_array(rows), _indices(rows))
        self._images.norm.set(*map(torch.tensor, images.statistics()))

    @property
    def _images(self) -> ImageNetwork:
        return self._network.network  # type: ignore[return-value]

    def load_batch(self, rows: MediaRows, index: np.ndarray) -> MediaBatch:
        pixels = np.stack([rows.contents[i] for i in rows.rows[index].tolist()])
        return MediaBatch(to_unit_scale(torch.from_numpy(pixels).to(self.device)))

    def augment_batch(self, rows: MediaRows, index: np.ndarray, epoch: int, randomness: Randomness) -> MediaBatch:
        indices = torch.from_numpy(index).to(self.device)
        uniforms = randomness.uniforms("augment", epoch, indices, N_IMAGE_UNIFORMS)
        config = model_section(self.config, PictureClassifierConfig).augmentation
        return MediaBatch(augment_images(self._load_pixels(rows, index), uniforms, config, self._images.norm.mean))

    def _load_pixels(self, rows: MediaRows, index: np.ndarray) -> UInt8[Tensor, "b height width 3"]:
        """Training pictures, from the memory of the GPU if they fit there."""
        if self._store is None or self._store[0] is not rows:
            images = DecodedImages(_as_array(rows), _indices(rows))
            self._store = rows, ImageStore(images, self.device)
        return self._store[1].batch(index)


def _as_array(rows: MediaRows) -> np.ndarray:
    """The pixels of all pictures of the dataset; of given examples, only those of these rows."""
    if isinstance(rows.contents, np.ndarray):
        return rows.contents
    return np.stack([rows.contents[i] for i in rows.rows.tolist()])


def _indices(rows: MediaRows) -> np.ndarray:
    """The indices of these pictures in :func:`_as_array`."""
    return rows.rows if isinstance(rows.contents, np.ndarray) else np.arange(len(rows))
