"""The config of classifiers that read trees. Imports no torch.

Tested in tests/tasks/classify/trees/test_task.py and tests/tasks/classify/trees/test_shape.py.
"""

from __future__ import annotations

from typing import Literal

from catena.config import Config
from catena.embeddings.config import EmbeddingConfig
from catena.encoders.config import Probability
from catena.encoders.tree_config import MatrixVectorConfig, RecursiveConfig, TensorConfig, TreeLSTMConfig


class WordVectorConfig(Config):
    """Common options of all models on word vectors."""

    embedding: EmbeddingConfig = EmbeddingConfig()
    """The vectors of the tokens."""
    dropout_input: Probability = 0.0
    """Dropout probability of the token vectors."""
    dropout_hidden: Probability = 0.5
    """Dropout probability of the text vector, before the output layer."""


class TreeClassifierConfig(WordVectorConfig):
    """Common options of the models on trees, given in brackets with words at the leaves and classes as labels."""

    nodes: Literal["all", "root"] = "all"
    """Nodes with a class: all that have a label, as in the Stanford Sentiment Treebank, or only the root."""
    branching: Literal["right", "left"] = "right"
    """How a node with too many children is binarized: its other children move under a new node without a label, on the
    right or on the left."""
    without_tree: Literal["refuse", "right", "left"] = "refuse"
    """Texts without a tree: raise an error (refuse), or read them as right- or left-branching trees."""


class TreeLSTMClassifierConfig(TreeClassifierConfig):
    """A Tree-LSTM (Tai et al. 2015) over the trees of the texts."""

    kind: Literal["tree_lstm"] = "tree_lstm"
    """The model."""
    encoder: TreeLSTMConfig = TreeLSTMConfig()
    """The Tree-LSTM."""


class RecursiveClassifierConfig(TreeClassifierConfig):
    """A recursive network (Socher et al. 2011) over the trees of the texts."""

    kind: Literal["recursive"] = "recursive"
    """The model."""
    embedding: EmbeddingConfig = EmbeddingConfig(d=50)
    """The vectors of the tokens; those of phrases have the same size."""
    dropout_hidden: Probability = 0.0
    """Dropout probability of the node vectors, before the output layer."""
    encoder: RecursiveConfig = RecursiveConfig()
    """The recursive network."""


class MatrixVectorClassifierConfig(TreeClassifierConfig):
    """Matrix-vector recursion (Socher et al. 2012) over the trees of the texts."""

    kind: Literal["mv_rnn"] = "mv_rnn"
    """The model."""
    embedding: EmbeddingConfig = EmbeddingConfig(d=25)
    """The vectors of the tokens; those of phrases have the same size."""
    dropout_hidden: Probability = 0.0
    """Dropout probability of the node vectors, before the output layer."""
    encoder: MatrixVectorConfig = MatrixVectorConfig()
    """The matrix-vector network."""


class TensorClassifierConfig(TreeClassifierConfig):
    """A recursive neural tensor network (Socher et al. 2013) over the trees of the texts."""

    kind: Literal["rntn"] = "rntn"
    """The model."""
    embedding: EmbeddingConfig = EmbeddingConfig(d=30)
    """The vectors of the tokens; those of phrases have the same size."""
    dropout_hidden: Probability = 0.0
    """Dropout probability of the node vectors, before the output layer."""
    encoder: TensorConfig = TensorConfig()
    """The tensor network."""
