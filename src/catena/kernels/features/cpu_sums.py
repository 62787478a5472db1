"""Log-linear taggers on sparse features: sums of log Z and expected counts over sentences, in one pass.

The features of token ``i`` are ``ids[token_first[i] : token_first[i + 1]]``; feature ``f`` has a weight for each of
the tags ``pair_tag[pair_first[f] : pair_first[f + 1]]``, and the score of a tag at a token is the sum of those of the
token's features. Scores are made, summed over and turned into expected counts for four sentences at a time, so that
nothing as large as the text is ever held. What the sums are over is the caller's choice: whole sequences of tags
(:func:`sum_chains`), or the tags of each token by itself, given the right tag before it or nothing
(:func:`sum_tokens`). A feature may speak of a pair of tags instead: "tag" ``k + p * k + q`` is ``q`` after ``p``
(:func:`sum_stepped_chains`).

The loops over chains are in :mod:`catena.kernels.chain.cpu`. Knows nothing of words, likelihoods or penalties.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import boolean, int64

from catena.kernels.chain.cpu import FINE, INEXACT, LIMITS, backward_rows, forward_rows
from catena.kernels.common.jit import (
    DOUBLES,
    DOUBLES2,
    DOUBLES3,
    FLAGS,
    INTS,
    LONGS,
    SUMS,
    jit_function,
    jit_inline,
    lazy_jit,
)
from catena.kernels.common.vector_math import exp_less, vector_max

TOGETHER = 4
SUM_LEAST, TOTAL_LEAST, MOST = LIMITS[np.dtype(np.float64)]
_BOTH_WAYS = 2


# Places below are unsigned: for a signed one the compiler checks each time whether it counts from the end, and vector
# instructions are out of the question.
@jit_inline()
def score_token(
    i: int, token_first: Any, ids: Any, pair_first: Any, pair_tag: Any, weights: Any, r: int, t: int, scores: Any
) -> None:
    """``scores[r, t]`` = the sums of the weights of token ``i``'s features."""
    k = scores.shape[2]
    for q in range(k):
        scores[r, t, q] = 0.0
    for j in range(token_first[i], token_first[i + 1]):
        low = np.uint64(pair_first[ids[j]])
        high = np.uint64(pair_first[ids[j] + 1])
        if high - low == np.uint64(k):  # every tag has a weight, in order
            for q in range(np.uint64(k)):
                scores[r, t, q] += weights[low + q]
        else:
            for p in range(low, high):
                scores[r, t, np.uint32(pair_tag[p])] += weights[p]


@jit_inline()
def spread_token(
    i: int, token_first: Any, ids: Any, pair_first: Any, pair_tag: Any, marginals: Any, r: int, t: int, counts: Any
) -> None:
    """Add the probabilities ``[r, t]`` to the counts of token ``i``'s features."""
    k = marginals.shape[2]
    for j in range(token_first[i], token_first[i + 1]):
        low = np.uint64(pair_first[ids[j]])
        high = np.uint64(pair_first[ids[j] + 1])
        if high - low == np.uint64(k):
            for q in range(np.uint64(k)):
                counts[low + q] += marginals[r, t, q]
        else:
            for p in range(low, high):
                counts[p] += marginals[r, t, np.uint32(pair_tag[p])]


@jit_inline()
def _hold_to(tag: int, r: int, t: int, scores: Any) -> None:
    """Forbid all tags but one."""
    for q in range(scores.shape[2]):
        if q != tag:
            scores[r, t, q] = -np.inf


@jit_function(SUMS)
def _add_pairs(t: int, a: Any, onward: Any, pairs: Any) -> None:
    """``pairs[p, q] += Σ_i a[i, t, p] onward[i, t, q]`` for four rows."""
    k = pairs.shape[0]
    o0, o1, o2, o3 = onward[0, t], onward[1, t], onward[2, t], onward[3, t]
    for p in range(k):
        row = pairs[p]
        a0, a1, a2, a3 = a[0, t, p], a[1, t, p], a[2, t, p], a[3, t, p]
        for q in range(k):
            row[q] += (a0 * o0[q] + a1 * o1[q]) + (a2 * o2[q] + a3 * o3[q])


@jit_inline()
def _clear_from(n: int, longest: int, r: int, a: Any) -> None:
    for t in range(n, longest):
        for q in range(a.shape[2]):
            a[r, t, q] = 0.0


