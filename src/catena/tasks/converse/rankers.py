"""Models that rank responses: by common terms, by a dual encoder, or by a mixture of rankers.

A ranker scores given candidates and builds a searchable index of responses.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from catena.data.batches import BatchPlan, pad
from catena.data.config import BatchConfig
from catena.data.exchanges import Exchange
from catena.data.tokenize import Tokenizer
from catena.data.vocabulary import UNK
from catena.metrics.ranking import RankCounts, standing
from catena.retrieval.config import TermConfig
from catena.retrieval.dual import DualEncoder
from catena.retrieval.index import IndexPart, MixedPart, TermPart, VectorPart
from catena.retrieval.terms import TermMatcher, product
from catena.tasks.config import TOKENIZER
from catena.tasks.converse.encoding import DualEncoding
from catena.tasks.converse.ranking import Groups, RankingExample


def content_words(tokens: Sequence[str]) -> Sequence[str]:
    """The tokens that are words or numbers, or all tokens if there are none, as in a line of emoticons."""
    return [token for token in tokens if any(map(str.isalnum, token))] or tokens


class Ranker(ABC):
    """Base class of models that score responses to contexts."""

    @abstractmethod
    def scores(self, examples: Sequence[RankingExample]) -> list[np.ndarray]:
        """The score of each candidate of each example."""

    @abstractmethod
    def knows(self, exchange: Exchange) -> bool:
        """Whether any word of a context is in the vocabulary; if not, every score is a guess."""

    def ranks(self, groups: Groups) -> list[list[RankCounts]]:
        """The ranks of the correct candidates."""
        found = iter(self.scores([example for group in groups for example in group]))
        return [[standing(next(found)) for _ in group] for group in groups]


class RetrievalRanker(Ranker):
    """A ranker that can search an index of responses."""

    @abstractmethod
    def part(self, responses: Sequence[str], contexts: Sequence[str]) -> IndexPart:
        """The searchable part of an index of responses; the context of a response is empty if unknown."""

    @abstractmethod
    def load_part(self, folder: Path) -> IndexPart:
        """Load the searchable part of an index."""

    @abstractmethod
    def queries(self, contexts: Sequence[Exchange]) -> Any:
        """Contexts as queries to the index."""


def comparison_text(against: str, response: str, context: str) -> str:
    """The text that a new context is compared with: a response, its context, or both."""
    return {"response": response, "context": context, "both": f"{context} {response}"}[against]


class TermRanker(RetrievalRanker):
    """A ranker by common terms (tf-idf or BM25)."""

    def __init__(self, tokenizer: Tokenizer, matcher: TermMatcher, settings: TermConfig) -> None:
        self.tokenizer, self.matcher, self.settings = tokenizer, matcher, settings

    def scores(self, examples: Sequence[RankingExample]) -> list[np.ndarray]:
        known: dict[str, dict[str, float]] = {}
        found = []
        for example in examples:
            query = self.matcher.query(self._tokens(example.exchange))
            for text in example.candidates:
                if text not in known:
                    known[text] = self.matcher.document(self.tokenizer.tokens(text))
            found.append(np.array([product(query, known[text]) for text in example.candidates]))
        return found

    def part(self, responses: Sequence[str], contexts: Sequence[str]) -> TermPart:
        against = self.settings.against
        texts = (comparison_text(against, *pair) for pair in zip(responses, contexts, strict=True))
        return TermPart.of([self.matcher.document(self.tokenizer.tokens(text)) for text in texts])

    def load_part(self, folder: Path) -> TermPart:
        return TermPart.load(folder)

    def queries(self, contexts: Sequence[Exchange]) -> list[dict[str, float]]:
        return [self.matcher.query(self._tokens(exchange)) for exchange in contexts]

    def knows(self, exchange: Exchange) -> bool:
        return any(token in self.matcher.frequency for token in content_words(self._tokens(exchange)))

    def _tokens(self, exchange: Exchange) -> list[str]:
        return [token for turn in exchange.context for token in self.tokenizer.tokens(turn)]

    def save(self, folder: Path) -> None:
        self.tokenizer.save(folder / TOKENIZER)
        self.matcher.save(folder)


class DualRanker(RetrievalRanker):
    """A ranker by a dual encoder."""

    def __init__(self, encoding: DualEncoding, model: DualEncoder, at_once: int = 256) -> None:
        self.encoding, self.model, self.at_once = encoding, model, at_once

    def scores(self, examples: Sequence[RankingExample]) -> list[np.ndarray]:
        contexts = list({id(example.exchange): example.exchange for example in examples}.values())
        rows = {id(exchange): i for i, exchange in enumerate(contexts)}
        texts = list(dict.fromkeys(text for example in examples for text in example.candidates))
        columns = {text: i for i, text in enumerate(texts)}
        queries, keys = self.queries(contexts), self.keys(texts)
        return [
            keys[[columns[text] for text in example.candidates]].astype(np.float64)
            @ queries[rows[id(example.exchange)]].astype(np.float64)
            for example in examples
        ]

    def part(self, responses: Sequence[str], contexts: Sequence[str]) -> VectorPart:
        return VectorPart(self.keys(responses))

    def load_part(self, folder: Path) -> VectorPart:
        return VectorPart.load(folder)

    def queries(self, contexts: Sequence[Exchange]) -> np.ndarray:
        return self._vectors([self.encoding.context(exchange) for exchange in contexts], self.model.queries)

    def knows(self, exchange: Exchange) -> bool:
        tokens = [token for turn in exchange.context for token in self.encoding.tokenizer.tokens(turn)]
        return any(id != UNK for id in self.encoding.vocabulary.ids(content_words(tokens)))

    def keys(self, responses: Sequence[str]) -> np.ndarray:
        """The vectors of responses."""
        return self._vectors([self.encoding.response(text) for text in responses], self.model.keys)

    @torch.no_grad()
    def _vectors(self, texts: Sequence[np.ndarray], encode: Any) -> np.ndarray:
        found = np.zeros((len(texts), self.model.d), np.float32)
        device = next(self.model.parameters()).device
        training = self.model.training
        self.model.eval()
        lengths = np.array([len(ids) for ids in texts], np.int64)
        for rows in BatchPlan.by_length(lengths, BatchConfig(batch_size=self.at_once)):
            ids, sizes = pad([texts[int(row)] for row in rows])
            found[rows] = encode(ids.to(device), sizes.to(device)).float().cpu().numpy()
        self.model.train(training)
        return found


class MixedRanker(RetrievalRanker):
    """A weighted sum of the scores of several rankers."""

    def __init__(self, rankers: Sequence[Ranker], weights: Sequence[float]) -> None:
        self.rankers, self.weights = list(rankers), [float(weight) for weight in weights]

    def each(self, examples: Sequence[RankingExample]) -> list[np.ndarray]:
        """For each example the scores, with a row per candidate and a column per ranker."""
        columns = [ranker.scores(examples) for ranker in self.rankers]
        return [np.stack(scores, axis=1) for scores in zip(*columns, strict=True)]

    def scores(self, examples: Sequence[RankingExample]) -> list[np.ndarray]:
        return [scores @ np.array(self.weights) for scores in self.each(examples)]

    def knows(self, exchange: Exchange) -> bool:
        return any(ranker.knows(exchange) for ranker in self.rankers)

    def searchers(self) -> list[tuple[RetrievalRanker, float]]:
        """The rankers that have an index, with their weights."""
        return [(r, w) for r, w in zip(self.rankers, self.weights, strict=True) if isinstance(r, RetrievalRanker)]

    def part(self, responses: Sequence[str], contexts: Sequence[str]) -> MixedPart:
        pairs = self.searchers()
        return MixedPart([ranker.part(responses, contexts) for ranker, _ in pairs], [weight for _, weight in pairs])

    def load_part(self, folder: Path) -> MixedPart:
        pairs = self.searchers()
        parts = [ranker.load_part(folder / str(i)) for i, (ranker, _) in enumerate(pairs)]
        return MixedPart(parts, [weight for _, weight in pairs])

    def queries(self, contexts: Sequence[Exchange]) -> tuple[Any, ...]:
        return tuple(ranker.queries(contexts) for ranker, _ in self.searchers())
