"""Queries of word vectors, their predictions and their evaluation on analogies and rated pairs. Imports no torch.

Scores of word vectors: the accuracy of analogies, and Spearman's correlation with human ratings. Imports no torch.

Tested in tests/tasks/embed/test_evaluation.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from catena.data.formats import read_texts
from catena.data.reading import ReadCounter
from catena.errors import DataError
from catena.metrics.classification import ACCURACY
from catena.metrics.correlation import SPEARMAN
from catena.metrics.intervals import Interval, fisher_interval
from catena.metrics.measure import Metric
from catena.tasks.base import EvaluationResult, Prediction
from catena.tasks.embed.config import EmbedDataConfig
from catena.vectors.evaluate import holds_analogies, read_analogies, read_similarities


@dataclass(frozen=True)
class Analogy:
    """Four words: the first is to the second as the third is to the fourth."""

    words: tuple[str, str, str, str]
    section: str


@dataclass(frozen=True)
class RatedPair:
    """Two words and a human rating of their similarity."""

    words: tuple[str, str]
    rating: float


Query = str | Analogy | RatedPair
"""A word whose neighbors are predicted, or a question that is evaluated."""


def read_queries(data: EmbedDataConfig, path: Path, counter: ReadCounter, *, gold: bool) -> Iterator[Query]:
    """Yield the analogies or the rated pairs of a file; with ``gold=False`` its lines, a word each."""
    if not gold:
        words = read_texts(path, data.input_format, data.text_column, data.encoding)
        yield from counter.seen(word.strip() for word in words)
    elif holds_analogies(path):
        sections = read_analogies(path).items()
        yield from counter.seen(Analogy((a, b, c, d), name) for name, lines in sections for a, b, c, d in lines)
    else:
        yield from counter.seen(RatedPair((a, b), rating) for a, b, rating in read_similarities(path))


# --- predictions ------------------------------------------------------------------------------------------------------


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


# --- evaluation -------------------------------------------------------------------------------------------------------


METRICS = {"accuracy": ACCURACY, "spearman": SPEARMAN}
_SPREAD = 1.06
"""The variance of Fisher's transform of Spearman's correlation, times n - 3."""


@dataclass(frozen=True)
class EmbedEvaluation(EvaluationResult):
    """Answers to analogies, or cosines of rated pairs. Questions with an unknown word are skipped and counted.

    Args:
        metric: ``accuracy`` for analogies, ``spearman`` for ratings.
        references: the expected word in lower case, or the rating, of each scored question.
        predictions: the answer in lower case, or the cosine.
        sections: the section of each scored question.
        skipped: the section of each skipped question.
    """

    metric: str
    references: list[Any]
    predictions: list[Any]
    sections: list[str]
    skipped: list[str]
    counts: str = field(default="", kw_only=True)

    def metrics(self) -> Mapping[str, Metric]:
        need = 2 if self.metric == "spearman" else 1
        if len(self.references) < need:
            n = len(self.references) + len(self.skipped)
            raise DataError(
                f"The number of questions whose words all have vectors must be at least {need}, got "
                f"{len(self.references)} of {n}. Use other vectors or questions."
            )
        return {self.metric: METRICS[self.metric]}

    def pairs(self, name: str) -> tuple[list[Any], list[Any]]:
        return self.references, self.predictions

    def interval(self, name: str) -> Interval | None:
        """The 95 % interval of a score.

        Spearman's correlation of a resample can be undefined, so its interval comes from Fisher's transform; None for
        fewer than 4 pairs.
        """
        if name != "spearman":
            return super().interval(name)
        return fisher_interval(self.scores()[name], len(self.references), spread=_SPREAD)

    def notes(self) -> list[str]:
        return [f"questions with an unknown word, which were skipped: {len(self.skipped):,}"] if self.skipped else []

    def details(self) -> list[str]:
        return [
            f"{name:<30} {one['correct']:>6} of {one['scored']}, {one['skipped']} skipped"
            for name, one in self._by_section().items()
        ]

    def details_dict(self) -> dict[str, Any]:
        return {"sections": self._by_section(), "skipped": len(self.skipped)}

    def _by_section(self) -> dict[str, dict[str, int]]:
        """The counts of each section; empty for rated pairs, which have none."""
        if self.metric != "accuracy":
            return {}
        rows = zip(self.sections, self.references, self.predictions, strict=True)
        correct = Counter(section for section, expected, answer in rows if expected == answer)
        scored, skipped = Counter(self.sections), Counter(self.skipped)
        return {
            name: {"correct": correct[name], "scored": scored[name], "skipped": skipped[name]}
            for name in dict.fromkeys([*self.sections, *self.skipped])
        }
