"""The choices of an embedding table. Typed values only; imports no torch."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from catena.config import Config


class EmbeddingConfig(Config):
    """Vectors of tokens: random, or read from a file of word vectors."""

    d: int = Field(300, gt=0)
    """Features of a vector; with a file of vectors, as many as it has."""
    mode: Literal["random", "static", "tuned", "multichannel"] = "random"
    """Vectors drawn at random and learned; those of a file, kept (static), learned (tuned), or both at once."""
    vectors: str | None = None
    """A file of word vectors: of Catena, word2vec (text or binary, also compressed), GloVe or fastText."""
    scale: float = Field(0.25, gt=0)
    """Random vectors are drawn evenly from -scale to scale; beside those of a file, at their variance."""
    dropout: float = Field(0.0, ge=0, lt=1)
    """The share of features that are set to 0 in training."""
    token_dropout: float = Field(0.0, ge=0, lt=1)
    """The share of tokens whose whole vector is set to 0 in training."""

    @model_validator(mode="after")
    def _mode_and_vectors_agree(self) -> EmbeddingConfig:
        if self.mode == "random" and self.vectors is not None:
            raise ValueError(
                f"mode = 'random' does not use vectors = {self.vectors!r}: set mode to static, tuned or "
                f"multichannel, or leave vectors out"
            )
        if self.mode != "random" and self.vectors is None:
            raise ValueError(
                f"mode = {self.mode!r} needs a file of word vectors: set vectors to its path, or mode to random"
            )
        return self


class NoCharacterConfig(Config):
    """Words are known by their ids alone."""

    kind: Literal["none"] = "none"
    """How the characters of a word are read."""


class BaseCharacterConfig(Config):
    """What the readers of characters share."""

    d: int = Field(30, gt=0)
    """Features of the vector of a character."""
    max_length: int = Field(40, ge=2)
    """Of a word that has more characters than this, the first and the last half of so many are read."""
    dropout: float = Field(0.0, ge=0, lt=1)
    """The share of features of a character's vector that are set to 0 in training."""


class CharacterConvolutionConfig(BaseCharacterConfig):
    """Filters over windows of characters, and the largest value of each over the word (Ma & Hovy 2016)."""

    kind: Literal["cnn"] = "cnn"
    """How the characters of a word are read."""
    windows: Annotated[tuple[Annotated[int, Field(gt=0)], ...], Field(min_length=1)] = (3,)
    """Sizes of the windows, in characters; a window may be longer than the word."""
    filters: int = Field(50, gt=0)
    """Filters for each size of window."""


class CharacterLSTMConfig(BaseCharacterConfig):
    """An LSTM from each end of a word; its two last states (Lample et al. 2016)."""

    kind: Literal["lstm"] = "lstm"
    """How the characters of a word are read."""
    d_hidden: int = Field(50, gt=0)
    """Units of the LSTM in each direction; a word's vector has twice as many features."""


CharacterConfig = Annotated[
    NoCharacterConfig | CharacterConvolutionConfig | CharacterLSTMConfig, Field(discriminator="kind")
]
"""How the characters of a word become a part of its vector."""
