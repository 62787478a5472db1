"""Predictions of a classifier of trees, and their evaluation.

Accuracy on the nodes of trees: at the root and at all nodes, in all classes and in two. Numpy only.

Fine-grained classes give the binary decision (Socher et al. 2013, section 5): nodes with a neutral gold class are
skipped, the probabilities of the classes of each side are added, and the larger sum wins; the probability of neutral
classes counts for neither side.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from catena.data.examples import Tree
from catena.data.readers.brackets import to_text
from catena.data.vocabulary import Labels
from catena.errors import ConfigError
from catena.metrics.classification import ACCURACY
from catena.metrics.measure import Metric
from catena.registry import did_you_mean
from catena.tasks.base import EvaluationResult, Prediction
from catena.tasks.classify.data import describe_unseen
from catena.tasks.classify.predict import METRICS, ClassifyEvaluation, ClassPrediction
from catena.tasks.classify.trees.model import NO_LABEL


@dataclass(frozen=True)
class TreePrediction(Prediction):
    """The class of a tree's root with the probability of every class, and the tree with a class at every node.

    ``nodes`` has the class of each node and its probability, in the order of the opening brackets.
    """

    root: ClassPrediction
    tree: Tree
    nodes: tuple[tuple[str, float], ...]

    @property
    def label(self) -> str | None:
        return self.root.label

    @property
    def probability(self) -> float:
        return self.root.probability

    @property
    def probabilities(self) -> dict[str, float]:
        return self.root.probabilities

    def __str__(self) -> str:
        return str(self.root)

    def to_dict(self) -> dict[str, Any]:
        nodes = [{"label": label, "probability": p} for label, p in self.nodes]
        return {**self.root.to_dict(), "tree": to_text(self.tree), "nodes": nodes}

    def to_rows(self) -> list[dict[str, Any]]:
        return self.root.to_rows()

    def to_text(self, format: str) -> str:
        return to_text(self.tree) if format == "brackets" else str(self)


# --- evaluation -------------------------------------------------------------------------------------------------------


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
class TreeEvaluation(EvaluationResult):
    """Log-probabilities and gold labels of all labeled nodes.

    Args:
        names: the classes of the model.
        log_probs: ``log_probs[i, j]`` is the log-probability of class j at node i.
        gold: the gold label of each node; a label that is not in ``names`` counts as an error.
        is_root: whether a node is the root of its tree.
        sides: the classes of the binary decision; None if there is none.
    """

    names: tuple[str, ...]
    log_probs: np.ndarray
    gold: list[tuple[str, ...]]
    is_root: np.ndarray
    sides: PolarityClasses | None
    counts: str = ""

    def roots(self) -> ClassifyEvaluation:
        """The evaluation of the labeled roots, as of texts."""
        gold = [labels for labels, is_root in zip(self.gold, self.is_root, strict=True) if is_root]
        return ClassifyEvaluation(self.names, self.log_probs[self.is_root], gold, multilabel=False)

    def metrics(self) -> Mapping[str, Metric]:
        known = {name: _NODE_METRICS[name] for name in _NODE_METRICS if len(self.pairs(name)[0])}
        if self.is_root.any():
            roots = self.roots().metrics()
            known |= {name: metric for name, metric in roots.items() if name != "accuracy"}
        return known

    def pairs(self, name: str) -> tuple[Sequence[Any] | np.ndarray, Sequence[Any] | np.ndarray]:
        if name not in _NODE_METRICS:
            return self.roots().pairs(name)
        if name.startswith("binary") and self.sides is None:
            return (), ()
        counted = np.ones(len(self.gold), bool) if "node" in name else self.is_root
        if not name.startswith("binary"):
            best = self.log_probs.argmax(1)
            gold = [self.gold[i][0] for i in np.flatnonzero(counted)]
            return gold, [self.names[best[i]] for i in np.flatnonzero(counted)]
        assert self.sides is not None
        ids = {label: i for i, label in enumerate(self.names)}
        gold_sides = self.sides.right(np.array([ids.get(labels[0], NO_LABEL) for labels in self.gold]))
        counted = counted & (gold_sides != NO_LABEL)
        return gold_sides[counted], self.sides.chosen(self.log_probs)[counted]

    def notes(self) -> list[str]:
        return describe_unseen(self.gold, self.names, "this file", "nodes have a label")

    def details(self) -> list[str]:
        return self.roots().details() if self.is_root.any() else []

    def details_dict(self) -> dict[str, Any]:
        return self.roots().details_dict() if self.is_root.any() else {}


_NODE_METRICS = {
    "accuracy": replace(ACCURACY, name="accuracy|nodes:root"),
    "node_accuracy": replace(ACCURACY, name="accuracy|nodes:all"),
    "binary_accuracy": replace(ACCURACY, name="accuracy|nodes:root|classes:2"),
    "binary_node_accuracy": replace(ACCURACY, name="accuracy|nodes:all|classes:2"),
}
TREE_METRICS: dict[str, Metric] = {**METRICS, **_NODE_METRICS}
"""The metrics of trees."""
