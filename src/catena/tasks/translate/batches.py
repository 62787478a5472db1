"""Training batches of padded sources and targets."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from catena.data.batches import BatchPlan, pad
from catena.data.config import BatchConfig
from catena.seq2seq.base import EncoderDecoder, Source
from catena.tasks.translate.dataset import EncodedPairs
from catena.tasks.translate.encoding import build_batch
from catena.training.task import EpochPlan


@dataclass(frozen=True, eq=False)
class TranslationBatch:
    """Encoded pairs on the device.

    Args:
        targets: target ids, with their end symbols.
        tokens: number of target tokens without padding.
        read: number of tokens of both sides without padding.
        step: approximate number of training steps before this batch.
    """

    source: Source
    targets: Int[Tensor, "b t"]
    lengths: Int[Tensor, " b"]
    tokens: int
    read: int
    step: int = 0

    def log_probs(self, model: EncoderDecoder) -> Float[Tensor, " b"]:
        """log p(target | source) of each pair."""
        return model.token_log_probs(self.source, self.targets, self.lengths).double().sum(dim=1)


def make_batch(
    pairs: EncodedPairs, rows: np.ndarray, device: torch.device, copies: bool = False, step: int = 0
) -> TranslationBatch:
    """A batch of the pairs at ``rows``.

    Args:
        pairs: the encoded pairs.
        rows: indices of the pairs.
        device: the device of the tensors.
        copies: include the ids that copy models need.
        step: approximate number of training steps before this batch.
    """
    if copies:
        coded, wanted = zip(*(pairs.copied(row) for row in rows.tolist()), strict=True)
        source = build_batch(coded, device, copies=True)
        targets, lengths = pad(wanted)
        read = sum(map(len, coded))
    else:
        sides = [pairs.batch(rows, side) for side in (0, 1)]
        (ids, source_lengths), (targets, lengths) = ((torch.from_numpy(x) for x in side) for side in sides)
        source = Source(_to(ids, device), _to(source_lengths, device))
        read = int(source_lengths.sum())
    tokens = int(lengths.sum())
    return TranslationBatch(source, _to(targets, device), _to(lengths, device), tokens, tokens + read, step)


class PairEpoch(EpochPlan):
    """The batches of an epoch, each with its training step."""

    def __init__(
        self, pairs: EncodedPairs, rows: np.ndarray, plan: BatchPlan, number: int, device: torch.device, copies: bool
    ) -> None:
        self.pairs, self.rows, self.plan, self.number = pairs, rows, plan, number
        self.device, self.copies = device, copies

    def __len__(self) -> int:
        return len(self.plan)

    def batch(self, i: int) -> TranslationBatch:
        step = (self.number - 1) * len(self.plan) + i
        return make_batch(self.pairs, self.rows[self.plan[i]], self.device, self.copies, step)


def _to(tensor: Tensor, device: torch.device) -> Tensor:
    """The tensor on the device, copied asynchronously."""
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor.to(device)


def pair_log_probs(
    model: EncoderDecoder, pairs: EncodedPairs, rows: np.ndarray, settings: BatchConfig, copies: bool = False
) -> Float[np.ndarray, " n"]:
    """log p(target | source) of the pairs at ``rows``."""
    found = np.zeros(len(rows))
    lengths = pairs.lengths[rows].max(axis=1)
    for places in BatchPlan.by_length(lengths, settings):
        found[places] = make_batch(pairs, rows[places], model.device, copies).log_probs(model).cpu().numpy()
    return found
