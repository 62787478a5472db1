"""The steps of stochastic gradient descent that make word vectors, for blocks of examples whose draws are made.

An example is a bag of input rows and a word to be predicted. The hidden vector h is the mean or the sum of the rows; a
bag of one is skip-gram, a bag of neighbours is CBOW, the row of a document may lie among them. The scores of a step are
all taken before any row is changed, so a step is lr times the gradient. Threads may run these loops on the same
matrices at once: a lost update now and then does no harm (Recht et al. 2011).

Losses are in nats, added up in double precision: probabilities are multiplied, and the logarithm is taken of the
product before it can become too small.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numba import boolean, float32, float64, int32, int64, njit, types, uint8

from catena.kernels.compiled import SUMS, inlined
from catena.kernels.floats import LOG2_E, float32_of
from catena.kernels.vector_math import LN2_HIGH_32, LN2_LOW_32, S2, S3, S4, S5, S6, S7

ROWS = types.Array(float32, 2, "C")
FLOATS = types.Array(float32, 1, "C")
DOUBLES = types.Array(float64, 1, "C")
INTS = types.Array(int32, 1, "C")
LONGS = types.Array(int64, 1, "C")
BYTES = types.Array(uint8, 1, "C")

F0, F1, HALF = np.float32(0), np.float32(1), np.float32(0.5)
LOG2_E_32 = np.float32(LOG2_E)
SATURATED = np.float32(80)
SMALL = 1e-200
"""Below it a product of probabilities is brought into the sum of logarithms."""


def _learner(*arguments: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Compile a loop for these argument types when it is first called, and keep it on disk."""
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": set(SUMS)}

    def decorate(loop: Callable[..., Any]) -> Callable[..., Any]:
        @cache
        def ready() -> Callable[..., Any]:
            try:
                return njit([arguments], cache=True, **options)(loop)
            except RuntimeError:  # no folder can be written to
                return njit([arguments], **options)(loop)

        def call(*values: Any) -> Any:
            return ready()(*values)

        call.__doc__, call.__name__ = loop.__doc__, loop.__name__
        return call

    return decorate


# --- parts of a step --------------------------------------------------------------------------------------------------


@inlined(SUMS)
def _gather(inputs: Any, bag: Any, low: int, high: int, scale: Any, h: Any) -> None:
    """h = scale times the sum of the rows of a bag."""
    d = len(h)
    row = bag[low]
    for j in range(d):
        h[j] = scale * inputs[row, j]
    for p in range(low + 1, high):
        row = bag[p]
        for j in range(d):
            h[j] += scale * inputs[row, j]


@inlined(SUMS)
def _scatter(inputs: Any, bag: Any, low: int, high: int, scale: Any, error: Any, learn_from: int) -> None:
    """Add scale times the error to the rows of a bag, but not to those below ``learn_from``."""
    for p in range(low, high):
        row = bag[p]
        if row >= learn_from:
            for j in range(len(error)):
                inputs[row, j] += scale * error[j]


@inlined(SUMS)
def _dots(h: Any, outputs: Any, rows: Any, n: int, scores: Any) -> None:
    """scores[m] = h · outputs[rows[m]], three rows at a time: h is then read once for three."""
    d, m = len(h), 0
    while m + 3 <= n:
        r0, r1, r2 = rows[m], rows[m + 1], rows[m + 2]
        x0, x1, x2 = F0, F0, F0
        for j in range(d):
            a = h[j]
            x0 += a * outputs[r0, j]
            x1 += a * outputs[r1, j]
            x2 += a * outputs[r2, j]
        scores[m], scores[m + 1], scores[m + 2] = x0, x1, x2
        m += 3
    while m < n:
        r0, x0 = rows[m], F0
        for j in range(d):
            x0 += h[j] * outputs[r0, j]
        scores[m] = x0
        m += 1


