"""Encoded trees, and batches of them on the model's device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from catena.data.vocabulary import Vocabulary
from catena.encoders.tree_batch import TreeBatch, TreeBatchBuilder
from catena.tasks.classify.trees.shape import TreeShape

NO_LABEL = -1
Which = Literal["labeled", "all", "roots"]
"""Which nodes are scored."""


@dataclass(frozen=True)
class WordTrees:
    """Trees with words at their leaves; ``scored`` are the indices of the nodes to score, ``labels`` their classes."""

    trees: TreeBatch
    words: Int[Tensor, "m"]
    scored: Int[Tensor, "s"]
    labels: Int[Tensor, "s"]
    size: int

    @property
    def nodes(self) -> int:
        return self.trees.n


@dataclass(frozen=True, eq=False)
class EncodedTrees:
    """Trees as arrays: their shapes and, for each node, the id of its word and the class of its label.

    ``words`` is 0 at inner nodes; ``labels`` is ``NO_LABEL`` for nodes without a label.
    """

    forest: TreeBatchBuilder
    words: Int[np.ndarray, "n"]
    labels: Int[np.ndarray, "n"]

    def __len__(self) -> int:
        return len(self.forest)

    @property
    def roots(self) -> Int[np.ndarray, "_"]:
        """The root of each tree, which is its first node."""
        return self.forest.offsets[:-1]

    @property
    def lengths(self) -> Int[np.ndarray, "_"]:
        """The number of words of each tree."""
        return np.add.reduceat(self.forest.has_input.astype(np.int64), self.roots) if len(self) else self.roots

    def batch(self, rows: np.ndarray, which: Which, device: torch.device) -> WordTrees:
        """Some of the trees, and which of their nodes are scored, in order of trees and nodes."""
        trees = self.forest.batch(rows, device)
        place = np.empty(int(trees.nodes.max(initial=-1)) + 1, np.int64)
        place[trees.nodes] = np.arange(trees.n)
        nodes = self.scored_nodes(rows, which)
        flat = np.concatenate((self.words[trees.inputs], place[nodes], self.labels[nodes])).astype(np.int64)
        words, scored, labels = torch.from_numpy(flat).to(device).split([len(trees.inputs), len(nodes), len(nodes)])
        return WordTrees(trees, words, scored, labels, len(rows))

    def scored_nodes(self, rows: np.ndarray, which: Which) -> Int[np.ndarray, "s"]:
        """The nodes that :meth:`batch` scores, in the same order."""
        if which == "roots":
            return self.roots[rows]
        nodes = self.forest.nodes_of(rows)
        return nodes if which == "all" else nodes[self.labels[nodes] != NO_LABEL]


def encode_shapes(
    shapes: list[TreeShape], tokens: dict[str, str], vocabulary: Vocabulary, names: Sequence[str]
) -> EncodedTrees:
    """Encode shapes as arrays; ``tokens`` maps words to tokens, and the label "" means no label."""
    flat_words = [word for shape in shapes for word in shape.words]
    ids = {word: vocabulary.ids([token])[0] for word, token in tokens.items()}
    classes = {name: i for i, name in enumerate(names)} | {"": NO_LABEL}
    words = np.fromiter((0 if word is None else ids[word] for word in flat_words), np.int64, len(flat_words))
    labels = np.fromiter((classes[label] for shape in shapes for label in shape.labels), np.int64, len(flat_words))
    return EncodedTrees(TreeBatchBuilder.of([shape.parents for shape in shapes]), words, labels)
