"""Batches of decoded pictures and sounds on a device.

Arrays that fit are moved to the device once, so that a batch is one indexing operation there and a GPU never waits for
the disk; larger ones stay where they are, and each batch is copied. Tested in tests/data/test_media.py.
"""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float, Int, Shaped, UInt8
from torch import Tensor

from catena.data.media import DecodedImages

MAX_DEVICE_FRACTION = 0.3
"""Largest fraction of the free memory of a GPU that stored pictures take."""


class RowStore:
    """Rows of an array from which batches are taken.

    Args:
        array: the rows.
        device: where batches are needed.
        max_bytes: store the array on the device if it is not larger; 30 % of its free memory if None.
    """

    def __init__(self, array: np.ndarray, device: torch.device | str, max_bytes: int | None = None) -> None:
        self.device = torch.device(device)
        self._array = array
        limit = _free_bytes(self.device) if max_bytes is None else max_bytes
        self._stored: Tensor | None = None
        if self.device.type != "cpu" and array.nbytes <= limit:
            self._stored = torch.from_numpy(np.ascontiguousarray(array)).to(self.device)

    @property
    def is_on_device(self) -> bool:
        """Whether all rows are stored on the device."""
        return self._stored is not None

    def take(self, rows: Int[np.ndarray, " b"]) -> Shaped[Tensor, "b ..."]:
        """These rows, on the device."""
        if self._stored is not None:
            return self._stored[torch.from_numpy(rows).to(self.device)]
        taken = torch.from_numpy(self._array[rows])
        if self.device.type != "cuda":
            return taken.to(self.device)
        return taken.pin_memory().to(self.device, non_blocking=True)


class ImageStore(RowStore):
    """Pictures from which batches are taken.

    Args:
        images: the decoded pictures.
        device: where batches are needed.
        max_bytes: store the pictures on the device if they are not larger; 30 % of its free memory if None.
    """

    def __init__(self, images: DecodedImages, device: torch.device | str, max_bytes: int | None = None) -> None:
        super().__init__(images.pixels, device, max_bytes)
        self._files = images.files

    def __len__(self) -> int:
        return len(self._files)

    def batch(self, indices: Int[np.ndarray, " b"]) -> UInt8[Tensor, "b height width 3"]:
        """The pictures of these indices, from 0 to ``len(self) - 1``, on the device."""
        return self.take(self._files[indices])


class FeatureStore:
    """Feature vectors of sounds, from which padded batches are taken.

    Args:
        features: ``features[i]`` are the vectors of sound i.
        device: where they are stored and batches are needed.
    """

    def __init__(self, features: list[Float[Tensor, "_ d"]], device: torch.device | str = "cpu") -> None:
        self.lengths = torch.tensor([len(x) for x in features], device=device)
        self.flat = torch.cat(features).to(device)
        self._starts = self.lengths.cumsum(0) - self.lengths

    def __len__(self) -> int:
        return len(self.lengths)

    def batch(self, indices: Int[Tensor, " b"]) -> tuple[Float[Tensor, "b t d"], Int[Tensor, " b"]]:
        """The vectors of these sounds, padded with zeros at the end, and their lengths."""
        lengths = self.lengths[indices]
        steps = torch.arange(int(lengths.max()), device=lengths.device)
        positions = self._starts[indices][:, None] + steps
        x = self.flat[positions.clamp(max=len(self.flat) - 1)]
        return x.masked_fill((steps >= lengths[:, None])[..., None], 0.0), lengths


def _free_bytes(device: torch.device) -> int:
    if device.type != "cuda":
        return 0
    return int(MAX_DEVICE_FRACTION * torch.cuda.mem_get_info(device)[0])