@inlined(SUMS)
def _back(outputs: Any, rows: Any, steps: Any, n: int, error: Any) -> None:
    """error = sum over m of steps[m] outputs[rows[m]]."""
    d, m = len(error), 0
    for j in range(d):
        error[j] = F0
    while m + 3 <= n:
        r0, r1, r2 = rows[m], rows[m + 1], rows[m + 2]
        g0, g1, g2 = steps[m], steps[m + 1], steps[m + 2]
        for j in range(d):
            error[j] += g0 * outputs[r0, j] + g1 * outputs[r1, j] + g2 * outputs[r2, j]
        m += 3
    while m < n:
        r0, g0 = rows[m], steps[m]
        for j in range(d):
            error[j] += g0 * outputs[r0, j]
        m += 1


@inlined(SUMS)
def _forth(outputs: Any, rows: Any, steps: Any, n: int, h: Any) -> None:
    """outputs[rows[m]] += steps[m] h. A row may be there twice."""
    for m in range(n):
        row, g = rows[m], steps[m]
        for j in range(len(h)):
            outputs[row, j] += g * h[j]


@inlined(SUMS)
def _both(outputs: Any, rows: Any, steps: Any, n: int, h: Any, error: Any) -> None:
    """:func:`_back` and :func:`_forth` in one pass over the rows, which are all different."""
    d, m = len(h), 0
    for j in range(d):
        error[j] = F0
    while m + 3 <= n:
        r0, r1, r2 = rows[m], rows[m + 1], rows[m + 2]
        g0, g1, g2 = steps[m], steps[m + 1], steps[m + 2]
        for j in range(d):
            a, o0, o1, o2 = h[j], outputs[r0, j], outputs[r1, j], outputs[r2, j]
            error[j] += g0 * o0 + g1 * o1 + g2 * o2
            outputs[r0, j] = o0 + g0 * a
            outputs[r1, j] = o1 + g1 * a
            outputs[r2, j] = o2 + g2 * a
        m += 3
    while m < n:
        r0, g0 = rows[m], steps[m]
        for j in range(d):
            o0 = outputs[r0, j]
            error[j] += g0 * o0
            outputs[r0, j] = o0 + g0 * h[j]
        m += 1


@inlined(SUMS)
def _chances(scores: Any, n: int, lr: Any, chances: Any) -> None:
    """chances = sigmoid(scores); the scores become lr (1 - chances), the step of each towards being right."""
    for m in range(n):
        x = min(max(-scores[m], -SATURATED), SATURATED)
        z = np.floor(x * LOG2_E_32 + HALF)
        r = (x - z * LN2_HIGH_32) - z * LN2_LOW_32
        p = ((((S7 * r + S6) * r + S5) * r + S4) * r + S3) * r + S2
        p = (p * r + F1) * r + F1
        e = p * float32_of(np.int32((np.int32(z) + np.int32(127)) << np.int32(23)))
        chance = F1 / (F1 + e)
        chances[m] = chance
        scores[m] = lr * (e * chance)  # 1 - chance, exact where chance is nearly 1


@inlined()
def _all_different(rows: Any, n: int) -> bool:
    for m in range(1, n):
        for i in range(m):
            if rows[i] == rows[m]:
                return False
    return True


@inlined(SUMS)
def _make_unit(matrix: Any, row: int) -> None:
    square = F0
    for j in range(matrix.shape[1]):
        square += matrix[row, j] * matrix[row, j]
    if square > F0:
        scale = F1 / np.sqrt(square)
        for j in range(matrix.shape[1]):
            matrix[row, j] *= scale


# --- losses -----------------------------------------------------------------------------------------------------------


@_learner(LONGS, INTS, INTS, int64, INTS, int64, ROWS, ROWS, boolean, boolean, boolean, FLOATS, FLOATS, int64,
          boolean, float32, DOUBLES)  # fmt: skip
