"""Log-linear taggers on sparse features that learn sentence by sentence: one pass over all of them.

The weights of the features are laid out as in :mod:`catena.kernels.features.cpu_sums`. After each sentence they move by

    rate × (what the right tags use - what the model expects, or what its best tags use)

and shrink by ``rate × decay``, which is done by one number that all weights are multiplied with. For averages over all
moments (Collins 2002) each move is added up times the number of sentences before it (Daumé 2006, figure 2.3).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import boolean, float64, int64

from catena.kernels.chain.cpu import FINE, LIMITS, backward_rows, forward_rows
from catena.kernels.common.jit import DOUBLES, INTS, LONGS, jit_function, lazy_jit
from catena.kernels.common.vector_math import exp_less
from catena.kernels.features.cpu_sums import score_token, softmax_and_log_sum

CRF, SOFTMAX, MEMM, PERCEPTRON, MARGIN = 0, 1, 2, 3, 4
_BOTH_WAYS = 2
SUM_LEAST, TOTAL_LEAST, MOST = LIMITS[np.dtype(np.float64)]


@jit_function()
def _level(transitions: Any, start: Any, entry: Any, moves: Any, matrix: Any, matrix_t: Any) -> None:
    """As :func:`~catena.kernels.chain.cpu.normalize_transitions`, for one table."""
    k = len(start)
    for q in range(k):
        top = -np.inf
        for p in range(k):
            top = max(top, transitions[p, q])
        entry[0, q] = top if top > -np.inf else 0.0
        entry[1, q] = start[q]
    for p in range(k):
        for q in range(k):
            moves[0, p, q] = transitions[p, q] - entry[0, q]
        exp_less(moves[0, p], 0.0, matrix[0, p])
        for q in range(k):
            matrix_t[0, q, p] = matrix[0, p, q]


@jit_function()
def _hold(scores: Any, n: int, tags: Any, begin: int) -> None:
    for t in range(n):
        if tags[begin + t] >= 0:
            for q in range(scores.shape[2]):
                if q != tags[begin + t]:
                    scores[0, t, q] = -np.inf


@jit_function()
def _expect(scores: Any, n: int, transitions: Any, start: Any, end: Any, sign: float, use: Any, pairs: Any) -> float:
    """Add ``sign`` times the expected uses to ``use[t, q]`` and ``pairs[p, q]``. Returns log Z, or nan if floats do
    not suffice."""
    k = len(start)
    entry = np.empty((2, k))
    ends = np.empty((1, k))
    moves = np.empty((1, k, k))
    matrix = np.empty((1, k, k))
    matrix_t = np.empty((1, k, k))
    ends[0] = end
    _level(transitions, start, entry, moves, matrix, matrix_t)
    a = np.zeros((1, n, k))
    marginals = np.zeros((1, n, k))
    onward = np.zeros((1, n, k))
    norms = np.empty((4, n))
    verdict = np.zeros(4, np.int64)
    z = np.empty(1)
    rows = np.zeros(1, np.int64)
    lengths = np.full(1, n)
    forward_rows(
        scores, entry, ends, moves, matrix, rows, 0, 0, 1, lengths, _BOTH_WAYS, z, verdict, a, onward, norms,
        SUM_LEAST, TOTAL_LEAST,
    )  # fmt: skip
    backward_rows(matrix_t, rows, 0, 0, lengths, verdict, a, marginals, onward, norms, MOST)
    if verdict[0] != FINE:
        return np.nan
    for t in range(n):
        for q in range(k):
            use[t, q] += sign * marginals[0, t, q]
    for t in range(n - 1):
        for p in range(k):
            for q in range(k):
                pairs[p, q] += sign * a[0, t, p] * onward[0, t, q] * matrix[0, p, q]
    return z[0]


@jit_function()
def _best_tags(scores: Any, n: int, transitions: Any, start: Any, end: Any, path: Any) -> float:
    """The best sequence of tags, and its score. Viterbi (1967)."""
    k = len(start)
    back = np.empty((n, k), np.int32)
    here = scores[0, 0] + start
    new = np.empty(k)
    for t in range(1, n):
        for q in range(k):
            best = 0
            for p in range(1, k):
                if here[p] + transitions[p, q] > here[best] + transitions[best, q]:
                    best = p
            back[t, q] = best
            new[q] = here[best] + transitions[best, q] + scores[0, t, q]
        here[:] = new
    here += end
    last = 0
    for q in range(1, k):
        if here[q] > here[last]:
            last = q
    path[n - 1] = last
    for t in range(n - 1, 0, -1):
        path[t - 1] = back[t, path[t]]
    return here[last]


@jit_function()
def _use_path(path: Any, n: int, sign: float, use: Any, pairs: Any) -> None:
    for t in range(n):
        use[t, path[t]] += sign
        if t > 0:
            pairs[path[t - 1], path[t]] += sign


@jit_function()
def _score_path(
    path: Any, n: int, scores: Any, transitions: Any, start: Any, end: Any, cost: float, tags: Any, begin: int
) -> float:
    """The score of a sequence, without what ``cost`` added for tags that are wrong."""
    total = start[path[0]] + end[path[n - 1]]
    for t in range(n):
        total += scores[0, t, path[t]]
        if cost > 0 and tags[begin + t] >= 0 and path[t] != tags[begin + t]:
            total -= cost
        if t > 0:
            total += transitions[path[t - 1], path[t]]
    return total


@jit_function()
def _local(
    scores: Any, n: int, transitions: Any, start: Any, tags: Any, begin: int, after: bool, use: Any, pairs: Any
) -> float:
    """Each token on its own, or after the right tag before it: adds what the right tags use less what is expected."""
    k = len(start)
    loss = 0.0
    marginals = np.zeros(k)
    row = np.zeros(k)
    for t in range(n):
        tag = tags[begin + t]
        before = tags[begin + t - 1] if t > 0 else -1
        if tag < 0 or (after and t > 0 and before < 0):
            continue
        for q in range(k):
            row[q] = scores[0, t, q]
            if after:
                row[q] += start[q] if t == 0 else transitions[before, q]
        loss += softmax_and_log_sum(row, marginals) - row[tag]
        use[t, tag] += 1.0
        for q in range(k):
            use[t, q] -= marginals[q]
        if after and t > 0:
            pairs[before, tag] += 1.0
            for q in range(k):
                pairs[before, q] -= marginals[q]
    return loss


@jit_function()
def _chain_wise(
    scores: Any, n: int, transitions: Any, start: Any, end: Any, tags: Any, begin: int, kind: int, cost: float,
    use: Any, pairs: Any,
) -> float:  # fmt: skip
    """What the right tags use less what the model expects (a CRF), or less what its best tags use. Returns the loss."""
    known = True
    some = False
    right = np.empty(n, np.int32)
    found = np.empty(n, np.int32)
    for t in range(n):
        known = known and tags[begin + t] >= 0
        some = some or tags[begin + t] >= 0
        right[t] = tags[begin + t]
    if not some:
        return 0.0
    held = scores[:, :n].copy()
    if not known:
        _hold(held, n, tags, begin)
    if kind == CRF:
        high = _expect(scores, n, transitions, start, end, -1.0, use, pairs)
        if known:
            _use_path(right, n, 1.0, use, pairs)
            low = _score_path(right, n, scores, transitions, start, end, 0.0, tags, begin)
        else:
            low = _expect(held, n, transitions, start, end, 1.0, use, pairs)
        return high - low
    if not known:
        _best_tags(held, n, transitions, start, end, right)
    low = _score_path(right, n, scores, transitions, start, end, 0.0, tags, begin)
    if kind == MARGIN:
        for t in range(n):
            for q in range(scores.shape[2]):
                if tags[begin + t] >= 0 and q != tags[begin + t]:
                    scores[0, t, q] += cost
    high = _best_tags(scores, n, transitions, start, end, found)
    _use_path(right, n, 1.0, use, pairs)
    _use_path(found, n, -1.0, use, pairs)
    return high - low


@jit_function()
def _move(weights: Any, sums: Any, mask: Any, at: int, by: float, moment: float) -> None:
    if mask[at] != 0:
        weights[at] += by
        sums[at] += by * moment


@jit_function()
def _learn(
    token_first: Any, ids: Any, begin: int, n: int, pair_first: Any, pair_tag: Any, k: int, vector: Any, sums: Any,
    in_use: Any, kind: int, use: Any, pairs: Any, by: float, now: float,
) -> None:  # fmt: skip
    """Move the weights of a sentence of n words ``by`` so much for each use of a tag and of a pair of tags."""
    at_moves = len(pair_tag)
    at_start = at_moves + k * k
    at_end = at_moves + k * k + k
    for t in range(n):
        for j in range(token_first[begin + t], token_first[begin + t + 1]):
            for p in range(pair_first[ids[j]], pair_first[ids[j] + 1]):
                if use[t, pair_tag[p]] != 0.0:
                    _move(vector, sums, in_use, p, by * use[t, pair_tag[p]], now)
    for p in range(k):
        _move(vector, sums, in_use, at_start + p, by * use[0, p], now)
        if kind != MEMM:
            _move(vector, sums, in_use, at_end + p, by * use[n - 1, p], now)
        for q in range(k):
            if pairs[p, q] != 0.0:
                _move(vector, sums, in_use, at_moves + p * k + q, by * pairs[p, q], now)


@lazy_jit(
    LONGS, INTS, LONGS, LONGS, INTS, LONGS, INTS, int64, DOUBLES, DOUBLES, DOUBLES, int64, float64, float64, float64,
    boolean, int64,
)  # fmt: skip
def learn_sentences(
    token_first: Any, ids: Any, first: Any, order: Any, tags: Any, pair_first: Any, pair_tag: Any, k: int, vector: Any,
    sums: Any, in_use: Any, kind: int, cost: float, rate: float, decay: float, falls: bool, moment: int,
) -> float:  # fmt: skip
    """Go through the sentences in an order, and learn from each. Returns the sum of the losses met on the way; nan if
    the range of floats did not suffice somewhere.

    Args:
        vector: all weights, as :class:`catena.tasks.tag.features.task.WeightLayout` has them.
        sums: each move times the number of sentences before it, in the same layout.
        in_use: 1 where a weight may move.
        kind: what is learned: CRF, SOFTMAX, MEMM, PERCEPTRON or MARGIN.
        cost: by how much a MARGIN must win for each wrong tag.
        rate: size of the moves.
        decay: how fast the weights shrink.
        falls: let the rate fall as ``rate / (1 + rate × decay × moment)`` (Bottou 2012, section 5.2); without decay as
            one over the number of passes.
        moment: sentences learned from so far, in all passes.
    """
    pairs_n = len(pair_tag)
    t_most = 1
    scale = 1.0
    total = 0.0
    for s in order:
        t_most = max(t_most, first[s + 1] - first[s])
    scores = np.zeros((1, t_most, k))
    use = np.zeros((t_most, k))
    pairs = np.zeros((k, k))
    at_moves = pairs_n
    at_start = pairs_n + k * k
    at_end = pairs_n + k * k + k
    transitions = np.zeros((k, k))
    start = np.zeros(k)
    end = np.zeros(k)
    for o in range(len(order)):
        begin = first[order[o]]
        n = first[order[o] + 1] - first[order[o]]
        slow = rate * decay * moment if decay > 0 else moment / max(1, len(order))
        size = rate / (1 + slow) if falls else rate
        moment += 1
        if n == 0:
            scale *= 1 - min(size * decay, 0.9)
            continue
        for q in range(k):
            start[q] = scale * vector[at_start + q]
            end[q] = scale * vector[at_end + q]
            for p in range(k):
                transitions[p, q] = scale * vector[at_moves + p * k + q]
                pairs[p, q] = 0.0
        for t in range(n):
            score_token(begin + t, token_first, ids, pair_first, pair_tag, vector, 0, t, scores)
            for q in range(k):
                scores[0, t, q] *= scale
                use[t, q] = 0.0
        if kind in (SOFTMAX, MEMM):
            total += _local(scores, n, transitions, start, tags, begin, kind == MEMM, use, pairs)
        else:
            total += _chain_wise(scores, n, transitions, start, end, tags, begin, kind, cost, use, pairs)
        scale *= 1 - min(size * decay, 0.9)
        by = size / scale
        now = float(moment - 1)
        _learn(token_first, ids, begin, n, pair_first, pair_tag, k, vector, sums, in_use, kind, use, pairs, by, now)
        if scale < 1e-6:
            vector *= scale
            scale = 1.0
    vector *= scale
    return total
