"""Configs of encoder-decoders: typed values, selected by ``kind``. Does not import torch.

Each kind has its class in a module ``<kind>_config``; ``EncoderDecoderConfig`` is the union of them.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from catena.seq2seq.convolutional_config import ConvolutionalSeq2SeqConfig
from catena.seq2seq.copy_config import CopyNetConfig
from catena.seq2seq.recurrent_config import RecurrentSeq2SeqConfig
from catena.seq2seq.transformer_config import TransformerSeq2SeqConfig

EncoderDecoderConfig = Annotated[
    RecurrentSeq2SeqConfig | TransformerSeq2SeqConfig | ConvolutionalSeq2SeqConfig | CopyNetConfig,
    Field(discriminator="kind"),
]
