"""Settings of the neural checklist model. Imports no torch."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from catena.config import Config
from catena.outputs.config import OutputConfig, SoftmaxConfig


class ChecklistConfig(Config):
    """The neural checklist model (Kiddon et al. 2016): it keeps a list of what it has mentioned."""

    kind: Literal["checklist"] = "checklist"
    """The model."""
    d_embedding: int = Field(256, gt=0)
    """Features of the vector of a word. Goal and items are sums of such vectors."""
    scale: float = Field(0.1, gt=0)
    """Vectors are drawn evenly from -scale to scale."""
    d: int = Field(512, gt=0)
    """Units of the gated recurrent unit."""
    output: OutputConfig = SoftmaxConfig()
    """How a vector becomes a distribution over the vocabulary."""
    tied: bool = True
    """The output layer has the words' own vectors for weights, so that the vector of an item asks for its words."""
    mixture: Literal["probabilities", "vectors"] = "probabilities"
    """What the switch mixes: the probabilities of the language model and of the words of items; or vectors, of which
    one softmax makes probabilities, as in the paper."""
    reader: Literal["none", "attention"] = "none"
    """How the source is looked at beside its agenda. none: it is not, as in the paper. attention: its words are read
    from both ends, and looked back at in each step; the text begins from what was read last."""
    dropout_input: float = Field(0.3, ge=0, lt=1)
    """Probability of dropping a number of the vector of a word that was written, in training."""
    dropout_source: float = Field(0.3, ge=0, lt=1)
    """Probability of dropping a number of the vector of a word of the goal or of an item in training, and of what goal
    and items say to every step: without it a text is learned by heart from its title."""
    dropout_output: float = Field(0.3, ge=0, lt=1)
    """Probability of dropping a number of the vector that predicts the next word."""
    switch_sharpness: float = Field(1.0, gt=0)
    """What the scores of the switch between language model, new item and used item are multiplied by."""
    item_sharpness: float = Field(1.0, gt=0)
    """What the scores of items are multiplied by."""
    item_gain: float = Field(8.0, gt=0)
    """What the vectors of items are multiplied by where they foretell words, at first; it is learned. With tied weights
    a word's own vector is too short to ask for the word with certainty."""
    supervision: float = Field(1.0, ge=0)
    """Weight of what training adds to the loss for the switch and the choice of items, which a word that an item
    holds is taken to tell; 0 leaves both to be found."""
    completion: float = Field(0.1, ge=0)
    """Weight of the share of items that are not ticked off at the end of a text."""

    @model_validator(mode="after")
    def _fits(self) -> ChecklistConfig:
        if self.reader == "attention" and self.d % 2:
            raise ValueError(
                f"d = {self.d} is odd, and reader = 'attention' shares the units between two directions: choose "
                f"d = {self.d + 1}, or reader = 'none'"
            )
        return self
