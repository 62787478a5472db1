"""Accuracy on the nodes of trees: at the root and at all nodes, in all classes and in two. Numpy only.

Fine-grained classes give the binary decision (Socher et al. 2013, section 5): nodes with a neutral gold class are
skipped, the probabilities of the classes of each side are added, and the larger sum wins; the probability of neutral
classes counts for neither side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from catena.data.vocabulary import Labels
from catena.errors import ConfigError
from catena.metrics.intervals import wilson_interval
from catena.registry import did_you_mean
from catena.tasks.classify.scoring import LabeledPredictions, compute_scores, metric_signatures, report_lines
from catena.tasks.classify.trees.batch import NO_LABEL

_STANFORD = ("0", "1", "2", "3", "4")
_STANFORD_SIDES = ("0=negative", "1=negative", "3=positive", "4=positive")


@dataclass(frozen=True)
class PolarityClasses:
    """The classes on each of two sides of a scale. All other classes are neutral."""

    names: tuple[str, str]
    classes: tuple[tuple[int, ...], tuple[int, ...]]

    def right(self, labels: np.ndarray) -> np.ndarray:
        """The side of each class, 0 or 1; ``NO_LABEL`` if it is neutral or missing."""
        sides = np.full(len(labels), NO_LABEL)
        for side, classes in enumerate(self.classes):
            sides[np.isin(labels, classes)] = side
        return sides

    def chosen(self, log_probs: np.ndarray) -> np.ndarray:
        """The more probable side of each row."""
        probabilities = np.exp(log_probs)
        first, second = (probabilities[:, list(classes)].sum(1) for classes in self.classes)
        return (second > first).astype(np.int64)


def polarity_classes(pairs: Sequence[str], names: Labels) -> PolarityClasses | None:
    """The two sides of a config, or those of the Stanford Sentiment Treebank if the classes are 0 to 4, or None."""
    if not pairs and names.names == _STANFORD:
        pairs = _STANFORD_SIDES
    if not pairs:
        return None
    named: dict[str, list[int]] = {}
    for pair in pairs:
        name, side = pair.split("=", 1)
        if name not in names:
            raise ConfigError(
                f"evaluation.binary names the class {name!r}, which the data does not have: "
                f"{did_you_mean(name, names.names)}"
            )
        named.setdefault(side, []).append(names.id(name))
    (first, one), (second, other) = named.items()
    return PolarityClasses((first, second), (tuple(one), tuple(other)))


@dataclass(frozen=True, eq=False)
class JudgedNodes:
    """Log-probabilities and classes of all labeled nodes; ``is_root`` marks the roots.

    ``names`` and ``notes`` are as in :class:`catena.tasks.classify.scoring.LabeledPredictions`.
    """

    log_probs: np.ndarray
    labels: np.ndarray
    is_root: np.ndarray
    names: tuple[str, ...]
    counts: str = ""
    notes: tuple[str, ...] = ()

    @property
    def roots(self) -> LabeledPredictions:
        return LabeledPredictions(
            self.log_probs[self.is_root], self.labels[self.is_root], self.names, self.counts, self.notes
        )


@dataclass(frozen=True)
class AccuracyCount:
    """The number of correct predictions out of ``n``."""

    right: int
    n: int
    signature: str

    @property
    def value(self) -> float:
        return self.right / self.n


def compute_accuracies(judged: JudgedNodes, sides: PolarityClasses | None) -> dict[str, AccuracyCount]:
    """The four accuracies, without those that have nothing to count."""
    found = {}
    hit = judged.log_probs.argmax(1) == judged.labels if len(judged.labels) else np.zeros(0, bool)
    everywhere = np.ones(len(hit), bool)
    counted = {"accuracy": (hit, judged.is_root, "nodes:root"), "node_accuracy": (hit, everywhere, "nodes:all")}
    if sides is not None:
        right = sides.right(judged.labels)
        hit = sides.chosen(judged.log_probs) == right
        clear = right != NO_LABEL
        counted["binary_accuracy"] = (hit, clear & judged.is_root, f"nodes:root|{'/'.join(sides.names)}")
        counted["binary_node_accuracy"] = (hit, clear, f"nodes:all|{'/'.join(sides.names)}")
    for name, (hits, of, what) in counted.items():
        if of.any():
            n = int(of.sum())
            found[name] = AccuracyCount(int(hits[of].sum()), n, f"accuracy|{what}|n={n}")
    return found


def tree_scores(judged: JudgedNodes, sides: PolarityClasses | None) -> dict[str, float]:
    """Scores by name. Those of :mod:`catena.tasks.classify.scoring` are for the roots."""
    scores = {name: share.value for name, share in compute_accuracies(judged, sides).items()}
    roots = judged.roots
    if not len(roots.labels):
        return scores
    others = compute_scores(roots.log_probs, roots.labels, several=False)
    return scores | {name: value for name, value in others.items() if name != "accuracy"}


def tree_signatures(judged: JudgedNodes, sides: PolarityClasses | None) -> dict[str, str]:
    """The signature of each score: how it was computed."""
    own = {name: share.signature for name, share in compute_accuracies(judged, sides).items()}
    roots = judged.roots
    if not len(roots.labels):
        return own
    others = metric_signatures(roots.log_probs, roots.labels, several=False)
    others["macro_f1"] = f"f1|average:macro|nodes:root|n={len(roots.labels)}"
    return others | own


_TITLES = {
    "accuracy": "at the root",
    "node_accuracy": "at all nodes",
    "binary_accuracy": "of two, at the root",
    "binary_node_accuracy": "of two, at all nodes",
}


def tree_report(judged: JudgedNodes, sides: PolarityClasses | None) -> list[str]:
    """The accuracies with their intervals, then the report for the roots."""
    lines = []
    for name, share in compute_accuracies(judged, sides).items():
        interval = wilson_interval(share.right, share.n)
        between = f"{interval.low:.4f} to {interval.high:.4f}"
        lines.append(f"{name} ({_TITLES[name]}) {share.value:.4f} (95 % interval {between})   {share.signature}")
    roots = judged.roots
    lines = [judged.counts, *judged.notes, *lines]
    if not len(roots.labels):
        return lines
    scores = compute_scores(roots.log_probs, roots.labels, several=False)
    return [*lines, *report_lines(roots, scores, several=False)[len(judged.notes) + 2 :]]
