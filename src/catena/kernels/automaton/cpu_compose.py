"""Which pairs of states and arcs make up a composition. Knows labels and no weights.

The arcs of either machine are sorted by source, then by the label that is matched: outputs on the left,
inputs on the right. Label 0 is epsilon, -1 a failure arc, which only the right machine may have.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import float64, int64, njit

from catena.kernels.automaton.cpu_graph import coaccessible_states
from catena.kernels.common.jit import DOUBLES, LONGS, lazy_jit

_FREE = -1


@njit(nogil=True)
def _first(labels: Any, low: int, high: int, label: int) -> int:
    """The first place in the sorted ``labels[low:high]`` whose label is not below ``label``."""
    while low < high:
        middle = (low + high) // 2
        if labels[middle] < label:
            low = middle + 1
        else:
            high = middle
    return low


@njit(nogil=True)
def _longer(rows: Any, n: int) -> Any:
    """The same rows with capacity for 2 n."""
    larger = np.empty((2 * n, rows.shape[1]), np.int64)
    larger[: len(rows)] = rows
    return larger


@njit(nogil=True)
def _slot(keys: Any, key: int) -> int:
    """Where a key is in the hash table, or may be put. The size of the table is a power of two."""
    place = (key * 0x9E3779B97F4A7C1 >> 17) & (len(keys) - 1)
    while keys[place] != _FREE and keys[place] != key:
        place = (place + 1) & (len(keys) - 1)
    return place


@njit(nogil=True)
def _rehashed(keys: Any, numbers: Any) -> tuple[Any, Any]:
    new_keys = np.full(2 * len(keys), _FREE, np.int64)
    new_numbers = np.empty(2 * len(keys), np.int64)
    for i in range(len(keys)):
        if keys[i] != _FREE:
            place = _slot(new_keys, keys[i])
            new_keys[place] = keys[i]
            new_numbers[place] = numbers[i]
    return new_keys, new_numbers


@njit(nogil=True)
def _composed(
    a_starts: Any, a_labels: Any, a_targets: Any, a_silent: Any, a_stuck: Any, a_begins: Any,
    b_starts: Any, b_labels: Any, b_targets: Any, b_fails: Any, b_begins: Any, limit: int,
) -> Any:  # fmt: skip
    """The states and arcs that can be reached in the composition of two machines.

    A state is (p, q, filter). The filter lets the left machine move alone first, then the right one, until
    both move together, so that each pair of paths is found once (Allauzen & Mohri 2009, section 3.2).

    Args:
        a_silent: 1 where a state of the left machine has an arc with output epsilon.
        a_stuck: 1 where a state of the left machine has such arcs alone and is not final.
        b_fails: the target of each right state's failure arc, or -1.
        limit: the greatest number of states.

    Returns (states, arcs): rows (p, q, filter), and rows (left arc, right arc, failures, source, target). Arcs
    of the machines are places in the sorted arcs, -1 where that machine does not move. No states at all beyond
    the limit.
    """
    n_b = len(b_starts) - 1
    keys = np.full(1024, _FREE, np.int64)
    numbers = np.empty(1024, np.int64)
    states = np.empty((256, 3), np.int64)
    arcs = np.empty((512, 5), np.int64)
    step = np.empty((64, 6), np.int64)
    n_states = n_arcs = 0
    for p in a_begins:
        for q in b_begins:
            if 2 * n_states >= len(keys):
                keys, numbers = _rehashed(keys, numbers)
            if n_states == len(states):
                states = _longer(states, n_states + 1)
            place = _slot(keys, (p * n_b + q) * 2)
            keys[place] = (p * n_b + q) * 2
            numbers[place] = n_states
            states[n_states, 0], states[n_states, 1], states[n_states, 2] = p, q, 0
            n_states += 1
    here = 0
    while here < n_states:
        if n_states > limit:
            return np.empty((0, 3), np.int64), np.empty((0, 5), np.int64)
        p, q, f = states[here, 0], states[here, 1], states[here, 2]
        n_step = _steps(p, q, f, a_starts, a_labels, a_targets, a_silent, a_stuck, b_starts, b_labels, b_targets,
                        b_fails, step)  # fmt: skip
        if n_step > len(step):
            step = np.empty((2 * n_step, 6), np.int64)
            continue
        while 2 * (n_states + n_step) >= len(keys):
            keys, numbers = _rehashed(keys, numbers)
        if n_states + n_step > len(states):
            states = _longer(states, n_states + n_step)
        if n_arcs + n_step > len(arcs):
            arcs = _longer(arcs, n_arcs + n_step)
        for i in range(n_step):
            key = (step[i, 3] * n_b + step[i, 4]) * 2 + step[i, 5]
            place = _slot(keys, key)
            if keys[place] == _FREE:
                keys[place] = key
                numbers[place] = n_states
                for c in range(3):
                    states[n_states, c] = step[i, 3 + c]
                n_states += 1
            for c in range(3):
                arcs[n_arcs, c] = step[i, c]
            arcs[n_arcs, 3], arcs[n_arcs, 4] = here, numbers[place]
            n_arcs += 1
        here += 1
    return states[:n_states], arcs[:n_arcs]


@lazy_jit(LONGS, LONGS, LONGS, LONGS, LONGS, LONGS, LONGS, LONGS, LONGS, LONGS, LONGS, int64)
def compose_graphs(
    a_starts: Any, a_labels: Any, a_targets: Any, a_silent: Any, a_stuck: Any, a_begins: Any,
    b_starts: Any, b_labels: Any, b_targets: Any, b_fails: Any, b_begins: Any, limit: int,
) -> Any:  # fmt: skip
    """:func:`_composed`, to be called from Python."""
    return _composed(
        a_starts, a_labels, a_targets, a_silent, a_stuck, a_begins, b_starts, b_labels, b_targets, b_fails, b_begins,
        limit,
    )  # fmt: skip


@njit(nogil=True)
def _to_probabilities(weights: Any, zero: float) -> Any:
    """Where weights are not zero."""
    found = np.empty(len(weights), np.int64)
    n = 0
    for q in range(len(weights)):
        if weights[q] != zero:
            found[n] = q
            n += 1
    return found[:n]


@njit(nogil=True)
def _silent_states(starts: Any, labels: Any, final: Any, zero: float) -> tuple[Any, Any]:
    """1 where a state has an arc with label 0, and where it has such arcs alone and is not final."""
    n = len(starts) - 1
    silent = np.zeros(n, np.int64)
    stuck = np.zeros(n, np.int64)
    for q in range(n):
        count = 0
        for i in range(starts[q], starts[q + 1]):
            count += labels[i] == 0
        silent[q] = count > 0
        stuck[q] = count == starts[q + 1] - starts[q] and final[q] == zero
    return silent, stuck


@njit(nogil=True)
def _product(a: float, b: float, zero: float) -> float:
    """a + b; zero if either is, for -inf and nan add up to nan."""
    return zero if a == zero or b == zero else a + b


@lazy_jit(
    LONGS, LONGS, LONGS, LONGS, LONGS, DOUBLES, DOUBLES, DOUBLES, LONGS, LONGS, LONGS, LONGS, LONGS, DOUBLES,
    DOUBLES, DOUBLES, float64, int64,
)  # fmt: skip
def composed_sums(
    a_starts: Any, a_labels: Any, a_targets: Any, a_arcs: Any, a_input: Any, a_weight: Any, a_initial: Any,
    a_final: Any, b_starts: Any, b_labels: Any, b_targets: Any, b_arcs: Any, b_output: Any, b_weight: Any,
    b_initial: Any, b_final: Any, zero: float, limit: int,
) -> Any:  # fmt: skip
    """The whole composition of two machines without failure arcs whose weights are multiplied by +.

    Args:
        a_arcs: the arc at each place of the sorted arcs; ``a_input`` and ``a_weight`` are in the order of arcs.
        zero: the weight of what is impossible.

    Returns (number of states before trimming, source, target, input, output, weight, initial, final). Beyond the
    limit the number is 0.
    """
    silent, stuck = _silent_states(a_starts, a_labels, a_final, zero)
    begin_a = _to_probabilities(a_initial, zero)
    begin_b = _to_probabilities(b_initial, zero)
    states, arcs = _composed(
        a_starts, a_labels, a_targets, silent, stuck, begin_a, b_starts, b_labels, b_targets,
        np.full(len(b_final), -1, np.int64), begin_b, limit,
    )  # fmt: skip
    n = len(states)
    n_begins = len(begin_a) * len(begin_b)
    begins = np.zeros(n, np.int64)
    ends = np.zeros(n, np.int64)
    final = np.empty(n)
    for q in range(n):
        begins[q] = q < n_begins
        final[q] = _product(a_final[states[q, 0]], b_final[states[q, 1]], zero)
        ends[q] = final[q] != zero
    kept = coaccessible_states(arcs[:, 3].copy(), arcs[:, 4].copy(), begins, ends)
    number = np.empty(n, np.int64)
    n_kept = 0
    initial = np.full(n, zero)
    for q in range(n):
        number[q] = n_kept
        if kept[q]:
            final[n_kept] = final[q]
            if q < n_begins:
                initial[n_kept] = _product(a_initial[states[q, 0]], b_initial[states[q, 1]], zero)
            n_kept += 1
    columns = np.empty((4, len(arcs)), np.int64)
    weight = np.empty(len(arcs))
    n_arcs = 0
    for i in range(len(arcs)):
        left, right, p, q = arcs[i, 0], arcs[i, 1], arcs[i, 3], arcs[i, 4]
        if kept[p] and kept[q]:
            columns[0, n_arcs], columns[1, n_arcs] = number[p], number[q]
            columns[2, n_arcs] = a_input[a_arcs[left]] if left >= 0 else 0
            columns[3, n_arcs] = b_output[b_arcs[right]] if right >= 0 else 0
            paid_left = a_weight[a_arcs[left]] if left >= 0 else 0.0
            paid_right = b_weight[b_arcs[right]] if right >= 0 else 0.0
            weight[n_arcs] = _product(paid_left, paid_right, zero)
            n_arcs += 1
    return (
        n, columns[0, :n_arcs], columns[1, :n_arcs], columns[2, :n_arcs], columns[3, :n_arcs], weight[:n_arcs],
        initial[:n_kept], final[:n_kept],
    )  # fmt: skip


@njit(nogil=True)
def _steps(
    p: int, q: int, f: int, a_starts: Any, a_labels: Any, a_targets: Any, a_silent: Any, a_stuck: Any,
    b_starts: Any, b_labels: Any, b_targets: Any, b_fails: Any, step: Any,
) -> int:  # fmt: skip
    """The arcs of one state of the composition, as rows (left, right, failures, p, q, filter) of ``step``.

    Returns how many there are. If that is more than ``step`` is long, only the first are written.
    """
    n = 0
    a_low = a_starts[p]
    a_high = a_starts[p + 1]
    b_low = b_starts[q]
    b_high = b_starts[q + 1]
    a_real = _first(a_labels, a_low, a_high, 1)
    b_real = _first(b_labels, b_low, b_high, 1)
    if f == 0:
        for i in range(_first(a_labels, a_low, a_real, 0), a_real):
            n = _put(step, n, i, -1, 0, a_targets[i], q, 0)
    if not a_stuck[p]:
        for j in range(_first(b_labels, b_low, b_real, 0), b_real):
            n = _put(step, n, -1, j, 0, p, b_targets[j], a_silent[p])
    if b_fails[q] < 0 and b_high - b_real < a_high - a_real:
        for j in range(b_real, b_high):
            i = _first(a_labels, a_real, a_high, b_labels[j])
            while i < a_high and a_labels[i] == b_labels[j]:
                n = _put(step, n, i, j, 0, a_targets[i], b_targets[j], 0)
                i += 1
        return n
    for i in range(a_real, a_high):
        label = a_labels[i]
        at = q
        failures = 0
        j = _first(b_labels, b_real, b_high, label)
        high = b_high
        while b_fails[at] >= 0 and not (j < high and b_labels[j] == label):
            at = b_fails[at]
            failures = failures + 1
            high = b_starts[at + 1]
            j = _first(b_labels, b_starts[at], high, label)
        while j < high and b_labels[j] == label:
            n = _put(step, n, i, j, failures, a_targets[i], b_targets[j], 0)
            j += 1
    return n


@njit(nogil=True)
def _put(step: Any, n: int, left: int, right: int, failures: int, p: int, q: int, f: int) -> int:
    if n < len(step):
        step[n, 0], step[n, 1], step[n, 2] = left, right, failures
        step[n, 3], step[n, 4], step[n, 5] = p, q, f
    return n + 1
