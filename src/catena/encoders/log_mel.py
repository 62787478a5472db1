r"""Log-mel energies of sound, from a whole recording or as a stream.

.. math::  e_{tm} = \log \max\Big(\epsilon, \sum_f M_{fm} \Big| \sum_{i=0}^{w-1} h_i\, x_{th+i}\,
           e^{-2 \pi \mathrm{i} f i / n} \Big|^2 \Big)

with w samples in a frame, hop h, the Hann window h_i, FFT size n (the next power of two) and triangular filters M whose
corners are equally spaced on the mel scale 2595 log10(1 + f / 700) (HTK). Frame t begins at sample t h: nothing is
centered or padded, so that the features of a stream equal those of the whole recording, and there are
1 + (n_samples - w) // h frames; a shorter sound is padded with zeros to one frame. Davis & Mermelstein 1980. Time
O(t n log n). Tested in tests/encoders/test_log_mel.py.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from catena.data.media_config import SoundConfig
from catena.encoders.base import read_lengths


class SoundFrames(nn.Module):
    """Frames of waveforms as vectors: the shared part of :class:`LogMel` and :class:`WaveformFrames`."""

    def __init__(self, config: SoundConfig) -> None:
        super().__init__()
        self.config = config
        self.d_out = config.d

    def forward(
        self, samples: Float[Tensor, "b n"], lengths: Int[Tensor, " b"] | None = None
    ) -> tuple[Float[Tensor, "b t d"], Int[Tensor, " b"]]:
        """The features of each sound, and their numbers of frames.

        Args:
            samples: waveforms, padded at the end.
            lengths: number of real samples of each row; all by default.
        """
        b, n = samples.shape
        lengths = read_lengths(lengths, b, n).to(samples.device)
        samples = samples.masked_fill(torch.arange(n, device=samples.device) >= lengths[:, None], 0.0)
        short = max(0, self.config.n_frame - n)
        return self.continue_(nn.functional.pad(samples, (0, short)))[0], self.count_frames(lengths)

    def count_frames(self, lengths: Int[Tensor, " b"]) -> Int[Tensor, " b"]:
        """The number of frames of sounds with this number of samples."""
        return (1 + (lengths - self.config.n_frame).div(self.config.n_hop, rounding_mode="floor")).clamp(min=1)

    def continue_(self, samples: Float[Tensor, "b n"]) -> tuple[Float[Tensor, "b t d"], Float[Tensor, "b m"]]:
        """The features of all complete frames, and the samples that later frames still need.

        Put those before the next samples of a stream.
        """
        frame, hop = self.config.n_frame, self.config.n_hop
        t = max(0, 1 + (samples.shape[1] - frame) // hop)
        if t == 0:
            return samples.new_zeros(len(samples), 0, self.d_out), samples
        return self.transform(samples.unfold(1, frame, hop)[:, :t]), samples[:, t * hop :]

    def transform(self, frames: Float[Tensor, "b t w"]) -> Float[Tensor, "b t d"]:
        """The vectors of frames."""
        raise NotImplementedError


class WaveformFrames(SoundFrames):
    """The samples of each frame, unchanged."""

    def transform(self, frames: Float[Tensor, "b t w"]) -> Float[Tensor, "b t d"]:
        return frames


class LogMel(SoundFrames):
    """Natural logarithms of mel energies.

    Args:
        config: sample rate, frames, number and range of the mel filters, floor of the energies.
    """

    window: Tensor
    filters: Tensor

    def __init__(self, config: SoundConfig) -> None:
        super().__init__(config)
        self.n_fft = 2 ** math.ceil(math.log2(config.n_frame))
        self.silence = math.log(config.floor)
        window = torch.hann_window(config.n_frame, periodic=True, dtype=torch.float64)
        filters = mel_filters(config.n_mels, self.n_fft, config.sample_rate, config.low, config.upper)
        self.register_buffer("window", window.to(torch.get_default_dtype()), persistent=False)
        self.register_buffer("filters", filters.to(torch.get_default_dtype()), persistent=False)

    def transform(self, frames: Float[Tensor, "b t w"]) -> Float[Tensor, "b t d"]:
        spectrum = torch.fft.rfft(frames * self.window, self.n_fft)
        power = spectrum.real.square() + spectrum.imag.square()
        return (power @ self.filters).clamp(min=self.config.floor).log()


def mel_filters(n_mels: int, n_fft: int, sample_rate: int, low: float | int, high: float | int) -> Float[Tensor, "f m"]:
    """``filters[f, m]`` is the weight of FFT bin f in mel band m; each band is a triangle of height 1."""
    corners = torch.linspace(hertz_to_mel(low), hertz_to_mel(high), n_mels + 2, dtype=torch.float64)
    hertz = 700 * (10 ** (corners / 2595) - 1)
    bins = torch.arange(n_fft // 2 + 1, dtype=torch.float64)[:, None] * sample_rate / n_fft
    rising = (bins - hertz[:-2]) / (hertz[1:-1] - hertz[:-2])
    falling = (hertz[2:] - bins) / (hertz[2:] - hertz[1:-1])
    return torch.minimum(rising, falling).clamp(min=0)


def hertz_to_mel(hertz: float | int) -> float:
    """The mel scale of HTK."""
    return 2595 * math.log10(1 + hertz / 700)


def build_frames(config: SoundConfig) -> SoundFrames:
    """The front end of a config."""
    return LogMel(config) if config.features == "log_mel" else WaveformFrames(config)
