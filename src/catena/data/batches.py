"""Batches: which examples are in a step, and how their ids become one padded tensor.

An epoch is a precomputed list of index arrays. The same lengths, config and generator give the same list, so that a
resumed run can continue in the middle. The input is lengths and the output is indices, independent of tokens.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Int

from catena.data.config import BatchConfig

if TYPE_CHECKING:
    from torch import Tensor


class BatchPlan:
    """The batches of one epoch: ``plan[i]`` has the indices of batch ``i``. Each index occurs once.

    Args:
        batches: the indices of the examples of each batch.
    """

    def __init__(self, batches: Sequence[np.ndarray]) -> None:
        self._batches = list(batches)

    @classmethod
    def shuffled(
        cls, lengths: Int[np.ndarray, " n"], settings: BatchConfig, generator: np.random.Generator
    ) -> BatchPlan:
        """Batches in random order, for training.

        With bucketing, the shuffled examples are divided into windows of about ``settings.bucket`` batches, each window
        is sorted by noisy length, and the batches cut from it are shuffled. Time O(n log n).
        """
        order = generator.permutation(len(lengths))
        if settings.bucket and len(lengths):
            order = _sorted_in_windows(order, lengths, settings, generator)
        batches = _cut(order, lengths, settings)
        if settings.bucket:
            batches = [batches[i] for i in generator.permutation(len(batches))]
        return cls(batches)

    @classmethod
    def by_length(cls, lengths: Int[np.ndarray, " n"], settings: BatchConfig) -> BatchPlan:
        """Batches from longest to shortest, for evaluation: little padding, and out-of-memory errors come first."""
        return cls(_cut(np.argsort(-lengths.astype(np.int64), kind="stable"), lengths, settings))

    def __len__(self) -> int:
        return len(self._batches)

    def __getitem__(self, i: int) -> np.ndarray:
        return self._batches[i]

    def __iter__(self) -> Iterator[np.ndarray]:
        return iter(self._batches)


def _sorted_in_windows(
    order: np.ndarray, lengths: np.ndarray, settings: BatchConfig, generator: np.random.Generator
) -> np.ndarray:
    """Windows in alternately ascending and descending order, so that lengths match where two of them meet."""
    noise = generator.uniform(1 - settings.length_noise, 1 + settings.length_noise, len(order))
    noisy = lengths[order] * noise
    window = np.arange(len(order)) // _window_size(lengths, settings)
    direction = np.where(window % 2 == 0, 1.0, -1.0)
    return order[np.lexsort((noisy * direction, window))]


def _window_size(lengths: np.ndarray, settings: BatchConfig) -> int:
    if settings.batch_by == "examples":
        return settings.bucket * settings.batch_size
    return max(1, int(settings.bucket * settings.batch_size / max(1.0, float(lengths.mean()))))


def _cut(order: np.ndarray, lengths: np.ndarray, settings: BatchConfig) -> list[np.ndarray]:
    """Cut an order of examples into batches. The last batch may be small."""
    n, size = len(order), settings.batch_size
    if settings.batch_by == "examples":
        ends = list(range(size, n, size))
    else:
        ends = _ends_by_tokens(lengths[order].tolist(), size)
    return np.split(order, ends) if n else []


def _ends_by_tokens(lengths: Sequence[int], limit: int) -> list[int]:
    """The ends of batches for which the number of examples times the longest length is within the limit.

    An example longer than the limit is a batch of its own. An empty example counts as one token.
    """
    ends: list[int] = []
    count = longest = 0
    for i, length in enumerate(lengths):
        longest = max(longest, length, 1)
        if count and (count + 1) * longest > limit:
            ends.append(i)
            count, longest = 0, max(length, 1)
        count += 1
    return ends


def pad(sequences: Sequence[Int[np.ndarray, " _"]], pad_id: int = 0) -> tuple[Int[Tensor, "b t"], Int[Tensor, " b"]]:
    """One tensor of id sequences, padded with ``pad_id`` on the right, and their lengths.

    ``t`` is the longest length, but at least 1, so that a batch of empty texts still has a position.
    """
    import torch

    lengths = np.fromiter(map(len, sequences), np.int64, len(sequences))
    t = max(1, int(lengths.max(initial=0)))
    ids = np.full((len(sequences), t), pad_id, np.int64)
    for row, sequence in zip(ids, sequences, strict=True):
        row[: len(sequence)] = sequence
    return torch.from_numpy(ids), torch.from_numpy(lengths)
