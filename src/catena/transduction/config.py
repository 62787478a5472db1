"""Settings of transducers. Imports no torch."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from catena.config import Config
from catena.encoders.config import RecurrentConfig
from catena.search.config import BeamConfig
from catena.seq2seq.config import EncoderDecoderConfig
from catena.seq2seq.recurrent_config import RecurrentSeq2SeqConfig as RecurrentSequences


class JointConfig(Config):
    """n-grams of units that read a piece of the source and write a piece of the target (Bisani & Ney 2008)."""

    kind: Literal["joint"] = "joint"
    """A joint-sequence model."""
    order: int = Field(8, ge=1, le=20)
    """The longest n-grams, in units."""
    source_length: int = Field(2, ge=1, le=4)
    """The most symbols of the source in a unit."""
    target_length: int = Field(2, ge=1, le=4)
    """The most symbols of the target in a unit."""
    several_of_both: bool = False
    """Whether a unit may have several symbols of both sides."""
    deletions: bool = True
    """Whether a symbol of the source may be read with nothing written for it."""
    insertions: int = Field(0, ge=0, le=4)
    """How many symbols of the target may be written in a row with nothing read. 0: every symbol is written for some
    symbol of the source, and pairs whose target is too long for that are dropped."""
    rounds: int = Field(8, ge=1)
    """Rounds of expectation maximization over all alignments."""
    penalty: float = Field(1.0, ge=0)
    """Where the best alignment is chosen, the log-probability of a unit is multiplied by its length to this power: with
    0, long units win over short ones that say as much."""
    estimator: str = "modified-kneser-ney"
    """How probability is taken from n-grams that were seen and given to others; see the page on n-grams."""
    beam: float = Field(10.0, gt=0)
    """Nats below the best way to a place of the source that a way is still followed."""
    nodes: int = Field(200, ge=1)
    """Ways that are followed at each place of the source, at most."""
    paths: int = Field(20, ge=1)
    """Best alignments whose probabilities are added up for their targets; 1 takes the target of the best alignment."""

    exact: bool = False
    """Rank the targets of these alignments by the sum of all their alignments, each by a search of its own: slower, and
    on most data the order stays as it is."""


class EditConfig(Config):
    """Insertions, deletions and substitutions whose scores depend on where they stand, trained by exact likelihood."""

    kind: Literal["edit"] = "edit"
    """A contextual edit transducer."""
    normalize: Literal["global", "local"] = "global"
    """global: p(y | x) is the weight of y over the weight of all targets, a sum over infinitely many. local: every edit
    has a probability given its place and the symbol written last, and they are multiplied."""
    scores: Literal["features", "encoder"] = "features"
    """features: log-linear in the symbols around a place. encoder: a recurrent network reads the source."""
    window: int = Field(2, ge=0, le=5)
    """With features: symbols to the left and right of a place that are looked at, each by itself and in runs."""
    buckets: int = Field(1 << 15, gt=0)
    """With features: rows of the table of weights; features are put into them by a hash."""
    size: int = Field(64, gt=0)
    """With an encoder: the size of the vectors of source symbols."""
    dropout: float = Field(0.2, ge=0, lt=1)
    """With an encoder: the probability of dropping a number of its input and of its output."""
    encoder: RecurrentConfig = RecurrentConfig(d=128)
    pairs: bool = True
    """Let the symbol written last and the symbol that is read decide together about an edit."""
    width: int = Field(24, ge=1)
    """Beginnings of targets of each length that are followed in the search."""


class SequenceTransducerConfig(Config):
    """A network that reads the source as a whole and writes the target from left to right (Yao & Zweig 2015)."""

    kind: Literal["seq2seq"] = "seq2seq"
    """An encoder-decoder."""
    network: EncoderDecoderConfig = RecurrentSequences(d=256, d_embedding=128, n_layers=2)
    """Any encoder-decoder: recurrent with attention, transformer, convolutional."""
    search: BeamConfig = BeamConfig(width=5, max_length=2000)
    """How targets are searched for. They are at most three times as long as their source and 20 symbols more, and no
    longer than max_length."""


class BaselineConfig(Config):
    """What a model must be better than."""

    kind: Literal["baseline"] = "baseline"
    """A rule."""
    method: Literal["copy", "frequent", "script"] = "frequent"
    """copy: the source itself. frequent: for each symbol of the source, what is written for it most often. script: the
    end and the beginning changed as was most often done to words with the longest such end and beginning."""


TransducerConfig = Annotated[
    JointConfig | EditConfig | SequenceTransducerConfig | BaselineConfig, Field(discriminator="kind")
]

__all__ = ["BaselineConfig", "EditConfig", "JointConfig", "SequenceTransducerConfig", "TransducerConfig"]
