"""Predictions of a classifier, and their evaluation."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np

from catena.metrics import classification as metrics
from catena.metrics.calibration import expected_calibration_error
from catena.metrics.confusion import ConfusionTable, confusion_table
from catena.metrics.intervals import Interval
from catena.metrics.measure import Metric, MetricValue, mean_score, mean_statistics
from catena.tasks.base import EvaluationResult, Prediction
from catena.tasks.classify.data import describe_unseen, encode_labels, find_unseen


@dataclass(frozen=True)
class ClassPrediction(Prediction):
    """The labels of a text, best first, with the probability of every class. Prints as its labels.

    Args:
        text: the input.
        labels: the predicted labels; one, unless the model predicts several or a threshold excludes all.
        probabilities: the probability of each class, in descending order.
        multilabel: whether a text may have several labels.
        n_best: number of classes to show in tables, if it was set.
        scores: whether log-probabilities are shown.
        separator: written between several labels.
        key: the name of the input in JSON and tables: "text" or "file".
    """

    text: str
    labels: tuple[str, ...]
    probabilities: dict[str, float]
    multilabel: bool = field(default=False, repr=False)
    n_best: int = field(default=1, repr=False)
    scores: bool = field(default=False, repr=False)
    separator: str = field(default=", ", repr=False)
    key: str = field(default="text", repr=False)

    @property
    def label(self) -> str | None:
        """The first label; None if there is none."""
        return self.labels[0] if self.labels else None

    @property
    def probability(self) -> float:
        """The probability of the label, or of the most probable class if no label is predicted."""
        return self.probabilities[self.labels[0]] if self.labels else max(self.probabilities.values())

    @property
    def log_prob(self) -> float:
        """The natural logarithm of the probability."""
        return math.log(self.probability) if self.probability > 0 else -math.inf

    def __str__(self) -> str:
        return self.separator.join(self.labels)

    def to_dict(self) -> dict[str, Any]:
        row: dict[str, Any] = {self.key: self.text}
        if self.multilabel:
            row["labels"] = list(self.labels)
        else:
            row |= {"label": self.label, "probability": self.probability}
        if self.scores:
            row["log_prob"] = self.log_prob
        if self.n_best > 1:
            row["n_best"] = [{"label": label, "probability": p} for label, p in self._ranked()]
        return {**row, "probabilities": self.probabilities}

    def to_rows(self) -> list[dict[str, Any]]:
        if self.n_best > 1:
            pairs = self._ranked()
        else:
            pairs = [(self.separator.join(self.labels), self.probability)]
        rows = []
        for label, probability in pairs:
            row: dict[str, Any] = {"label": label, "probability": probability}
            if self.scores:
                row["log_prob"] = math.log(probability) if probability > 0 else -math.inf
            rows.append({**row, self.key: self.text})
        return rows

    def _ranked(self) -> list[tuple[str, float]]:
        return list(self.probabilities.items())[: self.n_best]


# --- evaluation -------------------------------------------------------------------------------------------------------


_SCREEN = 120
"""Maximum number of characters in a line on a screen."""
_LOG_HALF = math.log(0.5)
_MOST_STATISTICS = 10_000_000
"""Maximum number of texts times labels for an interval of F1."""


def _log_losses(references: np.ndarray, log_probs: np.ndarray) -> np.ndarray:
    """-log p of the gold class of each text, or of all its binary decisions if ``references`` has a row for each."""
    if references.ndim == 1:
        return mean_statistics(-log_probs[np.arange(len(references)), references])
    others = np.log1p(-np.exp(np.minimum(log_probs, -1e-12)))
    return mean_statistics(-np.where(references > 0.5, log_probs, others).sum(1))


METRICS = {
    "accuracy": replace(metrics.SUBSET_ACCURACY, name="accuracy"),
    "macro_f1": metrics.multilabel_f1_measure(average="macro"),
    "micro_f1": metrics.multilabel_f1_measure(average="micro"),
    "log_loss": Metric("log-loss|unit:nats", _log_losses, mean_score, higher_is_better=False),
}


def class_log_probs(logits: np.ndarray, multilabel: bool, temperature: float) -> np.ndarray:
    """The log-probability of each class for each text.

    It is a softmax over the classes, or a sigmoid of each if ``multilabel``, averaged over the models of a bag.

    Args:
        logits: ``logits[..., i, j]`` is the score of class j for text i, with the models of a bag on the first axis.
        multilabel: whether a text may have several labels.
        temperature: divides the scores.
    """
    scaled = logits / temperature
    if multilabel:
        log_probs = -np.logaddexp(0.0, -scaled)
    else:
        scaled = scaled - scaled.max(-1, keepdims=True)
        log_probs = scaled - np.log(np.exp(scaled).sum(-1, keepdims=True))
    if log_probs.ndim == 2:
        return log_probs
    return np.logaddexp.reduce(log_probs, axis=0) - math.log(len(log_probs))


def predicted_ids(log_probs: np.ndarray, multilabel: bool, threshold: float | None = None) -> list[tuple[int, ...]]:
    """The classes of each text: the most probable one, or all above the threshold (0.5 if None), best first.

    Args:
        log_probs: ``log_probs[i, j]`` is the log-probability of class j for text i.
        multilabel: whether a text may have several labels.
        threshold: classes of lower probability are not predicted; with one label a text may then have none.
    """
    if not multilabel:
        best = log_probs.argmax(1)
        if threshold is None:
            return [(j,) for j in best.tolist()]
        least = math.log(max(threshold, 1e-300))
        return [(int(j),) if row[j] >= least else () for j, row in zip(best, log_probs, strict=True)]
    least = _LOG_HALF if threshold is None else math.log(max(threshold, 1e-300))
    chosen = []
    for row in log_probs:
        ids = np.flatnonzero(row > least)
        chosen.append(tuple(int(j) for j in ids[np.argsort(-row[ids], kind="stable")]))
    return chosen


@dataclass(frozen=True, eq=False)
class ClassifyEvaluation(EvaluationResult):
    """Log-probabilities of the classes of texts, and their gold labels.

    Args:
        names: the classes of the model.
        log_probs: ``log_probs[i, j]`` is the log-probability of class j for text i.
        gold: the gold labels of each text; a label that is not in ``names`` counts as an error.
        multilabel: whether a text may have several labels.
    """

    names: tuple[str, ...]
    log_probs: np.ndarray
    gold: list[tuple[str, ...]]
    multilabel: bool
    counts: str = ""

    def metrics(self) -> Mapping[str, Metric]:
        known = dict(METRICS)
        if not self.multilabel:
            del known["micro_f1"]  # equals the accuracy
            known["macro_f1"] = metrics.f1_measure(average="macro")
        else:
            known["accuracy"] = metrics.SUBSET_ACCURACY
        if not len(self._seen()):
            del known["log_loss"]
        return known

    def pairs(self, name: str) -> tuple[Sequence[Any] | np.ndarray, Sequence[Any] | np.ndarray]:
        if name == "macro_f1" and not self.multilabel:
            return [labels[0] for labels in self.gold], [labels[0] for labels in self.predicted()]
        if name != "log_loss":
            return self.gold, self.predicted()
        known = {name: j for j, name in enumerate(self.names)}
        if self.multilabel:
            own = [[label for label in some if label in known] for some in self.gold]
            return encode_labels(own, self.names, True), self.log_probs
        seen = self._seen()
        return np.array([known[self.gold[i][0]] for i in seen], np.int64), self.log_probs[seen]

    def _seen(self) -> np.ndarray:
        """The texts whose gold label occurs in training, which have a likelihood."""
        if self.multilabel:
            return np.arange(len(self.gold))
        known = set(self.names)
        return np.flatnonzero([labels[0] in known for labels in self.gold])

    def predicted(self) -> list[tuple[str, ...]]:
        """The predicted labels of each text."""
        return self._predicted

    @cached_property
    def _predicted(self) -> list[tuple[str, ...]]:
        return [tuple(self.names[j] for j in ids) for ids in predicted_ids(self.log_probs, self.multilabel)]

    def _values(self) -> dict[str, MetricValue]:
        """As in the base class, but F1 is counted by label, since a row of statistics has all labels."""
        f1: Any = metrics.multilabel_f1 if self.multilabel else metrics.f1
        values: dict[str, MetricValue] = {}
        for name, metric in self.metrics().items():
            if name in ("macro_f1", "micro_f1"):
                average: Literal["macro", "micro"] = "macro" if name == "macro_f1" else "micro"
                values[name] = f1(*self.pairs(name), average=average)
            else:
                values[name] = metric(*self.pairs(name))
        return values

    def interval(self, name: str) -> Interval | None:
        """As in the base class; None for F1 if resampling takes too much memory."""
        large = len(self.gold) * len(self.names) > _MOST_STATISTICS
        return None if large and name in ("macro_f1", "micro_f1") else super().interval(name)

    def notes(self) -> list[str]:
        what = "labels of texts are ones" if self.multilabel else "texts have a label"
        return describe_unseen(self.gold, self.names, "this file", what)

    def details(self) -> list[str]:
        if self.multilabel:
            return metrics.multilabel_report(self.gold, self.predicted(), labels=self._listed()).lines()
        gold, predicted = self._single()
        error = self._calibration_error()
        table = metrics.label_report(gold, predicted, labels=self._listed()).lines()
        mistakes = _mistakes(confusion_table(gold, predicted, labels=self._all_names()))
        return [f"calibration error {float(error):.4f}   {error.signature}", "", *table, "", *mistakes]

    def details_dict(self) -> dict[str, Any]:
        if self.multilabel:
            report = metrics.multilabel_report(self.gold, self.predicted(), labels=self._listed())
            return {"classes": report.to_dict()}
        gold, predicted = self._single()
        mistakes = confusion_table(gold, predicted, labels=self._all_names()).mistakes(100)
        return {
            "calibration_error": float(self._calibration_error()),
            "classes": metrics.label_report(gold, predicted, labels=self._listed()).to_dict(),
            "confusion": [{"gold": a, "predicted": b, "n": n} for a, b, n in mistakes],
        }

    def _single(self) -> tuple[list[str], list[str]]:
        return [label for (label,) in self.gold], [label for (label,) in self.predicted()]

    def _all_names(self) -> tuple[str, ...]:
        return (*self.names, *find_unseen(self.gold, self.names))

    def _listed(self) -> list[str]:
        """The labels that occur, so that the averages of the report equal the scores."""
        occur = {label for side in (self.gold, self.predicted()) for some in side for label in some}
        return [name for name in self._all_names() if name in occur]

    def _calibration_error(self) -> MetricValue:
        names = self._all_names()
        ids = encode_labels(self.gold, names, False)
        padding = ((0, 0), (0, len(names) - len(self.names)))
        return expected_calibration_error(ids, np.pad(np.exp(self.log_probs), padding))


def _mistakes(table: ConfusionTable) -> list[str]:
    """The confusions: as a table if it fits on a screen, otherwise the most frequent ones."""
    lines = table.lines()
    if max(map(len, lines)) <= _SCREEN:
        return lines
    listed = [f"  {count:>5}  {gold} taken for {guess}" for gold, guess, count in table.mistakes(10)]
    return ["the most frequent mistakes:", *listed] if listed else ["no mistakes"]
