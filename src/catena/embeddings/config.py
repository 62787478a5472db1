"""Configs of embeddings. Typed values only; does not import torch.

Tested in tests/embeddings/test_characters.py and tests/embeddings/test_table.py.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from catena.config import Config


class EmbeddingConfig(Config):
    """Token vectors: random, or read from a file of word vectors."""

    d: int = Field(300, gt=0)
    """Size of a vector; with a file of vectors, the size in the file."""
    mode: Literal["random", "static", "tuned", "multichannel"] = "random"
    """Random trained vectors, or those of a file: frozen (static), trained (tuned), or both (multichannel)."""
    vectors: str | None = None
    """A file of word vectors: Catena, word2vec (text or binary, also compressed), GloVe or fastText format."""
    scale: float = Field(0.25, gt=0)
    """Random vectors are uniform from -scale to scale; with a file, they have the variance of its vectors."""
    dropout: float = Field(0.0, ge=0, lt=1)
    """Fraction of features that are set to 0 in training."""
    token_dropout: float = Field(0.0, ge=0, lt=1)
    """Fraction of tokens whose whole vector is set to 0 in training."""

    @model_validator(mode="after")
    def _mode_and_vectors_agree(self) -> EmbeddingConfig:
        if self.mode == "random" and self.vectors is not None:
            raise ValueError(
                f"mode must be 'static', 'tuned' or 'multichannel' if vectors is set, got 'random' and vectors = "
                f"{self.vectors!r}. Set mode, or remove vectors."
            )
        if self.mode != "random" and self.vectors is None:
            raise ValueError(
                f"vectors must be a file of word vectors for mode = {self.mode!r}, got nothing. Set vectors to its "
                "path, or mode to 'random'."
            )
        return self


class NoCharacterConfig(Config):
    """Words have no character features."""

    kind: Literal["none"] = "none"
    """How the characters of a word are encoded."""


class BaseCharacterConfig(Config):
    """Options of all character encoders."""

    d: int = Field(30, gt=0)
    """Size of a character vector."""
    max_length: int = Field(40, ge=2)
    """Maximum number of characters of a word; of longer words, the first and the last half of them are read."""
    dropout: float = Field(0.0, ge=0, lt=1)
    """Fraction of features of a character vector that are set to 0 in training."""


class CharacterConvolutionConfig(BaseCharacterConfig):
    """Convolution over windows of characters, and the maximum of each filter over the word (Ma & Hovy 2016)."""

    kind: Literal["cnn"] = "cnn"
    """How the characters of a word are encoded."""
    windows: Annotated[tuple[Annotated[int, Field(gt=0)], ...], Field(min_length=1)] = (3,)
    """Window sizes in characters; a window may be longer than the word."""
    filters: int = Field(50, gt=0)
    """Number of filters for each window size."""


class CharacterLSTMConfig(BaseCharacterConfig):
    """A bidirectional LSTM over a word; its two last states (Lample et al. 2016)."""

    kind: Literal["lstm"] = "lstm"
    """How the characters of a word are encoded."""
    d_hidden: int = Field(50, gt=0)
    """Units of the LSTM in each direction; the word vector has twice as many features."""


CharacterConfig = Annotated[
    NoCharacterConfig | CharacterConvolutionConfig | CharacterLSTMConfig, Field(discriminator="kind")
]
"""How the characters of a word become a part of its vector."""
