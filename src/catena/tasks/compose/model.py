"""Build the models of the task, generate texts and compute likelihoods."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch

from catena.data.batches import pad
from catena.data.vocabulary import UNK
from catena.search.build import search, wrap_stepper
from catena.search.config import BaseSearchConfig
from catena.search.hypothesis import Hypothesis
from catena.search.without import ForbidIds
from catena.seq2seq.base import EncoderDecoder
from catena.seq2seq.checklist import ChecklistModel
from catena.seq2seq.checklist_config import ChecklistConfig
from catena.seq2seq.recurrent_build import build_recurrent
from catena.tasks.compose.config import ComposeConfig
from catena.tasks.compose.encoding import ComposeEncoding
from catena.tasks.compose.reading import Composition

TOGETHER = 64
"""Number of texts generated in one batch."""


def build_model(config: ComposeConfig, encoding: ComposeEncoding, counts: Sequence[int]) -> EncoderDecoder:
    """The model of a config, with newly initialized weights."""
    sides = encoding.sides(counts)
    if isinstance(config.model, ChecklistConfig):
        return ChecklistModel(config.model, sides, encoding.item, encoding.names())
    return build_recurrent(config.model, sides)


@torch.no_grad()
def write(
    model: EncoderDecoder,
    encoding: ComposeEncoding,
    examples: Sequence[Composition],
    settings: BaseSearchConfig,
    generator: torch.Generator,
) -> list[list[Hypothesis]]:
    """The generated texts of each example as ids, best first; ``<unk>`` is never generated.

    Args:
        model: the encoder-decoder.
        encoding: its encoding.
        examples: the goals and items.
        settings: the search.
        generator: source of random numbers for sampling.
    """
    found: list[list[Hypothesis]] = [[] for _ in examples]
    for rows in length_buckets([len(encoding.source(example)) for example in examples]):
        source = encoding.sources([examples[row] for row in rows]).to(model.device)
        stepper: Any = wrap_stepper(settings, ForbidIds(model.stepper(source), [UNK]))
        for row, listed in zip(rows, search(settings, stepper, stepper.start(len(rows)), generator), strict=True):
            found[row] = listed
    return found


@torch.no_grad()
def total_nll(model: EncoderDecoder, encoding: ComposeEncoding, examples: Sequence[Composition]) -> tuple[float, int]:
    """-log p of all texts, and their number of tokens with end symbols."""
    total, tokens = 0.0, 0
    targets = [np.array(encoding.target(example.text), np.int64) for example in examples]
    for rows in length_buckets([len(ids) for ids in targets]):
        source = encoding.sources([examples[row] for row in rows]).to(model.device)
        ids, lengths = (x.to(model.device) for x in pad([targets[row] for row in rows]))
        total -= float(model.token_log_probs(source, ids, lengths).double().sum())
        tokens += int(lengths.sum())
    return total, tokens


def perplexity(total: float, tokens: int) -> float:
    """exp of the mean -log p per token."""
    return math.exp(min(total / tokens, 700.0))


def length_buckets(lengths: Sequence[int], most: int = TOGETHER) -> Iterator[list[int]]:
    """Batches of at most ``most`` row indices of similar length."""
    order = sorted(range(len(lengths)), key=lambda row: lengths[row])
    for low in range(0, len(order), most):
        yield order[low : low + most]
