"""Attention maps of an encoder-decoder: from the response to the context, or within one of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from catena.data.exchanges import Exchange
from catena.lm.base import BEGIN_SYMBOL, END_SYMBOL
from catena.tasks.attention_maps import AttentionMaps
from catena.tasks.converse.model import EncodedContext, ResponseBatch, Seq2SeqResponseModel, TurnEncoding


@torch.no_grad()
def response_attention(
    model: Seq2SeqResponseModel, encoding: TurnEncoding, exchange: Exchange, response: str, within: str | None
) -> AttentionMaps:
    """The attention weights of a response to its context, or within one of them.

    Args:
        model: the model.
        encoding: its tokenizer and vocabulary.
        exchange: the context.
        response: the response.
        within: ``"source"`` or ``"target"`` for self-attention; None for attention to the context.
    """
    context = encoding.context(exchange)
    ids = encoding.response(response, context.new if model.copies else ())
    batch = ResponseBatch.of([context], [ids], model.network.device)
    source = model.source(batch)
    read = tuple(_read(encoding, context))
    written = (*map(encoding.tokenizer.shown, encoding.tokenizer.tokens(response)[: len(ids) - 1]), END_SYMBOL)
    if within == "source":
        return AttentionMaps(_plain(model.network.source_attention(source)), read, read, "read", "attended to")
    if within == "target":
        layers = model.network.target_attention(source, batch.responses, batch.response_lengths)
        return AttentionMaps(_plain(layers), written, (BEGIN_SYMBOL, *written[:-1]), "written", "after")
    return AttentionMaps(
        _plain(model.network.attention(source, batch.responses, batch.response_lengths)), written, read
    )


def _read(encoding: TurnEncoding, context: EncodedContext) -> list[str]:
    """The tokens of a context in readable form, with the speaker symbols."""
    size = len(encoding.vocabulary)
    ids = context.copies.tolist()
    names = [context.new[id - size] if id >= size else encoding.vocabulary.tokens([id])[0] for id in ids]
    return [encoding.tokenizer.shown(name) for name in names]


def _plain(layers: Sequence[Tensor]) -> tuple[np.ndarray, ...]:
    return tuple(weights[0].float().cpu().numpy() for weights in layers)
