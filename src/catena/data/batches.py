"""Which examples go together in a step, and how their ids become one padded tensor.

An epoch is a list of index arrays, made beforehand: the same lengths, settings and generator give the same
list, and a run that resumes takes it up in the middle. Knows nothing of tokens: lengths in, indices out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from catena.data.config import BatchConfig


class BatchPlan:
    """The batches of one epoch: ``plan[i]`` holds the indices of its batch ``i``. Each index occurs once."""

    def __init__(self, batches: Sequence[np.ndarray]) -> None:
        self._batches = list(batches)

    @classmethod
    def shuffled(
        cls, lengths: Int[np.ndarray, " n"], settings: BatchConfig, generator: np.random.Generator
    ) -> BatchPlan:
        """Batches in random order, for training.

        With bucketing the shuffled examples are cut into windows of about ``settings.bucket`` batches, each
        window is sorted by length give or take the noise, and the batches cut from it are shuffled. Time O(n
        log n).
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
        """The longest first, for evaluation: least padding, and memory that runs out does so at once."""
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
    """Windows, sorted up and down in turn, so that where two of them meet their lengths are alike."""
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
    """Cut an order of examples into batches. The last may be small."""
    n, size = len(order), settings.batch_size
    if settings.batch_by == "examples":
        ends = list(range(size, n, size))
    else:
        ends = _ends_by_tokens(lengths[order].tolist(), size)
    return np.split(order, ends) if n else []


def _ends_by_tokens(lengths: Sequence[int], limit: int) -> list[int]:
    """Where a batch must end so that examples times the longest of them stays within the limit.

    One example that is longer than the limit is a batch of its own. An empty one takes the room of one token.
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
    """Put sequences of ids into one tensor, filled up with ``pad_id`` on the right, and give their lengths.

    ``t`` is the longest length, but at least 1: a batch of empty texts still has a position to look at.
    """
    lengths = np.fromiter(map(len, sequences), np.int64, len(sequences))
    t = max(1, int(lengths.max(initial=0)))
    ids = np.full((len(sequences), t), pad_id, np.int64)
    for row, sequence in zip(ids, sequences, strict=True):
        row[: len(sequence)] = sequence
    return torch.from_numpy(ids), torch.from_numpy(lengths)
