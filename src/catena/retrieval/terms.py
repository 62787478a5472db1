r"""Texts matched by common words: TF-IDF and BM25. Exact, on sparse weights.

.. math::
    \text{tf-idf:}\quad w_t(x) \propto n_t(x) \left(1 + \log \frac{1 + N}{1 + N_t}\right),
    \qquad s(q, d) = \sum_t w_t(q)\, w_t(d), \quad \textstyle\sum_t w_t^2 = 1

    \text{BM25:}\quad s(q, d) = \sum_t n_t(q) \log\left(1 + \frac{N - N_t + 1/2}{N_t + 1/2}\right)
    \frac{n_t(d)\,(k_1 + 1)}{n_t(d) + k_1 (1 - b + b\,|d| / \overline{|d|})}

n is the number of occurrences of a word in a text, :math:`N_t` the number of the N documents with the word. Robertson
& Zaragoza 2009, section 3; its idf with the 1 inside the logarithm is never negative. A word that is in no document
counts as the rarest.

Queries and documents are lists of tokens.
"""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from catena.checkpoint import read_stored
from catena.errors import CheckpointError, DataError
from catena.retrieval.config import BM25Config, TfidfConfig

TermWeights = dict[str, float]
_TERMS = "terms.json"


class TermMatcher(ABC):
    """Word weights learned from documents; the score of query and document is the dot product of their weights.

    Args:
        n: number of documents.
        mean_length: mean number of tokens of a document.
        frequency: number of documents in which each word occurs.
    """

    def __init__(self, n: int, mean_length: float, frequency: Mapping[str, int]) -> None:
        self.n, self.mean_length, self.frequency = n, mean_length, dict(frequency)

    @abstractmethod
    def query(self, tokens: Sequence[str]) -> TermWeights:
        """Return the weights of the words of a query."""

    @abstractmethod
    def document(self, tokens: Sequence[str]) -> TermWeights:
        """Return the weights of the words of a document."""

    def score(self, query: Sequence[str], document: Sequence[str]) -> float:
        """Return the score of a document for a query, 0 if they have no common word."""
        return product(self.query(query), self.document(document))

    def save(self, folder: Path) -> None:
        """Write the document frequencies as JSON."""
        about = {"format": 1, "n": self.n, "mean_length": self.mean_length, "frequency": self.frequency}
        (folder / _TERMS).write_text(json.dumps(about, ensure_ascii=False) + "\n", encoding="utf-8")


def product(query: TermWeights, document: TermWeights) -> float:
    """Return the sum over common words of the products of their weights."""
    if len(document) < len(query):
        query, document = document, query
    return math.fsum(weight * document[word] for word, weight in query.items() if word in document)


class Tfidf(TermMatcher):
    """Cosine similarity of weighted counts, with the same weights for queries and documents.

    Args:
        settings: whether counts are taken logarithmically.
        n: number of documents.
        mean_length: mean number of tokens of a document.
        frequency: number of documents that contain each word.
    """

    def __init__(self, settings: TfidfConfig, n: int, mean_length: float, frequency: Mapping[str, int]) -> None:
        super().__init__(n, mean_length, frequency)
        self.settings = settings

    def document(self, tokens: Sequence[str]) -> TermWeights:
        found = {}
        for word, count in Counter(tokens).items():
            times = 1 + math.log(count) if self.settings.sublinear else count
            found[word] = times * (1 + math.log((1 + self.n) / (1 + self.frequency.get(word, 0))))
        length = math.sqrt(math.fsum(weight * weight for weight in found.values()))
        return {word: weight / length for word, weight in found.items()}

    def query(self, tokens: Sequence[str]) -> TermWeights:
        return self.document(tokens)


class BM25(TermMatcher):
    """Okapi BM25.

    Args:
        settings: the parameters k1 and b.
        n: number of documents.
        mean_length: mean number of tokens of a document.
        frequency: number of documents that contain each word.
    """

    def __init__(self, settings: BM25Config, n: int, mean_length: float, frequency: Mapping[str, int]) -> None:
        super().__init__(n, mean_length, frequency)
        self.settings = settings

    def query(self, tokens: Sequence[str]) -> TermWeights:
        return {word: count * self.rarity(word) for word, count in Counter(tokens).items()}

    def document(self, tokens: Sequence[str]) -> TermWeights:
        k1, b = self.settings.k1, self.settings.b
        length = k1 * (1 - b + b * len(tokens) / self.mean_length) if self.mean_length else k1
        return {word: count * (k1 + 1) / (count + length) for word, count in Counter(tokens).items()}

    def rarity(self, word: str) -> float:
        """Return the idf of a word."""
        has = self.frequency.get(word, 0)
        return math.log(1 + (self.n - has + 0.5) / (has + 0.5))


_TermMatcherConfig = TfidfConfig | BM25Config


def learn_terms(settings: _TermMatcherConfig, documents: Iterable[Sequence[str]]) -> TermMatcher:
    """Return a matcher with the word frequencies of documents."""
    n = tokens = 0
    frequency: Counter[str] = Counter()
    for document in documents:
        n, tokens = n + 1, tokens + len(document)
        frequency.update(set(document))
    if n == 0:
        raise DataError("There is no document to count words in. Pass at least one.")
    return _matcher(settings, n, tokens / n, frequency)


def load_terms(settings: _TermMatcherConfig, folder: Path) -> TermMatcher:
    """Load a matcher written by :meth:`TermMatcher.save`."""
    path = folder / _TERMS
    kinds = {"format": int, "n": int, "mean_length": float, "frequency": dict[str, int]}
    about = read_stored(path, kinds)
    if about["format"] != 1:
        raise CheckpointError(f"The format of {path} must be 1, got {about['format']}. Train the model again.")
    return _matcher(settings, about["n"], about["mean_length"], about["frequency"])


def _matcher(settings: Any, n: int, mean_length: float, frequency: Mapping[str, int]) -> TermMatcher:
    kind = Tfidf if isinstance(settings, TfidfConfig) else BM25
    return kind(settings, n, mean_length, frequency)
