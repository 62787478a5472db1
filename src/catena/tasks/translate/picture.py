"""Attention maps of a translator: from the translation to the source, or within one side."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from catena.data.batches import pad
from catena.data.special_tokens import BEGIN_SYMBOL, END_SYMBOL
from catena.tasks.attention_maps import AttentionMaps
from catena.tasks.translate.predict import TranslationPrediction
from catena.tasks.translate.search import EnsembleModel


@torch.no_grad()
def map_attention(model: EnsembleModel, prediction: TranslationPrediction, within: str | None) -> AttentionMaps:
    """The attention weights of a translation.

    Args:
        model: the model that attends.
        prediction: the translation, made with alignments.
        within: ``"source"`` or ``"target"`` for self-attention; None for attention to the source.
    """
    encoding, network = model.encoding, model.network
    read = (*prediction.source_tokens, END_SYMBOL)
    written = (*prediction.tokens, *([] if prediction.truncated else [END_SYMBOL]))
    if within is None:
        return AttentionMaps(prediction.attention or (), written, read)
    coded = model.code(prediction.source)
    source = model.batch([coded])
    if within == "source":
        layers = _of_first(network.source_attention(source), len(read))
        return AttentionMaps(layers, read, read, "read", "attended to")
    targets, lengths = (x.to(network.device) for x in pad([np.array([*prediction.ids, encoding.end])]))
    layers = _of_first(network.target_attention(source, targets, lengths), len(written))
    return AttentionMaps(layers, written, (BEGIN_SYMBOL, *written)[: len(written)], "written", "after")


def _of_first(layers: Sequence[Tensor], n: int) -> tuple[np.ndarray, ...]:
    return tuple(weights[0, :, :n, :n].float().cpu().numpy() for weights in layers)
