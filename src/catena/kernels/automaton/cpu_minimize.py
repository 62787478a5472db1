"""The coarsest partition of states that arcs respect: minimization of deterministic machines.

Hopcroft (1971) in the form of Valmari (2012), for machines that lack arcs for some labels. Time O(arcs · log
arcs).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from catena.kernels.automaton.cpu_graph import group_by_key
from catena.kernels.common.jit import LONGS, lazy_jit


# A partition is six arrays: the elements in the order of their sets, the place and the set of each element,
# the first place and the one past the last of each set, and how many elements of each set are marked. Marked
# elements come first in their set.
@njit(nogil=True)
def _partition(n: int, sets: Any, n_sets: int) -> Any:
    starts, elements = group_by_key(sets, n_sets)
    place = np.empty(n, np.int64)
    for i in range(n):
        place[elements[i]] = i
    first = np.zeros(n + 1, np.int64)
    past = np.zeros(n + 1, np.int64)
    marked = np.zeros(n + 1, np.int64)
    first[:n_sets], past[:n_sets] = starts[:-1], starts[1:]
    return elements, place, sets.copy(), first, past, marked


@njit(nogil=True)
def _mark(parts: Any, element: int, touched: Any, n_touched: int) -> int:
    elements, place, sets, first, _, marked = parts
    s = sets[element]
    i = place[element]
    j = first[s] + marked[s]
    if i < j:
        return n_touched
    elements[i] = elements[j]
    place[elements[i]] = i
    elements[j] = element
    place[element] = j
    if marked[s] == 0:
        touched[n_touched] = s
        n_touched += 1
    marked[s] += 1
    return n_touched


@njit(nogil=True)
def _split(parts: Any, touched: Any, n_touched: int, n_sets: int) -> int:
    """Marked elements leave their sets. The smaller half becomes the new set. Returns the number of sets."""
    elements, _, sets, first, past, marked = parts
    for k in range(n_touched):
        s = touched[k]
        middle = first[s] + marked[s]
        if middle < past[s]:
            if marked[s] <= past[s] - middle:
                first[n_sets] = first[s]
                past[n_sets] = middle
                first[s] = middle
            else:
                first[n_sets] = middle
                past[n_sets] = past[s]
                past[s] = middle
            for i in range(first[n_sets], past[n_sets]):
                sets[elements[i]] = n_sets
            marked[n_sets] = 0
            n_sets += 1
        marked[s] = 0
    return n_sets


@lazy_jit(LONGS, LONGS, LONGS, LONGS)
def refine_partition(source: Any, target: Any, label: Any, kind: Any) -> Any:
    """The coarsest partition in which states of a set have one ``kind`` and, for every label, arcs to one set.

    Labels and kinds are numbered from 0 without a gap.
    """
    n = len(kind)
    n_arcs = len(source)
    n_blocks = 0
    n_cords = 0
    for x in kind:
        n_blocks = max(n_blocks, x + 1)
    for x in label:
        n_cords = max(n_cords, x + 1)
    blocks = _partition(n, kind, n_blocks)
    cords = _partition(n_arcs, label, n_cords)
    starts, arcs = group_by_key(target, n)
    touched = np.empty(max(n, n_arcs) + 1, np.int64)
    block = 1  # arcs into the one block that is left out are those that come into no other
    cord = 0
    while block < n_blocks or cord < n_cords:
        while block < n_blocks:
            n_touched = 0
            for i in range(blocks[3][block], blocks[4][block]):
                q = blocks[0][i]
                for j in range(starts[q], starts[q + 1]):
                    n_touched = _mark(cords, arcs[j], touched, n_touched)
            n_cords = _split(cords, touched, n_touched, n_cords)
            block += 1
        if cord < n_cords:
            n_touched = 0
            for i in range(cords[3][cord], cords[4][cord]):
                n_touched = _mark(blocks, source[cords[0][i]], touched, n_touched)
            n_blocks = _split(blocks, touched, n_touched, n_blocks)
            cord += 1
    return blocks[2]
