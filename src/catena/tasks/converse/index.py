"""The index of responses to retrieve from, and its folder."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from catena.data.exchanges import Exchange
from catena.data.files import open_text
from catena.data.lines import LineIndex
from catena.errors import CheckpointError, DataError
from catena.randomness import Randomness
from catena.retrieval.cluster import k_means, medoids
from catena.retrieval.index import IndexPart, MixedPart, search
from catena.tasks.converse.config import ConverseConfig
from catena.tasks.converse.predict import ScoredResponse
from catena.tasks.converse.rankers import DualRanker, RetrievalRanker

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
    return ResponseIndex(*load_texts(folder), ranker.load_part(folder))


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
