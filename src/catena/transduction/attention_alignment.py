r"""Alignments from where a decoder looks: for each target symbol a source symbol, from left to right.

.. math::  a^* = \arg\max_{a_1 \le \dots \le a_t} \sum_i \log w_{i, a_i}

Time O(t s) for each pair, all pairs of a batch at once.
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
"""Weights below count as this, so that one place that is not looked at does not decide about the rest."""


def monotone_path(
    weights: Float[Tensor, "b t s"], target_lengths: Int[Tensor, " b"], source_lengths: Int[Tensor, " b"]
) -> Int[Tensor, "b t"]:
    """The source position of each target position, never falling; beyond the length of a target of no meaning.

    Args:
        weights: how much of each source position (the last axis) is looked at for each target position.
        target_lengths: of the targets, at least 1.
        source_lengths: of the sources, at least 1; positions beyond are never taken.
    """
    t, s = weights.shape[1:]
    logs = weights.clamp(min=LEAST).log()
    logs = logs.masked_fill(~mask_from_lengths(source_lengths, s)[:, None], NEG_INF)
    best, came_from = logs[:, 0], []
    for i in range(1, t):
        before, place = best.cummax(dim=1)
        best = torch.where((target_lengths > i)[:, None], before + logs[:, i], best)
        came_from.append(place)  # beyond a target's length too: there the best place comes from itself
    path = [best.argmax(dim=1)]
    for place in reversed(came_from):
        path.append(place.gather(1, path[-1][:, None])[:, 0])
    return torch.stack(path[::-1], dim=1)


def alignment_links(x: SymbolSequence, y: SymbolSequence, path: Sequence[int]) -> tuple[Link, ...]:
    """Each source symbol with the target symbols at its place.

    >>> links_of("axe", ["AE", "K", "S"], [0, 1, 1])
    (Link(source=('a',), target=('AE',)), Link(source=('x',), target=('K', 'S')), Link(source=('e',), target=()))
    """
    written: list[list[str]] = [[] for _ in x]
    for symbol, place in zip(y, path, strict=False):
        written[place].append(symbol)
    return tuple(Link((symbol,), tuple(wrote)) for symbol, wrote in zip(x, written, strict=True))
