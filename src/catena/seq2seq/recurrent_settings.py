"""Settings of recurrent encoder-decoders. Imports no torch."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from catena.config import Config
from catena.encoders.settings import CellName, Probability, ScoreName
from catena.outputs.settings import OutputSettings, SoftmaxSettings


class RecurrentSettings(Config):
    """A recurrent encoder-decoder, with attention or without."""

    kind: Literal["recurrent"] = "recurrent"
    """A recurrent encoder-decoder."""
    cell: CellName = "lstm"
    """The recurrence of both sides. lstm, gru and elman run on torch's fused forms."""
    d: int = Field(256, gt=0)
    """Units of each layer; in the encoder's bidirectional layers half of them read from each end."""
    d_embedding: int = Field(256, gt=0)
    """Features of a token's vector."""
    n_layers: int = Field(1, gt=0)
    """Layers of the encoder, and of the decoder."""
    bidirectional: Literal["all", "first", "none"] = "all"
    """Layers of the encoder that read the source from both ends."""
    reverse: bool = False
    """Read the source from its end to its beginning, so that the first words of both sides are near (Sutskever et al.
    2014)."""
    residual: bool = False
    """Layers from the third on add their input to their output, which lets deep stacks train (GNMT)."""
    handover: Literal["copy", "map", "mean", "zero"] = "copy"
    """What the decoder starts from: the encoder's last states layer by layer, as they are (copy) or mapped (map); the
    mean of its states, mapped; or zero."""
    attention: Literal["none"] | ScoreName = "additive"
    """How well a state of the decoder fits one of the encoder; none looks at nothing but the last state."""
    n_heads: int = Field(1, gt=0)
    """Heads of the attention; several have maps of their own."""
    d_attention: int | None = Field(None, gt=0)
    """Units inside the additive and hadamard scores; if not set, as many as the queries have."""
    order: Literal["luong", "bahdanau", "gnmt"] = "luong"
    """luong steps and then looks; bahdanau looks with the state before the step, which reads what was found; gnmt does
    so with the lowest layer, and all layers read what was found."""
    input_feeding: bool = True
    """In Luong's order: what predicted the last token is read with the token. Without it training is faster."""
    output: OutputSettings = SoftmaxSettings()
    """How a vector becomes a distribution over the target vocabulary."""
    tied: bool = True
    """The output layer has the weights of the target's embedding."""
    shared: bool = False
    """Source and target have one embedding, which needs one vocabulary for both."""
    dropout: Probability = 0.3
    """Probability of dropping a feature of an embedding, a unit between layers, or a unit before the output."""

    @model_validator(mode="after")
    def _fits(self) -> RecurrentSettings:
        if self.bidirectional != "none" and self.d % 2:
            raise ValueError(
                f"d = {self.d} is odd, and bidirectional = {self.bidirectional!r} shares the units between two "
                f"directions: choose d = {self.d + 1}, or bidirectional = 'none'"
            )
        if self.d % self.n_heads:
            raise ValueError(
                f"d = {self.d} cannot be shared by n_heads = {self.n_heads}: choose a d that n_heads divides"
            )
        if self.residual and self.n_layers < 3:
            raise ValueError(
                f"residual = true is for layers from the third on, and n_layers is {self.n_layers}: set n_layers to 3 "
                "or more, or residual = false"
            )
        return self