@lazy_jit(
    LONGS, INTS, LONGS, LONGS, int64, int64, INTS, boolean, LONGS, INTS, DOUBLES, DOUBLES2, DOUBLES2, DOUBLES3,
    DOUBLES3, DOUBLES3, DOUBLES, FLAGS, DOUBLES, DOUBLES2, DOUBLES, DOUBLES,
)  # fmt: skip
def sum_chains(
    token_first: Any, ids: Any, first: Any, order: Any, low: int, high: int, tags: Any, held: bool, pair_first: Any,
    pair_tag: Any, weights: Any, entry: Any, end: Any, moves: Any, matrix: Any, matrix_t: Any, log_z: Any, exact: Any,
    counts: Any, pairs: Any, starts: Any, ends: Any,
) -> None:  # fmt: skip
    """log Z of the sentences ``order[low:high]``, and what is expected of features, pairs of tags, first and last tags.

    The counts are added to what is there. Sentences for which the range of floats does not suffice are marked in
    ``exact`` and left out of the counts.

    Args:
        order: sentences, those of like lengths together.
        tags: the tag of each token, -1 where it is not known; read if ``held``, and then only sequences with these
            tags are summed over.
        entry, end, moves, matrix, matrix_t: the transitions as
        :func:`~catena.kernels.chain.cpu.normalize_transitions` has
            them, with the starts as last row of ``entry``.
    """
    k = end.shape[1]
    t_most = 1
    for o in range(low, high):
        t_most = max(t_most, first[order[o] + 1] - first[order[o]])
    shape = (TOGETHER, t_most, k)
    scores = np.zeros(shape)
    a = np.zeros(shape)
    marginals = np.zeros(shape)
    onward = np.zeros(shape)
    norms = np.empty((TOGETHER, t_most))
    verdict = np.zeros(TOGETHER, np.int64)
    z = np.empty(TOGETHER)
    lengths = np.zeros(TOGETHER, np.int64)
    rows = np.arange(TOGETHER)
    products = np.zeros((k, k))
    for begin in range(low, high, TOGETHER):
        m = min(TOGETHER, high - begin)
        longest = 0
        for r in range(m):
            s = order[begin + r]
            lengths[r] = first[s + 1] - first[s]
            longest = max(longest, lengths[r])
            for t in range(lengths[r]):
                i = first[s] + t
                score_token(i, token_first, ids, pair_first, pair_tag, weights, r, t, scores)
                if held and tags[i] >= 0:
                    _hold_to(tags[i], r, t, scores)
        forward_rows(
            scores, entry, end, moves, matrix, rows[:m], 0, 0, TOGETHER, lengths, _BOTH_WAYS, z, verdict, a, onward,
            norms, SUM_LEAST, TOTAL_LEAST,
        )  # fmt: skip
        backward_rows(matrix_t, rows[:m], 0, 0, lengths, verdict, a, marginals, onward, norms, MOST)
        for r in range(TOGETHER):
            n = lengths[r] if r < m and verdict[r] == FINE else 0
            _clear_from(n, longest, r, a)
            _clear_from(max(n - 1, 0), longest, r, onward)
            if r < m:
                s = order[begin + r]
                log_z[s] = z[r]
                exact[s] = verdict[r] != INEXACT
                for t in range(n):
                    spread_token(first[s] + t, token_first, ids, pair_first, pair_tag, marginals, r, t, counts)
                for q in range(k if n > 0 else 0):
                    starts[q] += marginals[r, 0, q]
                    ends[q] += marginals[r, n - 1, q]
        for t in range(longest - 1):
            _add_pairs(t, a, onward, products)
    for p in range(k):
        for q in range(k):
            pairs[p, q] += products[p, q] * matrix[0, p, q]


@jit_inline()
def _level_step(transitions: Any, wide: Any, t: int, entry: Any, moves: Any, matrix: Any, matrix_t: Any) -> None:
    """The transitions into position ``t``, leveled: those of all positions and those of its own features."""
    k = transitions.shape[0]
    for q in range(k):
        entry[t, q] = -np.inf
    for p in range(k):
        for q in range(k):
            moves[t, p, q] = transitions[p, q] + wide[0, t, k + p * k + q]
            entry[t, q] = max(entry[t, q], moves[t, p, q])
    for p in range(k):
        for q in range(k):
            moves[t, p, q] -= entry[t, q]
        exp_less(moves[t, p], 0.0, matrix[t, p])
    for p in range(k):
        for q in range(k):
            matrix_t[t, q, p] = matrix[t, p, q]


