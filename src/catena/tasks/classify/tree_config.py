"""The settings of classifiers that read trees. Imports no torch."""

from __future__ import annotations

from typing import Literal

from catena.config import Config
from catena.embeddings.config import EmbeddingConfig
from catena.encoders.config import Probability
from catena.encoders.tree_config import MatrixVectorConfig, RecursiveConfig, TensorConfig, TreeLSTMConfig


class WordVectorConfig(Config):
    """What all models on word vectors share."""

    embedding: EmbeddingConfig = EmbeddingConfig()
    """The vectors of the tokens."""
    dropout_input: Probability = 0.0
    """Probability of dropping a number of a token's vector in training."""
    dropout_hidden: Probability = 0.5
    """Probability of dropping a unit of the text's vector, before the output layer, in training."""


class TreeClassifierConfig(WordVectorConfig):
    """What the models on trees share. A tree comes in brackets, with words at its leaves and classes for labels."""

    nodes: Literal["all", "root"] = "all"
    """Which nodes have a class: all that have a label, as in the Stanford trees, or the root alone, whatever stands at
    the others."""
    branching: Literal["right", "left"] = "right"
    """How a node with more children than the model takes is made binary: the rest of its children go under a new node,
    without a label, on the right or on the left."""
    without_tree: Literal["refuse", "right", "left"] = "refuse"
    """What becomes of a text that comes without a tree: it is refused, or read as a right- or left-branching tree."""


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
    """The vectors of the tokens, which are as large as those of the phrases."""
    dropout_hidden: Probability = 0.0
    """Probability of dropping a unit of a node's vector, before the output layer, in training."""
    encoder: RecursiveConfig = RecursiveConfig()
    """The recursive network."""


class MatrixVectorClassifierConfig(TreeClassifierConfig):
    """Matrix-vector recursion (Socher et al. 2012) over the trees of the texts."""

    kind: Literal["mv_rnn"] = "mv_rnn"
    """The model."""
    embedding: EmbeddingConfig = EmbeddingConfig(d=25)
    """The vectors of the tokens, which are as large as those of the phrases."""
    dropout_hidden: Probability = 0.0
    """Probability of dropping a unit of a node's vector, before the output layer, in training."""
    encoder: MatrixVectorConfig = MatrixVectorConfig()
    """The matrix-vector network."""


class TensorClassifierConfig(TreeClassifierConfig):
    """A recursive neural tensor network (Socher et al. 2013) over the trees of the texts."""

    kind: Literal["rntn"] = "rntn"
    """The model."""
    embedding: EmbeddingConfig = EmbeddingConfig(d=30)
    """The vectors of the tokens, which are as large as those of the phrases."""
    dropout_hidden: Probability = 0.0
    """Probability of dropping a unit of a node's vector, before the output layer, in training."""
    encoder: TensorConfig = TensorConfig()
    """The tensor network."""
