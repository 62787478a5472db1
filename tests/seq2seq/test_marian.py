"""transformers' ``MarianMTModel`` with copied weights: values, gradients, greedy and beam search."""

from __future__ import annotations

import importlib.util
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch

from catena.search.beam_search import beam
from catena.search.greedy_search import greedy
from catena.seq2seq.base import Source
from catena.seq2seq.config import TransformerSeq2SeqConfig
from catena.seq2seq.transformer import TransformerSeq2Seq, build_transformer
from tests.laws.seq2seq_laws import ONE_VOCABULARY as SIDES

pytestmark = pytest.mark.skipif(find_spec("transformers") is None, reason="needs transformers")
SETTINGS = TransformerSeq2SeqConfig(
    norm="post", d=16, n_heads=2, n_encoder_layers=2, n_decoder_layers=2, d_ff=24, dropout=0.0, activation="gelu",
    output={"kind": "softmax"},
)  # fmt: skip
IDS = torch.tensor([[4, 5, 6, 7, 3], [5, 3, 0, 0, 0], [7, 6, 3, 0, 0]])
LENGTHS = torch.tensor([5, 2, 3])


def pair() -> tuple[TransformerSeq2Seq, Any]:
    path = Path(__file__).parents[2] / "benchmarks" / "seq2seq_marian.py"
    spec = importlib.util.spec_from_file_location("seq2seq_marian", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    torch.manual_seed(3)
    model = build_transformer(SETTINGS, SIDES).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model, module.marian_of(model, SETTINGS)


def test_marian_values_and_gradients_are_equal() -> None:
    model, peer = (x.double() for x in pair())
    targets = torch.tensor([[4, 6, 3], [7, 3, 0], [5, 5, 3]])
    lengths, mask = torch.tensor([3, 2, 3]), (torch.arange(5) < LENGTHS[:, None]).long()
    ours = model.token_log_probs(Source(IDS, LENGTHS), targets, lengths)
    logits = peer(input_ids=IDS, attention_mask=mask, decoder_input_ids=model.shifted(targets)).logits
    theirs = logits.log_softmax(-1).gather(2, targets[..., None])[..., 0]
    real = torch.arange(3) < lengths[:, None]
    torch.testing.assert_close(ours[real], theirs[real], rtol=0.0, atol=1e-5)  # its waves are kept in single precision
    mine = torch.autograd.grad(ours.sum(), model.decoder.layers[0].cross.keys.weight)[0]
    other = torch.autograd.grad(theirs[real].sum(), peer.model.decoder.layers[0].encoder_attn.k_proj.weight)[0]
    torch.testing.assert_close(mine, other, rtol=0.0, atol=1e-5)


@pytest.mark.parametrize("width", [1, 4])
def test_marian_searches_are_equal(width: int) -> None:
    model, peer = pair()
    stepper = model.stepper(Source(IDS, LENGTHS))
    state = stepper.start(3)
    found = greedy(stepper, state, 9) if width == 1 else beam(stepper, state, width, 9)
    mask = (torch.arange(5) < LENGTHS[:, None]).long()
    options = {"length_penalty": 0.0, "early_stopping": "never"} if width > 1 else {}
    rows = peer.generate(IDS, attention_mask=mask, max_new_tokens=9, num_beams=width, do_sample=False, **options)
    for ours, theirs in zip(found, rows.tolist(), strict=True):
        assert list(ours[0].ids) == [i for i in theirs[1:] if i not in (0, 3)]
