"""Models that rank responses, and their searchable index: common terms, a dual encoder, a mixture of rankers.

A ranker scores given candidates and builds a searchable index of responses.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from catena.data.batches import BatchPlan, pad
from catena.data.config import BatchConfig
from catena.data.conversations import Exchange
from catena.data.files import open_text
from catena.data.lines import LineIndex
from catena.data.tokenize import Tokenizer
from catena.data.vocabulary import UNK
from catena.errors import CheckpointError, DataError
from catena.metrics.ranking import RankCounts, standing
from catena.randomness import Randomness
from catena.retrieval.cluster import k_means, medoids
from catena.retrieval.config import TermConfig
from catena.retrieval.dual import DualEncoder
from catena.retrieval.index import IndexPart, MixedPart, TermPart, VectorPart, search
from catena.retrieval.terms import TermMatcher, product
from catena.tasks.config import TOKENIZER
from catena.tasks.converse.config import ConverseConfig
from catena.tasks.converse.data import DualEncoding
from catena.tasks.converse.evaluation import Groups, RankingExample
from catena.tasks.converse.predict import ScoredResponse


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


# --- the index of responses -------------------------------------------------------------------------------------------


INDEX, RESPONSES, CONTEXTS = "index", "responses.txt", "contexts.txt"


@dataclass(eq=False)
class ResponseIndex:
    """Responses, their contexts and the searchable part of the index."""

    texts: Sequence[str] | LineIndex
    contexts: Sequence[str] | LineIndex
    part: IndexPart

    def __len__(self) -> int:
        return len(self.texts)

    def best(self, ranker: RetrievalRanker, contexts: Sequence[Exchange], k: int) -> list[list[ScoredResponse]]:
        """The ``k`` best responses to each context, best first."""
        if not contexts:
            return []
        scores, indices = search(self.part, ranker.queries(contexts), len(contexts), k)
        return [
            [ScoredResponse(self.texts[int(i)], float(score)) for score, i in zip(own, some, strict=True)]
            for own, some in zip(scores, indices, strict=True)
        ]

    def save(self, folder: Path) -> None:
        """Write the responses, contexts and searchable part to a folder."""
        save_texts(folder, self.texts, self.contexts)
        if not isinstance(self.part, MixedPart):
            self.part.save(folder)
            return
        for i, part in enumerate(self.part.parts):
            (folder / str(i)).mkdir(exist_ok=True)
            part.save(folder / str(i))


def collect_responses(config: ConverseConfig, train: Sequence[Exchange]) -> tuple[list[str], list[str]]:
    """The distinct responses of an index, and the joined contexts of each.

    They come from train, or from the file ``index.file``, whose responses have no contexts.
    """
    if config.index.file is not None:
        with open_text(config.index.file, config.data.encoding) as lines:
            texts = list(dict.fromkeys(" ".join(line.split()) for _, line in lines if line.strip()))
        if not texts:
            raise DataError(f"index.file = {config.index.file!r} has no responses. Write one on each line.")
        return texts, [""] * len(texts)
    contexts: dict[str, list[str]] = {}
    for exchange in train:
        for response in exchange.responses:
            contexts.setdefault(response, []).append(" ".join(exchange.context))
    return list(contexts), [" ".join(some) for some in contexts.values()]


def build_index(
    config: ConverseConfig, ranker: RetrievalRanker, texts: list[str], contexts: list[str]
) -> ResponseIndex:
    """The index of responses, reduced to cluster centers if ``index.clusters`` is set."""
    part = ranker.part(texts, contexts)
    k = config.index.clusters
    if k is not None and k < len(texts):
        assert isinstance(ranker, DualRanker)
        vectors = ranker.keys(texts)
        centers, nearest = k_means(vectors, k, Randomness(config.seed).numpy("clusters"))
        kept = sorted(medoids(vectors, centers, nearest))
        texts, contexts = [texts[i] for i in kept], [contexts[i] for i in kept]
        part = ranker.part(texts, contexts)
    return ResponseIndex(texts, contexts, part)


def load_index(ranker: RetrievalRanker, folder: Path) -> ResponseIndex:
    """Load an index. Its texts and vectors stay on disk."""
    texts, contexts = load_texts(folder)
    part = ranker.load_part(folder)
    if not len(texts) == len(contexts) == len(part):
        raise CheckpointError(
            f"The index in {folder} must have one response and one context for each row, got {len(texts)}, "
            f"{len(contexts)} and {len(part)}. Copy the model folder again."
        )
    return ResponseIndex(texts, contexts, part)


def save_texts(folder: Path, texts: Iterable[str], contexts: Iterable[str]) -> None:
    """Write the responses of an index and the contexts of each."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, lines in ((RESPONSES, texts), (CONTEXTS, contexts)):
        (folder / name).write_text("".join(line + "\n" for line in lines), encoding="utf-8")


def load_texts(folder: Path) -> tuple[LineIndex, LineIndex]:
    """The responses of an index and the contexts of each."""
    for name in (RESPONSES, CONTEXTS):
        if not (folder / name).is_file():
            raise CheckpointError(f"File not found: {folder / name}. Copy the model folder again.")
    return LineIndex(folder / RESPONSES), LineIndex(folder / CONTEXTS)
