"""Texts scored by a language model."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from catena.tasks.base import Prediction


@dataclass(frozen=True)
class ScoredText(Prediction):
    """A text with the log-probability in nats of each token, including the end symbol.

    ``str()`` gives the total log-probability. ``tokens`` are in readable form; ``known[i]`` says whether token i is in
    the vocabulary.
    """

    text: str
    tokens: tuple[str, ...]
    log_probs: tuple[float, ...]
    known: tuple[bool, ...]

    @property
    def unknown(self) -> int:
        """The number of tokens outside the vocabulary."""
        return len(self.known) - sum(self.known)

    @property
    def log_prob(self) -> float:
        """The log-probability of the whole text."""
        return math.fsum(self.log_probs)

    @property
    def perplexity(self) -> float:
        """exp of the mean of -log p over the tokens and the end symbol."""
        mean = -self.log_prob / len(self.log_probs)
        return math.exp(mean) if mean < 700 else math.inf

    @property
    def bits_per_character(self) -> float:
        """Bits per character; the end of the text counts as one character."""
        return -self.log_prob / math.log(2) / (len(self.text) + 1)

    @property
    def bits_per_byte(self) -> float:
        """Bits per UTF-8 byte; the end of the text counts as one byte."""
        return -self.log_prob / math.log(2) / (len(self.text.encode("utf-8", "surrogatepass")) + 1)

    def __str__(self) -> str:
        return f"{self.log_prob:.4f}"

    def to_dict(self) -> dict[str, Any]:
        return {
            "text": self.text,
            "log_prob": self.log_prob,
            "perplexity": self.perplexity,
            "bits_per_character": self.bits_per_character,
            "tokens": list(self.tokens),
            "log_probs": list(self.log_probs),
            "unknown": self.unknown,
        }

    def to_rows(self) -> list[dict[str, Any]]:
        return [{"log_prob": self.log_prob, "perplexity": self.perplexity, "text": self.text}]
