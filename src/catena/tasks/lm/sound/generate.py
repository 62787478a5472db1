"""Generate recordings with a language model of samples: from silence, or as continuations of other recordings.

Plain sampling, with or without a temperature, runs in the kernel of :meth:`catena.lm.wavenet.WaveNet.generate_blocks`;
its samples depend only on the seed, the row and the time. Everything else (filters, beams, greedy search, ensembles,
fusion) runs step by step, by :mod:`catena.search`. Tested in tests/tasks/lm/sound/test_generate.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float32, UInt8
from torch import Tensor

from catena.data.audio import write_wav
from catena.data.examples import SourceLocation
from catena.data.mulaw import decode_mulaw
from catena.errors import DataError
from catena.lm.wavenet import ConditionedWaveNet
from catena.randomness import Randomness
from catena.search.build import search, wrap_stepper
from catena.search.combine import Ensemble, shallow_fusion
from catena.search.config import BaseSearchConfig, SampleConfig
from catena.search.stepper import Stepper
from catena.tasks.lm.sound.data import RecordingExample
from catena.tasks.lm.sound.model import LocalSeries, StoredSeries, open_series
from catena.tasks.lm.sound.task import SoundLmTask

SECONDS = 2.0
"""Length of a generated recording if none is given."""


@dataclass(frozen=True, eq=False)
class GeneratedRecording:
    """A generated recording.

    Args:
        prompt: the levels that it continues.
        levels: the generated levels.
        sample_rate: samples in a second.
        n_levels: number of mu-law levels.
        log_prob: log-probability of the generated levels under the model, without temperature and filters.
    """

    prompt: UInt8[np.ndarray, " p"]
    levels: UInt8[np.ndarray, " t"]
    sample_rate: int
    n_levels: int
    log_prob: float

    @property
    def samples(self) -> Float32[np.ndarray, " n"]:
        """The samples from -1 to 1: the prompt, and then its continuation."""
        return decode_mulaw(np.concatenate((self.prompt, self.levels)), self.n_levels)

    @property
    def seconds(self) -> float:
        """The length of what was generated."""
        return len(self.levels) / self.sample_rate

    @property
    def bits_per_sample(self) -> float:
        return -self.log_prob / math.log(2) / max(len(self.levels), 1)

    def save(self, path: Path | str) -> None:
        """Write a WAV file of 16 bits."""
        write_wav(path, self.samples, self.sample_rate)


@dataclass(frozen=True)
class SoundFusion:
    """A second model for shallow fusion, whose log-probabilities are multiplied by ``weight``."""

    model: SoundLmTask
    weight: float


class SoundGenerator:
    """Generates recordings with a model, or an ensemble, and one search.

    Args:
        task: the model.
        settings: the search; its ``max_length`` is the number of samples.
        fused: a second model for shallow fusion.
        speaker: the speaker; None for an unknown one.
        condition: a recording whose log-mel spectrogram is the local condition, or a .npy file with the series.
    """

    def __init__(
        self,
        task: SoundLmTask,
        settings: BaseSearchConfig,
        fused: SoundFusion | None = None,
        *,
        speaker: str | None = None,
        condition: Path | None = None,
    ) -> None:
        self.task, self.settings, self.fused = task, settings, fused
        self.stepper = _condition_model(task, speaker, condition)
        steppers = [self.stepper, *(_condition_model(other, speaker, condition) for other in task.others)]
        self._searched: Stepper[Any] = Ensemble(steppers) if len(steppers) > 1 else self.stepper
        if fused is not None:
            task.ensemble([fused.model])  # raises if their samples differ
            second = _condition_model(fused.model, speaker, condition)
            self._searched = shallow_fusion(self._searched, second, fused.weight)

    @property
    def is_plain(self) -> bool:
        """Whether this is plain sampling from one model, which a kernel runs."""
        chosen = self.settings
        if not isinstance(chosen, SampleConfig) or self._searched is not self.stepper:
            return False
        names = ("max_length", "min_length", "temperature", "n")
        return chosen == SampleConfig(**{name: getattr(chosen, name) for name in names})

    def write(self, prompts: Sequence[Path | None], seed: int = 0) -> list[list[GeneratedRecording]]:
        """Recordings for each prompt, best first, or in sampling order; None is silence."""
        model = self.task.model_config
        listed = [self._read_levels(prompt) for prompt in prompts]
        found = self._sample(listed, seed) if self.is_plain else self._search(listed, seed)
        return [
            [
                GeneratedRecording(prompt, levels.numpy().astype(np.uint8), model.sample_rate, model.n_levels, log_prob)
                for levels, log_prob in row
            ]
            for prompt, row in zip(listed, found, strict=True)
        ]

    def _read_levels(self, prompt: Path | None) -> UInt8[np.ndarray, " p"]:
        levels = None if prompt is None else self.task.to_example(prompt).levels
        return np.zeros(0, np.uint8) if levels is None else np.asarray(levels)

    @torch.no_grad()
    def _sample(self, prompts: Sequence[np.ndarray], seed: int) -> list[list[tuple[Tensor, float]]]:
        """Samples by the kernel, and their log-probabilities by the convolutions."""
        settings, model = self.settings, self.stepper.model
        assert isinstance(settings, SampleConfig)
        state = _read_prompts(self.stepper, prompts, model.first)
        rows = torch.arange(len(prompts), device=model.device).repeat_interleave(settings.n)
        state = model.select(state, rows)
        levels = model.generate(state, settings.max_length, seed=seed, temperature=settings.temperature)
        lengths = torch.full((len(levels),), levels.shape[1], device=levels.device)
        log_probs = model.score(state, levels + model.first, lengths).double().sum(dim=1).tolist()
        made = list(zip(levels.cpu(), log_probs, strict=True))
        return [made[i : i + settings.n] for i in range(0, len(made), settings.n)]

    def _search(self, prompts: Sequence[np.ndarray], seed: int) -> list[list[tuple[Tensor, float]]]:
        """Hypotheses of a search, step by step."""
        stepper = wrap_stepper(self.settings, self._searched)
        first = self.stepper.model.first
        state = _read_prompts(stepper, prompts, first)
        found = search(self.settings, stepper, state, Randomness(seed).torch("generate"))
        return [[(torch.tensor(one.ids, dtype=torch.int64) - first, one.log_prob) for one in row] for row in found]


def _read_prompts(stepper: Stepper[Any], prompts: Sequence[UInt8[np.ndarray, " _"]], first: int) -> Any:
    """The state after recordings; the first level has the id ``first``."""
    ids = np.zeros((len(prompts), max(map(len, prompts))), np.int64)
    for row, levels in zip(ids, prompts, strict=True):
        row[: len(levels)] = levels
    lengths = torch.tensor([len(levels) for levels in prompts], device=stepper.device)
    return stepper.extend(stepper.start(len(prompts)), torch.from_numpy(ids).to(stepper.device) + first, lengths)


@torch.no_grad()
def _condition_model(task: SoundLmTask, speaker: str | None, condition: Path | None) -> ConditionedWaveNet:
    """The model of a speaker and a series, as a stepper."""
    network, speakers = task.recording_network, None
    if speaker is not None or len(task.encoding.speakers):
        speakers = torch.tensor([task.encoding.find_speaker(speaker)], device=task.device)
    series = open_condition(task, condition)
    frames = None if series is None else network.frames_from_start(series)
    return network.wavenet.conditioned(speakers, frames)


def open_condition(task: SoundLmTask, condition: Path | None) -> LocalSeries | None:
    """The local condition in a file; None if the model has none."""
    model = task.model_config
    if model.local == "nothing":
        if condition is not None:
            raise DataError(
                f"condition = {str(condition)!r} cannot be used: the model has no local condition. Train with --local "
                f"log_mel."
            )
        return None
    if condition is None:
        needed = "recording" if model.local == "log_mel" else ".npy file"
        raise DataError(f"A model with local = {model.local!r} needs a {needed} as condition. Pass --condition FILE.")
    network = task.recording_network
    if network.log_mel is not None:
        return network.open_series(task.encode([task.to_example(condition)]))
    example = RecordingExample(condition, SourceLocation(str(condition), 1), series=condition)
    n = len(open_series(condition)) * network.hop
    return StoredSeries([example], np.array([n]), network.hop, task.encoding.d_local)


def count_samples(task: SoundLmTask, condition: Path | None, seconds: float | None) -> int:
    """The number of samples to generate: of ``seconds``, or else of the condition, or else two seconds."""
    series = open_condition(task, condition) if seconds is None else None
    if series is not None:
        return series.n_frames(0) * task.recording_network.hop
    return max(1, round((SECONDS if seconds is None else seconds) * task.model_config.sample_rate))
