"""Which scores of a weighted graph lie on accepting paths. An arc, a beginning or an end of -inf does not exist.

Sums and searches need this where a cycle on no accepting path diverges, and where a score is nan or +inf: such a
score makes a result nan if and only if a path reads it whose other scores are all above -inf.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from catena.kernels.array_types import DOUBLES, LONGS
from catena.kernels.jit import lazy_jit
from catena.kernels.lattice_graph import flood


@njit(nogil=True)
def _reached(weight: Any, begins: Any, target: Any, starts: Any, arcs: Any) -> Any:
    """1 for each state with a path of nonzero weight from the beginning, else 0."""
    seen = np.empty(len(begins), np.int64)
    for q in range(len(begins)):
        seen[q] = begins[q] != -np.inf
    flood(weight, target, starts, arcs, seen)
    return seen


@lazy_jit(DOUBLES, DOUBLES, DOUBLES, LONGS, LONGS, LONGS, LONGS, LONGS, LONGS)
def useful_scores(
    weight: Any, initial: Any, final: Any, source: Any, target: Any, in_starts: Any, in_arcs: Any, out_starts: Any,
    out_arcs: Any,
) -> Any:  # fmt: skip
    """Copies of the scores with -inf for each one on no accepting path of nonzero weight. Time O(arcs)."""
    there = _reached(weight, initial, target, out_starts, out_arcs)
    onward = _reached(weight, final, source, in_starts, in_arcs)
    weight, initial, final = weight.copy(), initial.copy(), final.copy()
    for i in range(len(weight)):
        if not (there[source[i]] and onward[target[i]]):
            weight[i] = -np.inf
    for q in range(len(initial)):
        if not onward[q]:
            initial[q] = -np.inf
        if not there[q]:
            final[q] = -np.inf
    return weight, initial, final


@lazy_jit(DOUBLES, DOUBLES, LONGS, LONGS, LONGS, LONGS)
def invalid_states(weight: Any, begins: Any, source: Any, target: Any, out_starts: Any, out_arcs: Any) -> Any:
    """1 for each state with a path from the beginning that reads nan or +inf and no -inf, else 0."""
    there = _reached(weight, begins, target, out_starts, out_arcs)
    found = np.zeros(len(begins), np.int64)
    for q in range(len(begins)):
        found[q] = not begins[q] < np.inf
    for i in range(len(weight)):
        if there[source[i]] and not weight[i] < np.inf:
            found[target[i]] = 1
    flood(weight, target, out_starts, out_arcs, found)
    return found
