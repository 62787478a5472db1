r"""Sparse matrices of counts: of words near words, or of words in documents, and their weights.

The weights of a row need only its own counts and one value for each column, so that new rows can be weighted later:

.. math::  \mathrm{ppmi}(r, c) = \max \Big( 0, \log \frac{n_{rc}}{n_r \, q_c} - \log k \Big) \qquad
           q_c = \frac{n_c^s}{\sum_{c'} n_{c'}^s} \qquad
           \mathrm{tfidf}(r, c) = n_{rc} \Big( 1 + \log \frac{1 + n}{1 + |\{r : n_{rc} > 0\}|} \Big)

with rows of TF-IDF scaled to length 1. Levy, Goldberg & Dagan (2015), section 3. Tested in
tests/vectors/test_counts.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from catena.extras import require
from catena.kernels.word2vec.cpu_sampling import LINE_END
from catena.vectors.config import FactorConfig

_AT_ONCE = 1 << 19
"""Number of words whose pairs are in memory before they are added up."""


def count_contexts(ids: Int[np.ndarray, " n"], n_words: int, n_contexts: int, window: int) -> Any:
    """``counts[w, c]``: how often context c occurs at most ``window`` words before or after w in the same line.

    Args:
        ids: the text, with ``LINE_END`` after each line.
        n_words: number of rows.
        n_contexts: number of columns: words with smaller ids are contexts.
        window: maximum distance.

    Returns:
        A sparse matrix of scipy. Memory grows with its nonzero values and not with the text.
    """
    sparse = require("scipy.sparse", "sklearn", "--model lsa")
    total = sparse.csr_array((n_words, n_contexts), dtype=np.float64)
    for low in range(0, len(ids), _AT_ONCE):
        block = np.asarray(ids[low : low + _AT_ONCE + window])
        n_first = min(_AT_ONCE, len(ids) - low)
        rows, columns = _pairs(block, n_first, window)
        kept = columns < n_contexts
        values = np.ones(int(kept.sum()))
        total = total + sparse.coo_array((values, (rows[kept], columns[kept])), total.shape).tocsr()
    return total


def _pairs(
    block: Int[np.ndarray, " n"], n_first: int, window: int
) -> tuple[Int[np.ndarray, " p"], Int[np.ndarray, " p"]]:
    """All ordered pairs of neighbors whose first word is among the first ``n_first`` of a block."""
    line = np.cumsum(block == LINE_END)
    found: list[tuple[np.ndarray, np.ndarray]] = []
    for distance in range(1, window + 1):
        first = np.arange(min(n_first, len(block) - distance))
        second = first + distance
        near = (block[first] != LINE_END) & (block[second] != LINE_END) & (line[first] == line[second])
        a, b = block[first[near]], block[second[near]]
        found += [(a, b), (b, a)]
    rows, columns = (np.concatenate([pair[i] for pair in found]) for i in (0, 1))
    return rows, columns


def count_documents(ids: Int[np.ndarray, " n"], n_words: int) -> Any:
    """``counts[i, w]``: how often word w occurs in line i, as a sparse matrix of scipy."""
    sparse = require("scipy.sparse", "sklearn", "--model lsa")
    return sparse.vstack([_count_lines(block, n_words, sparse) for block in _line_blocks(ids)], "csr")


def _line_blocks(ids: Int[np.ndarray, " n"]) -> Iterator[Int[np.ndarray, " m"]]:
    """Whole lines, about ``_AT_ONCE`` words together."""
    low = 0
    while low < len(ids):
        high = min(low + _AT_ONCE, len(ids))
        while high < len(ids) and ids[high - 1] != LINE_END:
            high += 1
        yield np.asarray(ids[low:high])
        low = high


def _count_lines(ids: Int[np.ndarray, " n"], n_words: int, sparse: Any) -> Any:
    ends = np.flatnonzero(ids == LINE_END)
    starts = np.concatenate(([0], ends - np.arange(len(ends))))  # without the ends of earlier lines
    words = ids[ids != LINE_END]
    counts = sparse.csr_array((np.ones(len(words)), words.astype(np.int32), starts), (len(ends), n_words))
    counts.sum_duplicates()
    return counts


# --- weights ----------------------------------------------------------------------------------------------------------


def column_weights(counts: Any, config: FactorConfig) -> Float[np.ndarray, " c"]:
    """The value of each column that :func:`weigh_rows` needs: its probability for PPMI, its weight for TF-IDF."""
    if config.weights == "ppmi":
        smoothed = np.asarray(counts.sum(0)).ravel() ** config.smoothing
        return smoothed / max(float(smoothed.sum()), 1e-300)
    if config.weights == "tfidf":
        occurs = np.bincount(counts.indices, minlength=counts.shape[1])
        return 1 + np.log((1 + counts.shape[0]) / (1 + occurs))
    return np.ones(counts.shape[1])


def weigh_rows(counts: Any, columns: Float[np.ndarray, " c"], config: FactorConfig) -> Any:
    """The weights of rows of counts. Values that become 0 are removed."""
    weighed = counts.copy()
    rows = np.repeat(np.arange(counts.shape[0]), np.diff(counts.indptr))
    if config.weights == "log":
        weighed.data = np.log1p(weighed.data)
    elif config.weights == "ppmi":
        sizes = np.bincount(rows, weighed.data, counts.shape[0])
        information = np.log(weighed.data / sizes[rows]) - np.log(columns[weighed.indices])
        weighed.data = np.maximum(information - np.log(config.shift), 0)
        weighed.eliminate_zeros()
    elif config.weights == "tfidf":
        values = weighed.data * columns[weighed.indices]
        lengths = np.sqrt(np.bincount(rows, values**2, counts.shape[0]))
        weighed.data = values / lengths[rows]
    return weighed