def learn_negative(
    first: Any, bag: Any, targets: Any, n: int, noise: Any, k: int, inputs: Any, outputs: Any, mean: bool, whole: bool,
    unit: bool, bias: Any, shift: Any, learn_from: int, learn_outputs: bool, lr: Any, loss: Any,
) -> None:  # fmt: skip
    """Each word against ``k`` others: -log sigmoid(s(word)) - sum of log sigmoid(-s(other)), s(w) = h · outputs[w].

    Mikolov et al. 2013, eq. 4. With a ``bias``, s(w) = h · outputs[w] + bias[w] + shift[w], and the bias is learnt:
    with shift[w] = -log(k q(w)) for noise q this is noise-contrastive estimation (Gutmann and Hyvärinen 2010).

    Args:
        noise: the others of example ``i`` are ``noise[i k : (i + 1) k]``.
        mean: h is the mean of the bag, not its sum.
        whole: each row of the bag takes the gradient of h as if it were h itself.
        unit: rows are brought back to length one after each step.
        learn_from: input rows below it are kept as they are.
        learn_outputs: whether output rows are learnt.
        loss: the loss is added to ``loss[0]``, the number of examples to ``loss[1]``.
    """
    d = inputs.shape[1]
    h, error = np.empty(d, np.float32), np.empty(d, np.float32)
    rows = np.empty(k + 1, np.int64)
    scores, chances = np.empty(k + 1, np.float32), np.empty(k + 1, np.float32)
    total, product, done = 0.0, 1.0, 0
    with_bias = len(bias) > 0
    for i in range(n):
        low, high = first[i], first[i + 1]
        if low == high:
            continue
        done += 1
        share = F1 / np.float32(high - low) if mean else F1
        _gather(inputs, bag, low, high, share, h)
        rows[0] = targets[i]
        for m in range(k):
            rows[m + 1] = noise[i * k + m]
        _dots(h, outputs, rows, k + 1, scores)
        if with_bias:
            for m in range(k + 1):
                scores[m] += bias[rows[m]] + shift[rows[m]]
        for m in range(1, k + 1):
            scores[m] = -scores[m]
        _chances(scores, k + 1, lr, chances)
        for m in range(k + 1):
            product *= np.float64(chances[m])
            if product < SMALL:
                total -= np.log(product)
                product = 1.0
        for m in range(1, k + 1):
            scores[m] = -scores[m]
        if not learn_outputs:
            _back(outputs, rows, scores, k + 1, error)
        elif _all_different(rows, k + 1):
            _both(outputs, rows, scores, k + 1, h, error)
        else:
            _back(outputs, rows, scores, k + 1, error)
            _forth(outputs, rows, scores, k + 1, h)
        if with_bias and learn_outputs:
            for m in range(k + 1):
                bias[rows[m]] += scores[m]
        _scatter(inputs, bag, low, high, F1 if whole else share, error, learn_from)
        if unit:
            for p in range(low, high):
                _make_unit(inputs, bag[p])
            for m in range(k + 1):
                _make_unit(outputs, rows[m])
    loss[0] += total - np.log(product)
    loss[1] += done


