"""Linear classifiers on sparse rows that learn text by text: one pass over all of them, and their scores.

A row of features is ``ids[first[i] : first[i + 1]]``, ascending; an id that is there c times has the value 1, c or
log(1 + c). Scores are s_q = b_q + Σ_f v_f w_fq. After each text, the weights of its features move against the gradient
g of its loss. With AdaGrad (Duchi et al. 2011) the step of each weight is rate · g / sqrt(Σ g²) over all its gradients
so far, and nothing is touched but the features of the text, so that a pass takes O(number of features of all texts).

The penalty l2/2 · Σ w² + l1 · Σ |w| is applied to the features of the text only, times n / n_f for a feature of n_f of
the n texts. So the mean of a step over all texts is the gradient of the mean loss plus the penalty.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import boolean, float32, int64, types, uint8

from catena.kernels.bags.reference import COUNTS, CROSS_ENTROPY, HINGE, LOG, PERCEPTRON
from catena.kernels.common.jit import DOUBLES2, FLOATS, FLOATS2, INTS, LONGS, jit_inline, lazy_jit

_MARKS = types.Array(uint8, 2, "C")
_FAST = frozenset({"reassoc", "contract", "nsz", "arcp"})
_ZERO, _HALF, _ONE = np.float32(0), np.float32(0.5), np.float32(1)


@jit_inline()
def _value(run: int, values: int) -> Any:
    """The value of a feature that occurs ``run`` times."""
    if values == COUNTS:
        return np.float32(run)
    return np.float32(np.log1p(np.float32(run))) if values == LOG else _ONE


@jit_inline()
def _run_end(ids: Any, j: int, end: int) -> int:
    """The end of the run of equal ids that begins at ``j``."""
    after = j + 1
    while after < end and ids[after] == ids[j]:
        after += 1
    return after


@jit_inline(_FAST)
def _score(ids: Any, low: int, high: int, values: int, weights: Any, bias: Any, scores: Any) -> None:
    k = len(bias)
    for q in range(k):
        scores[q] = bias[q]
    j = low
    while j < high:
        after = _run_end(ids, j, high)
        value = _value(after - j, values)
        row = weights[ids[j]]
        for q in range(k):
            scores[q] += value * row[q]
        j = after


@jit_inline(_FAST)
def _softmax(scores: Any) -> Any:
    """Replace scores by probabilities; returns the log of their sum of exponentials."""
    k = len(scores)
    top = scores[0]
    for q in range(1, k):
        top = max(top, scores[q])
    total = _ZERO
    for q in range(k):
        scores[q] = np.exp(scores[q] - top)
        total += scores[q]
    for q in range(k):
        scores[q] /= total
    return top + np.log(total)


@jit_inline()
def _best_other(scores: Any, gold: int) -> int:
    """The class with the highest score except ``gold``; -1 if there is no other."""
    best: Any = -1
    for q in range(len(scores)):
        if q != gold and (best < 0 or scores[q] > scores[best]):
            best = q
    return best


@jit_inline()
def _best(scores: Any) -> int:
    best: Any = 0
    for q in range(1, len(scores)):
        if scores[q] > scores[best]:
            best = q
    return best


@jit_inline()
def _single_gradient(loss: int, scores: Any, gold: int, smoothing: Any) -> Any:
    """Replace the scores of a text with one gold class by the gradient of its loss; returns the loss."""
    k = len(scores)
    if loss in (HINGE, PERCEPTRON):
        rival = _best_other(scores, gold) if loss == HINGE else _best(scores)
        margin = _ONE if loss == HINGE else _ZERO
        total = max(_ZERO, margin + scores[rival] - scores[gold]) if rival >= 0 else _ZERO
        wrong = total > 0 if loss == HINGE else rival != gold
        for q in range(k):
            scores[q] = _ZERO
        if wrong:
            scores[rival] += _ONE
            scores[gold] -= _ONE
        return total
    mean = _ZERO
    for q in range(k):
        mean += scores[q] / np.float32(k)
    at_gold = scores[gold]
    log_sum = _softmax(scores)
    if loss == CROSS_ENTROPY:
        for q in range(k):
            scores[q] -= smoothing / np.float32(k)
        scores[gold] -= _ONE - smoothing
        return log_sum - (_ONE - smoothing) * at_gold - smoothing * mean
    inner = _ZERO
    total = _ZERO
    for q in range(k):
        target = smoothing / np.float32(k) + (_ONE - smoothing if q == gold else _ZERO)
        total += _HALF * (scores[q] - target) ** 2
        inner += scores[q] * (scores[q] - target)
    for q in range(k):
        target = smoothing / np.float32(k) + (_ONE - smoothing if q == gold else _ZERO)
        scores[q] *= scores[q] - target - inner
    return total


@jit_inline()
def _several_gradient(loss: int, scores: Any, marks: Any) -> Any:
    """As :func:`_single_gradient` for one binary decision for each class; ``marks[q]`` is 1 for gold classes."""
    total = _ZERO
    for q in range(len(scores)):
        s = scores[q]
        sign = _ONE if marks[q] else -_ONE
        if loss == HINGE:
            gap = max(_ZERO, _ONE - sign * s)
            total += gap
            scores[q] = -sign if gap > 0 else _ZERO
        elif loss == PERCEPTRON:
            wrong = (s > 0) != (marks[q] > 0)
            total += -sign * s if wrong else _ZERO
            scores[q] = -sign if wrong else _ZERO
        else:
            p = _ONE / (_ONE + np.exp(-s)) if s >= 0 else np.exp(s) / (_ONE + np.exp(s))
            target = np.float32(marks[q])
            if loss == CROSS_ENTROPY:
                total += max(s, _ZERO) - s * target + np.log1p(np.exp(-abs(s)))
                scores[q] = p - target
            else:
                total += _HALF * (p - target) ** 2
                scores[q] = (p - target) * p * (_ONE - p)
    return total


@jit_inline(_FAST)
def _move(row: Any, squares: Any, gradient: Any, value: Any, rate: Any, l2: Any, l1: Any, adaptive: bool) -> None:
    """Move the weights of one feature with this value against the gradient of the scores."""
    for q in range(len(gradient)):
        g = value * gradient[q] + l2 * row[q]
        step = rate
        if adaptive:
            squares[q] += g * g
            step = rate / np.sqrt(squares[q])
        row[q] -= step * g
    if l1 > 0:
        for q in range(len(gradient)):
            cut = l1 * (rate / np.sqrt(squares[q]) if adaptive else rate)
            row[q] = max(row[q] - cut, _ZERO) + min(row[q] + cut, _ZERO)


@lazy_jit(
    INTS, LONGS, LONGS, INTS, _MARKS, FLOATS, FLOATS, int64, int64, boolean, float32, FLOATS2, FLOATS2, FLOATS, FLOATS,
    float32, float32, float32, boolean, error_model="numpy",
)  # fmt: skip
def learn_texts(
    ids: Any, first: Any, order: Any, gold: Any, marks: Any, importance: Any, rarity: Any, values: int, loss: int,
    several: bool, smoothing: Any, weights: Any, squares: Any, bias: Any, bias_squares: Any, rate: Any, l2: Any,
    l1: Any, adaptive: bool,
) -> float:  # fmt: skip
    """Take one step for each text and return the sum of the losses before each step.

    Args:
        ids, first: the rows of features.
        order: the rows, in the order of the steps.
        gold: the gold class of each row; if ``several``, its row of ``marks``.
        marks: ``marks[m, q]`` is 1 if class q is in the set m of gold classes.
        importance: the weight of the loss of each row.
        rarity: n / n_f of each feature; not read without a penalty.
        values: BINARY, COUNTS or LOG.
        loss: CROSS_ENTROPY, HINGE, SQUARED_ERROR or PERCEPTRON.
        several: whether each class is a binary decision.
        smoothing: label smoothing of the cross entropy and the squared error of single classes.
        weights, squares: ``[feature, class]``, changed in place; sums of squared gradients.
        bias, bias_squares: the same for the bias, which has no penalty.
        rate, l2, l1: learning rate and penalties.
        adaptive: AdaGrad; otherwise every step has the size ``rate``.
    """
    k = len(bias)
    gradient = np.zeros(k, np.float32)
    total = 0.0
    for o in range(len(order)):
        i = order[o]
        if importance[i] == 0:
            continue
        low = first[i]
        high = first[i + 1]
        _score(ids, low, high, values, weights, bias, gradient)
        if several:
            lost = _several_gradient(loss, gradient, marks[gold[i]])
        else:
            lost = _single_gradient(loss, gradient, gold[i], smoothing)
        total += lost * importance[i]
        for q in range(k):
            gradient[q] *= importance[i]
        j = low
        while j < high:
            after = _run_end(ids, j, high)
            f = ids[j]
            scale = rarity[f] if l2 > 0 or l1 > 0 else _ONE
            _move(
                weights[f], squares[f], gradient, _value(after - j, values), rate, l2 * scale, l1 * scale, adaptive
            )  # fmt: skip
            j = after
        _move(bias, bias_squares, gradient, _ONE, rate, _ZERO, _ZERO, adaptive)
    return total


@lazy_jit(INTS, LONGS, int64, FLOATS2, FLOATS, FLOATS2)
def score_texts(ids: Any, first: Any, values: int, weights: Any, bias: Any, scores: Any) -> None:
    """``scores[i, q]`` is the score of class q for row i."""
    for i in range(len(first) - 1):
        _score(ids, first[i], first[i + 1], values, weights, bias, scores[i])


@lazy_jit(INTS, LONGS, FLOATS, DOUBLES2, DOUBLES2)
def add_products(ids: Any, first: Any, values: Any, weights: Any, scores: Any) -> None:
    """Add X W to ``scores``; row i of X has ``values[j]`` at ``ids[j]`` for j from ``first[i]`` to ``first[i + 1]``."""
    for i in range(len(first) - 1):
        for j in range(first[i], first[i + 1]):
            for q in range(scores.shape[1]):
                scores[i, q] += values[j] * weights[ids[j], q]


@lazy_jit(INTS, LONGS, FLOATS, DOUBLES2, DOUBLES2)
def add_transposed_products(ids: Any, first: Any, values: Any, gradients: Any, sums: Any) -> None:
    """Add Xᵀ G to ``sums``, with X as in :func:`add_products`."""
    for i in range(len(first) - 1):
        for j in range(first[i], first[i + 1]):
            for q in range(sums.shape[1]):
                sums[ids[j], q] += values[j] * gradients[i, q]


@lazy_jit(INTS, LONGS, INTS)
def count_texts(ids: Any, first: Any, counts: Any) -> None:
    """Add the number of rows with each feature to ``counts``."""
    for i in range(len(first) - 1):
        j = first[i]
        while j < first[i + 1]:
            counts[ids[j]] += 1
            j = _run_end(ids, j, first[i + 1])
