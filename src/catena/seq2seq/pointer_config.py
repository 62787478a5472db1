"""Config of pointer networks. Does not import torch."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from catena.config import Config
from catena.encoders.config import EncoderConfig, Probability, RecurrentConfig, ScoreName, TransformerConfig

RuleName = Literal["any", "some", "order", "ring", "triples"]


class PointerNetworkConfig(Config):
    """A pointer network: an encoder reads the input, a decoder points at its positions one after another."""

    kind: Literal["pointer"] = "pointer"
    """A pointer network."""
    d: int = Field(128, gt=0)
    """Size of the vector of a point or token before the encoder."""
    encoder: EncoderConfig = TransformerConfig(d=128, n_heads=8, n_layers=3, positions="none", dropout=0.0)
    """The input encoder. A Transformer without positions encodes a set: its output does not depend on the order of the
    points. A recurrent one reads them in order, as in the original paper."""
    decoder: EncoderConfig = RecurrentConfig(d=128, bidirectional=False)
    """The decoder over the positions so far; it must be causal."""
    score: ScoreName = "additive"
    """Attention score of a position and the decoder's state."""
    glimpses: int = Field(1, ge=0)
    """Number of glimpses at the remaining positions before the decoder points; 0 as in the original paper."""
    dropout: Probability = 0.0
    """Probability of dropping a unit of the decoder's inputs and of its states."""
