"""Encoder-decoders from their configs. Register a new kind in ``_MODELS`` under its ``kind``.

Tested in tests/seq2seq/test_half.py and tests/seq2seq/test_copying.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from catena.registry import Registry
from catena.seq2seq.base import EncoderDecoder, VocabularyInfo
from catena.seq2seq.convolutional import build_convolutional
from catena.seq2seq.copy import build_copy
from catena.seq2seq.recurrent_build import build_recurrent
from catena.seq2seq.transformer import build_transformer

_MODELS: Registry[Callable[[Any, VocabularyInfo], EncoderDecoder]] = Registry("encoder-decoder")
_MODELS.register("recurrent")(build_recurrent)
_MODELS.register("transformer")(build_transformer)
_MODELS.register("convolutional")(build_convolutional)
_MODELS.register("copy")(build_copy)


def build_encoder_decoder(settings: Any, sides: VocabularyInfo) -> EncoderDecoder:
    """The encoder-decoder of a config, with random weights from torch's default generator.

    Args:
        settings: the kind of model and its options.
        sides: sizes and special ids of both vocabularies.
    """
    return _MODELS[settings.kind](settings, sides)