@_learner(LONGS, INTS, INTS, int64, INTS, int64, ROWS, ROWS, boolean, float32, DOUBLES)
def learn_shared(
    first: Any, bag: Any, targets: Any, n: int, noise: Any, k: int, inputs: Any, outputs: Any, unit: bool, lr: Any,
    loss: Any,
) -> None:  # fmt: skip
    """Each neighbour and the word against ``k`` others, which all neighbours of a window share.

    The loss of a window is the sum over its neighbours c of -log sigmoid(c · word) - sum of log sigmoid(-c · other):
    that is skip-gram with shared noise (Ji et al. 2016), and CBOW where P(+ | word, window) is the product of
    P(+ | word, c). Every row is read and written once for a window, in place of once for each pair. Arguments as in
    :func:`learn_negative`; examples are counted as pairs.
    """
    widest, d = 1, inputs.shape[1]
    for i in range(n):
        widest = max(widest, first[i + 1] - first[i])
    near, far = np.empty((widest, d), np.float32), np.empty((k + 1, d), np.float32)  # copies: close together in memory
    rows = np.empty(k + 1, np.int64)
    steps, chances = np.empty(widest * (k + 1), np.float32), np.empty(widest * (k + 1), np.float32)
    total, product, done = 0.0, 1.0, 0
    for i in range(n):
        low, width = first[i], first[i + 1] - first[i]
        rows[0] = targets[i]
        for m in range(k):
            rows[m + 1] = noise[i * k + m]
        for b in range(width):
            _copy_row(inputs, bag[low + b], near, b)
        for m in range(k + 1):
            _copy_row(outputs, rows[m], far, m)
        _scores_of_all(near, width, far, k + 1, steps)
        for b in range(width):
            for m in range(1, k + 1):
                steps[b * (k + 1) + m] = -steps[b * (k + 1) + m]
        _chances(steps, width * (k + 1), lr, chances)
        for p in range(width * (k + 1)):
            product *= np.float64(chances[p])
            if product < SMALL:
                total -= np.log(product)
                product = 1.0
        for b in range(width):
            for m in range(1, k + 1):
                steps[b * (k + 1) + m] = -steps[b * (k + 1) + m]
        for b in range(width):
            _add_rows(inputs, bag[low + b], far, k + 1, steps, b * (k + 1), 1)
        for m in range(k + 1):
            _add_rows(outputs, rows[m], near, width, steps, m, k + 1)
        if unit:
            for b in range(width):
                _make_unit(inputs, bag[low + b])
            for m in range(k + 1):
                _make_unit(outputs, rows[m])
        done += width
    loss[0] += total - np.log(product)
    loss[1] += done


@inlined()
def _copy_row(source: Any, row: int, target: Any, at: int) -> None:
    for j in range(source.shape[1]):
        target[at, j] = source[row, j]


@inlined(SUMS)
def _scores_of_all(near: Any, width: int, far: Any, n: int, scores: Any) -> None:
    """scores[b n + m] = near[b] · far[m], two by three at a time."""
    d, b = near.shape[1], 0
    while b < width:
        c = min(b + 1, width - 1)  # the last row of an odd number is taken with itself
        m = 0
        while m + 3 <= n:
            x0, x1, x2, y0, y1, y2 = F0, F0, F0, F0, F0, F0
            for j in range(d):
                s, t = near[b, j], near[c, j]
                o0, o1, o2 = far[m, j], far[m + 1, j], far[m + 2, j]
                x0 += s * o0
                x1 += s * o1
                x2 += s * o2
                y0 += t * o0
                y1 += t * o1
                y2 += t * o2
            at, then = b * n + m, c * n + m
            scores[at], scores[at + 1], scores[at + 2] = x0, x1, x2
            scores[then], scores[then + 1], scores[then + 2] = y0, y1, y2
            m += 3
        while m < n:
            x0, y0 = F0, F0
            for j in range(d):
                x0 += near[b, j] * far[m, j]
                y0 += near[c, j] * far[m, j]
            scores[b * n + m], scores[c * n + m] = x0, y0
            m += 1
        b += 2


@inlined(SUMS)
def _add_rows(matrix: Any, row: int, others: Any, n: int, steps: Any, at: int, stride: int) -> None:
    """matrix[row] += sum over i < n of steps[at + i stride] others[i], three at a time."""
    d, i = matrix.shape[1], 0
    while i + 3 <= n:
        g0, g1, g2 = steps[at], steps[at + stride], steps[at + 2 * stride]
        for j in range(d):
            matrix[row, j] += g0 * others[i, j] + g1 * others[i + 1, j] + g2 * others[i + 2, j]
        at += 3 * stride
        i += 3
    while i < n:
        g0 = steps[at]
        for j in range(d):
            matrix[row, j] += g0 * others[i, j]
        at += stride
        i += 1


