"""Networks learn to copy their input to the last symbol."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from catena.search.greedy_search import greedy
from catena.seq2seq.base import Source, VocabularyInfo
from catena.seq2seq.build import build_encoder_decoder
from catena.seq2seq.config import ConvolutionalSeq2SeqConfig, TransformerSeq2SeqConfig

V, LONGEST = 12, 5
SIDES = VocabularyInfo(V, [0, 1, 0, *[5] * (V - 3)], 2, 3, (0, 1, 2), shared=True)
PLAIN: dict[str, Any] = {"dropout": 0.0, "output": {"kind": "softmax"}}
LAYERS = {"n_heads": 2, "n_encoder_layers": 1, "n_decoder_layers": 1}


def copies(n: int, generator: torch.Generator) -> tuple[Source, Tensor, Tensor]:
    """Sequences to copy, with the end as the last symbol of both sides."""
    lengths = torch.randint(1, LONGEST + 1, (n,), generator=generator)
    ids = torch.randint(4, V, (n, LONGEST + 1), generator=generator)
    ids = ids.masked_fill(torch.arange(LONGEST + 1) > lengths[:, None], 0).scatter(1, lengths[:, None], 3)
    return Source(ids, lengths + 1), ids, lengths + 1


@pytest.mark.parametrize(
    "settings",
    [
        TransformerSeq2SeqConfig(d=32, d_ff=64, **LAYERS, **PLAIN),
        ConvolutionalSeq2SeqConfig(
            d=48, d_embedding=48, n_encoder_layers=1, n_decoder_layers=2, max_length=16, **PLAIN
        ),
    ],
    ids=lambda settings: settings.kind,
)
def test_seq2seq_learns_to_copy_to_the_last_symbol(settings: Any) -> None:
    torch.manual_seed(0)
    model, generator = build_encoder_decoder(settings, SIDES), torch.Generator().manual_seed(1)
    optimizer = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98))
    steps = 200
    for step in range(steps):
        optimizer.param_groups[0]["lr"] = 0.008 * min(1.0, step / 40) * (1 - step / steps)
        optimizer.zero_grad()
        model.loss(*copies(64, generator)).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    source, targets, lengths = copies(100, generator)
    stepper = model.eval().stepper(source)
    found = greedy(stepper, stepper.start(100), LONGEST + 2)
    assert all(row[0].finished for row in found)
    assert [(*row[0].ids, 3) for row in found] == [
        tuple(row[:length].tolist()) for row, length in zip(targets, lengths, strict=True)
    ]