@lazy_jit(
    LONGS, INTS, LONGS, LONGS, int64, int64, INTS, boolean, LONGS, INTS, DOUBLES, DOUBLES2, DOUBLES, DOUBLES2, DOUBLES,
    FLAGS, DOUBLES, DOUBLES2, DOUBLES, DOUBLES,
)  # fmt: skip
def sum_stepped_chains(
    token_first: Any, ids: Any, first: Any, order: Any, low: int, high: int, tags: Any, held: bool, pair_first: Any,
    pair_tag: Any, weights: Any, transitions: Any, start: Any, end: Any, log_z: Any, exact: Any, counts: Any,
    pairs: Any, starts: Any, ends: Any,
) -> None:  # fmt: skip
    """As :func:`sum_chains`, where some features speak of pairs of tags. ``end`` is ``[1, k]``; scores are finite."""
    k = len(start)
    t_most = 1
    for o in range(low, high):
        t_most = max(t_most, first[order[o] + 1] - first[order[o]])
    wide = np.zeros((1, t_most, k + k * k))
    use = np.zeros((1, t_most, k + k * k))
    shape = (1, t_most, k)
    square = (t_most, k, k)
    scores = np.zeros(shape)
    a = np.zeros(shape)
    marginals = np.zeros(shape)
    onward = np.zeros(shape)
    moves = np.zeros(square)
    matrix = np.zeros(square)
    matrix_t = np.zeros(square)
    entry = np.zeros((t_most + 1, k))
    norms = np.empty((TOGETHER, t_most))
    verdict = np.zeros(TOGETHER, np.int64)
    z = np.empty(1)
    lengths = np.zeros(1, np.int64)
    rows = np.zeros(1, np.int64)
    entry[t_most] = start
    for o in range(low, high):
        s = order[o]
        lengths[0] = n = first[s + 1] - first[s]
        for t in range(n):
            i = first[s] + t
            score_token(i, token_first, ids, pair_first, pair_tag, weights, 0, t, wide)
            _level_step(transitions, wide, t, entry, moves, matrix, matrix_t)
            for q in range(k):
                scores[0, t, q] = wide[0, t, q]
            if held and tags[i] >= 0:
                _hold_to(tags[i], 0, t, scores)
        forward_rows(
            scores, entry, end, moves, matrix, rows, 0, 1, 1, lengths, _BOTH_WAYS, z, verdict, a, onward, norms,
            SUM_LEAST, TOTAL_LEAST,
        )  # fmt: skip
        backward_rows(matrix_t, rows, 0, 1, lengths, verdict, a, marginals, onward, norms, MOST)
        log_z[s] = z[0]
        exact[s] = verdict[0] != INEXACT
        for t in range(n if verdict[0] == FINE else 0):
            for q in range(k):
                use[0, t, q] = marginals[0, t, q]
                starts[q] += marginals[0, 0, q] if t == 0 else 0.0
                ends[q] += marginals[0, t, q] if t == n - 1 else 0.0
                for p in range(k):
                    both = a[0, t - 1, p] * onward[0, t - 1, q] * matrix[t, p, q] if t > 0 else 0.0
                    use[0, t, k + p * k + q] = both
                    pairs[p, q] += both
            spread_token(first[s] + t, token_first, ids, pair_first, pair_tag, use, 0, t, counts)


@jit_inline()
def softmax_and_log_sum(scores: Any, marginals: Any) -> Any:
    """The probabilities of scores, and the log of the sum of their exponentials."""
    top = vector_max(scores)
    if not top > -np.inf:
        marginals[:] = 0.0
        return -np.inf
    exp_less(scores, top, marginals)
    total = 0.0
    for value in marginals:
        total += value
    for q in range(len(marginals)):
        marginals[q] /= total
    return top + np.log(total)


