"""Settings of CopyNet. Imports no torch."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from catena.config import Config
from catena.encoders.config import CellName, EncoderConfig, Probability, RecurrentConfig, ScoreName


class CopyNetConfig(Config):
    """CopyNet: a recurrent encoder-decoder that writes words of its vocabulary and copies words of the source, known
    or not."""

    kind: Literal["copy"] = "copy"
    """An encoder-decoder that copies."""
    encoder: EncoderConfig = RecurrentConfig(d=128)
    """What reads the source."""
    cell: CellName = "lstm"
    """The recurrence of the decoder."""
    d: int = Field(256, gt=0)
    """Units of the decoder."""
    d_embedding: int = Field(256, gt=0)
    """Features of a token's vector."""
    attention: ScoreName = "additive"
    """How well a state of the decoder fits one of the encoder."""
    selective: bool = True
    """Selective reading: with a token that the source has, the decoder reads what the source says where it stands."""
    dropout: Probability = 0.2
    """Probability of dropping a feature of an embedding, or a unit before the output."""
