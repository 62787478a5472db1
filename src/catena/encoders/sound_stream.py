"""Scores of a recording of any length, as a stream.

The scores of a stream equal those of the whole recording for any division into pieces, and memory does not grow with
the recording. Causal encoders (recurrent in one direction, dilated, causal convolution) continue from their state.
Centered convolutions read each piece together with the frames that their windows need and are late by the frames that
they look ahead. Encoders that need the whole recording (bidirectional) raise ConfigError. Tested in
tests/encoders/test_sound_stream.py.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Float32
from torch import Tensor

from catena.data.audio import audio_blocks
from catena.encoders.causal import CausalEncoder
from catena.encoders.convolution import Convolution
from catena.encoders.log_mel import SoundFrames
from catena.encoders.sound import SoundNetwork
from catena.encoders.spectrogram import Spectrogram
from catena.errors import ConfigError

BLOCK_SECONDS = 10.0
"""Length of the pieces in which a recording is read."""


@dataclass(frozen=True, eq=False)
class ScoreCurve:
    """Scores of the frames of a recording: ``scores[t, k]`` begins at ``t * hop`` seconds."""

    scores: Float32[np.ndarray, "t k"]
    hop: float
    seconds: float
    """Length of the recording."""


class ScoreStream:
    """Scores of the frames of a stream of samples, piece by piece.

    Args:
        frames: the front end.
        network: scores frames; put it into evaluation mode first.
    """

    def __init__(self, frames: SoundFrames, network: SoundNetwork) -> None:
        self._frames, self._network = frames, network
        self._samples: Tensor | None = None
        self._n_frames = 0
        self._reader = _build_reader(network.encoder)

    @torch.no_grad()
    def push(self, samples: Float[Tensor, " n"]) -> Float[Tensor, "t k"]:
        """Read more samples. Returns the scores of frames that are complete now; there may be none."""
        waiting = samples[:0] if self._samples is None else self._samples
        features, self._samples = self._frames.continue_(torch.cat((waiting, samples))[None])
        self._samples = self._samples[0]
        self._n_frames += features.shape[1]
        return self._score(self._reader.read(self._network.norm(features)))

    @torch.no_grad()
    def finish(self) -> Float[Tensor, "t k"]:
        """The scores of the remaining frames, at the end of the stream. Afterwards the stream cannot be used."""
        weight = self._network.head.weight
        parts = [weight.new_zeros(0, weight.shape[0])]
        if self._n_frames == 0 and self._samples is not None:  # a recording shorter than one frame
            parts.append(self._score(self._reader.read(self._network.norm(self._frames(self._samples[None])[0]))))
        rest = self._reader.finish()
        if rest is not None:
            parts.append(self._score(rest))
        return torch.cat(parts)

    def _score(self, states: Float[Tensor, "1 t d"]) -> Float[Tensor, "t k"]:
        return self._network.head(states)[0]


def score_recording(path: Path | str, frames: SoundFrames, network: SoundNetwork) -> ScoreCurve:
    """The score curve of a sound file of any length."""
    config = frames.config
    blocks = audio_blocks(path, config.sample_rate, round(BLOCK_SECONDS * config.sample_rate))
    return score_blocks(blocks, frames, network)


def score_blocks(blocks: Iterable[Float32[np.ndarray, " _"]], frames: SoundFrames, network: SoundNetwork) -> ScoreCurve:
    """The score curve of a stream of blocks of samples."""
    weight = network.head.weight
    stream, parts, n = ScoreStream(frames, network), [], 0
    for block in blocks:
        n += len(block)
        parts.append(stream.push(torch.from_numpy(block).to(weight.device, weight.dtype)).cpu())
    parts.append(stream.finish().cpu())
    config = frames.config
    return ScoreCurve(torch.cat(parts).float().numpy(), config.n_hop / config.sample_rate, n / config.sample_rate)


# --- readers of frames ------------------------------------------------------------------------------------------------


class _CausalReader:
    """Continues a causal encoder from its state."""

    def __init__(self, encoder: CausalEncoder) -> None:
        encoder.check_causal()
        self._encoder = encoder
        self._state: Any = None

    def read(self, x: Float[Tensor, "1 t d"]) -> Float[Tensor, "1 t d_out"]:
        if x.shape[1] == 0:
            return x.new_zeros(1, 0, self._encoder.d_out)
        if self._state is None:
            self._state = self._encoder.begin(1, x.device, x.dtype)
        y, self._state = self._encoder.continue_(x, self._state)
        return y

    def finish(self) -> None:
        return None


class _WindowReader:
    """Encodes each piece with enough frames before and after it; the last frames wait for those after them."""

    def __init__(self, encoder: Convolution | Spectrogram) -> None:
        self._encoder = encoder
        assert encoder.context is not None
        self._before, self._after = encoder.context
        self._waiting: Tensor | None = None
        self._n_done = 0
        """Number of waiting frames whose vectors were returned already."""

    def read(self, x: Float[Tensor, "1 t d"]) -> Float[Tensor, "1 t_ready d_out"]:
        self._waiting = x if self._waiting is None else torch.cat((self._waiting, x), dim=1)
        return self._encode(max(self._n_done, self._waiting.shape[1] - self._after))

    def finish(self) -> Float[Tensor, "1 t_ready d_out"] | None:
        return None if self._waiting is None else self._encode(self._waiting.shape[1])

    def _encode(self, end: int) -> Float[Tensor, "1 t_ready d_out"]:
        assert self._waiting is not None
        if end <= self._n_done:
            return self._waiting.new_zeros(1, 0, self._encoder.d_out)
        y = self._encoder(self._waiting)[:, self._n_done : end]
        keep = max(0, end - self._before)
        self._waiting = self._waiting[:, keep:]
        self._n_done = end - keep
        return y


def _build_reader(encoder: Any) -> _CausalReader | _WindowReader:
    if isinstance(encoder, Convolution | Spectrogram) and encoder.looks_ahead and encoder.context is not None:
        return _WindowReader(encoder)
    if isinstance(encoder, CausalEncoder):
        return _CausalReader(encoder)
    raise ConfigError(
        f"encoder must be convolution, dilated, or recurrent in one direction to read a stream, got "
        f"{type(encoder).__name__.lower()}. Train the keyword with one of them."
    )