@lazy_jit(
    LONGS, INTS, LONGS, LONGS, int64, int64, INTS, boolean, LONGS, INTS, DOUBLES, DOUBLES2, DOUBLES, DOUBLES, DOUBLES,
    DOUBLES2, DOUBLES,
)  # fmt: skip
def sum_tokens(
    token_first: Any, ids: Any, first: Any, order: Any, low: int, high: int, tags: Any, after: bool, pair_first: Any,
    pair_tag: Any, weights: Any, transitions: Any, start: Any, log_z: Any, counts: Any, pairs: Any, starts: Any,
) -> None:  # fmt: skip
    """As :func:`sum_chains`, where each token is on its own: its log Z is over its tags alone.

    Tokens whose tag is not known count for nothing.

    Args:
        after: add the transition from the right tag before, or the start; a token after an unknown tag counts for
            nothing then.
    """
    k = len(start)
    scores = np.zeros((1, 1, k))
    marginals = np.zeros((1, 1, k))
    for o in range(low, high):
        s = order[o]
        log_z[s] = 0.0
        for i in range(first[s], first[s + 1]):
            before = -1 if i == first[s] else tags[i - 1]
            if tags[i] < 0 or (after and i > first[s] and before < 0):
                continue
            score_token(i, token_first, ids, pair_first, pair_tag, weights, 0, 0, scores)
            if after:
                for q in range(k):
                    scores[0, 0, q] += start[q] if before < 0 else transitions[before, q]
            log_z[s] += softmax_and_log_sum(scores[0, 0], marginals[0, 0])
            spread_token(i, token_first, ids, pair_first, pair_tag, marginals, 0, 0, counts)
            if after:
                for q in range(k):
                    if before < 0:
                        starts[q] += marginals[0, 0, q]
                    else:
                        pairs[before, q] += marginals[0, 0, q]


@lazy_jit(LONGS, INTS, LONGS, INTS, DOUBLES, DOUBLES2)
def score_tokens(token_first: Any, ids: Any, pair_first: Any, pair_tag: Any, weights: Any, scores: Any) -> None:
    """``scores[i, q]`` is the score of tag ``q`` at token ``i``."""
    row = np.zeros((1, 1, scores.shape[1]))
    for i in range(scores.shape[0]):
        score_token(i, token_first, ids, pair_first, pair_tag, weights, 0, 0, row)
        for q in range(scores.shape[1]):
            scores[i, q] = row[0, 0, q]


@lazy_jit(LONGS, INTS, INTS, LONGS, INTS, LONGS, int64, boolean, DOUBLES)
def count_tags(
    token_first: Any, ids: Any, tags: Any, pair_first: Any, pair_tag: Any, first: Any, k: int, after: bool, counts: Any
) -> None:
    """The number of tokens with each feature and tag, or pair of tags.

    Tokens that :func:`sum_tokens` leaves out, and those with an unknown tag, are not counted.
    """
    for s in range(len(first) - 1):
        for i in range(first[s], first[s + 1]):
            before = -1 if i == first[s] else tags[i - 1]
            if tags[i] < 0 or (after and i > first[s] and before < 0):
                continue
            both = k + before * k + tags[i] if before >= 0 else -1
            for j in range(token_first[i], token_first[i + 1]):
                for p in range(pair_first[ids[j]], pair_first[ids[j] + 1]):
                    if pair_tag[p] == tags[i] or pair_tag[p] == both:
                        counts[p] += 1.0


@lazy_jit(LONGS, INTS, INTS, LONGS, int64, FLAGS, LONGS)
def seen_pairs(token_first: Any, ids: Any, tags: Any, first: Any, k: int, of_pairs: Any, pairs: Any) -> None:
    """``feature * (k + k * k) + tag`` for each feature of each token whose tag is known, -1 for the others.

    Of a feature that speaks of pairs of tags, the "tag" is the pair.
    """
    width = k + k * k
    for s in range(len(first) - 1):
        for i in range(first[s], first[s + 1]):
            before = -1 if i == first[s] else tags[i - 1]
            for j in range(token_first[i], token_first[i + 1]):
                tag: Any = np.int64(tags[i])
                if of_pairs[ids[j]]:
                    tag = k + before * k + tag if tag >= 0 and before >= 0 else -1
                pairs[j] = np.int64(ids[j]) * width + tag if tag >= 0 else -1


@lazy_jit(LONGS, INTS, LONGS, INTS, int64, DOUBLES3, DOUBLES)
def spread_tokens(
    token_first: Any, ids: Any, pair_first: Any, pair_tag: Any, begin: int, marginals: Any, counts: Any
) -> None:
    """Add the probabilities ``[0, t]`` to the counts of the features of token ``begin + t``."""
    for t in range(marginals.shape[1]):
        spread_token(begin + t, token_first, ids, pair_first, pair_tag, marginals, 0, t, counts)
