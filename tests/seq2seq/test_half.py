"""Encoder-decoders in half precision, and sources with inconsistent shapes."""

from __future__ import annotations

import pytest
import torch

from catena.errors import ShapeError
from catena.seq2seq.base import Source, VocabularyInfo
from catena.seq2seq.build import build_encoder_decoder
from catena.seq2seq.config import (
    ConvolutionalSeq2SeqConfig,
    CopyNetConfig,
    EncoderDecoderConfig,
    RecurrentSeq2SeqConfig,
    TransformerSeq2SeqConfig,
)

KINDS: dict[str, EncoderDecoderConfig] = {
    "transformer": TransformerSeq2SeqConfig(d=8, d_ff=8, n_heads=2, n_encoder_layers=1, n_decoder_layers=1),
    "recurrent": RecurrentSeq2SeqConfig(d=8, d_embedding=8),
    "latent": RecurrentSeq2SeqConfig(d=8, d_embedding=8, attention_kind="marginal", input_feeding=False),
    "convolutional": ConvolutionalSeq2SeqConfig(d=8),
    "copy": CopyNetConfig(d=8, d_embedding=8),
}


@pytest.mark.parametrize("name", KINDS)
def test_half_precision_scores_are_close(name: str) -> None:
    torch.manual_seed(1)
    sides = VocabularyInfo(n_source=8, counts=[0, 1, 0, 9, 9, 9], begin=2, end=3, forbidden=(0, 2))
    model = build_encoder_decoder(KINDS[name], sides).eval()
    ids, lengths = torch.tensor([[4, 1, 5, 1], [4, 5, 0, 0]]), torch.tensor([4, 2])
    source = Source(ids, lengths, torch.where(ids == 1, 6, ids), 1) if name == "copy" else Source(ids, lengths)
    targets, wanted = torch.tensor([[4, 5, 3], [5, 3, 0]]), torch.tensor([3, 2])
    with torch.no_grad():
        exact = model.token_log_probs(source, targets, wanted)
        rough = model.bfloat16().token_log_probs(source, targets, wanted)
    assert (rough.float() - exact).abs().max() < 0.1
    assert rough[1, 2] == 0


def test_source_with_wrong_number_of_lengths_raises() -> None:
    source = Source(torch.ones(2, 4, dtype=torch.int64), torch.tensor([4, 2]))
    object.__setattr__(source, "lengths", torch.tensor([4, 2, 1]))
    with pytest.raises(ShapeError, match="the lengths of a source must have size 2 on axis 'b' of 'b', got 3"):
        source.__post_init__()  # in tests the shapes of __init__ are checked before it
