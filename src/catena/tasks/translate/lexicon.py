r"""Translation table of tokens, from a word alignment of the training pairs.

.. math::  t(e \mid f) \propto \sum_{(x, y) : f \in x, e \in y} \frac{t(e \mid f)}{\sum_{f' \in x} t(e \mid f')}

IBM Model 1 (Brown et al. 1993), trained by expectation maximization; each token counts once per sentence. The most
probable target tokens are the candidates of a search over a large vocabulary (Jean et al. 2015, section 3).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from catena.errors import CheckpointError
from catena.tasks.translate.candidate_vocabulary import Candidates
from catena.tasks.translate.config import TranslateConfig
from catena.tasks.translate.dataset import EncodedPairs
from catena.tasks.translate.encoding import PairEncoding

FILE = "candidates.npy"
_ROUNDS = 5
MOST = 20_000_000
"""Largest number of token pairs to count; later sentences are ignored."""


def learn_candidates(pairs: EncodedPairs, rows: np.ndarray, each: int) -> np.ndarray:
    """A table whose row ``f`` has the ``each`` most probable target ids of source id ``f``, padded with -1."""
    encoding = pairs.encoding
    return word_table(_sentences(pairs, rows), len(encoding.source.vocabulary), len(encoding.target.vocabulary), each)


def word_table(sentences: Iterable[tuple[np.ndarray, np.ndarray]], n: int, v: int, each: int) -> np.ndarray:
    """The table of :func:`learn_candidates` from ids of sources and targets.

    Args:
        sentences: pairs of source ids and target ids, without duplicates within a sentence.
        n: size of the source vocabulary.
        v: size of the target vocabulary.
        each: number of target ids per source id.
    """
    sources, targets, places = _cooccurrences(sentences)
    keys, inverse = np.unique(sources.astype(np.int64) * v + targets, return_inverse=True)
    weight: np.ndarray = np.ones(len(keys))
    for _ in range(_ROUNDS):
        share = weight[inverse]
        share /= np.bincount(places, weights=share)[places]
        weight = np.bincount(inverse, weights=share, minlength=len(keys))
        weight = weight / np.bincount(keys // v, weights=weight)[keys // v]
    return _best(keys // v, keys % v, weight, n, each)


def _cooccurrences(sentences: Iterable[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """All (source token, target token) pairs of each sentence pair, and the index of the target occurrence."""
    parts, place = [], 0
    for source, target in sentences:
        numbers = np.arange(place, place + len(target))
        parts.append((np.tile(source, len(target)), np.repeat(target, len(source)), np.repeat(numbers, len(source))))
        place += len(target)
    sources, targets, places = (np.concatenate(column) for column in zip(*parts, strict=True))
    return sources, targets, places


def _sentences(pairs: EncodedPairs, rows: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    counted = 0
    for i in rows.tolist():
        one = np.array([i])
        source, target = (np.unique(pairs.batch(one, side)[0][0]) for side in (0, 1))
        counted += len(source) * len(target)
        if counted > MOST:
            return
        yield source, target


def _best(sources: np.ndarray, targets: np.ndarray, weight: np.ndarray, n: int, each: int) -> np.ndarray:
    order = np.lexsort((targets, -weight, sources))
    rank = np.arange(len(order)) - np.searchsorted(sources[order], sources[order])
    kept = order[rank < each]
    table = np.full((n, each), -1, np.int32)
    table[sources[kept], rank[rank < each]] = targets[kept]
    return table


def save_candidates(table: np.ndarray, folder: Path) -> None:
    """Save the candidates in the folder of the weights."""
    np.save(folder / FILE, table, allow_pickle=False)


def load_candidates(folder: Path, n: int) -> np.ndarray:
    """Load the table written by :func:`save_candidates`, for ``n`` source tokens."""
    try:
        table = np.load(folder / FILE, allow_pickle=False)
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{folder / FILE} cannot be read: {error}. Copy the model folder again.") from None
    if table.ndim != 2 or len(table) != n:
        raise CheckpointError(
            f"{folder / FILE} must have {n} rows, one per source token, got shape {table.shape}. Copy the model folder "
            f"again."
        )
    return table


def find_candidates(config: TranslateConfig, encoding: PairEncoding, table: np.ndarray) -> Candidates:
    """The candidates of sources: special tokens, the most frequent target tokens, and those of the table."""
    vocabulary = encoding.target.vocabulary
    first = len(vocabulary.specials)
    by_count = sorted(range(first, len(vocabulary)), key=lambda i: (-vocabulary.counts[i], i))
    frequent = [*range(1, first), *by_count[: config.writing.candidates]]
    return Candidates(np.array(frequent), table, len(vocabulary))
