"""Build the models of the task, generate texts and compute likelihoods."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch

from catena.data.batches import pad
from catena.data.vocabulary import UNK
from catena.search.build import search, wrap_stepper
from catena.search.config import BaseSearchConfig
from catena.search.forbid_ids import ForbidIds
from catena.search.hypothesis import Hypothesis
from catena.seq2seq.base import EncoderDecoder, Source
from catena.seq2seq.checklist import ChecklistModel
from catena.seq2seq.checklist_config import ChecklistConfig
from catena.seq2seq.recurrent_build import build_recurrent
from catena.tasks.compose.config import ComposeConfig
from catena.tasks.compose.encoding import ComposeEncoding

_TEXTS_AT_ONCE = 64
"""Number of texts generated or scored in one batch."""


def build_model(config: ComposeConfig, encoding: ComposeEncoding, counts: Sequence[int]) -> EncoderDecoder:
    """The model of a config, with newly initialized weights."""
    sides = encoding.sides(counts)
    if isinstance(config.model, ChecklistConfig):
        return ChecklistModel(config.model, sides, encoding.item, encoding.names())
    return build_recurrent(config.model, sides)


@torch.no_grad()
def generate(
    model: EncoderDecoder, sources: Sequence[np.ndarray], settings: BaseSearchConfig, generator: torch.Generator
) -> list[list[Hypothesis]]:
    """The generated texts of each source as ids, best first; ``<unk>`` is never generated.

    Args:
        model: the encoder-decoder.
        sources: the ids of goals and items.
        settings: the search.
        generator: source of random numbers for sampling.
    """
    generated: list[list[Hypothesis]] = [[] for _ in sources]
    for rows in _buckets([len(ids) for ids in sources]):
        source = Source(*pad([sources[row] for row in rows])).to(model.device)
        stepper: Any = wrap_stepper(settings, ForbidIds(model.stepper(source), [UNK]))
        for row, listed in zip(rows, search(settings, stepper, stepper.start(len(rows)), generator), strict=True):
            generated[row] = listed
    return generated


@torch.no_grad()
def text_log_probs(model: EncoderDecoder, sources: Sequence[np.ndarray], targets: Sequence[np.ndarray]) -> np.ndarray:
    """log p of each target, with its end symbol, given its source."""
    log_probs = np.zeros(len(targets))
    for rows in _buckets([len(ids) for ids in targets]):
        source = Source(*pad([sources[row] for row in rows])).to(model.device)
        ids, lengths = (x.to(model.device) for x in pad([targets[row] for row in rows]))
        log_probs[rows] = model.token_log_probs(source, ids, lengths).double().sum(-1).cpu().numpy()
    return log_probs


def _buckets(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Batches of row indices of similar length."""
    order = sorted(range(len(lengths)), key=lambda row: lengths[row])
    for low in range(0, len(order), _TEXTS_AT_ONCE):
        yield order[low : low + _TEXTS_AT_ONCE]
