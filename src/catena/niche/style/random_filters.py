r"""A network without training: one layer of random filters of several sizes, each followed by a ReLU.

Its Gram matrices describe textures about as well as those of VGG, because filters of many sizes cover many
scales (Ustyuzhaninov et al. 2017: eight sizes from 3 to 55 pixels, 128 filters each). Pixels are centered first. Large
filters are applied by the Fourier transform: time O(n_filters height width log(height width)) for every size of filter.

Tested in tests/niche/style/test_random_filters.py against loops over positions.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import torch
from jaxtyping import Complex, Float
from torch import Tensor
from torch.nn import functional as F

from catena.encoders.image_features import ImageFeatures, PaddingName, pad_borders
from catena.errors import ConfigError
from catena.randomness import Randomness

FILTER_SIZES = (3, 5, 7, 11, 15, 23, 37, 55)
CENTER, DEVIATION = 0.45, 0.225
"""Mean and deviation of the pixels of photographs, on the scale from 0 to 1."""
_DIRECT = 11
"""Filters up to this size are applied directly, which is faster than the Fourier transform."""
_STORED_BYTES = 500_000_000
"""Largest memory of stored Fourier transforms of filters."""


class RandomFilters(ImageFeatures):
    """Feature maps of random filters. The layer ``random7`` has the filters of 7 x 7 pixels.

    Args:
        sizes: heights and widths of the filters, odd.
        n_filters: number of filters of each size.
        seed: seed of the filters.
    """

    def __init__(self, sizes: Sequence[int] = FILTER_SIZES, n_filters: int = 128, seed: int = 0) -> None:
        super().__init__()
        if not sizes or any(size < 1 or size % 2 == 0 for size in sizes):
            raise ConfigError(f"sizes must be odd and positive, got {tuple(sizes)}. Use (3, 7, 15), for example.")
        self.sizes = {f"random{size}": size for size in sorted(set(sizes))}
        self._spectra: dict[tuple[object, ...], Tensor] = {}
        self.names = tuple(self.sizes)
        for name, size in self.sizes.items():
            generator = Randomness(seed).torch("filters", size)
            filters = torch.randn(n_filters, 3, size, size, generator=generator)
            self.register_buffer(name, filters / filters.flatten(1).norm(dim=1)[:, None, None, None])

    def compute(
        self, x: Float[Tensor, "b 3 height width"], layers: Collection[str], padding: PaddingName
    ) -> dict[str, Tensor]:
        x = (x - CENTER) / DEVIATION
        return {name: F.relu(self._filter(x, name, padding)) for name in self.names if name in layers}

    def stride(self, layer: str) -> int:
        return 1

    def radius(self, layers: Collection[str]) -> int:
        return self.sizes[self.last(layers)] // 2

    def min_side(self, layers: Collection[str], padding: PaddingName) -> int:
        return self.radius(layers) + 1

    def _filter(self, x: Tensor, name: str, padding: PaddingName) -> Tensor:
        filters = self.get_buffer(name)
        size = self.sizes[name]
        padded = pad_borders(x, size // 2, padding)
        if size <= _DIRECT:
            return F.conv2d(padded, filters)
        return correlate_by_fft(padded, self._spectrum(name, padded), size)

    def _spectrum(self, name: str, x: Tensor) -> Tensor:
        """The Fourier transform of the filters of a layer at the size of ``x``; small ones are stored."""
        filters = self.get_buffer(name)
        key = (name, x.shape[-2:], filters.device, filters.dtype)
        if key in self._spectra:
            return self._spectra[key]
        spectrum = transform_filters(filters, (x.shape[-2], x.shape[-1]))
        if sum(one.nbytes for one in [spectrum, *self._spectra.values()]) <= _STORED_BYTES:
            self._spectra[key] = spectrum
        return spectrum


def transform_filters(filters: Float[Tensor, "n c _ _"], size: tuple[int, int]) -> Complex[Tensor, "n c _ _"]:
    """The conjugate of the Fourier transform of filters, padded to a height and width."""
    return torch.fft.rfft2(filters, s=size).conj().resolve_conj()


def correlate_by_fft(
    x: Float[Tensor, "b c height width"], spectrum: Complex[Tensor, "n c height _"], size: int
) -> Float[Tensor, "b n rows columns"]:
    """The same as ``conv2d`` with filters of ``size`` x ``size`` pixels, given :func:`transform_filters` of them."""
    height, width = x.shape[-2:]
    product = torch.einsum("bcyx,ncyx->bnyx", torch.fft.rfft2(x), spectrum)
    return torch.fft.irfft2(product, s=(height, width))[..., : height - size + 1, : width - size + 1]
