"""Settings of tree encoders. Imports no torch. ``TreeEncoderConfig`` is any of them, told apart by ``kind``."""

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
    """ordered has weights for each child by its place (the N-ary Tree-LSTM); summed adds the children up, any number of
    them (the child-sum Tree-LSTM)."""
    most: int = Field(2, ge=1)
    """The most children that a node may have, if they are ordered; nodes with more are made binary."""
    d: int = Field(150, gt=0)
    """Units of the memory."""
    dropout: Probability = 0.0
    """Probability of dropping a unit of what is new in a memory, in training."""
    forget_bias: float = 1.0
    """First bias of the forget gates."""

    @model_validator(mode="after")
    def _most_is_for_ordered_children(self) -> TreeLSTMConfig:
        if self.children == "summed" and self.most != 2:
            raise ValueError(
                f"most = {self.most} is for children = 'ordered': summed children may be any number, leave it out"
            )
        return self


class RecursiveConfig(Config):
    """A recursive network (Socher et al. 2011): the same layer at every node of a binary tree."""

    kind: Literal["recursive"] = "recursive"
    """A recursive network."""
    activation: ActivationName = "tanh"
    """Activation of the nodes that are no leaves."""


class MatrixVectorConfig(Config):
    """Matrix-vector recursion (MV-RNN, Socher et al. 2012): each word and phrase changes its neighbor by a matrix."""

    kind: Literal["mv_rnn"] = "mv_rnn"
    """Matrix-vector recursion."""
    rank: int = Field(3, gt=0)
    """Rank of a word's matrix beside its diagonal."""
    activation: ActivationName = "tanh"
    """Activation of the nodes that are no leaves."""


class TensorConfig(Config):
    """A recursive neural tensor network (RNTN, Socher et al. 2013): children multiply each other."""

    kind: Literal["rntn"] = "rntn"
    """A recursive neural tensor network."""
    activation: ActivationName = "tanh"
    """Activation of the nodes that are no leaves."""
    scale: float | None = Field(None, gt=0)
    """The tensor is drawn evenly from -scale to scale; if not set, by the size of the vectors."""


TreeEncoderConfig = Annotated[
    TreeLSTMConfig | RecursiveConfig | MatrixVectorConfig | TensorConfig, Field(discriminator="kind")
]
