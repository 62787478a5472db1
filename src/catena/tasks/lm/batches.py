"""Training batches of a language model: input ids and the same ids shifted by one position.

In every batch ``targets[:, i]`` is the token after ``ids[:, i]``. There are three orders: contiguous, windows and
sentences. Each epoch is a plan whose batches are accessed by index.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from catena.data.batches import BatchPlan, pad
from catena.data.config import BatchConfig
from catena.data.corpus import Corpus
from catena.data.vocabulary import PAD
from catena.tasks.lm.config import LmBatchConfig
from catena.training.task import EpochPlan


@dataclass(frozen=True, eq=False)
class LmBatch:
    """Sequences with the next token of each position.

    Args:
        lengths: number of real positions of each row; None if there is no padding.
        first: whether the sequences start here; otherwise they continue the previous batch.
    """

    ids: Int[Tensor, "b t"]
    targets: Int[Tensor, "b t"]
    lengths: Int[Tensor, " b"] | None = None
    first: bool = True
    tokens: int = 0

    @classmethod
    def of(cls, ids: Tensor, targets: Tensor, first: bool = True) -> LmBatch:
        return cls(ids, targets, None, first, targets.numel())


def as_stream(flat: np.ndarray, begin: int, device: torch.device) -> Int[Tensor, " n"]:
    """The text after its begin symbol, on the device; ids are stream[:-1] and targets are stream[1:]."""
    stream = torch.empty(len(flat) + 1, dtype=torch.int32)
    stream[0] = begin
    stream[1:] = torch.from_numpy(np.asarray(flat, np.int32))
    return stream.to(device)


class ContiguousEpoch(EpochPlan):
    """The text in ``batch_size`` equal parts, read in parallel.

    The first axis is the part and the second axis is time: row ``i`` of a batch continues in row ``i`` of the next
    batch. Up to ``batch_size - 1`` tokens at the end of the text are dropped.
    """

    def __init__(self, stream: Int[Tensor, " n"], settings: LmBatchConfig, generator: np.random.Generator) -> None:
        n = len(stream) - 1
        rows = min(settings.batch_size, n)
        width = n // rows
        self.ids = stream[: rows * width].view(rows, width)
        self.targets = stream[1 : rows * width + 1].view(rows, width)
        self.cuts = _cuts(width, settings, generator)

    def __len__(self) -> int:
        return len(self.cuts) - 1

    def batch(self, i: int) -> LmBatch:
        low, high = self.cuts[i], self.cuts[i + 1]
        return LmBatch.of(self.ids[:, low:high].long(), self.targets[:, low:high].long(), first=i == 0)


def _cuts(width: int, settings: LmBatchConfig, generator: np.random.Generator) -> list[int]:
    """Start positions of the steps.

    With ``vary`` step lengths are normally distributed around ``length``, one in twenty around half of it (Merity et
    al. 2018, section 4.1).
    """
    if not settings.vary:
        return [*range(0, width, settings.length), width]
    cuts = [0]
    while cuts[-1] < width:
        around = settings.length if generator.random() < 0.95 else settings.length / 2
        size = round(generator.normal(around, settings.length / 14))
        cuts.append(min(width, cuts[-1] + max(size, min(5, settings.length))))
    return cuts


class WindowEpoch(EpochPlan):
    """Windows of ``length`` tokens that cover the text once, in random order.

    The position of the first window differs between epochs.
    """

    def __init__(self, stream: Int[Tensor, " n"], settings: LmBatchConfig, generator: np.random.Generator) -> None:
        n = len(stream) - 1
        self.stream, self.length = stream, min(settings.length, n)
        begin = int(generator.integers(0, max(1, min(self.length, n - self.length + 1))))
        starts = np.arange(begin, n - self.length + 1, self.length)
        starts = starts[generator.permutation(len(starts))]
        self.starts = torch.from_numpy(starts).to(stream.device)
        self.size = settings.batch_size
        self.steps = torch.arange(self.length + 1, device=stream.device)

    def __len__(self) -> int:
        return -(-len(self.starts) // self.size)

    def batch(self, i: int) -> LmBatch:
        starts = self.starts[i * self.size : (i + 1) * self.size]
        window = self.stream[starts[:, None] + self.steps].long()
        return LmBatch.of(window[:, :-1], window[:, 1:])


class SentenceEpoch(EpochPlan):
    """Single lines, each after the begin symbol, batched by length."""

    def __init__(
        self,
        corpus: Corpus,
        rows: np.ndarray,
        begin: int,
        settings: LmBatchConfig,
        device: torch.device,
        generator: np.random.Generator,
        longest: int | None = None,
    ) -> None:
        self.corpus, self.rows, self.begin, self.device, self.longest = corpus, rows, begin, device, longest
        how = BatchConfig(batch_size=settings.batch_size, bucket=settings.bucket)
        self.plan = BatchPlan.shuffled(corpus.lengths[rows], how, generator)

    def __len__(self) -> int:
        return len(self.plan)

    def batch(self, i: int) -> LmBatch:
        lines = [self.corpus[int(row)][: self.longest] for row in self.rows[self.plan[i]]]
        return sentences(lines, self.begin, self.device)


def sentences(lines: list[np.ndarray], begin: int, device: torch.device) -> LmBatch:
    """Lines with their end symbols, as one padded batch."""
    targets, lengths = pad(lines, PAD)
    ids = torch.cat((torch.full((len(lines), 1), begin), targets[:, :-1]), dim=1)
    return LmBatch(ids.to(device), targets.to(device), lengths.to(device), True, int(lengths.sum()))