@_learner(LONGS, INTS, INTS, int64, LONGS, INTS, BYTES, ROWS, ROWS, boolean, boolean, int64, boolean, float32, DOUBLES)
def learn_hierarchical(
    first: Any, bag: Any, targets: Any, n: int, path_first: Any, nodes: Any, codes: Any, inputs: Any, outputs: Any,
    mean: bool, whole: bool, learn_from: int, learn_outputs: bool, lr: Any, loss: Any,
) -> None:  # fmt: skip
    """The turns from the root of a tree to each word: the sum of -log sigmoid(± h · outputs[node]), + for code 0.

    Morin and Bengio 2005; with Huffman's tree, Mikolov et al. 2013. Arguments as in :func:`learn_negative`.
    """
    d, deepest = inputs.shape[1], 0
    for w in range(len(path_first) - 1):
        deepest = max(deepest, path_first[w + 1] - path_first[w])
    h, error = np.empty(d, np.float32), np.empty(d, np.float32)
    rows = np.empty(deepest + 1, np.int64)
    scores, chances = np.empty(deepest + 1, np.float32), np.empty(deepest + 1, np.float32)
    total, product, done = 0.0, 1.0, 0
    for i in range(n):
        low, high = first[i], first[i + 1]
        if low == high:
            continue
        done += 1
        share = F1 / np.float32(high - low) if mean else F1
        _gather(inputs, bag, low, high, share, h)
        start = path_first[targets[i]]
        depth = path_first[targets[i] + 1] - start
        for m in range(depth):
            rows[m] = nodes[start + m]
        _dots(h, outputs, rows, depth, scores)
        for m in range(depth):
            if codes[start + m] == 1:
                scores[m] = -scores[m]
        _chances(scores, depth, lr, chances)
        for m in range(depth):
            product *= np.float64(chances[m])
            if product < SMALL:
                total -= np.log(product)
                product = 1.0
            if codes[start + m] == 1:
                scores[m] = -scores[m]
        if learn_outputs:
            _both(outputs, rows, scores, depth, h, error)
        else:
            _back(outputs, rows, scores, depth, error)
        _scatter(inputs, bag, low, high, F1 if whole else share, error, learn_from)
    loss[0] += total - np.log(product)
    loss[1] += done


@_learner(LONGS, INTS, INTS, int64, ROWS, ROWS, boolean, boolean, int64, boolean, float32, DOUBLES)
def learn_softmax(
    first: Any, bag: Any, targets: Any, n: int, inputs: Any, outputs: Any, mean: bool, whole: bool, learn_from: int,
    learn_outputs: bool, lr: Any, loss: Any,
) -> None:  # fmt: skip
    """Each word against all of them: -log softmax(h · outputs)[word]. Time O(v d) for an example."""
    v, d = outputs.shape[0], inputs.shape[1]
    h, error = np.empty(d, np.float32), np.empty(d, np.float32)
    scores = np.empty(v, np.float32)
    total, done = 0.0, 0
    for i in range(n):
        low, high = first[i], first[i + 1]
        if low == high:
            continue
        done += 1
        share = F1 / np.float32(high - low) if mean else F1
        _gather(inputs, bag, low, high, share, h)
        top = np.float32(-np.inf)
        for w in range(v):
            x = F0
            for j in range(d):
                x += h[j] * outputs[w, j]
            scores[w] = x
            top = max(top, x)
        right, mass = scores[targets[i]] - top, 0.0
        for w in range(v):
            scores[w] = np.exp(scores[w] - top)
            mass += np.float64(scores[w])
        total += np.log(mass) - right
        scale = -lr / np.float32(mass)
        for j in range(d):
            error[j] = F0
        for w in range(v):
            g = scale * scores[w] + (lr if w == targets[i] else F0)
            for j in range(d):
                o = outputs[w, j]
                error[j] += g * o
                if learn_outputs:
                    outputs[w, j] = o + g * h[j]
        _scatter(inputs, bag, low, high, F1 if whole else share, error, learn_from)
    loss[0] += total
    loss[1] += done
