"""The config of a hidden Markov model. Imports no torch."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from catena.config import Config


class HmmTaggerConfig(Config):
    """A hidden Markov model: p(tags, words) = Π p(tag | tag before) p(word | tag). Learned in a second, from tags or
    without them."""

    kind: Literal["hmm"] = "hmm"
    """The model."""
    learn: Literal["counts", "em"] = "counts"
    """counts: from the tags of train; where some are not known, EM goes on from what is counted. em: from the words
    alone, without a look at the tags, which serve only to name the states when learning is over."""
    minimum_count: int = Field(2, ge=1)
    """Words that train holds less often share a symbol with others of their looks; so do words never seen."""
    classes: Literal["none", "shapes", "endings"] = "endings"
    """Looks that such words are told apart by: none, their shape (capitals, digits, hyphens), or that and their last
    letters."""
    smoothing: float = Field(0.1, ge=0)
    """What is added to the count of each tag after each tag."""
    word_smoothing: float = Field(0.01, ge=0)
    """What is added to the count of each word with each tag."""
    tolerance: float = Field(1e-5, ge=0)
    """EM stops when a round makes the log-likelihood better by less than this share."""

    @property
    def columns(self) -> tuple[str, ...]:
        """It reads words alone."""
        return ()


SUGGESTED: dict[str, Any] = {"optimizer": "sgd", "max_epochs": 100, "patience": 0}
"""How it likes to be trained; a step is a round of EM."""
