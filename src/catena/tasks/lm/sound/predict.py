"""Scores of recordings: log-probabilities, bits a sample, and the metric computed from them. Imports no torch.

Tested in tests/tasks/lm/sound/test_task.py.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from catena.metrics.likelihood import likelihood_metric
from catena.metrics.measure import Metric, MetricValue, signature
from catena.tasks.base import EvaluationResult, PairedPredictions, Prediction
from catena.tasks.lm.sound.config import METRIC, WaveNetLMConfig

BITS_PER_SAMPLE = likelihood_metric(METRIC, math.log(2))


@dataclass(frozen=True)
class ScoredRecording(Prediction):
    """A recording with the log-probability of its samples, in nats.

    Args:
        file: its file.
        speaker: the speaker that the model was conditioned on; None for none, or an unknown one.
        n_samples: its length at the sample rate of the model.
        sample_rate: samples in a second.
        seconds_log_probs: the log-probability of the samples of each second.
    """

    file: str
    speaker: str | None
    n_samples: int
    sample_rate: int
    seconds_log_probs: tuple[float, ...]

    @property
    def log_prob(self) -> float:
        """The log-probability of the whole recording."""
        return math.fsum(self.seconds_log_probs)

    @property
    def seconds(self) -> float:
        return self.n_samples / self.sample_rate

    @property
    def bits_per_sample(self) -> float:
        return -self.log_prob / math.log(2) / self.n_samples

    @property
    def bits_per_sample_by_second(self) -> list[float]:
        """Bits a sample of each second: where the model is surprised."""
        rate = self.sample_rate
        sizes = [min(rate, self.n_samples - i * rate) for i in range(len(self.seconds_log_probs))]
        return [-x / math.log(2) / n for x, n in zip(self.seconds_log_probs, sizes, strict=True)]

    def __str__(self) -> str:
        return (
            f"{self.log_prob:12.2f}   {self.bits_per_sample:.4f} bits per sample   {self.seconds:8.2f} s   {self.file}"
        )

    def to_dict(self) -> dict[str, Any]:
        return {
            "file": self.file,
            "speaker": self.speaker,
            "log_prob": self.log_prob,
            "bits_per_sample": self.bits_per_sample,
            "samples": self.n_samples,
            "seconds": self.seconds,
            "bits_per_sample_by_second": self.bits_per_sample_by_second,
        }

    def to_rows(self) -> list[dict[str, Any]]:
        return [{name: self.to_dict()[name] for name in ("log_prob", "bits_per_sample", "seconds", "file")}]


def total_line(scored: Sequence[ScoredRecording]) -> str:
    """A line about all recordings together."""
    if not scored:
        return "no recordings"
    samples, nats = sum(one.n_samples for one in scored), -math.fsum(one.log_prob for one in scored)
    n = "1 recording" if len(scored) == 1 else f"{len(scored):,} recordings"
    return (
        f"{n}, {samples:,} samples, {sum(one.seconds for one in scored):.2f} s: log-probability {-nats:.4f}, "
        f"{nats / math.log(2) / samples:.4f} bits per sample"
    )


@dataclass(frozen=True, eq=False)
class RecordingEvaluation(EvaluationResult):
    """The scores of recordings, with the protocol in the signature.

    Every sample counts, from the first one on. Before a recording there is silence, and the context of a sample is the
    receptive field of the model.

    Args:
        config: the model.
        scored: the recordings.
    """

    config: WaveNetLMConfig
    scored: list[ScoredRecording]
    counts: str = ""

    def metrics(self) -> Mapping[str, Metric]:
        return {METRIC: BITS_PER_SAMPLE}

    def pairs(self, name: str) -> tuple[Sequence[Any] | np.ndarray, Sequence[Any] | np.ndarray]:
        return [(one.file, one.n_samples) for one in self.scored], [one.log_prob for one in self.scored]

    def _values(self) -> dict[str, MetricValue]:
        n = sum(one.n_samples for one in self.scored)
        words = signature(METRIC, n, self._conditions())
        return {name: MetricValue(float(value), words) for name, value in super()._values().items()}

    def _conditions(self) -> dict[str, object]:
        config, known = self.config, sum(one.speaker is not None for one in self.scored)
        return {
            "levels": config.n_levels,
            "rate": config.sample_rate,
            "before": "silence",
            "context": config.field,
            **({"speakers": f"{known} of {len(self.scored)}"} if config.speakers else {}),
            **({"local": config.local} if config.local != "nothing" else {}),
            "recordings": len(self.scored),
        }

    def paired(self, name: str) -> PairedPredictions:
        conditions = {"model.sample_rate": self.config.sample_rate, "model.n_levels": self.config.n_levels}
        return replace(super().paired(name), conditions=conditions)

    def details(self) -> list[str]:
        by_speaker: dict[str, list[ScoredRecording]] = {}
        for one in self.scored:
            by_speaker.setdefault(one.speaker or "unknown", []).append(one)
        if len(by_speaker) < 2:
            return []
        width = max(map(len, by_speaker))
        return [f"{name:<{width}}  {total_line(some)}" for name, some in sorted(by_speaker.items())]
