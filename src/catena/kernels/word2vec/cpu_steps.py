"""The parts of a step that makes word vectors: rows are gathered, scored and moved, three at a time.

Small functions for compiled loops; each is inlined where :mod:`catena.kernels.word2vec.cpu_learn` uses it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from catena.kernels.common.floats import LOG2_E, float32_of
from catena.kernels.common.jit import SUMS, jit_inline
from catena.kernels.common.vector_math import LN2_HIGH_32, LN2_LOW_32, S2, S3, S4, S5, S6, S7

F0, F1, HALF = np.float32(0), np.float32(1), np.float32(0.5)
_LOG2_E_32 = np.float32(LOG2_E)
_SATURATED = np.float32(80)
"""A score beyond it is as sure as a float can say."""


@jit_inline(SUMS)
def gather(inputs: Any, bag: Any, low: int, high: int, scale: Any, h: Any) -> None:
    """h = scale times the sum of the rows of a bag."""
    d = len(h)
    row = bag[low]
    for j in range(d):
        h[j] = scale * inputs[row, j]
    for p in range(low + 1, high):
        row = bag[p]
        for j in range(d):
            h[j] += scale * inputs[row, j]


@jit_inline(SUMS)
def scatter(inputs: Any, bag: Any, low: int, high: int, scale: Any, error: Any, learn_from: int) -> None:
    """Add scale times the error to the rows of a bag, but not to those below ``learn_from``."""
    for p in range(low, high):
        row = bag[p]
        if row >= learn_from:
            for j in range(len(error)):
                inputs[row, j] += scale * error[j]


@jit_inline(SUMS)
def dots(h: Any, outputs: Any, rows: Any, n: int, scores: Any) -> None:
    """scores[m] = h · outputs[rows[m]], three rows at a time: h is then read once for three."""
    d = len(h)
    m = 0
    while m + 3 <= n:
        r0, r1, r2 = rows[m], rows[m + 1], rows[m + 2]
        x0 = F0
        x1 = F0
        x2 = F0
        for j in range(d):
            a = h[j]
            x0 += a * outputs[r0, j]
            x1 += a * outputs[r1, j]
            x2 += a * outputs[r2, j]
        scores[m], scores[m + 1], scores[m + 2] = x0, x1, x2
        m += 3
    while m < n:
        r0 = rows[m]
        x0 = F0
        for j in range(d):
            x0 += h[j] * outputs[r0, j]
        scores[m] = x0
        m += 1


@jit_inline(SUMS)
def accumulate_input_gradient(outputs: Any, rows: Any, steps: Any, n: int, error: Any) -> None:
    """error = sum over m of steps[m] outputs[rows[m]]."""
    d = len(error)
    m = 0
    for j in range(d):
        error[j] = F0
    while m + 3 <= n:
        r0, r1, r2 = rows[m], rows[m + 1], rows[m + 2]
        g0, g1, g2 = steps[m], steps[m + 1], steps[m + 2]
        for j in range(d):
            error[j] += g0 * outputs[r0, j] + g1 * outputs[r1, j] + g2 * outputs[r2, j]
        m += 3
    while m < n:
        r0 = rows[m]
        g0 = steps[m]
        for j in range(d):
            error[j] += g0 * outputs[r0, j]
        m += 1


@jit_inline(SUMS)
def update_outputs(outputs: Any, rows: Any, steps: Any, n: int, h: Any) -> None:
    """outputs[rows[m]] += steps[m] h. A row may be there twice."""
    for m in range(n):
        row = rows[m]
        g = steps[m]
        for j in range(len(h)):
            outputs[row, j] += g * h[j]


@jit_inline(SUMS)
def pull_and_push(outputs: Any, rows: Any, steps: Any, n: int, h: Any, error: Any) -> None:
    """:func:`accumulate_input_gradient` and :func:`update_outputs` in one pass over distinct rows."""
    d = len(h)
    m = 0
    for j in range(d):
        error[j] = F0
    while m + 3 <= n:
        r0, r1, r2 = rows[m], rows[m + 1], rows[m + 2]
        g0, g1, g2 = steps[m], steps[m + 1], steps[m + 2]
        for j in range(d):
            a = h[j]
            o0 = outputs[r0, j]
            o1 = outputs[r1, j]
            o2 = outputs[r2, j]
            error[j] += g0 * o0 + g1 * o1 + g2 * o2
            outputs[r0, j] = o0 + g0 * a
            outputs[r1, j] = o1 + g1 * a
            outputs[r2, j] = o2 + g2 * a
        m += 3
    while m < n:
        r0 = rows[m]
        g0 = steps[m]
        for j in range(d):
            o0 = outputs[r0, j]
            error[j] += g0 * o0
            outputs[r0, j] = o0 + g0 * h[j]
        m += 1


@jit_inline(SUMS)
def sigmoids(scores: Any, n: int, lr: Any, probabilities: Any) -> None:
    """p = sigmoid(scores); the scores become lr (1 - p), the size of the step toward the correct label."""
    for m in range(n):
        x = min(max(-scores[m], -_SATURATED), _SATURATED)
        z = np.floor(x * _LOG2_E_32 + HALF)
        r = (x - z * LN2_HIGH_32) - z * LN2_LOW_32
        p = ((((S7 * r + S6) * r + S5) * r + S4) * r + S3) * r + S2
        p = (p * r + F1) * r + F1
        e = p * float32_of(np.int32((np.int32(z) + np.int32(127)) << np.int32(23)))
        probability = F1 / (F1 + e)
        probabilities[m] = probability
        scores[m] = lr * (e * probability)  # 1 - p, accurate where p is nearly 1


@jit_inline()
def all_different(rows: Any, n: int) -> bool:
    """Whether none of the rows is there twice."""
    for m in range(1, n):
        for i in range(m):
            if rows[i] == rows[m]:
                return False
    return True


@jit_inline(SUMS)
def make_unit(matrix: Any, row: int) -> None:
    """Bring a row to length one, unless it is zero."""
    square = F0
    for j in range(matrix.shape[1]):
        square += matrix[row, j] * matrix[row, j]
    if square > F0:
        scale = F1 / np.sqrt(square)
        for j in range(matrix.shape[1]):
            matrix[row, j] *= scale


@jit_inline()
def copy_row(source: Any, row: int, target: Any, at: int) -> None:
    """target[at] = source[row]."""
    for j in range(source.shape[1]):
        target[at, j] = source[row, j]


@jit_inline(SUMS)
def scores_of_all(near: Any, width: int, far: Any, n: int, scores: Any) -> None:
    """scores[b n + m] = near[b] · far[m], two by three at a time."""
    d = near.shape[1]
    b = 0
    while b < width:
        c = min(b + 1, width - 1)  # the last row of an odd number is taken with itself
        m = 0
        while m + 3 <= n:
            x0 = F0
            x1 = F0
            x2 = F0
            y0 = F0
            y1 = F0
            y2 = F0
            for j in range(d):
                s, t = near[b, j], near[c, j]
                o0, o1, o2 = far[m, j], far[m + 1, j], far[m + 2, j]
                x0 += s * o0
                x1 += s * o1
                x2 += s * o2
                y0 += t * o0
                y1 += t * o1
                y2 += t * o2
            at = b * n + m
            then = c * n + m
            scores[at], scores[at + 1], scores[at + 2] = x0, x1, x2
            scores[then], scores[then + 1], scores[then + 2] = y0, y1, y2
            m += 3
        while m < n:
            x0 = F0
            y0 = F0
            for j in range(d):
                x0 += near[b, j] * far[m, j]
                y0 += near[c, j] * far[m, j]
            scores[b * n + m], scores[c * n + m] = x0, y0
            m += 1
        b += 2


@jit_inline(SUMS)
def add_rows(matrix: Any, row: int, others: Any, n: int, steps: Any, at: int, stride: int) -> None:
    """matrix[row] += sum over i < n of steps[at + i stride] others[i], three at a time."""
    d = matrix.shape[1]
    i = 0
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
