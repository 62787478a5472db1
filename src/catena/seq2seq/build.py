"""From settings to encoder-decoders. A new kind is entered in ``MODELS`` under its ``kind``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from catena.registry import Registry
from catena.seq2seq.base import EncoderDecoder
from catena.seq2seq.convolutional import build_convolutional
from catena.seq2seq.copy import build_copy
from catena.seq2seq.recurrent_build import build_recurrent
from catena.seq2seq.sides import Sides
from catena.seq2seq.transformer import build_transformer

MODELS: Registry[Callable[[Any, Sides], EncoderDecoder]] = Registry("encoder-decoder")
MODELS.register("recurrent")(build_recurrent)
MODELS.register("transformer")(build_transformer)
MODELS.register("convolutional")(build_convolutional)
MODELS.register("copy")(build_copy)


def build_encoder_decoder(settings: Any, sides: Sides) -> EncoderDecoder:
    """The encoder-decoder of these settings, with fresh weights drawn from torch's generator."""
    return MODELS[settings.kind](settings, sides)
