"""The config of a dependency parser. Imports no torch.

Tested in tests/tasks/parse/dependency/test_decode.py and tests/tasks/parse/dependency/test_loss.py.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, model_validator

from catena.config import Config
from catena.encoders.config import EncoderConfig, Probability, RecurrentConfig
from catena.tasks.word_inputs.config import WordInputConfig

_LossName = Literal["matrix_tree", "eisner", "head", "margin"]
_TREE_COLUMNS = ("head", "deprel", "deps")
"""The columns of CoNLL-U that encode a tree."""


class BiaffineParserConfig(Config):
    """Dependency parser with biaffine scores of arcs and relations (Dozat & Manning 2017)."""

    kind: Literal["biaffine"] = "biaffine"
    """The model."""
    loss: _LossName = "matrix_tree"
    """The training loss: negative log-likelihood of the tree among all trees (matrix_tree) or all projective trees
    (eisner), of each word's head independently (head), or hinge loss against the best wrong tree (margin)."""
    trees: Literal["auto", "nonprojective", "projective"] = "auto"
    """The predicted trees: any, or only trees without crossing arcs. auto: projective with loss = eisner or if fewer
    than 1 % of the arcs of train cross others, which are too few to learn when arcs cross."""
    single_root: bool = True
    """Exactly one word is attached to the root, as in Universal Dependencies; if false, one or more."""
    words: WordInputConfig = WordInputConfig()
    """The input features of a word."""
    encoder: EncoderConfig = RecurrentConfig(d=200, n_layers=2, dropout=0.33)
    """The encoder over the words of a sentence."""
    dropout: Probability = 0.33
    """Dropout probability of the encoder's states and of the head and dependent vectors."""
    locked: bool = True
    """Variational dropout: drop the same units for all words of a sentence."""
    d_arc: int = Field(400, gt=0)
    """Size of the head and dependent vectors for arcs."""
    d_relation: int = Field(100, gt=0)
    """Size of the head and dependent vectors for relations."""
    margin: float = Field(1.0, gt=0)
    """With loss = margin: the required margin for each word that differs from the gold tree."""

    @model_validator(mode="after")
    def _fits(self) -> BiaffineParserConfig:
        if self.loss == "eisner" and self.trees == "nonprojective":
            raise ValueError(
                "loss = 'eisner' gives trees with crossing arcs the probability 0, but trees = 'nonprojective' would "
                "predict them. Set trees = 'projective' or loss = 'matrix_tree'."
            )
        if shown := [name for name in self.words.columns if name in _TREE_COLUMNS]:
            raise ValueError(
                f"words.columns has {shown[0]!r}, a column of the trees to predict. Remove it; upos, xpos, lemma and "
                f"feats may be read."
            )
        return self


METRICS = ("las", "uas", "clas", "mlas")
"""The scores of a dependency parser; the first selects checkpoints."""

SUGGESTED: dict[str, Any] = {
    "optimizer": "adam",
    "learning_rate": 0.002,
    "betas": (0.9, 0.9),
    "eps": 1e-12,
    "max_epochs": 40,
    "patience": 10,
}
"""Default training options of a biaffine parser."""
