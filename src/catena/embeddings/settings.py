"""The choices of an embedding table. Typed values only; imports no torch."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from catena.config import Config


class EmbeddingSettings(Config):
    """Vectors of tokens: random, or read from a file of word vectors."""

    d: int = Field(300, gt=0)
    """Features of a vector; with a file of vectors, as many as it has."""
    mode: Literal["random", "static", "tuned", "multichannel"] = "random"
    """Vectors drawn at random and learnt; those of a file, kept (static), learnt (tuned), or both at once."""
    vectors: str | None = None
    """A file of word vectors: of Catena, word2vec (text or binary, also compressed), GloVe or fastText."""
    scale: float = Field(0.25, gt=0)
    """Random vectors are drawn evenly from -scale to scale; beside those of a file, at their variance."""
    dropout: float = Field(0.0, ge=0, lt=1)
    """The share of features that are set to 0 in training."""
    token_dropout: float = Field(0.0, ge=0, lt=1)
    """The share of tokens whose whole vector is set to 0 in training."""

    @model_validator(mode="after")
    def _mode_and_vectors_agree(self) -> EmbeddingSettings:
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
