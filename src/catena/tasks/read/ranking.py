"""Rankers of paragraphs for a question: by common words, by the vectors of a dual encoder, or none."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Float32, Int64

from catena.data.config import WordTokenizerConfig
from catena.data.tokenize import build_tokenizer
from catena.data.tokenizers.base import Tokenizer
from catena.retrieval.config import BM25Config, TfidfConfig
from catena.retrieval.index import TermPart, VectorPart, search
from catena.retrieval.terms import learn_terms

TextEncoder = Callable[[Sequence[str]], Float32[np.ndarray, "n d"]]
"""Maps texts to vectors."""


class ParagraphRanker(ABC):
    """Ranks a fixed list of paragraphs."""

    @abstractmethod
    def rank(self, questions: Sequence[str], k: int) -> tuple[Float32[np.ndarray, "n k"], Int64[np.ndarray, "n k"]]:
        """The scores and indices of the ``k`` best paragraphs for each question, best first; all if there are fewer."""


class UnrankedParagraphs(ParagraphRanker):
    """All paragraphs with the same score, for texts that are read as a whole."""

    def __init__(self, paragraphs: Sequence[str]) -> None:
        self.n = len(paragraphs)

    def rank(self, questions: Sequence[str], k: int) -> tuple[Float32[np.ndarray, "n k"], Int64[np.ndarray, "n k"]]:
        n = min(k, self.n)
        indices = np.tile(np.arange(n, dtype=np.int64), (len(questions), 1))
        return np.zeros(indices.shape, np.float32), indices


class ParagraphTermRanker(ParagraphRanker):
    """Ranks by BM25 or TF-IDF with the word frequencies of the paragraphs. Tokens without letter or digit are ignored.

    Args:
        paragraphs: the texts.
        config: the weights; BM25 with k1 = 1.2 and b = 0.75 by default.
        tokenizer: splits paragraphs and questions; words in lower case by default.
    """

    def __init__(
        self,
        paragraphs: Sequence[str],
        config: BM25Config | TfidfConfig | None = None,
        tokenizer: Tokenizer | None = None,
    ) -> None:
        self.tokenizer = tokenizer or build_tokenizer(WordTokenizerConfig(hyphens="split", lowercase=True))
        tokens = [self._words(text) for text in paragraphs]
        self.matcher = learn_terms(config or BM25Config(), tokens)
        self.part = TermPart.of([self.matcher.document(document) for document in tokens])

    def rank(self, questions: Sequence[str], k: int) -> tuple[Float32[np.ndarray, "n k"], Int64[np.ndarray, "n k"]]:
        queries = [self.matcher.query(self._words(question)) for question in questions]
        return search(self.part, queries, len(queries), k)

    def _words(self, text: str) -> list[str]:
        return [token for token in self.tokenizer.tokens(text) if any(map(str.isalnum, token))]


class ParagraphVectorRanker(ParagraphRanker):
    """Ranks by dot products of vectors, such as the queries and keys of a dual encoder.

    Args:
        paragraphs: the texts.
        keys: maps paragraphs to vectors.
        queries: maps questions to vectors.
    """

    def __init__(self, paragraphs: Sequence[str], keys: TextEncoder, queries: TextEncoder) -> None:
        self.part = VectorPart(np.ascontiguousarray(keys(paragraphs), np.float32))
        self.queries = queries

    def rank(self, questions: Sequence[str], k: int) -> tuple[Float32[np.ndarray, "n k"], Int64[np.ndarray, "n k"]]:
        return search(self.part, np.ascontiguousarray(self.queries(questions), np.float32), len(questions), k)
