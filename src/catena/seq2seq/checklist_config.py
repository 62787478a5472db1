"""Config of the neural checklist model. Does not import torch. Tested in tests/seq2seq/test_checklist.py."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from catena.config import Config
from catena.outputs.config import OutputConfig, SoftmaxConfig


class ChecklistConfig(Config):
    """The neural checklist model (Kiddon et al. 2016), which tracks the items that it has mentioned."""

    kind: Literal["checklist"] = "checklist"
    """The model."""
    d_embedding: int = Field(256, gt=0)
    """Size of a word vector. Goal and items are sums of such vectors."""
    scale: float = Field(0.1, gt=0)
    """Initial vectors are uniform from -scale to scale."""
    d: int = Field(512, gt=0)
    """Units of the GRU."""
    output: OutputConfig = SoftmaxConfig()
    """The output layer over the vocabulary."""
    tied: bool = True
    """Use the word vectors as weights of the output layer, so that the vector of an item predicts its words."""
    mixture: Literal["probabilities", "vectors"] = "probabilities"
    """What the switch mixes: the probabilities of the language model and of the words of items, or vectors before one
    softmax, as in the paper."""
    reader: Literal["none", "attention"] = "none"
    """Attention to the source in addition to its agenda. none: as in the paper. attention: a bidirectional encoder of
    the words, with attention in each step; the text starts from its last state."""
    dropout_input: float = Field(0.3, ge=0, lt=1)
    """Probability of dropping a feature of the vector of a target word in training."""
    dropout_source: float = Field(0.3, ge=0, lt=1)
    """Probability of dropping a feature of the vector of a word of the goal or of an item in training, and of their
    projections: without it a text is memorized by its title."""
    dropout_output: float = Field(0.3, ge=0, lt=1)
    """Probability of dropping a feature of the vector that predicts the next word."""
    switch_sharpness: float = Field(1.0, gt=0)
    """Factor of the scores of the switch between language model, new item and used item."""
    item_sharpness: float = Field(1.0, gt=0)
    """Factor of the scores of items."""
    item_gain: float = Field(8.0, gt=0)
    """Initial factor of the vectors of items when they predict words; it is learned. With tied weights a word's own
    vector is too short to predict the word with certainty."""
    supervision: float = Field(1.0, ge=0)
    """Weight of the loss of the switch and of the choice of items, with a word of an item as a mention of it; 0 trains
    both without supervision."""
    completion: float = Field(0.1, ge=0)
    """Weight of the fraction of items that are not checked off at the end of a text."""

    @model_validator(mode="after")
    def _fits(self) -> ChecklistConfig:
        if self.reader == "attention" and self.d % 2:
            raise ValueError(
                f"d must be even for reader = 'attention', which has two directions, got {self.d}. Use "
                f"{self.d + 1}, or reader = 'none'."
            )
        return self
