"""Predictions of word vectors: the nearest words of a word. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from catena.tasks.base import Prediction


@dataclass(frozen=True)
class Neighbor:
    """A word and its cosine with the word that was looked up."""

    word: str
    score: float


@dataclass(frozen=True)
class NeighborPrediction(Prediction):
    """The nearest words of a word. Prints as the word, a tab, and the neighbors with their cosines.

    Args:
        text: the word.
        neighbors: the nearest words, best first; empty if the word has no vector.
        known: whether the word has a vector.
    """

    text: str
    neighbors: tuple[Neighbor, ...]
    known: bool = True

    def __str__(self) -> str:
        return f"{self.text}\t" + " ".join(f"{one.word} {one.score:.4f}" for one in self.neighbors)

    def to_dict(self) -> dict[str, Any]:
        return {"text": self.text, "neighbors": [vars(one) for one in self.neighbors], "known": self.known}

    def to_rows(self) -> list[dict[str, Any]]:
        """A row for each neighbor; one without a neighbor for an unknown word."""
        if not self.neighbors:
            return [{"text": self.text, "neighbor": None, "score": None}]
        return [{"text": self.text, "neighbor": one.word, "score": one.score} for one in self.neighbors]
