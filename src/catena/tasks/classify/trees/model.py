"""Networks that classify the nodes of trees, and encoded trees in batches on the model's device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from catena.data.vocabulary import PAD, Vocabulary
from catena.embeddings.table import Embedding, build_embedding
from catena.encoders.tree import TreeEncoder
from catena.encoders.tree_batch import TreeBatch, TreeBatchBuilder
from catena.encoders.tree_build import build_tree_encoder
from catena.encoders.tree_recursive import MatrixVectorNetwork
from catena.tasks.classify.config import ClassifyConfig
from catena.tasks.classify.tree_config import TreeClassifierConfig, TreeLSTMClassifierConfig
from catena.tasks.classify.trees.data import TreeShape
from catena.tasks.pretrained import WordVectorRows

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


# --- the network ------------------------------------------------------------------------------------------------------


class TreeClassifier(nn.Module):
    """Scores nodes of trees. ``temperature`` divides the scores in prediction only; it is fitted on dev, not trained.

    Args:
        embedding: word ids to vectors.
        encoder: vectors at leaves to vectors at all nodes.
        n_classes: number of scores per node.
        matrices: further parameters of each word, for encoders that need them.
    """

    temperature: Tensor

    def __init__(
        self,
        embedding: Embedding,
        encoder: TreeEncoder,
        n_classes: int,
        dropout_input: float,
        dropout_hidden: float,
        matrices: Float[Tensor, "v numbers"] | None = None,
    ) -> None:
        super().__init__()
        self.register_buffer("temperature", torch.ones(()))
        self.embedding, self.encoder = embedding, encoder
        self.matrices = None if matrices is None else nn.Parameter(matrices)
        self.output = nn.Linear(encoder.d_out, n_classes)
        self.dropout_input, self.dropout_hidden = dropout_input, dropout_hidden

    def forward(self, batch: WordTrees) -> Float[Tensor, "s k"]:
        """The scores of the nodes that a batch marks as scored."""
        states = self.encoder(self._inputs(batch.words), batch.trees).index_select(0, batch.scored)
        return self.output(F.dropout(states, self.dropout_hidden, self.training))

    def _inputs(self, words: Int[Tensor, "m"]) -> Float[Tensor, "m d_in"]:
        vectors = F.dropout(self.embedding(words[None]).squeeze(0), self.dropout_input, self.training)
        if self.matrices is None:
            return vectors
        return torch.cat((vectors, F.embedding(words, self.matrices, padding_idx=PAD)), dim=1)


def build_tree_model(
    config: ClassifyConfig, n_ids: int, n_classes: int, vectors: WordVectorRows | None = None
) -> TreeClassifier:
    """The model that a config describes, for ``n_ids`` ids and ``n_classes`` classes."""
    settings = config.model
    assert isinstance(settings, TreeClassifierConfig)
    matrix, known = vectors if vectors else (None, None)
    embedding = build_embedding(settings.embedding, n_ids, matrix=matrix, known=known)
    encoder = build_tree_encoder(settings.encoder, embedding.d_out)
    matrices = encoder.first_matrices(n_ids) if isinstance(encoder, MatrixVectorNetwork) else None
    model = TreeClassifier(
        embedding, encoder, n_classes, settings.dropout_input, settings.dropout_hidden, matrices=matrices
    )
    if not isinstance(settings, TreeLSTMClassifierConfig):
        # The output layer reads raw word vectors, so it starts small at any scale of the vectors.
        nn.init.normal_(model.output.weight, std=0.01)
    return model
