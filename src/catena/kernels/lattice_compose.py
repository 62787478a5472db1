"""Which pairs of states and arcs make up a composition. Knows labels and no weights.

The arcs of either machine are sorted by source, then by the label that is matched: outputs on the left,
inputs on the right. Label 0 is epsilon, -1 a failure arc, which only the right machine may have.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import int64, njit

from catena.kernels.lattice_graph import I1, when_needed

FREE = -1


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
def _longer(x: Any) -> Any:
    larger = np.empty(2 * len(x), np.int64)
    larger[: len(x)] = x
    return larger


@njit(nogil=True)
def _slot(keys: Any, key: int) -> int:
    """Where a key is in the hash table, or may be put. The size of the table is a power of two."""
    place = (key * 0x9E3779B97F4A7C1 >> 17) & (len(keys) - 1)
    while keys[place] != FREE and keys[place] != key:
        place = (place + 1) & (len(keys) - 1)
    return place


@njit(nogil=True)
def _rehashed(keys: Any, numbers: Any) -> tuple[Any, Any]:
    new_keys, new_numbers = np.full(2 * len(keys), FREE, np.int64), np.empty(2 * len(keys), np.int64)
    for i in range(len(keys)):
        if keys[i] != FREE:
            place = _slot(new_keys, keys[i])
            new_keys[place], new_numbers[place] = keys[i], numbers[i]
    return new_keys, new_numbers


@when_needed(I1, I1, I1, I1, I1, I1, I1, I1, I1, I1, I1, int64)
def composed(
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

    Returns (p of each state, q of each state, source, target, left arc, right arc, number of failures): arcs
    as places in the sorted arcs, -1 where that machine does not move. Empty arrays beyond the limit.
    """
    n_b = len(b_starts) - 1
    keys, numbers = np.full(256, FREE, np.int64), np.empty(256, np.int64)
    state_p, state_q, state_f = np.empty(64, np.int64), np.empty(64, np.int64), np.empty(64, np.int64)
    sources, targets, lefts = np.empty(64, np.int64), np.empty(64, np.int64), np.empty(64, np.int64)
    rights, fails = np.empty(64, np.int64), np.empty(64, np.int64)
    # The arcs of one state before they are stored: left arc, right arc, failures, and where they lead.
    step = np.empty((64, 6), np.int64)
    n_states = n_arcs = 0
    for p in a_begins:
        for q in b_begins:
            if n_states == len(state_p):
                state_p, state_q, state_f = _longer(state_p), _longer(state_q), _longer(state_f)
            state_p[n_states], state_q[n_states], state_f[n_states] = p, q, 0
            if 2 * n_states >= len(keys):
                keys, numbers = _rehashed(keys, numbers)
            place = _slot(keys, (p * n_b + q) * 2)
            keys[place], numbers[place] = (p * n_b + q) * 2, n_states
            n_states += 1
    here = 0
    while here < n_states:
        if n_states > limit:
            nothing = np.empty(0, np.int64)
            return nothing, nothing, nothing, nothing, nothing, nothing, nothing
        p, q, f = state_p[here], state_q[here], state_f[here]
        a_low, a_high, b_low, b_high = a_starts[p], a_starts[p + 1], b_starts[q], b_starts[q + 1]
        n_step, step = _steps(
            p, q, f, a_low, a_high, b_low, b_high, a_labels, a_targets, a_silent, a_stuck, b_starts, b_labels,
            b_targets, b_fails, step,
        )  # fmt: skip
        for i in range(n_step):
            key = (step[i, 3] * n_b + step[i, 4]) * 2 + step[i, 5]
            place = _slot(keys, key)
            if keys[place] == FREE:
                if 2 * n_states >= len(keys):
                    keys, numbers = _rehashed(keys, numbers)
                    place = _slot(keys, key)
                if n_states == len(state_p):
                    state_p, state_q, state_f = _longer(state_p), _longer(state_q), _longer(state_f)
                state_p[n_states], state_q[n_states], state_f[n_states] = step[i, 3], step[i, 4], step[i, 5]
                keys[place], numbers[place] = key, n_states
                n_states += 1
            if n_arcs == len(sources):
                sources, targets, lefts = _longer(sources), _longer(targets), _longer(lefts)
                rights, fails = _longer(rights), _longer(fails)
            sources[n_arcs], targets[n_arcs] = here, numbers[place]
            lefts[n_arcs], rights[n_arcs], fails[n_arcs] = step[i, 0], step[i, 1], step[i, 2]
            n_arcs += 1
        here += 1
    return (
        state_p[:n_states], state_q[:n_states], sources[:n_arcs], targets[:n_arcs], lefts[:n_arcs], rights[:n_arcs],
        fails[:n_arcs],
    )  # fmt: skip


@njit(nogil=True)
def _steps(
    p: int, q: int, f: int, a_low: int, a_high: int, b_low: int, b_high: int, a_labels: Any, a_targets: Any,
    a_silent: Any, a_stuck: Any, b_starts: Any, b_labels: Any, b_targets: Any, b_fails: Any, step: Any,
) -> tuple[int, Any]:  # fmt: skip
    """All arcs of one state of the composition, as rows (left, right, failures, p, q, filter) of ``step``."""
    n = 0
    a_real, b_real = _first(a_labels, a_low, a_high, 1), _first(b_labels, b_low, b_high, 1)
    if f == 0:
        for i in range(_first(a_labels, a_low, a_real, 0), a_real):
            n, step = _put(step, n, i, -1, 0, a_targets[i], q, 0)
    if not a_stuck[p]:
        for j in range(_first(b_labels, b_low, b_real, 0), b_real):
            n, step = _put(step, n, -1, j, 0, p, b_targets[j], 1 if a_silent[p] else 0)
    if b_fails[q] < 0 and b_high - b_real < a_high - a_real:
        for j in range(b_real, b_high):
            i = _first(a_labels, a_real, a_high, b_labels[j])
            while i < a_high and a_labels[i] == b_labels[j]:
                n, step = _put(step, n, i, j, 0, a_targets[i], b_targets[j], 0)
                i += 1
        return n, step
    for i in range(a_real, a_high):
        label, at, failures = a_labels[i], q, 0
        j = _first(b_labels, b_real, b_high, label)
        high = b_high
        while b_fails[at] >= 0 and not (j < high and b_labels[j] == label):
            at, failures = b_fails[at], failures + 1
            high = b_starts[at + 1]
            j = _first(b_labels, b_starts[at], high, label)
        while j < high and b_labels[j] == label:
            n, step = _put(step, n, i, j, failures, a_targets[i], b_targets[j], 0)
            j += 1
    return n, step


@njit(nogil=True)
def _put(step: Any, n: int, left: int, right: int, failures: int, p: int, q: int, f: int) -> tuple[int, Any]:
    if n == len(step):
        larger = np.empty((2 * n, 6), np.int64)
        larger[:n] = step
        step = larger
    step[n, 0], step[n, 1], step[n, 2] = left, right, failures
    step[n, 3], step[n, 4], step[n, 5] = p, q, f
    return n + 1, step
