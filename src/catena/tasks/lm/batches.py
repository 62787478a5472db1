"""What one step reads: pieces of a text and, one position on, what they are followed by.

In every batch ``targets[:, i]`` is the token that comes after ``ids[:, i]``. Pieces come in three orders: contiguous,
windows and sentences; each epoch is a plan whose batches are at hand by number.
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
    """Sequences and what follows each of their tokens.

    Args:
        lengths: how many positions are real; None where all are.
        first: whether the sequences begin here; otherwise they go on where the batch before ended.
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
    """A text with the mark of its beginning in front, on the device: ids are stream[:-1], targets stream[1:]."""
    stream = torch.empty(len(flat) + 1, dtype=torch.int32)
    stream[0] = begin
    stream[1:] = torch.from_numpy(np.asarray(flat, np.int32))
    return stream.to(device)


class ContiguousEpoch(EpochPlan):
    """The text in ``batch_size`` equal parts, read side by side. Time is on the second axis; parts follow one another
    on the first, so that row ``i`` of a batch goes on in row ``i`` of the next. Up to ``batch_size - 1`` tokens at the
    end are left out."""

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
    """Where steps begin. With ``vary`` their lengths are normal around ``length``, one in twenty around half of it
    (Merity et al. 2018, section 4.1)."""
    if not settings.vary:
        return [*range(0, width, settings.length), width]
    cuts = [0]
    while cuts[-1] < width:
        around = settings.length if generator.random() < 0.95 else settings.length / 2
        size = round(generator.normal(around, settings.length / 14))
        cuts.append(min(width, cuts[-1] + max(size, min(5, settings.length))))
    return cuts


class WindowEpoch(EpochPlan):
    """Windows of ``length`` tokens that together cover the text once, from another beginning in each epoch, in random
    order."""

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
    """Lines by themselves, each after the mark of the beginning, those of like length together."""

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
    """Lines, each with its end, as one padded batch."""
    targets, lengths = pad(lines, PAD)
    ids = torch.cat((torch.full((len(lines), 1), begin), targets[:, :-1]), dim=1)
    return LmBatch(ids.to(device), targets.to(device), lengths.to(device), True, int(lengths.sum()))
