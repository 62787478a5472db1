"""Configs of transducers. Imports no torch.

Tested in tests/transduction/test_joint.py and tests/transduction/test_edit.py.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from catena.config import Config
from catena.encoders.config import RecurrentConfig
from catena.search.config import BeamConfig
from catena.seq2seq.config import EncoderDecoderConfig
from catena.seq2seq.config import RecurrentSeq2SeqConfig as RecurrentSequences


class JointConfig(Config):
    """n-grams of units that pair a piece of the source with a piece of the target (Bisani & Ney 2008)."""

    kind: Literal["joint"] = "joint"
    """A joint-sequence model."""
    order: int = Field(8, ge=1, le=20)
    """Order of the n-gram model of units."""
    source_length: int = Field(2, ge=1, le=4)
    """Largest number of source symbols in a unit."""
    target_length: int = Field(2, ge=1, le=4)
    """Largest number of target symbols in a unit."""
    several_of_both: bool = False
    """Allow units with several symbols of both sides."""
    deletions: bool = True
    """Allow units with a source symbol and no target symbol."""
    insertions: int = Field(0, ge=0, le=4)
    """Largest number of successive target symbols without a source symbol. 0: every target symbol is aligned to a
    source symbol, and pairs whose target is too long for that are dropped."""
    rounds: int = Field(8, ge=1)
    """Rounds of expectation maximization for the alignment."""
    penalty: float = Field(1.0, ge=0)
    """Exponent of the length penalty of the best alignment: log p of a unit is multiplied by its length to this power.
    With 0, long units win over equally good short ones."""
    estimator: str = "modified-kneser-ney"
    """Smoothing of the n-gram model; see the page on n-grams."""
    beam: float = Field(10.0, gt=0)
    """Beam threshold: hypotheses more than this many nats below the best at their source position are pruned."""
    nodes: int = Field(200, ge=1)
    """Beam size: largest number of hypotheses at each source position."""
    paths: int = Field(20, ge=1)
    """Number of best alignments whose probabilities are summed for their targets; 1 uses only the best alignment."""

    exact: bool = False
    """Rank the targets of these alignments by the sum over all their alignments, with one search for each target.
    Slower, and on most data the order does not change."""


class EditConfig(Config):
    """Insertions, deletions and substitutions with contextual scores, trained by exact likelihood."""

    kind: Literal["edit"] = "edit"
    """A contextual edit transducer."""
    normalize: Literal["global", "local"] = "global"
    """global: p(y | x) is the weight of y divided by the total weight of all (infinitely many) targets. local: every
    edit has a probability given its position and the previous target symbol, and these are multiplied."""
    scores: Literal["features", "encoder"] = "features"
    """features: log-linear in the symbols around a position. encoder: a recurrent network over the source."""
    window: int = Field(2, ge=0, le=5)
    """With features: number of symbols to the left and right of a position, used as single symbols and as n-grams."""
    buckets: int = Field(1 << 15, gt=0)
    """With features: number of rows of the weight table, indexed by feature hash."""
    size: int = Field(64, gt=0)
    """With an encoder: size of the embeddings of source symbols."""
    dropout: float = Field(0.2, ge=0, lt=1)
    """With an encoder: dropout of its input and its output."""
    encoder: RecurrentConfig = RecurrentConfig(d=128)
    pairs: bool = True
    """Score each edit jointly by the previous target symbol and the current source symbol."""
    width: int = Field(24, ge=1)
    """Beam size: number of target prefixes of each length."""


class SequenceTransducerConfig(Config):
    """An encoder-decoder that generates the target from left to right (Yao & Zweig 2015)."""

    kind: Literal["seq2seq"] = "seq2seq"
    """An encoder-decoder."""
    network: EncoderDecoderConfig = RecurrentSequences(d=256, d_embedding=128, n_layers=2)
    """Any encoder-decoder: recurrent with attention, transformer, convolutional."""
    search: BeamConfig = BeamConfig(beam_size=5, max_length=2000)
    """Search of targets. A target has at most three times as many symbols as its source plus 20, and at most
    max_length."""


class BaselineConfig(Config):
    """A baseline for comparison."""

    kind: Literal["baseline"] = "baseline"
    """A rule."""
    method: Literal["copy", "frequent", "script"] = "frequent"
    """copy: the source itself. frequent: the most frequent replacement of each source symbol. script: the most frequent
    change of the longest known ending and beginning."""


TransducerConfig = Annotated[
    JointConfig | EditConfig | SequenceTransducerConfig | BaselineConfig, Field(discriminator="kind")
]

__all__ = ["BaselineConfig", "EditConfig", "JointConfig", "SequenceTransducerConfig", "TransducerConfig"]
