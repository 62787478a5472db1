"""The config of a hidden Markov model. Imports no torch."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from catena.config import Config


class HmmTaggerConfig(Config):
    """A hidden Markov model: p(tags, words) = Π p(tag | previous tag) p(word | tag). Trained in a second."""

    kind: Literal["hmm"] = "hmm"
    """The model."""
    learn: Literal["counts", "em"] = "counts"
    """counts: from the tags of train, then EM if some are not known. em: from the words only; the tags only name the
    states after training."""
    minimum_count: int = Field(2, ge=1)
    """Minimum number of occurrences of a word in train. Rarer and unseen words use the symbol of their word class."""
    classes: Literal["none", "shapes", "endings"] = "endings"
    """Classes of rare words: none, their shape (capitals, digits, hyphens), or shape and last letters."""
    smoothing: float = Field(0.1, ge=0)
    """Added to the count of each tag after each tag."""
    word_smoothing: float = Field(0.01, ge=0)
    """Added to the count of each word with each tag."""
    tolerance: float = Field(1e-5, ge=0)
    """EM stops if an iteration improves the log-likelihood by less than this fraction."""

    @property
    def columns(self) -> tuple[str, ...]:
        """No columns other than the words."""
        return ()


SUGGESTED: dict[str, Any] = {"optimizer": "sgd", "max_epochs": 100, "patience": 0}
"""Default training options; a step is an iteration of EM."""
