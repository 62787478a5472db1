"""The model of a dependency parser. Imports no torch."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, model_validator

from catena.config import Config
from catena.encoders.config import EncoderConfig, Probability, RecurrentConfig
from catena.tasks.words.config import WordInputConfig

_LossName = Literal["matrix_tree", "eisner", "head", "margin"]
_TREE_COLUMNS = ("head", "deprel", "deps")
"""The columns of CoNLL-U that a tree is written in."""


class BiaffineParserConfig(Config):
    """Dependency trees by biaffine scores of arcs and of their relations (Dozat & Manning 2017)."""

    kind: Literal["biaffine"] = "biaffine"
    """The model."""
    loss: _LossName = "matrix_tree"
    """What training makes small: minus the log-probability of the tree among all trees (matrix_tree) or all projective
    ones (eisner), that of each word's head by itself (head), or how far trees with wrong arcs come near (margin)."""
    trees: Literal["nonprojective", "projective"] = "nonprojective"
    """The trees that are predicted: any, or those without crossing arcs."""
    single_root: bool = True
    """Exactly one word hangs from the root, as in Universal Dependencies; otherwise one or more."""
    words: WordInputConfig = WordInputConfig()
    """What is seen of a word."""
    encoder: EncoderConfig = RecurrentConfig(d=200, n_layers=2, dropout=0.33)
    """What reads the words in a row."""
    dropout: Probability = 0.33
    """Probability of dropping a unit of the encoder's states, and of the vectors that are scored, in training."""
    locked: bool = True
    """Drop the same units for all words of a sentence (variational dropout)."""
    d_arc: int = Field(400, gt=0)
    """Units of the vectors of heads and of dependents that arcs are scored by."""
    d_relation: int = Field(100, gt=0)
    """Units of those that relations are scored by."""
    margin: float = Field(1.0, gt=0)
    """With loss = margin: how much better than another tree the right one must score, for each word they differ in."""

    @model_validator(mode="after")
    def _fits(self) -> BiaffineParserConfig:
        if self.loss == "eisner" and self.trees == "nonprojective":
            raise ValueError(
                "loss = 'eisner' gives all trees with crossing arcs the probability 0, and trees = 'nonprojective' "
                "would predict them: set trees = 'projective', or loss = 'matrix_tree'"
            )
        if shown := [name for name in self.words.columns if name in _TREE_COLUMNS]:
            raise ValueError(
                f"words.columns has {shown[0]!r}, which holds the trees that are to be found: leave it out (upos, "
                f"xpos, lemma and feats may be read)"
            )
        return self


METRICS = ("las", "uas", "clas", "mlas")
"""The scores of a dependency parser; the first decides which checkpoint is best."""

SUGGESTED: dict[str, Any] = {
    "optimizer": "adam",
    "learning_rate": 0.002,
    "betas": (0.9, 0.9),
    "eps": 1e-12,
    "max_epochs": 40,
    "patience": 10,
}
"""How a biaffine parser likes to be trained, where the config does not say."""
