"""The models of phrase-structure parsers. Imports no torch."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, model_validator

from catena.config import Config
from catena.encoders.config import EncoderConfig, Probability, RecurrentConfig
from catena.search.config import BeamConfig
from catena.seq2seq.config import EncoderDecoderConfig
from catena.seq2seq.recurrent_config import RecurrentSeq2SeqConfig as RecurrentSequences
from catena.tasks.words.config import WordInputConfig

_Decoding = Literal["auto", "recall", "best"]


class ConstituencyParserConfig(Config):
    """What all models of phrase structure share."""

    functions: bool = False
    """Keep functional tags and indices of labels: NP-SBJ-1 stays what it is, and is not read as NP."""
    decoding: _Decoding = "auto"
    """The tree that is predicted: the one with the most brackets that can be expected to be right (recall; Goodman
    1996), or the one that is best as a whole (best). auto is best for grammars that people wrote, for spans that are
    trained by a margin, whose scores are no probabilities, and for seq2seq; and recall for others."""
    price: float = Field(0.4, ge=0, le=1)
    """With decoding = recall: the probability from which on a bracket is worth having. Lower favors recall, higher
    precision."""

    @property
    def by_recall(self) -> bool:
        """Whether the tree of the most expected brackets is predicted."""
        return self.decoding != "best"


class PCFGParserConfig(ConstituencyParserConfig):
    """A probabilistic grammar, counted from trees."""

    kind: Literal["pcfg"] = "pcfg"
    """The model."""
    vertical: int = Field(2, ge=1)
    """How many levels a phrase remembers, itself included: 2 tells an NP below S from one below VP."""
    horizontal: int | None = Field(2, ge=0)
    """How many sisters to its left a part of a phrase remembers; 'none' keeps rules whole, however long."""
    rare: int = Field(1, ge=0)
    """Words that occur so often or less become classes by their shape and suffix, which stand for unknown words."""
    smoothing: float = Field(0.0, ge=0)
    """How many occurrences coarser contexts and the tags of words that look alike count for; 0 for relative
    frequencies. A little, such as 1, parses more sentences and takes longer."""
    beam: float | None = Field(None, gt=0)
    """Drop symbols from a cell of the chart that fall short of its best one by so many nats; exact if not set."""
    longest: int = Field(120, gt=0)
    """Longer sentences get a flat tree, with a note: the time grows with the cube of the length."""


class GrammarParserConfig(ConstituencyParserConfig):
    """A grammar that a person wrote, in a file of rules; the file is what it is trained on."""

    kind: Literal["grammar"] = "grammar"
    """The model."""
    style: Literal["nltk", "bnf", "weighted"] | None = None
    """How the rules are written; seen from the first rule if not set."""
    start: str | None = None
    """The symbol that every parse begins with, in place of the one that the file names."""
    lowercase: bool = False
    """Look words up in lower case if the grammar does not have them as they stand."""
    count: bool = True
    """Count the parses of each sentence, exactly."""
    longest: int = Field(120, gt=0)
    """Longer sentences get a flat tree, with a note: the time grows with the cube of the length."""

    @property
    def by_recall(self) -> bool:
        return self.decoding == "recall"


class SpanParserConfig(ConstituencyParserConfig):
    """Scores of spans by a neural network, and the best tree over them (Stern et al. 2017; Zhang et al. 2020)."""

    kind: Literal["span"] = "span"
    """The model."""
    loss: Literal["crf", "margin"] = "crf"
    """What training makes small: minus the log-probability of the tree among all trees (crf), or how near trees with
    wrong brackets come to it (margin)."""
    words: WordInputConfig = WordInputConfig()
    """What is seen of a word."""
    encoder: EncoderConfig = RecurrentConfig(d=250, n_layers=2, dropout=0.33)
    """What reads the words in a row."""
    features: Literal["fenceposts", "ends"] = "fenceposts"
    """What a span is scored by: the change of the encoder's states from one end to the other (fenceposts: the first
    half of the units from left to right, the second from right to left), or its first and its last state (ends)."""
    d_span: int = Field(250, gt=0)
    """Hidden units of the scores of spans."""
    dropout: Probability = 0.33
    """Probability of dropping a unit of the encoder's states, and of the hidden units of spans, in training."""
    locked: bool = True
    """Drop the same units of the states for all words of a sentence (variational dropout)."""
    tag_weight: float = Field(1.0, gt=0)
    """Weight of the loss of the words' tags, which are predicted beside the tree."""
    margin: float = Field(1.0, gt=0)
    """With loss = margin: how much better than another tree the right one must score, for each span they differ in."""

    @property
    def by_recall(self) -> bool:
        return self.decoding == "recall" or (self.decoding == "auto" and self.loss == "crf")


class SequenceParserConfig(ConstituencyParserConfig):
    """A network that reads the words and writes the tree as a row of brackets ("grammar as a foreign language", Vinyals
    et al. 2015). Whatever it learns, what it writes is a tree over the words."""

    kind: Literal["seq2seq"] = "seq2seq"
    """The model."""
    network: EncoderDecoderConfig = RecurrentSequences(d=256, d_embedding=128, n_layers=2, dropout=0.4)
    """Any encoder-decoder: recurrent with attention, transformer, convolutional."""
    search: BeamConfig = BeamConfig(width=5)
    """How trees are searched for. Their length is limited by brackets, not by max_length."""
    tags: bool = True
    """Write the tag of each word at its place. If not, each leaf is written as XX, and words get no tags."""
    rare: int = Field(1, ge=0)
    """Words that occur so often or less in train are read as classes by their shape and suffix, and so are unknown
    ones."""
    unknown_dropout: float = Field(0.25, ge=0)
    """In training a word that train holds n times is read as its class with the probability z / (z + n), where z is
    this number; 0 for never."""
    brackets: float = Field(1.5, gt=0)
    """A tree has at most so many brackets for each word, and 10 more."""
    most_opened: int = Field(12, ge=1)
    """Brackets that may be opened in a row, which limits chains of them over the same words."""
    draws: int = Field(50, ge=1)
    """Trees that are drawn to estimate the probabilities of brackets, for decoding = recall and for --confidence."""

    @model_validator(mode="after")
    def _trees_hold_no_words(self) -> SequenceParserConfig:
        if self.network.kind == "copy":
            raise ValueError(
                "network.kind = 'copy' copies words of the sentence, and trees are written without them: choose "
                "recurrent, transformer or convolutional"
            )
        return self

    @property
    def by_recall(self) -> bool:
        return self.decoding == "recall"


KINDS = ("pcfg", "grammar", "span", "seq2seq")
"""The kinds of model for phrase structure."""

METRICS: dict[str, tuple[str, ...]] = dict.fromkeys(
    KINDS, ("f1", "precision", "recall", "complete", "crossing", "uncrossed", "few_crossed", "tagging")
)
"""The scores of each model; the first decides which checkpoint is best."""

SUGGESTED: dict[str, dict[str, Any]] = {
    "span": {
        "optimizer": "adam",
        "learning_rate": 0.001,
        "betas": (0.9, 0.98),
        "clip_norm": 5.0,
        "schedule": "plateau",
        "patience": 10,
    },
    "seq2seq": {
        "optimizer": "adam",
        "learning_rate": 0.001,
        "clip_norm": 5.0,
        "schedule": "plateau",
        "max_epochs": 60,
        "patience": 10,
    },
}
"""How each model likes to be trained, where the config does not say."""
