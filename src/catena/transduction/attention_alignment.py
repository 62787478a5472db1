r"""Monotone alignments from attention weights: one source position for each target symbol, from left to right.

.. math::  a^* = \arg\max_{a_1 \le \dots \le a_t} \sum_i \log w_{i, a_i}

Time O(t s) for each pair, for all pairs of a batch in parallel.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from catena.numerics import NEG_INF
from catena.shapes import mask_from_lengths
from catena.transduction.base import Link, SymbolSequence

LEAST = 1e-6
"""Smaller weights count as this, so that a single position without attention does not decide the path."""


def monotone_path(
    weights: Float[Tensor, "b t s"], target_lengths: Int[Tensor, " b"], source_lengths: Int[Tensor, " b"]
) -> Int[Tensor, "b t"]:
    """Return the non-decreasing source position of each target position; undefined after the end of a target.

    Args:
        weights: ``weights[r, i, j]`` is the attention weight of source position j for target position i.
        target_lengths: lengths of the targets, at least 1.
        source_lengths: lengths of the sources, at least 1; later positions are never used.
    """
    t, s = weights.shape[1:]
    logs = weights.clamp(min=LEAST).log()
    logs = logs.masked_fill(~mask_from_lengths(source_lengths, s)[:, None], NEG_INF)
    best, came_from = logs[:, 0], []
    for i in range(1, t):
        before, position = best.cummax(dim=1)
        best = torch.where((target_lengths > i)[:, None], before + logs[:, i], best)
        came_from.append(position)  # also after the end of a target, where each position comes from itself
    path = [best.argmax(dim=1)]
    for position in reversed(came_from):
        path.append(position.gather(1, path[-1][:, None])[:, 0])
    return torch.stack(path[::-1], dim=1)


def alignment_links(x: SymbolSequence, y: SymbolSequence, path: Sequence[int]) -> tuple[Link, ...]:
    """Return each source symbol with the target symbols aligned to it.

    >>> alignment_links("axe", ["AE", "K", "S"], [0, 1, 1])
    (Link(source=('a',), target=('AE',)), Link(source=('x',), target=('K', 'S')), Link(source=('e',), target=()))
    """
    written: list[list[str]] = [[] for _ in x]
    for symbol, position in zip(y, path, strict=False):
        written[position].append(symbol)
    return tuple(Link((symbol,), tuple(wrote)) for symbol, wrote in zip(x, written, strict=True))
