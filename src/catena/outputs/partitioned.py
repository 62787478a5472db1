r"""Partitioned vocabularies (Jean et al. 2015): the softmax is over the words of a part of the training text only.

.. math::  \ell = -\log \frac{\exp s(y, h)}{\sum_{w \in V'} \exp s(w, h)}

A part is as much of the text as has ``size`` different target words (section 3.2); :func:`plan_partitions` divides a
text into parts, and :meth:`PartitionedSoftmax.using` sets the words of the current part. Without such a plan each batch
is a part: its targets, and other words sampled uniformly to fill the size. Evaluation is over all words, or over
candidates of a sentence: see :meth:`~catena.outputs.base.OutputLayer.restricted` (section 3.3).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from catena.errors import DataError
from catena.kernels.softmax.ops import softmax_loss
from catena.outputs.base import checked_ids, checked_targets
from catena.outputs.scores import WordScores
from catena.outputs.softmax import ScoredOutput


class PartitionedSoftmax(ScoredOutput):
    """A softmax that is trained over the words of one part of the text at a time.

    Args:
        d_in: the size of an input vector.
        v: the number of words.
        size: the number of candidates for a batch, if no part is in use.
        bias: whether each word has a bias.
        tied: rows of an embedding to use as weights.
        forbidden: ids of probability 0.
    """

    normalized = True
    likelihood = False

    def __init__(
        self,
        d_in: int,
        v: int,
        size: int,
        bias: bool = True,
        tied: nn.Parameter | None = None,
        forbidden: Sequence[int] = (),
    ) -> None:
        super().__init__()
        self.d_in, self.v, self.size = d_in, v, size
        self.scores = WordScores(d_in, v, bias, tied, forbidden)
        self._candidates: Tensor | None = None

    @contextmanager
    def using(self, ids: Int[Tensor, " c"]) -> Iterator[None]:
        """Context in which losses are over these words, which must contain every target."""
        before = self._candidates
        self._candidates = checked_ids(ids, self.v).sort().values
        try:
            yield
        finally:
            self._candidates = before

    def loss(self, hidden: Float[Tensor, "n d_in"], targets: Int[Tensor, " n"]) -> Float[Tensor, ""]:
        targets = checked_targets(self, hidden, targets)
        planned = self._candidates
        candidates = self._around(targets) if planned is None else planned.to(targets.device)
        places = torch.searchsorted(candidates, targets).clamp_max(len(candidates) - 1)
        if planned is not None and not torch.equal(candidates[places], targets):
            missing = int(targets[candidates[places] != targets][0])
            raise DataError(
                f"targets must be among the {len(candidates)} candidates of the partition, got {missing}. Use each "
                "text with the partition that was planned for it."
            )
        bias = self.scores.effective_bias
        return softmax_loss(hidden, self.scores.rows(candidates), None if bias is None else bias[candidates], places)

    def _around(self, targets: Int[Tensor, " n"]) -> Int[Tensor, " c"]:
        """The targets and other words sampled uniformly, ``size`` in all, sorted."""
        own = targets.unique()
        keys = torch.rand(self.v, device=targets.device)
        if self.scores.forbidden is not None:
            keys[self.scores.forbidden] = 2.0
        keys[own] = -1.0
        allowed = self.v if self.scores.forbidden is None else self.v - int(self.scores.forbidden.sum())
        size = max(len(own), min(self.size, allowed))
        return keys.topk(size, largest=False).indices.sort().values


@dataclass(frozen=True, eq=False)
class Partition:
    """Texts ``first`` to ``last`` (exclusive), and the words that are targets in them."""

    first: int
    last: int
    ids: Tensor


def plan_partitions(texts: Iterable[Sequence[int] | np.ndarray], size: int) -> list[Partition]:
    """Divide texts, each the ids of its targets, into parts of at most ``size`` different words each.

    A text with more words is a part of its own.
    """
    parts: list[Partition] = []
    words: set[int] = set()
    first = last = 0

    def close() -> None:
        if last > first:
            parts.append(Partition(first, last, torch.tensor(sorted(words), dtype=torch.long)))

    for text in texts:
        own = {int(word) for word in text}
        if last > first and len(words | own) > size:
            close()
            first, words = last, set()
        words |= own
        last += 1
    close()
    return parts
