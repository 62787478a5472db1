"""Settings of encoder-decoders: typed values, told apart by ``kind``. Imports no torch.

Each kind has its class in a module of its own, ``<kind>_settings``; ``EncoderDecoderSettings`` is any of them.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from catena.seq2seq.convolutional_settings import ConvolutionalSettings
from catena.seq2seq.copy_settings import CopySettings
from catena.seq2seq.recurrent_settings import RecurrentSettings
from catena.seq2seq.transformer_settings import TransformerSettings

EncoderDecoderSettings = Annotated[
    RecurrentSettings | TransformerSettings | ConvolutionalSettings | CopySettings, Field(discriminator="kind")
]
