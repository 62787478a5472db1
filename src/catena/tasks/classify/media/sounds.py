"""Classification of sounds as a task, and the scores of the frames of a recording."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from catena.data.augment import augment_sounds, count_sound_uniforms
from catena.data.media import decode_sounds
from catena.data.media_config import SoundAugmentationConfig
from catena.data.reading import ReadCounter
from catena.encoders.log_mel import SoundFrames, build_frames
from catena.encoders.sound import SoundNetwork, build_sound_network
from catena.extras import require
from catena.randomness import Randomness
from catena.tasks.classify.config import ClassifyConfig
from catena.tasks.classify.media.data import MediaRows
from catena.tasks.classify.media.task import MediaBatch, MediaEncoding, MediaNetwork, MediaTask
from catena.tasks.classify.media_config import SoundClassifierConfig
from catena.tasks.config import model_section

if TYPE_CHECKING:
    from catena.tasks.baselines.fitting import BaselineSuite

_NORM_SOUNDS = 2000
"""Largest number of training sounds whose frames determine mean and deviation."""


class SoundTask(MediaTask):
    """A classifier of sounds."""

    media = "sound"

    def __init__(self, config: ClassifyConfig, encoding: MediaEncoding, network: MediaNetwork) -> None:
        super().__init__(config, encoding, network)
        self._frames = build_frames(model_section(config, SoundClassifierConfig).input)

    @classmethod
    def decode_files(
        cls, config: ClassifyConfig, paths: Sequence[Path], counter: ReadCounter, *, use_cache: bool = False
    ) -> tuple[Any, np.ndarray, np.ndarray]:
        require("soundfile", "audio", "reading sounds")
        model = model_section(config, SoundClassifierConfig)
        sounds = decode_sounds(paths, model.input.sample_rate, counter, max_seconds=model.max_seconds)
        return sounds, sounds.files, np.arange(len(sounds))

    @classmethod
    def build_network(
        cls, config: ClassifyConfig, encoding: MediaEncoding, report: list[str] | None = None
    ) -> MediaNetwork:
        model = model_section(config, SoundClassifierConfig)
        k = len(encoding.names)
        return MediaNetwork(build_sound_network(model.encoder, model.input, k, model.pooling, model.dropout))

    @property
    def sound_network(self) -> SoundNetwork:
        """Scores the frames of sounds."""
        return self._network.network  # type: ignore[return-value]

    @property
    def frames(self) -> SoundFrames:
        """The front end, on the device of the network."""
        self._frames = self._frames.to(self.device)
        return self._frames

    @property
    def sample_rate(self) -> int:
        return model_section(self.config, SoundClassifierConfig).input.sample_rate

    def _length(self, content: np.ndarray) -> int:
        return len(content)

    def baselines(self) -> BaselineSuite:
        from catena.tasks.classify.baselines import SoundSuite

        return SoundSuite(self)

    @torch.no_grad()
    def fit_norm(self, rows: MediaRows) -> None:
        chosen = np.unique(np.linspace(0, len(rows) - 1, min(_NORM_SOUNDS, len(rows))).astype(int))
        parts = []
        for index in np.array_split(chosen, math.ceil(len(chosen) / 64)):
            batch = self.load_batch(rows, index)
            assert batch.lengths is not None
            parts += [x[:n] for x, n in zip(batch.x, batch.lengths.tolist(), strict=True)]
        self.sound_network.norm.fit(torch.cat(parts))

    def load_batch(self, rows: MediaRows, index: np.ndarray) -> MediaBatch:
        sounds = [torch.from_numpy(np.asarray(rows.contents[i])) for i in rows.rows[index].tolist()]
        samples = nn.utils.rnn.pad_sequence(sounds, batch_first=True).to(self.device)
        lengths = torch.tensor([len(sound) for sound in sounds], device=self.device)
        return MediaBatch(*self.frames(samples, lengths))

    def augment_batch(self, rows: MediaRows, index: np.ndarray, epoch: int, randomness: Randomness) -> MediaBatch:
        batch = self.load_batch(rows, index)
        config = model_section(self.config, SoundClassifierConfig).augmentation
        if config == SoundAugmentationConfig():
            return batch
        assert batch.lengths is not None
        indices = torch.from_numpy(index).to(self.device)
        uniforms = randomness.uniforms("augment", epoch, indices, count_sound_uniforms(config))
        silence = math.log(model_section(self.config, SoundClassifierConfig).input.floor)
        fill = self.sound_network.norm.mean
        changed = augment_sounds(batch.x, batch.lengths, uniforms, config, silence=silence, fill=fill)
        return MediaBatch(changed.features, changed.lengths)
