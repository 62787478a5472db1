r"""The most probable words of each row, given vectors and the weights of all words, for CPU search.

.. math::  \log p_{rw} = x_r \cdot w_w + b_w - \log \sum_u \exp(x_r \cdot w_u + b_u), \qquad
    w \text{ among the } k \text{ largest}

The reference implementation is ``torch.topk`` of a ``log_softmax``. A few rows at a time are multiplied, summed and
searched while their products are in the cache. Weights of floats or of 8 bits, as :mod:`catena.kernels.linear.cpu` and
:mod:`catena.kernels.linear.cpu_int8` pack them. Time O(n d v), memory O(v).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from catena.kernels.common.jit import jit, jit_function
from catena.kernels.common.simd import NEVER, largest_among, mass
from catena.kernels.linear.cpu import MAX_TILE_ROWS
from catena.kernels.linear.cpu_int8 import linear_rows
from catena.kernels.top_k.cpu import insert_top

_PIECE = 128
"""Numbers whose largest is found at once."""


def _top_log_probs(x: Any, panels: Any, first: Any, values: Any, places: Any, low: Any, high: Any) -> None:
    """The largest log-probabilities of rows ``low`` to ``high`` and their indices, as many as the output holds.

    ``first`` is the bias, as wide as all panels, and -inf where there is no word.
    """
    y = np.empty((min(MAX_TILE_ROWS, high - low), first.shape[0]), np.float32)
    peaks = np.empty((first.shape[0] + _PIECE - 1) // _PIECE, np.float32)
    for begin in range(low, high, MAX_TILE_ROWS):
        end = min(begin + MAX_TILE_ROWS, high)
        linear_rows(x[begin:end], panels, first, y[: end - begin])
        for r in range(begin, end):
            most = _peaks(y[r - begin], peaks)
            less = most + np.log(mass(y[r - begin], most))
            _find(y[r - begin], peaks, values[r], places[r])
            for i in range(values.shape[1]):
                values[r, i] -= less


top_log_probs: Callable[..., None] = jit("2", "3", "1", "2", "i2", "i", "i")(_top_log_probs)
top_log_probs8: Callable[..., None] = jit("2", "c3", "1", "2", "i2", "i", "i")(_top_log_probs)


@jit_function()
def _peaks(row: Any, peaks: Any) -> Any:
    """Put the largest number of each piece in its place; the largest of all."""
    most = NEVER
    for p in range(peaks.shape[0]):
        peaks[p] = largest_among(row, p * _PIECE, min((p + 1) * _PIECE, row.shape[0]))
        most = max(most, peaks[p])
    return most


@jit_function()
def _find(row: Any, peaks: Any, best: Any, at: Any) -> None:
    """The number of requested values bounds the blocks with one of at least ``least``; others are not read."""
    k = best.shape[0]
    least = NEVER
    if peaks.shape[0] >= k:
        insert_top(peaks, 0, best, at, 0)
        least = best[k - 1]
    filled = 0
    for p in range(peaks.shape[0]):
        if peaks[p] >= least and (filled < k or peaks[p] > best[k - 1]):
            low = p * _PIECE
            high = min((p + 1) * _PIECE, row.shape[0])
            filled = insert_top(row[low:high], low, best, at, filled)
