r"""Which target tokens belong to which source tokens, from a word alignment of the training pairs.

.. math::  t(e \mid f) \propto \sum_{(x, y) : f \in x, e \in y} \frac{t(e \mid f)}{\sum_{f' \in x} t(e \mid f')}

Model 1 of Brown et al. (1993), by expectation maximization, each token counted once in a sentence. It gives the
candidates that a search chooses among when the target vocabulary is large (Jean et al. 2015, section 3).
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
"""Pairs of tokens that are counted at most; beyond that the sentences that come first are enough."""


def learn_candidates(pairs: EncodedPairs, rows: np.ndarray, each: int) -> np.ndarray:
    """``[f]`` are the ``each`` likeliest target ids of source id ``f``, filled up with -1."""
    encoding = pairs.encoding
    return word_table(_sentences(pairs, rows), len(encoding.source.vocabulary), len(encoding.target.vocabulary), each)


def word_table(sentences: Iterable[tuple[np.ndarray, np.ndarray]], n: int, v: int, each: int) -> np.ndarray:
    """The same from the ids of sources and targets, each once in its sentence."""
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
    """Every source token with every target token of its pair, and the number of that target token."""
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
    """Keep the candidates beside the weights."""
    np.save(folder / FILE, table, allow_pickle=False)


def load_candidates(folder: Path, n: int) -> np.ndarray:
    """Read what :func:`save_candidates` wrote, for ``n`` source tokens."""
    try:
        table = np.load(folder / FILE, allow_pickle=False)
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{folder / FILE} cannot be read ({error}): copy the model again") from None
    if table.ndim != 2 or len(table) != n:
        raise CheckpointError(f"{folder / FILE} must have {n} rows, one for each source token: copy the model again")
    return table


def find_candidates(config: TranslateConfig, encoding: PairEncoding, table: np.ndarray) -> Candidates:
    """What sources choose among: the most frequent target tokens, specials and the end, and those of the table."""
    vocabulary = encoding.target.vocabulary
    first = len(vocabulary.specials)
    by_count = sorted(range(first, len(vocabulary)), key=lambda i: (-vocabulary.counts[i], i))
    frequent = [*range(1, first), *by_count[: config.writing.candidates]]
    return Candidates(np.array(frequent), table, len(vocabulary))
