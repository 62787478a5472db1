"""What word vectors are queried and evaluated with: words, analogies and rated pairs of words. Imports no torch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from catena.data.formats import read_texts
from catena.data.reading import ReadCounter
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
