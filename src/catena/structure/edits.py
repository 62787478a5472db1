r"""Edits of a string: all targets that insertions, deletions and substitutions make of a source.

.. math::  p(y \mid x) = \frac{1}{Z(x)} \sum_{\pi\,:\,x \to y} \exp \sum_{e \in \pi} s(e), \qquad
           Z(x) = \sum_{y'} \sum_{\pi\,:\,x \to y'} \exp \sum_{e \in \pi} s(e)

The score of an edit may depend on the whole source, on its place in it, and on the symbol written last. Z is a sum over
infinitely many targets; it is exact, by the closure of the insertions at each place (:mod:`catena.kernels.edit_loops`).
Time O(n v³) for Z and O(n m) for one target of m symbols.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from catena.errors import DivergentSumError, ShapeError
from catena.kernels.edit_loops import aligned, following, paths, totals
from catena.kernels.edit_search import strings
from catena.kernels.ops import longs_of
from catena.kernels.threads import in_row_blocks
from catena.shapes import mask_from_lengths

DELETE, INSERT, SUBSTITUTE = 0, 1, 2


@dataclass(frozen=True, eq=False)
class EditLattice:
    """Distributions over the targets of several sources.

    Args:
        substitute: ``substitute[r, i, p, q]`` is the score of reading symbol ``i`` and writing ``q`` after ``p``, where
            ``p`` is 0 at the beginning and otherwise one more than the symbol written last.
        insert: ``insert[r, i, p, q]`` is the score of writing ``q`` before symbol ``i`` is read (after all of them
            are, at the last place).
        delete: ``delete[r, i, p]`` is the score of reading symbol ``i`` and writing nothing.
        end: ``end[r, p]`` is the score of ending.
        lengths: the number of symbols of each source.
    """

    substitute: Float[Tensor, "b t p v"]
    insert: Float[Tensor, "b u p v"]
    delete: Float[Tensor, "b t p"]
    end: Float[Tensor, "b p"]
    lengths: Int[Tensor, " b"]

    def __post_init__(self) -> None:
        b, t, states, v = self.substitute.shape
        if self.insert.shape != (b, t + 1, states, v) or states != v + 1:
            raise ShapeError(
                f"edits of {v} symbols at {t} places need insertions of the shape {[b, t + 1, v + 1, v]}, but it is "
                f"{list(self.insert.shape)}, and substitutions are {list(self.substitute.shape)}"
            )
        if len(self.lengths) and not (int(self.lengths.min()) >= 0 and int(self.lengths.max()) <= t):
            raise ShapeError(f"lengths must be 0 to {t}, but they are {self.lengths.tolist()}")

    @property
    def _scores(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        return self.substitute, self.insert, self.delete, self.end

    def log_partition(self) -> Float[Tensor, " b"]:
        """log Z of each source. Raises :class:`DivergentSumError` where insertions weigh too much for a sum."""
        return _Sum.apply(*self._scores, self.lengths, None, None)

    def log_weights(self, targets: Int[Tensor, "b s"], lengths: Int[Tensor, " b"]) -> Float[Tensor, " b"]:
        """log of the summed weights of all ways to write one target for each source. Symbols are numbered from 0."""
        # A kernel would read beyond the scores, and answer with a number.
        v, s = self.substitute.shape[-1], targets.shape[1]
        if len(lengths) and not (int(lengths.min()) >= 0 and int(lengths.max()) <= s):
            raise ShapeError(f"lengths of targets must be 0 to {s}, but they are {lengths.tolist()}")
        real = targets[mask_from_lengths(lengths, s)]
        for id in (int(real.min()), int(real.max())) if len(real) else ():
            if not 0 <= id < v:
                raise ShapeError(f"targets must be below {v} and not below 0, but there is {id} among them")
        return _Sum.apply(*self._scores, self.lengths, targets, lengths)

    def log_prob(self, targets: Int[Tensor, "b s"], lengths: Int[Tensor, " b"]) -> Float[Tensor, " b"]:
        """log p(y | x)."""
        return self.log_weights(targets, lengths) - self.log_partition()

    def _row(self, r: int) -> tuple[Any, Any, Any, Any, int]:
        sub, ins, dele, end = (np.ascontiguousarray(_wide(x[r])) for x in self._scores)
        return sub, ins, dele, end, int(self.lengths[r])

    def best(self, r: int, n: int = 1, width: int = 32, most: int | None = None) -> tuple[list[Target], bool]:
        """The n targets of source ``r`` with the greatest p(y | x), and whether nothing better can have been missed.

        Args:
            width: beginnings of each length that are followed.
            most: the longest target; by default 10 more than twice the source.
        """
        sub, ins, dele, end, length = self._row(r)
        beta = np.empty((length + 1, len(end)))
        if not following(sub, ins, dele, end, length, beta):
            raise _diverges(r)
        room = 2 * length + 10 if most is None else most
        found, lengths, scores = np.empty(n * room, np.int64), np.empty(n, np.int64), np.empty(n)
        count, dropped = strings(sub, ins, dele, end, beta, length, n, max(width, n), room, found, lengths, scores)
        listed = [
            Target(tuple(found[k * room : k * room + lengths[k]].tolist()), float(scores[k] - beta[0, 0]))
            for k in range(count)
        ]
        return listed, count == n and bool(dropped <= scores[n - 1])

    def align(self, r: int, target: Sequence[int]) -> list[int] | None:
        """The edits of the best way to write a target for source ``r``; None where there is none."""
        sub, ins, dele, _, length = self._row(r)
        edits = np.empty(length + len(target), np.int64)
        count = aligned(sub, ins, dele, np.array(target, np.int64), length, edits)
        return None if count < 0 else edits[:count].tolist()


@dataclass(frozen=True)
class Target:
    """A target, numbered from 0, and log p(y | x)."""

    ids: tuple[int, ...]
    log_prob: float


def _wide(x: Tensor) -> np.ndarray:
    return x.detach().cpu().double().contiguous().numpy()


def _diverges(row: int) -> DivergentSumError:
    return DivergentSumError(
        f"the sum over all targets of source {row} diverges: what may be inserted at one place weighs one or more. "
        f"Lower the scores of insertions"
    )


class _Sum(torch.autograd.Function):
    """Both sums, with their gradients computed on the way."""

    @staticmethod
    def forward(
        ctx: Any, sub: Tensor, ins: Tensor, dele: Tensor, end: Tensor, lengths: Tensor,
        targets: Tensor | None, target_lengths: Tensor | None,
    ) -> Tensor:  # fmt: skip
        scores = [_wide(x) for x in (sub, ins, dele, end)]
        slopes = [np.zeros_like(x) for x in scores]
        found, n = np.empty(len(scores[0])), longs_of(lengths)
        wrong: list[int] = []
        y, m = (None if x is None else longs_of(x) for x in (targets, target_lengths))

        def run(low: int, high: int) -> None:
            if y is None:
                wrong.append(totals(*scores, n, low, high, found, *slopes))
            else:
                paths(*scores, n, y, m, low, high, found, *slopes)

        in_row_blocks(run, len(found), (20 if y is None else 2) * sub.numel())
        for row in (row for row in wrong if row >= 0):
            raise _diverges(row)
        ctx.save_for_backward(*(torch.from_numpy(x).to(sub) for x in slopes))
        return torch.from_numpy(found).to(sub)

    @staticmethod
    def backward(ctx: Any, *slopes: Any) -> Any:
        g = slopes[0]
        own = [x * g.reshape(-1, *[1] * (x.dim() - 1)) for x in ctx.saved_tensors]
        return (*own, None, None, None)
