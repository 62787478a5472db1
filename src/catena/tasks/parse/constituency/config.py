"""The configs of phrase-structure parsers. Imports no torch.

Tested in tests/tasks/parse/constituency/test_settings.py and tests/tasks/parse/constituency/test_sequence.py.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, model_validator

from catena.config import Config
from catena.encoders.config import EncoderConfig, Probability, RecurrentConfig
from catena.search.config import BeamConfig
from catena.seq2seq.config import EncoderDecoderConfig
from catena.seq2seq.config import RecurrentSeq2SeqConfig as RecurrentSequences
from catena.tasks.word_inputs.config import WordInputConfig

_Decoding = Literal["auto", "recall", "best"]


class ConstituencyParserConfig(Config):
    """Common options of all models of phrase structure."""

    functions: bool = False
    """Keep function tags and indices of labels: NP-SBJ-1 is not reduced to NP."""
    decoding: _Decoding = "auto"
    """The predicted tree: the one with the largest expected number of correct brackets (recall; Goodman 1996), or the
    most probable one (best). auto is best for handwritten grammars, for span models trained with a margin, whose scores
    are not probabilities, and for seq2seq; recall otherwise."""
    price: float = Field(0.4, ge=0, le=1)
    """With decoding = recall: minimum probability of a bracket that is worth including. Lower favors recall, higher
    precision."""

    @property
    def by_recall(self) -> bool:
        """Whether the tree with the most expected brackets is predicted."""
        return self.decoding != "best"


class PCFGParserConfig(ConstituencyParserConfig):
    """A probabilistic context-free grammar, counted from trees."""

    kind: Literal["pcfg"] = "pcfg"
    """The model."""
    vertical: int = Field(2, ge=1)
    """Vertical Markovization: number of levels in a symbol; 2 separates NP below S from NP below VP."""
    horizontal: int | None = Field(2, ge=0)
    """Horizontal Markovization: number of left sisters that a part of a rule keeps; 'none' keeps rules whole."""
    rare: int = Field(1, ge=0)
    """Words that occur this often or less are replaced by classes of their shape and suffix, as are unknown words."""
    smoothing: float = Field(0.0, ge=0)
    """Number of occurrences that coarser contexts and the tags of similar words count for; 0 gives relative
    frequencies. A small value, such as 1, parses more sentences and takes longer."""
    beam: float | None = Field(None, gt=0)
    """Prune symbols from a chart cell that are more than this many nats below its best; exact if not set."""
    longest: int = Field(120, gt=0)
    """Longer sentences get a flat tree with a note: time is cubic in the length."""


class GrammarParserConfig(ConstituencyParserConfig):
    """A handwritten grammar in a file of rules, which is given as the training file."""

    kind: Literal["grammar"] = "grammar"
    """The model."""
    style: Literal["nltk", "bnf", "weighted"] | None = None
    """The notation of the rules; detected from the first rule if not set."""
    start: str | None = None
    """The start symbol, if it is not the one of the file."""
    lowercase: bool = False
    """Look words up in lower case if the grammar does not have them."""
    count: bool = True
    """Count the parses of each sentence exactly."""
    longest: int = Field(120, gt=0)
    """Longer sentences get a flat tree with a note: time is cubic in the length."""

    @property
    def by_recall(self) -> bool:
        return self.decoding == "recall"


class SpanParserConfig(ConstituencyParserConfig):
    """A neural network that scores spans, and the best tree over them (Stern et al. 2017; Zhang et al. 2020)."""

    kind: Literal["span"] = "span"
    """The model."""
    loss: Literal["crf", "margin"] = "crf"
    """The training loss: negative log-likelihood of the tree (crf), or hinge loss against the best wrong tree
    (margin)."""
    words: WordInputConfig = WordInputConfig()
    """The input features of a word."""
    encoder: EncoderConfig = RecurrentConfig(d=250, n_layers=2, dropout=0.33)
    """The encoder over the words of a sentence."""
    features: Literal["fenceposts", "ends"] = "fenceposts"
    """Features of a span: the difference of the encoder's states between its ends (fenceposts: the first half of the
    units from left to right, the second from right to left), or its first and last state (ends)."""
    d_span: int = Field(250, gt=0)
    """Number of hidden units of the span scorer."""
    dropout: Probability = 0.33
    """Dropout probability of the encoder's states and of the hidden units of the span scorer."""
    locked: bool = True
    """Variational dropout: drop the same units of the states for all words of a sentence."""
    tag_weight: float = Field(1.0, gt=0)
    """Weight of the loss of the words' tags, which are predicted together with the tree."""
    margin: float = Field(1.0, gt=0)
    """With loss = margin: the required margin for each span that differs from the gold tree."""

    @property
    def by_recall(self) -> bool:
        return self.decoding == "recall" or (self.decoding == "auto" and self.loss == "crf")


class SequenceParserConfig(ConstituencyParserConfig):
    """An encoder-decoder that writes the tree as a sequence of brackets (Vinyals et al. 2015); always a valid tree."""

    kind: Literal["seq2seq"] = "seq2seq"
    """The model."""
    network: EncoderDecoderConfig = RecurrentSequences(d=256, d_embedding=128, n_layers=2, dropout=0.4)
    """The encoder-decoder: recurrent with attention, transformer, or convolutional."""
    search: BeamConfig = BeamConfig(beam_size=5)
    """The search for trees. Their length is limited by brackets, not by max_length."""
    tags: bool = True
    """Write the tag of each word. If false, each leaf is written as XX, and words get no tags."""
    rare: int = Field(1, ge=0)
    """Words that occur this often or less in train are read as classes of their shape and suffix, as are unknown
    words."""
    unknown_dropout: float = Field(0.25, ge=0)
    """In training, a word that occurs n times is read as its class with probability z / (z + n), where z is this value;
    0 disables it."""
    brackets: float = Field(1.5, gt=0)
    """A tree has at most this many brackets per word, plus 10."""
    most_opened: int = Field(12, ge=1)
    """Maximum number of consecutive opening brackets, which limits unary chains."""
    draws: int = Field(50, ge=1)
    """Number of sampled trees for the probabilities of brackets, for decoding = recall and for --confidence."""

    @model_validator(mode="after")
    def _trees_hold_no_words(self) -> SequenceParserConfig:
        if self.network.kind == "copy":
            raise ValueError(
                "network.kind = 'copy' copies words of the sentence, but trees are written without words. Use "
                "recurrent, transformer or convolutional."
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
"""The scores of each model; the first selects checkpoints."""

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
"""Default training options of each model."""
