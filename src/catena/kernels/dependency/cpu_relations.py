r"""The best relation of each arc and the sum of all, from biaffine scores that are never in memory together.

.. math::  s_{hmq} = \sum_i x_{hi}\, t_{mqi}, \qquad t_{mqi} = b_{qi} + \sum_j W_{qij}\, y_{mj}

A few words at a time are multiplied with all weights. Then, for each word, a product with the vectors of all heads of
its sentence gives the scores of 32 heads with all relations, which are searched and summed while they are in the cache.

Single precision. Time O(n k d (d + t)) for n words in sentences of t words.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from catena.kernels.common.jit import jit, jit_function
from catena.kernels.common.simd import pointer_to
from catena.kernels.common.vector_math import LEAST_32, exp_32
from catena.kernels.linear.cpu import PANEL_COLUMNS, add_tiles, put_product

_WORDS_AT_ONCE = 64
"""Words that are multiplied with the weights together: enough for the product, few enough for the cache."""


@jit("3", "3", "i1", "3", "1", "i", "i", "i", "i", "3", "i3", "3")
def summarize_relations(
    heads: Any, dependents: Any, lengths: Any, panels: Any, bias: Any, k: Any, d: Any, low: Any, high: Any,
    best: Any, which: Any, total: Any,
) -> None:  # fmt: skip
    """Write the best score, the best relation and log Σ exp of the scores of each arc ``[b, h, m]``.

    Args:
        heads: the vectors of heads, ``b n d`` or one number less, which is then 1. Node 0 is the root.
        dependents: the vectors of dependents, ``b n d_in``.
        lengths: the number of words of each sentence.
        panels: packed weights, ``d_in`` by ``k d``.
        bias: the same for the number 1 behind each dependent.
        k: the number of relations.
        d: the number of rows of the matrix of a relation.
        low: the first sentence.
        high: the end of the sentences.
        best: the best score.
        which: the relation with this score.
        total: log Σ exp of the scores of all relations.
    """
    x = np.empty((_WORDS_AT_ONCE, dependents.shape[2]), np.float32)
    turned = np.empty((_WORDS_AT_ONCE, bias.shape[0]), np.float32)
    columns = np.empty(((heads.shape[1] + PANEL_COLUMNS - 1) // PANEL_COLUMNS, d, PANEL_COLUMNS), np.float32)
    scores = np.empty((k, PANEL_COLUMNS), np.float32)
    sentence, word, packed = low, 1, -1
    while sentence < high:
        size, s, m = 0, sentence, word
        while s < high and size < _WORDS_AT_ONCE:
            if m <= lengths[s]:
                x[size] = dependents[s, m]
                size += 1
                m += 1
            else:
                s, m = s + 1, 1
        put_product(x[:size], panels, bias, turned, 0, panels.shape[0])
        for row in range(size):
            while word > lengths[sentence]:
                sentence, word = sentence + 1, 1
            if sentence != packed:
                _pack_heads(heads[sentence], lengths[sentence] + 1, columns)
                packed = sentence
            for first in range(0, lengths[sentence] + 1, PANEL_COLUMNS):
                scores[:] = np.float32(0)
                add_tiles(
                    turned, row * turned.shape[1], d, pointer_to(columns, first * d), d, scores, 0, PANEL_COLUMNS, k
                )
                end = min(first + PANEL_COLUMNS, lengths[sentence] + 1)
                _summarize(scores, best[sentence], which[sentence], total[sentence], first, end, word)
            word += 1
        sentence, word = s, m


@jit_function()
def _pack_heads(heads: Any, n: Any, columns: Any) -> None:
    """The vectors of ``n`` heads as columns of panels, with 1 behind them if they are shorter than a panel."""
    for h in range(n):
        panel, at = columns[h // PANEL_COLUMNS], h % PANEL_COLUMNS
        for i in range(heads.shape[1]):
            panel[i, at] = heads[h, i]
        for i in range(heads.shape[1], panel.shape[0]):
            panel[i, at] = np.float32(1)
    if n % PANEL_COLUMNS:
        columns[n // PANEL_COLUMNS, :, n % PANEL_COLUMNS :] = np.float32(0)


@jit_function({"contract"})
def _summarize(scores: Any, best: Any, which: Any, total: Any, first: Any, end: Any, word: Any) -> None:
    """The results of one word and the heads from ``first`` to ``end``, from the scores of each relation and head."""
    top = scores[0].copy()
    at = np.zeros(PANEL_COLUMNS, np.int32)
    mass = np.zeros(PANEL_COLUMNS, np.float32)
    for q in range(1, scores.shape[0]):
        row = scores[q]
        for h in range(PANEL_COLUMNS):
            larger = row[h] > top[h]
            top[h] = row[h] if larger else top[h]
            at[h] = q if larger else at[h]
    for q in range(scores.shape[0]):
        row = scores[q]
        for h in range(PANEL_COLUMNS):
            below = row[h] - top[h]
            mass[h] += exp_32(LEAST_32 if below < LEAST_32 else below)
    for h in range(first, end):
        best[h, word] = top[h - first]
        which[h, word] = at[h - first]
        total[h, word] = top[h - first] + np.log(mass[h - first])
