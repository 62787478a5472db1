"""Where two files that should match line by line come apart.

Lines that belong together are of like length. If the longer file has d lines too many, which stand together after line
p, then its lines behind them belong to those d lines before: the p that leaves the lengths most alike is the likely
place.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def likely_break(shorter: Sequence[int], longer: Sequence[int]) -> int:
    """After how many lines the longer file has lines that the shorter one lacks. Time O(n).

    Args:
        shorter: the lengths of the lines of one file.
        longer: those of the other, which has more lines.
    """
    a, b = (np.log1p(np.asarray(lengths, np.float64)) for lengths in (shorter, longer))
    n, extra = len(a), len(b) - len(a)
    ratio = float(np.median(b) - np.median(a)) if n else 0.0
    before = np.abs(b[:n] - a - ratio)  # if nothing is missing up to here
    behind = np.abs(b[extra : extra + n] - a - ratio)
    cost = np.concatenate(([0.0], np.cumsum(before))) + np.concatenate((np.cumsum(behind[::-1])[::-1], [0.0]))
    return int(cost.argmin())
