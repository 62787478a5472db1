"""Configs of tree encoders. Does not import torch. ``TreeEncoderConfig`` is the union, selected by ``kind``.

Tested in tests/tasks/classify/trees/test_task.py.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from catena.config import Config
from catena.encoders.config import ActivationName, Probability


class TreeLSTMConfig(Config):
    """A Tree-LSTM (Tai et al. 2015): a memory at every node, with a forget gate for each child."""

    kind: Literal["tree_lstm"] = "tree_lstm"
    """A Tree-LSTM."""
    children: Literal["ordered", "summed"] = "ordered"
    """ordered has separate weights for each child position (the N-ary Tree-LSTM); summed adds up any number of children
    (the child-sum Tree-LSTM)."""
    most: int = Field(2, ge=1)
    """Maximum number of children of a node, if they are ordered; nodes with more are binarized."""
    d: int = Field(150, gt=0)
    """Size of the memory."""
    dropout: Probability = 0.0
    """Probability of dropping a unit of the candidate memory in training."""
    forget_bias: float = 1.0
    """Initial bias of the forget gates."""

    @model_validator(mode="after")
    def _most_is_for_ordered_children(self) -> TreeLSTMConfig:
        if self.children == "summed" and self.most != 2:
            raise ValueError(
                f"most must be left out if children = 'summed', which allows any number, got {self.most}. Remove most."
            )
        return self


class RecursiveConfig(Config):
    """A recursive network (Socher et al. 2011): the same layer at every node of a binary tree."""

    kind: Literal["recursive"] = "recursive"
    """A recursive network."""
    activation: ActivationName = "tanh"
    """Activation of inner nodes."""


class MatrixVectorConfig(Config):
    """Matrix-vector recursion (MV-RNN, Socher et al. 2012): each node has a matrix that is applied to its sibling."""

    kind: Literal["mv_rnn"] = "mv_rnn"
    """Matrix-vector recursion."""
    rank: int = Field(3, gt=0)
    """Rank of a word's matrix in addition to its diagonal."""
    activation: ActivationName = "tanh"
    """Activation of inner nodes."""


class TensorConfig(Config):
    """A recursive neural tensor network (RNTN, Socher et al. 2013), with products of the two children."""

    kind: Literal["rntn"] = "rntn"
    """A recursive neural tensor network."""
    activation: ActivationName = "tanh"
    """Activation of inner nodes."""
    scale: float | None = Field(None, gt=0)
    """The initial tensor is uniform from -scale to scale; if not set, by the size of the vectors."""


TreeEncoderConfig = Annotated[
    TreeLSTMConfig | RecursiveConfig | MatrixVectorConfig | TensorConfig, Field(discriminator="kind")
]
