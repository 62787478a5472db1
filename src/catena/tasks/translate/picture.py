"""Attention maps of a translator: from the translation to the source, or within one side."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from catena.data.batches import pad
from catena.data.special_tokens import BEGIN_SYMBOL, END_SYMBOL
from catena.tasks.looks import AttentionMaps
from catena.tasks.translate.search import EnsembleModel
from catena.tasks.translate.translated import TranslationResult


@torch.no_grad()
def translation_attention(model: EnsembleModel, found: TranslationResult, within: str | None) -> AttentionMaps:
    """The attention weights of a translation.

    Args:
        model: the model that attends.
        found: the result, made with alignments.
        within: ``"source"`` or ``"target"`` for self-attention; None for attention to the source.
    """
    one, encoding = found.translations[0], model.encoding
    read = (*encoding.source.shown(found.tokens), END_SYMBOL)
    written = (*encoding.target.shown(one.tokens), *([END_SYMBOL] if one.finished else []))
    if within is None:
        return AttentionMaps(one.attention or (), written, read)
    coded = model.code(found.text)
    source = model.batch([coded])
    if within == "source":
        return AttentionMaps(
            _of_first(model.model.source_attention(source), len(read)), read, read, "read", "attended to"
        )
    targets, lengths = (x.to(model.model.device) for x in pad([encoding.target_ids(one.tokens, coded.new)]))
    layers = _of_first(model.model.target_attention(source, targets, lengths), len(written))
    return AttentionMaps(layers, written, (BEGIN_SYMBOL, *written)[: len(written)], "written", "after")


def _of_first(layers: Sequence[Tensor], n: int) -> tuple[np.ndarray, ...]:
    return tuple(weights[0, :, :n, :n].float().cpu().numpy() for weights in layers)
