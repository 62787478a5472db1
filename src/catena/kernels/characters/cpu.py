r"""The maximum of each filter over the windows of a word, without products.

.. math::  y_f = \max_i \Big( b_f + \sum_{j=0}^{w-1} T_j(c_{i - \ell + j})_f \Big), \qquad T_j(c) = K_j e_c

There are few distinct characters, so their vectors are multiplied with the filters once, and a window is a sum of w
rows of tables. Time O(n c w f).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from catena.kernels.common.jit import SUMS, jit


@jit("3", "1", "i2", "i", "2", "i", "i", fastmath=SUMS)
def largest_windows(tables: Any, bias: Any, characters: Any, before: Any, result: Any, low: Any, high: Any) -> None:
    """Write the maximum of each filter for the words from ``low`` to ``high``.

    Args:
        tables: ``tables[j, c]`` is the contribution of character ``c`` at position ``j`` of a window to each filter.
        bias: one number for each filter.
        characters: the characters of each word, then zeros.
        before: the number of positions of a window in front of the character in its center.
        result: one row for each word; 0 for words without characters.
        low: the first word.
        high: the end of the words.
    """
    total = np.empty_like(bias)
    for word in range(low, high):
        row, top = characters[word], result[word]
        n = 0
        while n < row.shape[0] and row[n] != 0:
            n += 1
        top[:] = -np.inf if n > 0 else 0.0
        for i in range(n):
            total[:] = bias
            for j in range(max(0, before - i), min(tables.shape[0], n + before - i)):
                part = tables[j, row[i + j - before]]
                for f in range(total.shape[0]):
                    total[f] += part[f]
            for f in range(total.shape[0]):
                top[f] = top[f] if total[f] <= top[f] else total[f]
