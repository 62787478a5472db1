"""Configs of pictures and sounds: how files become arrays, and how they are augmented. Does not import torch.

Tested in tests/data/test_augment.py and tests/data/test_media.py.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from catena.config import Config

FitName = Literal["crop", "stretch", "pad"]
FilterName = Literal["nearest", "box", "bilinear", "hamming", "bicubic", "lanczos"]
_Fraction = Annotated[float, Field(ge=0, le=1)]
_Frames = Annotated[int, Field(ge=0)]


class ImageConfig(Config):
    """How a picture file becomes an array of pixels."""

    height: int = Field(32, gt=0)
    """Height in pixels."""
    width: int = Field(32, gt=0)
    """Width in pixels."""
    fit: FitName = "crop"
    """crop keeps the largest centered part with the proportions of height and width; stretch changes the proportions;
    pad adds black borders."""
    filter: FilterName = "bilinear"
    """Filter of the resizing. All but nearest average over the pixels that they replace (antialias)."""
    max_pixels: int = Field(100_000_000, gt=0)
    """Largest number of pixels of a file, so that memory stays bounded."""


class ImageAugmentationConfig(Config):
    """Random changes of training pictures, chosen for each picture and epoch."""

    padding: int = Field(0, ge=0)
    """Pad each side by this number of pixels and crop at random to the original size."""
    flip: _Fraction = 0.0
    """Probability of exchanging left and right."""
    erase: int = Field(0, ge=0)
    """Side of a square at a random position that is set to the mean color (cutout)."""
    brightness: float = Field(0.0, ge=0, lt=1)
    """Multiply all pixels by a factor from 1 - brightness to 1 + brightness."""
    contrast: float = Field(0.0, ge=0, lt=1)
    """Multiply the differences from the picture's mean by a factor from 1 - contrast to 1 + contrast."""
    zoom: float = Field(0.0, ge=0, lt=1)
    """Scale height and width by two factors from 1 / (1 + zoom) to 1 / (1 - zoom), about the center."""


class SoundConfig(Config):
    """How a sound file becomes a sequence of vectors: log-mel energies, or windows of the waveform."""

    sample_rate: int = Field(8000, ge=1000, le=768_000)
    """Samples in a second. Files of other rates are resampled."""
    features: Literal["log_mel", "waveform"] = "log_mel"
    """log_mel: the logarithm of the energy in bands of the mel scale; waveform: the samples of each frame."""
    frame: float = Field(0.025, gt=0)
    """Length of a frame in seconds."""
    hop: float = Field(0.010, gt=0)
    """Time between the beginnings of two frames in seconds."""
    n_mels: int = Field(40, gt=0)
    """Number of mel bands."""
    low: float = Field(60.0, ge=0)
    """Lower edge of the first band in Hz."""
    high: float | None = Field(None, gt=0)
    """Upper edge of the last band in Hz; 95 % of half the sample rate if not set."""
    floor: float = Field(1e-6, gt=0)
    """Smallest energy, which silence has."""

    @model_validator(mode="after")
    def _fits(self) -> SoundConfig:
        if self.frame * self.sample_rate < 2 or self.hop * self.sample_rate < 1:
            raise ValueError(
                f"frame and hop must have at least 2 and 1 samples at {self.sample_rate} Hz, got {self.frame} and "
                f"{self.hop} s. Use 0.025 and 0.010."
            )
        if not self.low < self.upper <= self.sample_rate / 2:
            raise ValueError(
                f"high must be above low = {self.low:g} and at most {self.sample_rate / 2:g} Hz, half the sample rate, "
                f"got {self.upper:g}. Use {0.475 * self.sample_rate:g}."
            )
        return self

    @property
    def upper(self) -> float:
        """The upper edge of the last band in Hz."""
        return 0.475 * self.sample_rate if self.high is None else self.high

    @property
    def n_frame(self) -> int:
        """Samples in a frame."""
        return round(self.frame * self.sample_rate)

    @property
    def n_hop(self) -> int:
        """Samples from one frame to the next."""
        return round(self.hop * self.sample_rate)

    @property
    def d(self) -> int:
        """Size of the vector of a frame."""
        return self.n_mels if self.features == "log_mel" else self.n_frame


class SoundAugmentationConfig(Config):
    """Random changes of training sounds, chosen for each sound and epoch; applied to log-mel energies."""

    gain: float = Field(0.0, ge=0)
    """Change the level by up to this number of decibels, up or down."""
    shift: _Frames = 0
    """Move the sound by up to this number of frames; silence fills the gap, and the other end is lost."""
    tempo: float = Field(1.0, ge=1, le=4)
    """Play up to this factor faster or slower, at the same pitch."""
    mel_shift: float = Field(0.0, ge=0)
    """Move the spectrum by up to this number of mel bands, as a longer or shorter vocal tract does."""
    time_mask: _Frames = 0
    """Longest stretch of frames that is set to the mean, at most a fifth of the sound (SpecAugment)."""
    n_time_masks: int = Field(1, ge=0)
    """Number of time masks."""
    mel_mask: int = Field(0, ge=0)
    """Largest number of neighboring mel bands that are set to the mean (SpecAugment)."""
    n_mel_masks: int = Field(1, ge=0)
    """Number of masks of mel bands."""
