"""Batches of padded sources and targets."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from catena.data.batches import BatchPlan, pad
from catena.data.config import BatchConfig
from catena.seq2seq.base import EncoderDecoder, Source
from catena.tasks.translate.data import EncodedPairs, PairRows
from catena.tasks.translate.encoding import build_batch


@dataclass(frozen=True, eq=False)
class TranslationBatch:
    """Encoded pairs on the device.

    Args:
        targets: target ids, with their end symbols.
        tokens: number of target tokens without padding.
        read: number of tokens of both sides without padding.
    """

    source: Source
    targets: Int[Tensor, "b t"]
    lengths: Int[Tensor, " b"]
    tokens: int
    read: int


def make_batch(
    pairs: EncodedPairs, rows: np.ndarray, device: torch.device, *, copies: bool = False
) -> TranslationBatch:
    """A batch of the pairs at ``rows``; ``copies`` includes the ids that copy models need."""
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
    return TranslationBatch(source, _to(targets, device), _to(lengths, device), tokens, tokens + read)


def _to(tensor: Tensor, device: torch.device) -> Tensor:
    """The tensor on the device, copied asynchronously."""
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor.to(device)


@torch.no_grad()
def pair_log_probs(network: EncoderDecoder, rows: PairRows, plan: BatchConfig) -> Float[np.ndarray, " n"]:
    """log p(target | source) of each pair."""
    log_probs = np.zeros(len(rows))
    copies = bool(getattr(network, "copies", False))
    for index in BatchPlan.by_length(rows.lengths, plan):
        batch = make_batch(rows.pairs, rows.rows[index], network.device, copies=copies)
        tokens = network.token_log_probs(batch.source, batch.targets, batch.lengths)
        log_probs[index] = tokens.double().sum(dim=1).cpu().numpy()
    return log_probs
