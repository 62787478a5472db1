r"""Two-dimensional convolution over time and frequency, followed by an encoder over time.

.. math::  y^{l+1}_{t, m, c} = \mathrm{relu}\Big(\mathrm{norm}\Big(\sum_{i, j, c'} K^l_{ijc'c}\,
           y^l_{t + i, s m + j, c'}\Big)\Big), \qquad i, j \in \{-1, 0, 1\}

with stride s = 2 over the mel bands and 1 over time. A voice with a shorter vocal tract moves the spectrum upward; the
same filters find it there, which layers over the whole vector of a frame have to learn band by band. The features of
all bands and channels of a frame are then one vector for the inner encoder. With ``causal`` the window over time ends
at its own frame. Abdel-Hamid et al. 2014. Time O(t m c²) for each layer. Tested in tests/encoders/test_spectrogram.py.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from catena.encoders.base import Encoder
from catena.encoders.causal import CausalEncoder, CausalState
from catena.encoders.layers import Norm, build_norm

_WINDOW = 3
_STRIDE = 2


class SpectralLayer(nn.Module):
    """One convolution over time and bands with batch normalization and a ReLU; halves the number of bands."""

    def __init__(self, c_in: int, c_out: int, causal: bool) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(c_in, c_out, _WINDOW, stride=(1, _STRIDE), padding=(0, 1), bias=False)
        self.norm: Norm = build_norm("batch", c_out)
        self.before = _WINDOW - 1 if causal else _WINDOW // 2

    def forward(self, x: Float[Tensor, "b c t m"], mask: Bool[Tensor, "b t"]) -> Float[Tensor, "b c_out t m_out"]:
        """``x`` is 0 at padding, and so is the output."""
        return self.activate(F.pad(x, (0, 0, self.before, _WINDOW - 1 - self.before)), mask)

    def activate(self, x: Float[Tensor, "b c s m"], mask: Bool[Tensor, "b t"]) -> Float[Tensor, "b c_out t m_out"]:
        """The outputs of the frames of ``mask``; ``x`` also has the frames that the window needs around them."""
        y = self.convolution(x).permute(0, 2, 3, 1)  # b t m c
        b, t, m, c = y.shape
        real = mask[..., None].expand(b, t, m)
        y = self.norm(y.reshape(b, t * m, c), real.reshape(b, t * m)).reshape(b, t, m, c)
        return F.relu(y).masked_fill(~real[..., None], 0.0).permute(0, 3, 1, 2)


class Spectrogram(CausalEncoder):
    """Spectral layers, and an encoder that reads their features.

    Args:
        d_in: number of mel bands.
        layers: the spectral layers.
        inner: reads vectors of ``layers``' channels times the remaining bands.
    """

    def __init__(self, d_in: int, layers: Sequence[SpectralLayer], inner: Encoder) -> None:
        super().__init__()
        self.d_in, self.d_out = d_in, inner.d_out
        self.layers = nn.ModuleList(layers)
        self.inner = inner
        causal = all(layer.before == _WINDOW - 1 for layer in layers)
        self.looks_ahead = not causal or not isinstance(inner, CausalEncoder) or inner.looks_ahead
        self._sizes = _list_sizes(d_in, layers)

    @property
    def context(self) -> tuple[int, int] | None:
        """The number of frames before and after its own that an output depends on; None if there is no limit."""
        inner = getattr(self.inner, "context", None)
        if inner is None:
            return None
        before = sum(layer.before for layer in self._spectral())
        after = sum(_WINDOW - 1 - layer.before for layer in self._spectral())
        return before + inner[0], after + inner[1]

    def encode(
        self, x: Float[Tensor, "b t d_in"], lengths: Int[Tensor, " b"], mask: Bool[Tensor, "b t"]
    ) -> Float[Tensor, "b t d_out"]:
        y = x[:, None]
        for layer in self.layers:
            y = layer(y, mask)
        return self.inner(_join_bands(y), lengths)

    def begin(self, b: int, device: torch.device, dtype: torch.dtype) -> CausalState:
        self.check_causal()
        tails = tuple(torch.zeros(b, c, _WINDOW - 1, m, device=device, dtype=dtype) for c, m in self._sizes)
        return tails, self._causal_inner().begin(b, device, dtype)

    def continue_(
        self, x: Float[Tensor, "b t d_in"], state: CausalState
    ) -> tuple[Float[Tensor, "b t d_out"], CausalState]:
        tails, inner = state
        mask = x.new_ones(x.shape[:2], dtype=torch.bool)
        y, after = x[:, None], []
        for layer, tail in zip(self._spectral(), tails, strict=True):
            joined = torch.cat((tail, y), dim=2)
            after.append(joined[:, :, joined.shape[2] - tail.shape[2] :])
            y = layer.activate(joined, mask)
        z, inner = self._causal_inner().continue_(_join_bands(y), inner)
        return z, (tuple(after), inner)

    def select(self, state: CausalState, rows: Int[Tensor, " m"]) -> CausalState:
        return tuple(tail[rows] for tail in state[0]), self._causal_inner().select(state[1], rows)

    def join(self, states: Sequence[CausalState]) -> CausalState:
        tails = tuple(torch.cat(parts) for parts in zip(*(state[0] for state in states), strict=True))
        return tails, self._causal_inner().join([state[1] for state in states])

    def detach(self, state: CausalState) -> CausalState:
        return tuple(tail.detach() for tail in state[0]), self._causal_inner().detach(state[1])

    def _spectral(self) -> list[SpectralLayer]:
        return [layer for layer in self.layers if isinstance(layer, SpectralLayer)]

    def _causal_inner(self) -> CausalEncoder:
        assert isinstance(self.inner, CausalEncoder)
        return self.inner


def count_spectral_features(d_in: int, channels: Sequence[int]) -> int:
    """The size of the vectors that spectral layers make of ``d_in`` bands."""
    for _ in channels:
        d_in = _halve(d_in)
    return d_in * channels[-1]


def _halve(bands: int) -> int:
    return (bands - 1) // _STRIDE + 1


def _list_sizes(bands: int, layers: Sequence[SpectralLayer]) -> list[tuple[int, int]]:
    """The channels and bands of the input of each layer."""
    sizes = []
    for layer in layers:
        sizes.append((layer.convolution.in_channels, bands))
        bands = _halve(bands)
    return sizes


def _join_bands(y: Float[Tensor, "b c t m"]) -> Float[Tensor, "b t d"]:
    return y.permute(0, 2, 1, 3).flatten(2)
