"""Labels, scores and a report from log-probabilities. Numpy only."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from catena.data.vocabulary import Labels
from catena.errors import ConfigError
from catena.metrics import classification as metrics
from catena.metrics.calibration import expected_calibration_error
from catena.metrics.confusion import ConfusionTable, confusion_table
from catena.metrics.intervals import wilson_interval
from catena.metrics.measure import Metric

_SCREEN = 120
"""Maximum number of characters in a line on a screen."""
_LOG_HALF = math.log(0.5)


def predicted_ids(log_probs: np.ndarray, several: bool) -> list[tuple[int, ...]]:
    """The classes of each text: the most probable one, or all with a probability above 0.5, best first."""
    if not several:
        return [(int(j),) for j in log_probs.argmax(1)]
    chosen = []
    for row in log_probs:
        ids = np.flatnonzero(row > _LOG_HALF)
        chosen.append(tuple(int(j) for j in ids[np.argsort(-row[ids], kind="stable")]))
    return chosen


def predicted_labels(log_probs: np.ndarray, names: Labels, several: bool) -> list[list[str]]:
    """The names of the classes of each text."""
    return [[names.name(j) for j in ids] for ids in predicted_ids(log_probs, several)]


def gold_ids(labels: np.ndarray) -> list[tuple[int, ...]]:
    """The classes of each text, from the array of a dataset."""
    if labels.ndim == 1:
        return [(int(j),) for j in labels]
    return [tuple(int(j) for j in np.flatnonzero(row)) for row in labels]


def build_metric(metric: str, several: bool) -> Metric:
    """A metric over tuples of class names, as a function of sums over examples."""
    known = {
        "accuracy": metrics.SUBSET_ACCURACY if several else replace(metrics.SUBSET_ACCURACY, name="accuracy"),
        "macro_f1": metrics.multilabel_f1_measure(average="macro"),
        "micro_f1": metrics.multilabel_f1_measure(average="micro"),
    }
    if metric not in known:
        raise ConfigError(f"metric must be one of {', '.join(known)}, got {metric!r}. Choose one of these.")
    return known[metric]


def compute_scores(log_probs: np.ndarray, labels: np.ndarray, several: bool) -> dict[str, float]:
    """Scores of predictions by name.

    A label that does not occur in training has an id of ``log_probs.shape[1]`` or above (see
    :mod:`catena.tasks.classify.gold`) and counts as an error. ``log_loss`` is the mean negative log-likelihood in nats
    of the labels that occur in training; it is absent if no text has one.
    """
    right, guess = gold_ids(labels), predicted_ids(log_probs, several)
    scores = {
        "accuracy": float(metrics.subset_accuracy(right, guess)),
        "macro_f1": float(metrics.multilabel_f1(right, guess, average="macro")),
    }
    if several:
        scores["micro_f1"] = float(metrics.multilabel_f1(right, guess, average="micro"))
        own = labels[:, : log_probs.shape[1]]
        likelihood = np.where(own > 0.5, log_probs, np.log1p(-np.exp(np.minimum(log_probs, -1e-12))))
        scores["log_loss"] = float(-likelihood.sum(1).mean())
    else:  # micro F1 equals the accuracy here
        seen = np.flatnonzero(labels < log_probs.shape[1])
        if len(seen):
            scores["log_loss"] = float(-log_probs[seen, labels[seen]].mean())
    return scores


def metric_signatures(log_probs: np.ndarray, labels: np.ndarray, several: bool) -> dict[str, str]:
    """The signature of each score: how it was computed."""
    n, k = log_probs.shape
    unseen = labels[:, k:].any() if several else (labels >= k).any()
    scored = n if several else int((labels < k).sum())
    signatures = {
        "accuracy": f"{'subset-accuracy' if several else 'accuracy'}|n={n}",
        "macro_f1": f"f1|average:macro|n={n}",
    }
    if several:
        signatures["micro_f1"] = f"f1|average:micro|n={n}"
    if scored:
        signatures["log_loss"] = f"log-loss|unit:nats{'|labels:seen' if unseen else ''}|n={scored}"
    return signatures


@dataclass(frozen=True, eq=False)
class LabeledPredictions:
    """Predictions for labeled texts, with gold labels and counts of what was read and dropped.

    ``names`` are the names of the ids in ``labels``: the model's classes, then labels that do not occur in training.
    ``notes`` are lines for the top of a report.
    """

    log_probs: np.ndarray
    labels: np.ndarray
    names: tuple[str, ...]
    counts: str
    notes: tuple[str, ...] = ()


def report_lines(judged: LabeledPredictions, scores: dict[str, float], several: bool) -> list[str]:
    """The scores with their intervals, each class, and the confusions."""
    right, guess = gold_ids(judged.labels), predicted_ids(judged.log_probs, several)
    n = len(right)
    hits = sum(set(a) == set(b) for a, b in zip(right, guess, strict=True))
    interval = wilson_interval(hits, n)
    signatures = metric_signatures(judged.log_probs, judged.labels, several)
    names = judged.names
    lines = [
        judged.counts,
        *judged.notes,
        f"accuracy {scores['accuracy']:.4f} (95 % interval {interval.low:.4f} to {interval.high:.4f})   "
        f"{signatures['accuracy']}",
    ]
    lines += [f"{name} {scores[name]:.4f}   {signatures[name]}" for name in scores if name != "accuracy"]
    as_names = (
        [[names[j] for j in ids] for ids in right],
        [[names[j] for j in ids] for ids in guess],
    )
    found_labels = {label for side in as_names for some in side for label in some}
    listed = [name for name in names if name in found_labels]  # so that the averages equal the scores
    if several:
        return [*lines, "", *metrics.multilabel_report(*as_names, labels=listed).lines()]
    unseen = len(names) - judged.log_probs.shape[1]
    error = expected_calibration_error(judged.labels, np.pad(np.exp(judged.log_probs), ((0, 0), (0, unseen))))
    lines.append(f"calibration error {float(error):.4f}   {error.signature}")
    gold, found = [one for (one,) in as_names[0]], [one for (one,) in as_names[1]]
    lines += ["", *metrics.label_report(gold, found, labels=listed).lines()]
    return [*lines, "", *_mistakes(confusion_table(gold, found, labels=names))]


def _mistakes(table: ConfusionTable) -> list[str]:
    """The confusions: as a table if it fits on a screen, otherwise the most frequent ones."""
    lines = table.lines()
    if max(map(len, lines)) <= _SCREEN:
        return lines
    listed = [f"  {count:>5}  {right} taken for {guess}" for right, guess, count in table.mistakes(10)]
    return ["the most frequent mistakes:", *listed] if listed else ["no mistakes"]
