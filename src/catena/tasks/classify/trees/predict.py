"""Predictions of a classifier of trees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from catena.data.examples import Tree
from catena.data.readers.brackets import to_text
from catena.tasks.base import Prediction


@dataclass(frozen=True)
class TreePrediction(Prediction):
    """The class of a tree's root with the probability of every class, and the tree with a class at every node.

    ``nodes`` has the class of each node and its probability, in the order of the opening brackets.
    """

    probabilities: dict[str, float]
    tree: Tree
    nodes: tuple[tuple[str, float], ...]

    @property
    def label(self) -> str:
        return self.nodes[0][0]

    @property
    def probability(self) -> float:
        return self.nodes[0][1]

    def __str__(self) -> str:
        return self.label

    def to_dict(self) -> dict[str, Any]:
        return {
            "text": " ".join(self.tree.words()),
            "label": self.label,
            "probability": self.probability,
            "probabilities": dict(sorted(self.probabilities.items(), key=lambda item: -item[1])),
            "tree": to_text(self.tree),
            "nodes": [{"label": label, "probability": p} for label, p in self.nodes],
        }

    def to_rows(self) -> list[dict[str, Any]]:
        return [{"label": self.label, "probability": self.probability, "text": " ".join(self.tree.words())}]

    def to_text(self, format: str) -> str:
        return to_text(self.tree) if format == "brackets" else self.label
