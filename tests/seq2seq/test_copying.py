"""Networks that write what they read learn it to the last symbol."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from catena.decoding.greedy import greedy
from catena.seq2seq.base import Source
from catena.seq2seq.build import build_encoder_decoder
from catena.seq2seq.convolutional_settings import ConvolutionalSettings
from catena.seq2seq.sides import Sides
from catena.seq2seq.transformer_settings import TransformerSettings

V, LONGEST = 12, 5
SIDES = Sides(V, [0, 1, 0, *[5] * (V - 3)], 2, 3, (0, 1, 2), shared=True)
PLAIN: dict[str, Any] = {"dropout": 0.0, "output": {"kind": "softmax"}}
LAYERS = {"n_heads": 2, "n_encoder_layers": 1, "n_decoder_layers": 1}


def copies(n: int, generator: torch.Generator) -> tuple[Source, Tensor, Tensor]:
    """Sequences that are to be copied, their end the last symbol of both sides."""
    lengths = torch.randint(1, LONGEST + 1, (n,), generator=generator)
    ids = torch.randint(4, V, (n, LONGEST + 1), generator=generator)
    ids = ids.masked_fill(torch.arange(LONGEST + 1) > lengths[:, None], 0).scatter(1, lengths[:, None], 3)
    return Source(ids, lengths + 1), ids, lengths + 1


@pytest.mark.parametrize(
    "settings",
    [
        TransformerSettings(d=32, d_feed=64, **LAYERS, **PLAIN),
        ConvolutionalSettings(d=48, d_embedding=48, n_encoder_layers=1, n_decoder_layers=2, max_length=16, **PLAIN),
    ],
    ids=lambda settings: settings.kind,
)
def test_copying_is_learnt_to_the_last_symbol(settings: Any) -> None:
    torch.manual_seed(0)
    model, generator = build_encoder_decoder(settings, SIDES), torch.Generator().manual_seed(1)
    optimiser = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98))
    steps = 200
    for step in range(steps):
        optimiser.param_groups[0]["lr"] = 0.008 * min(1.0, step / 40) * (1 - step / steps)
        optimiser.zero_grad()
        model.loss(*copies(64, generator)).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
    source, targets, lengths = copies(100, generator)
    stepper = model.eval().stepper(source)
    found = greedy(stepper, stepper.start(100), LONGEST + 2)
    assert all(row[0].finished for row in found)
    assert [(*row[0].ids, 3) for row in found] == [
        tuple(row[:length].tolist()) for row, length in zip(targets, lengths, strict=True)
    ]
