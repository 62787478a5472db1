r"""Where a class of a sound classifier occurs in recordings of any length.

The score of a frame is the log-odds of the class, :math:`s_y - \log \sum_{j \ne y} \exp s_j`, or the score itself if a
sound may have several labels. It is smoothed over a few frames; a detection is its highest point within a dead time
above the threshold. Recordings are read in blocks, so that memory grows only with the curve: 4 bytes for a frame and
class. Tested in tests/tasks/classify/media/test_spot.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from catena.encoders.sound_stream import score_recording
from catena.errors import ConfigError
from catena.metrics.detection import choose_threshold, find_detections, smooth_scores
from catena.metrics.intervals import Interval, poisson_interval
from catena.tasks.base import Prediction
from catena.tasks.classify.media.sounds import SoundTask


@dataclass(frozen=True)
class SpotPrediction(Prediction):
    """A detection: the recording, the time in seconds, and the score there."""

    file: str
    time: float
    score: float

    def __str__(self) -> str:
        return f"{self.file}: {self.time:.2f} s, score {self.score:.2f}"

    def to_dict(self) -> dict[str, Any]:
        return {"file": self.file, "time": self.time, "score": self.score}


@dataclass(frozen=True, eq=False)
class LabelCurve:
    """The smoothed scores of a class: ``scores[t]`` is of the frame that begins at ``t * hop`` seconds."""

    file: str
    scores: Float[np.ndarray, " t"]
    hop: float
    seconds: float

    def detections(self, threshold: float, dead_time: float) -> list[SpotPrediction]:
        """The detections in the order of time. ``dead_time`` is in seconds."""
        found = find_detections(self.scores, threshold, count_frames(dead_time, self.hop))
        return [SpotPrediction(self.file, one.frame * self.hop, one.score) for one in found]


@dataclass(frozen=True)
class ChosenThreshold:
    """A threshold, and how often it is reached in recordings without the class."""

    threshold: float
    n_alarms: int
    alarms: Interval
    """False alarms in an hour."""
    hours: float


def score_label(task: SoundTask, path: Path, label: str, smoothing: float = 0.05) -> LabelCurve:
    """The score curve of a class in a recording.

    Args:
        task: the classifier.
        path: a sound file of any length.
        label: the class.
        smoothing: length of the moving average in seconds.
    """
    if label not in task.names:
        raise ConfigError(f"label must be one of {', '.join(task.labels)}, got {label!r}. Choose one of these.")
    curve = score_recording(path, task.frames, task.sound_network)
    scores = curve.scores[:, task.names.id(label)]
    others = np.delete(curve.scores, task.names.id(label), axis=1)
    if not task.multilabel:
        scores = scores - np.logaddexp.reduce(others, axis=1)
    return LabelCurve(str(path), smooth_scores(scores, count_frames(smoothing, curve.hop)), curve.hop, curve.seconds)


def choose_label_threshold(curves: Sequence[LabelCurve], rate: float, dead_time: float) -> ChosenThreshold:
    """The lowest threshold with at most ``rate`` false alarms an hour in recordings without the class.

    Args:
        curves: the curves of these recordings.
        rate: allowed false alarms in an hour.
        dead_time: seconds that one detection covers.
    """
    hours = sum(curve.seconds for curve in curves) / 3600
    scores = [curve.scores for curve in curves]
    n_frames = count_frames(dead_time, curves[0].hop)
    threshold = choose_threshold(scores, hours, rate, n_frames)
    n = sum(len(find_detections(one, threshold, n_frames)) for one in scores)
    return ChosenThreshold(threshold, n, poisson_interval(n, hours), hours)


def count_frames(seconds: float, hop: float) -> int:
    """The number of frames in a time, at least 1."""
    return max(1, round(seconds / hop))
