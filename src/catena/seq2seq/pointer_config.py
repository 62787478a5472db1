"""Settings of pointer networks. Imports no torch."""

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
    """Features that each point or token is mapped to before it is encoded."""
    encoder: EncoderConfig = TransformerConfig(d=128, n_heads=8, n_layers=3, positions="none", dropout=0.0)
    """What reads the input. A Transformer without positions sees a set: its answer does not depend on the order in
    which the points are given. A recurrent one reads them in their order, as in the first paper."""
    decoder: EncoderConfig = RecurrentConfig(d=128, bidirectional=False)
    """What reads the positions that were pointed at so far; it must go step by step."""
    score: ScoreName = "additive"
    """How well a position fits what the decoder looks for."""
    glimpses: int = Field(1, ge=0)
    """How often the decoder looks at the positions that are left before it points; 0 as in the first paper."""
    dropout: Probability = 0.0
    """Probability of dropping a unit of what is read, and of what the decoder looks for."""
