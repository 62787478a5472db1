"""The steps of stochastic gradient descent that make word vectors, for blocks of examples whose draws are made.

An example is a bag of input rows and a word to be predicted. The hidden vector h is the mean or the sum of the rows; a
bag of one is skip-gram, a bag of neighbors is CBOW, the row of a document may lie among them. The scores of a step are
all taken before any row is changed, so a step is lr times the gradient. Threads may run these loops on the same
matrices at once: a lost update now and then does no harm (Recht et al. 2011).

Losses are in nats, added up in double precision: probabilities are multiplied, and the logarithm is taken of the
product before it can become too small.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import boolean, float32, int64

from catena.kernels.common.jit import BYTES, DOUBLES, FLOATS, FLOATS2, INTS, LONGS, SUMS, lazy_jit
from catena.kernels.word2vec.cpu_steps import (
    F0,
    F1,
    accumulate_input_gradient,
    add_rows,
    all_different,
    copy_row,
    dots,
    gather,
    make_unit,
    pull_and_push,
    scatter,
    scores_of_all,
    sigmoids,
    update_outputs,
)

_SMALL = 1e-200
"""Below it a product of probabilities is brought into the sum of logarithms."""


def _learner(*arguments: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Compile a loop for these argument types, its sums in any order."""
    return lazy_jit(*arguments, fastmath=SUMS, error_model="numpy")


@_learner(LONGS, INTS, INTS, int64, INTS, int64, FLOATS2, FLOATS2, boolean, boolean, boolean, FLOATS, FLOATS, int64,
          boolean, float32, DOUBLES)  # fmt: skip
def learn_negative(
    first: Any, bag: Any, targets: Any, n: int, noise: Any, k: int, inputs: Any, outputs: Any, mean: bool, whole: bool,
    unit: bool, bias: Any, shift: Any, learn_from: int, learn_outputs: bool, lr: Any, loss: Any,
) -> None:  # fmt: skip
    """Each word against ``k`` others: -log sigmoid(s(word)) - sum of log sigmoid(-s(other)), s(w) = h · outputs[w].

    Mikolov et al. 2013, eq. 4. With a ``bias``, s(w) = h · outputs[w] + bias[w] + shift[w], and the bias is learned:
    with shift[w] = -log(k q(w)) for noise q this is noise-contrastive estimation (Gutmann and Hyvärinen 2010).

    Args:
        noise: the others of example ``i`` are ``noise[i k : (i + 1) k]``.
        mean: h is the mean of the bag, not its sum.
        whole: each row of the bag takes the gradient of h as if it were h itself.
        unit: rows are brought back to length one after each step.
        learn_from: input rows below it are kept as they are.
        learn_outputs: whether output rows are learned.
        loss: the loss is added to ``loss[0]``, the number of examples to ``loss[1]``.
    """
    d = inputs.shape[1]
    h = np.empty(d, np.float32)
    error = np.empty(d, np.float32)
    rows = np.empty(k + 1, np.int64)
    scores = np.empty(k + 1, np.float32)
    probabilities = np.empty(k + 1, np.float32)
    total = 0.0
    product = 1.0
    done = 0
    with_bias = len(bias) > 0
    for i in range(n):
        low, high = first[i], first[i + 1]
        if low == high:
            continue
        done += 1
        share = F1 / np.float32(high - low) if mean else F1
        gather(inputs, bag, low, high, share, h)
        rows[0] = targets[i]
        for m in range(k):
            rows[m + 1] = noise[i * k + m]
        dots(h, outputs, rows, k + 1, scores)
        if with_bias:
            for m in range(k + 1):
                scores[m] += bias[rows[m]] + shift[rows[m]]
        for m in range(1, k + 1):
            scores[m] = -scores[m]
        sigmoids(scores, k + 1, lr, probabilities)
        for m in range(k + 1):
            product *= np.float64(probabilities[m])
            if product < _SMALL:
                total -= np.log(product)
                product = 1.0
        for m in range(1, k + 1):
            scores[m] = -scores[m]
        if not learn_outputs:
            accumulate_input_gradient(outputs, rows, scores, k + 1, error)
        elif all_different(rows, k + 1):
            pull_and_push(outputs, rows, scores, k + 1, h, error)
        else:
            accumulate_input_gradient(outputs, rows, scores, k + 1, error)
            update_outputs(outputs, rows, scores, k + 1, h)
        if with_bias and learn_outputs:
            for m in range(k + 1):
                bias[rows[m]] += scores[m]
        scatter(inputs, bag, low, high, F1 if whole else share, error, learn_from)
        if unit:
            for p in range(low, high):
                make_unit(inputs, bag[p])
            for m in range(k + 1):
                make_unit(outputs, rows[m])
    loss[0] += total - np.log(product)
    loss[1] += done


