"""Detections in score curves: where a curve is above a threshold, and how often that is a false alarm.

A detection is the highest point of a stretch that begins where the curve reaches the threshold and lasts one dead time;
the search continues after it, so two detections begin at least a dead time apart. The same smoothed curve decides and
is reported. A threshold is chosen on recordings without the event, for a number of false alarms in an hour; misses are
a proportion (Wilson interval), false alarms a count in a time (Poisson interval). Times are frame indices. Knows no
model. Tested in tests/metrics/test_detection.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from catena.errors import DataError
from catena.metrics.intervals import Interval, poisson_interval, wilson_interval


class Detection(NamedTuple):
    """The frame where a curve is highest, and its score there."""

    frame: int
    score: float


def smooth_scores(scores: Float[np.ndarray, " t"], n: int) -> Float[np.ndarray, " t"]:
    """The mean of the ``n`` frames up to each one; fewer at the beginning, so that it needs no later frame."""
    if n < 1:
        raise DataError(f"n must be at least 1 frame, got {n}. Use 1 for no smoothing.")
    sums = np.concatenate(([0.0], np.cumsum(scores, dtype=np.float64)))
    ends = np.arange(1, len(scores) + 1)
    starts = np.maximum(0, ends - n)
    return (sums[ends] - sums[starts]) / (ends - starts)


def find_detections(scores: Float[np.ndarray, " t"], threshold: float | int, dead_time: int) -> list[Detection]:
    """The detections in one curve, in the order of time.

    Args:
        scores: the curve, as it is reported.
        threshold: smallest score of a detection.
        dead_time: number of frames that one detection covers.
    """
    if dead_time < 1:
        raise DataError(f"dead_time must be at least 1 frame, got {dead_time}. Use 70 for 0.7 s of 10 ms frames.")
    found = []
    above = np.nonzero(scores >= threshold)[0]
    at = 0
    while at < len(above):
        start = int(above[at])
        best = start + int(np.argmax(scores[start : start + dead_time]))
        found.append(Detection(best, float(scores[best])))
        at = int(np.searchsorted(above, start + dead_time))
    return found


def choose_threshold(
    curves: Sequence[Float[np.ndarray, " _"]], hours: float | int, rate: float | int, dead_time: int
) -> float:
    """The smallest threshold with at most ``rate`` detections an hour in recordings without the event.

    Higher thresholds do not have more detections than allowed either: the scan starts at the highest score and stops
    before the first threshold that has. If the number of allowed detections is 0, it is just above the highest score.

    Args:
        curves: score curves of recordings that do not overlap.
        hours: their total length.
        rate: allowed false alarms in an hour.
        dead_time: number of frames that one detection covers.
    """
    if not curves or hours <= 0:
        raise DataError(f"curves must have a length above 0, got {len(curves)} of {hours} hours. Pass recordings.")
    allowed = math.floor(rate * hours)
    candidates = np.unique(np.concatenate([_candidates(curve, allowed, dead_time) for curve in curves]))[::-1]
    best = float(np.nextafter(max(float(curve.max()) for curve in curves if len(curve)), np.inf))
    for threshold in candidates.tolist():
        if sum(len(find_detections(curve, threshold, dead_time)) for curve in curves) > allowed:
            break
        best = threshold
    return best


def _candidates(scores: Float[np.ndarray, " t"], allowed: int, dead_time: int) -> Float[np.ndarray, " _"]:
    """The highest scores of a curve: those that can be a threshold with at most ``allowed`` detections, and more."""
    n = min(len(scores), (allowed + 1) * dead_time + 1)
    return np.sort(scores)[len(scores) - n :]


@dataclass(frozen=True)
class DetectionReport:
    """Misses among the events and false alarms in the time without events, at one threshold."""

    threshold: float
    misses: Interval
    """The fraction of events that were missed."""
    n_missed: int
    false_alarms: Interval
    """False alarms in an hour."""
    n_false_alarms: int
    hours: float


def score_detections(
    events: Sequence[Sequence[Detection]],
    spans: Sequence[tuple[int, int]],
    alarms: Sequence[Sequence[Detection]],
    hours: float | int,
    threshold: float | int,
    tolerance: int = 0,
) -> DetectionReport:
    """Misses and false alarms of detections, all found with the same threshold.

    Args:
        events: ``events[i]`` are the detections in recording i, which has one event.
        spans: ``spans[i]`` are the first frame of the event and the frame after its last one.
        alarms: detections in recordings without an event.
        hours: the total length of those.
        threshold: the threshold, for the report.
        tolerance: a detection counts up to this number of frames before and after the event.
    """
    if len(events) != len(spans):
        raise DataError(
            f"spans must have one entry for each recording, got {len(spans)} and {len(events)}. Match them."
        )
    hits = sum(
        any(start - tolerance <= detection.frame < end + tolerance for detection in found)
        for found, (start, end) in zip(events, spans, strict=True)
    )
    n_missed, n_alarms = len(events) - hits, sum(map(len, alarms))
    return DetectionReport(
        float(threshold),
        wilson_interval(n_missed, len(events)),
        n_missed,
        poisson_interval(n_alarms, hours),
        n_alarms,
        float(hours),
    )
