"""The config of a language model of recordings. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, model_validator

from catena.data.media_config import SoundConfig
from catena.encoders.config import Probability
from catena.lm.wavenet_config import WaveNetConfig

METRIC = "bits_per_sample"
"""The only metric of a language model of recordings; lower is better."""
NEXT_COMMANDS = ("generate RUN -o out.wav", "score RUN FILE")
"""Commands suggested after training."""
TRAINING: dict[str, Any] = {
    "optimizer": "adamw", "learning_rate": 0.002, "weight_decay": 0.01, "betas": (0.9, 0.98), "clip_norm": 1.0,
    "warmup_steps": 50, "ema": 0.999,
}  # fmt: skip
"""Default training options."""


class WaveNetLMConfig(WaveNetConfig):
    """A WaveNet over the samples of recordings, as mu-law levels."""

    sample_rate: int = Field(8000, ge=1000, le=768_000)
    """Samples in a second. Recordings of other rates are resampled."""
    speakers: bool = False
    """Condition on the speaker: the column of a table (see speaker_column), or the subfolder of a recording."""
    drop_speaker: Probability = 0.1
    """Fraction of the training windows whose speaker is left out, so that the model also knows new speakers."""
    local: Literal["nothing", "log_mel", "series"] = "nothing"
    """Condition on a slower series: the log-mel spectrogram of the recording itself, or vectors of your own from .npy
    files (frames, features), one for each hop = product of strides samples; see series_column."""
    n_mels: int = Field(40, gt=0)
    """With local = log_mel: number of mel bands."""
    frame: float = Field(0.025, gt=0)
    """With local = log_mel: length of a frame in seconds. Its middle is the middle of the samples that it is for."""
    flip: Probability = 0.0
    """Fraction of the training windows whose sign is changed, which sounds the same."""

    @property
    def log_mel(self) -> SoundConfig:
        """The front end of the log-mel spectrogram."""
        rate = self.sample_rate
        return SoundConfig(sample_rate=rate, frame=self.frame, hop=self.hop / rate, n_mels=self.n_mels)

    @model_validator(mode="after")
    def _has_frames(self) -> WaveNetLMConfig:
        if self.local == "log_mel":
            _ = self.log_mel  # raises for a frame without samples
        return self


def with_sound_defaults(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """The config values with the batches and the split of recordings where they set none."""
    batches, files = data.get("batches", {}), data.get("data", {})
    if not isinstance(batches, Mapping) or not isinstance(files, Mapping):
        return data
    return {
        **data,
        "batches": {"batch_size": 8, "length": 4000, **batches},
        "data": {"split": "random", **files},
    }
