"""Config of CopyNet. Does not import torch."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from catena.config import Config
from catena.encoders.config import CellName, EncoderConfig, Probability, RecurrentConfig, ScoreName


class CopyNetConfig(Config):
    """CopyNet: a recurrent encoder-decoder that generates words of its vocabulary and copies words of the source."""

    kind: Literal["copy"] = "copy"
    """An encoder-decoder that copies."""
    encoder: EncoderConfig = RecurrentConfig(d=128)
    """The source encoder."""
    cell: CellName = "lstm"
    """The recurrent cell of the decoder."""
    d: int = Field(256, gt=0)
    """Units of the decoder."""
    d_embedding: int = Field(256, gt=0)
    """Size of a token vector."""
    attention: ScoreName = "additive"
    """Attention score of a decoder state and an encoder state."""
    selective: bool = True
    """Selective reading: with a token that occurs in the source, the decoder also reads the source states there."""
    dropout: Probability = 0.2
    """Probability of dropping a feature of an embedding, or a unit before the output."""