@_learner(LONGS, INTS, INTS, int64, INTS, int64, FLOATS2, FLOATS2, boolean, float32, DOUBLES)
def learn_shared(
    first: Any, bag: Any, targets: Any, n: int, noise: Any, k: int, inputs: Any, outputs: Any, unit: bool, lr: Any,
    loss: Any,
) -> None:  # fmt: skip
    """Each neighbor and the word against ``k`` others, which all neighbors of a window share.

    The loss of a window is the sum over its neighbors c of -log sigmoid(c · word) - sum of log sigmoid(-c · other):
    that is skip-gram with shared noise (Ji et al. 2016), and CBOW where P(+ | word, window) is the product of
    P(+ | word, c). Every row is read and written once for a window, in place of once for each pair. Arguments as in
    :func:`learn_negative`; examples are counted as pairs.
    """
    widest = 1
    d = inputs.shape[1]
    for i in range(n):
        widest = max(widest, first[i + 1] - first[i])
    # copies, close together in memory
    near = np.empty((widest, d), np.float32)
    far = np.empty((k + 1, d), np.float32)
    rows = np.empty(k + 1, np.int64)
    steps = np.empty(widest * (k + 1), np.float32)
    probabilities = np.empty(widest * (k + 1), np.float32)
    total = 0.0
    product = 1.0
    done = 0
    for i in range(n):
        low = first[i]
        width = first[i + 1] - first[i]
        rows[0] = targets[i]
        for m in range(k):
            rows[m + 1] = noise[i * k + m]
        for b in range(width):
            copy_row(inputs, bag[low + b], near, b)
        for m in range(k + 1):
            copy_row(outputs, rows[m], far, m)
        scores_of_all(near, width, far, k + 1, steps)
        for b in range(width):
            for m in range(1, k + 1):
                steps[b * (k + 1) + m] = -steps[b * (k + 1) + m]
        sigmoids(steps, width * (k + 1), lr, probabilities)
        for p in range(width * (k + 1)):
            product *= np.float64(probabilities[p])
            if product < _SMALL:
                total -= np.log(product)
                product = 1.0
        for b in range(width):
            for m in range(1, k + 1):
                steps[b * (k + 1) + m] = -steps[b * (k + 1) + m]
        for b in range(width):
            add_rows(inputs, bag[low + b], far, k + 1, steps, b * (k + 1), 1)
        for m in range(k + 1):
            add_rows(outputs, rows[m], near, width, steps, m, k + 1)
        if unit:
            for b in range(width):
                make_unit(inputs, bag[low + b])
            for m in range(k + 1):
                make_unit(outputs, rows[m])
        done += width
    loss[0] += total - np.log(product)
    loss[1] += done


@_learner(
    LONGS, INTS, INTS, int64, LONGS, INTS, BYTES, FLOATS2, FLOATS2, boolean, boolean, int64, boolean, float32,
    DOUBLES,
)  # fmt: skip
def learn_hierarchical(
    first: Any, bag: Any, targets: Any, n: int, path_first: Any, nodes: Any, codes: Any, inputs: Any, outputs: Any,
    mean: bool, whole: bool, learn_from: int, learn_outputs: bool, lr: Any, loss: Any,
) -> None:  # fmt: skip
    """The turns from the root of a tree to each word: the sum of -log sigmoid(± h · outputs[node]), + for code 0.

    Morin and Bengio 2005; with Huffman's tree, Mikolov et al. 2013. Arguments as in :func:`learn_negative`.
    """
    d = inputs.shape[1]
    deepest = 0
    for w in range(len(path_first) - 1):
        deepest = max(deepest, path_first[w + 1] - path_first[w])
    h = np.empty(d, np.float32)
    error = np.empty(d, np.float32)
    rows = np.empty(deepest + 1, np.int64)
    scores = np.empty(deepest + 1, np.float32)
    probabilities = np.empty(deepest + 1, np.float32)
    total = 0.0
    product = 1.0
    done = 0
    for i in range(n):
        low, high = first[i], first[i + 1]
        if low == high:
            continue
        done += 1
        share = F1 / np.float32(high - low) if mean else F1
        gather(inputs, bag, low, high, share, h)
        start = path_first[targets[i]]
        depth = path_first[targets[i] + 1] - start
        for m in range(depth):
            rows[m] = nodes[start + m]
        dots(h, outputs, rows, depth, scores)
        for m in range(depth):
            if codes[start + m] == 1:
                scores[m] = -scores[m]
        sigmoids(scores, depth, lr, probabilities)
        for m in range(depth):
            product *= np.float64(probabilities[m])
            if product < _SMALL:
                total -= np.log(product)
                product = 1.0
            if codes[start + m] == 1:
                scores[m] = -scores[m]
        if learn_outputs:
            pull_and_push(outputs, rows, scores, depth, h, error)
        else:
            accumulate_input_gradient(outputs, rows, scores, depth, error)
        scatter(inputs, bag, low, high, F1 if whole else share, error, learn_from)
    loss[0] += total - np.log(product)
    loss[1] += done


@_learner(LONGS, INTS, INTS, int64, FLOATS2, FLOATS2, boolean, boolean, int64, boolean, float32, DOUBLES)
def learn_softmax(
    first: Any, bag: Any, targets: Any, n: int, inputs: Any, outputs: Any, mean: bool, whole: bool, learn_from: int,
    learn_outputs: bool, lr: Any, loss: Any,
) -> None:  # fmt: skip
    """Each word against all of them: -log softmax(h · outputs)[word]. Time O(v d) for an example."""
    v = outputs.shape[0]
    d = inputs.shape[1]
    h = np.empty(d, np.float32)
    error = np.empty(d, np.float32)
    scores = np.empty(v, np.float32)
    total = 0.0
    done = 0
    for i in range(n):
        low, high = first[i], first[i + 1]
        if low == high:
            continue
        done += 1
        share = F1 / np.float32(high - low) if mean else F1
        gather(inputs, bag, low, high, share, h)
        top = np.float32(-np.inf)
        for w in range(v):
            x = F0
            for j in range(d):
                x += h[j] * outputs[w, j]
            scores[w] = x
            top = max(top, x)
        right = scores[targets[i]] - top
        mass = 0.0
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
        scatter(inputs, bag, low, high, F1 if whole else share, error, learn_from)
    loss[0] += total
    loss[1] += done
