"""Convolutional sequence to sequence: the laws, and the formulas of Gehring et al. 2017 position by position."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from catena.errors import ShapeError
from catena.seq2seq.base import Source
from catena.seq2seq.config import ConvolutionalSeq2SeqConfig
from catena.seq2seq.convolutional import ConvolutionalSeq2Seq, build_convolutional
from tests.laws.seq2seq_laws import ONE_VOCABULARY, SIDES, EncoderDecoderLaws, Maker

SMALL = {"d_embedding": 6, "d": 8, "n_encoder_layers": 2, "n_decoder_layers": 2, "max_length": 12, "dropout": 0.0}


def made(sides: Any = SIDES, **more: Any) -> ConvolutionalSeq2Seq:
    torch.manual_seed(1)
    settings = ConvolutionalSeq2SeqConfig(**{**SMALL, "output": {"kind": "softmax"}, **more})
    model = build_convolutional(settings, sides).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():  # biases away from 0
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model


class TestConvolutional(EncoderDecoderLaws):
    @pytest.fixture(params=[3, 4])
    def make_model(self, request: pytest.FixtureRequest) -> Maker:
        return lambda: made(window=request.param)


class TestSharedTables(EncoderDecoderLaws):
    @pytest.fixture
    def make_model(self) -> Maker:
        return lambda: made(ONE_VOCABULARY)


def array(x: torch.Tensor) -> np.ndarray:
    return x.detach().numpy()


def gated(windows: np.ndarray, layer: Any) -> np.ndarray:
    """The gated convolution of one window, ``w d``."""
    weight, bias = array(layer.convolution.weight), array(layer.convolution.bias)
    both = np.einsum("odw,wd->o", weight, windows) + bias
    value, gate = np.split(both, 2)
    return value / (1 + np.exp(-gate))


def mapped(x: np.ndarray, layer: Any) -> np.ndarray:
    return array(layer.weight) @ x + array(layer.bias)


def test_convolutional_equals_the_formulas_of_the_paper() -> None:
    model, half = made(), math.sqrt(0.5)
    source, before = [4, 5, 6, 7, 8], [2, 4, 5, 6]
    e = [array(model.source_embedding.weight)[i] * 6**0.5 for i in source]
    e = [x + array(model.source_positions.weight)[i] for i, x in enumerate(e)]
    g = [array(model.target_embedding.weight)[i] * 6**0.5 for i in before]
    g = [x + array(model.target_positions.weight)[i] for i, x in enumerate(g)]
    zero = np.zeros(8)
    z = [mapped(x, model.encoder.enter) for x in e]
    for layer in model.encoder.layers:
        around = [zero, *z, zero]
        z = [(z[i] + gated(np.stack(around[i : i + 3]), layer)) * half for i in range(len(z))]
    keys = [mapped(x, model.encoder.leave) for x in z]
    x = [mapped(row, model.decoder.enter) for row in g]
    for layer in model.decoder.layers:
        behind, new = [zero, zero, *x], []
        for i in range(len(x)):
            h = gated(np.stack(behind[i : i + 3]), layer.gated)
            query = (mapped(h, layer.query) + g[i]) * half
            weights = np.exp([query @ key for key in keys])
            weights /= weights.sum()
            context = sum(w * (key + row) * half for w, key, row in zip(weights, keys, e, strict=True))
            made_of = (h + mapped(context * math.sqrt(len(source)), layer.context)) * half
            new.append((x[i] + made_of) * half)
        x = new
    wanted = np.stack([mapped(row, model.decoder.leave) for row in x])
    memory = model.encode(Source(torch.tensor([source]), torch.tensor([5])))
    found = model.hidden(memory, torch.tensor([before]))[0]
    np.testing.assert_allclose(array(found), wanted, rtol=0, atol=1e-10)


def test_convolutional_stepper_keeps_only_its_windows() -> None:
    stepper: Any = made().stepper(Source(torch.tensor([[4, 5]]), torch.tensor([2])))
    state = stepper.start(1)
    sizes = [tail.shape for tail in state.tails]
    for _ in range(5):
        state = stepper.advance(state, torch.tensor([4]))
    assert [tail.shape for tail in state.tails] == sizes == [(1, 2, 8)] * 2


def test_convolutional_source_longer_than_max_length_raises() -> None:
    long = Source(torch.ones(1, 13, dtype=torch.long), torch.tensor([13]))
    with pytest.raises(ShapeError, match="max_length = 12"):
        made().encode(long)


def test_convolutional_dropout_applies_only_in_training() -> None:
    model = made(dropout=0.5)
    given = Source(torch.tensor([[4, 5]]), torch.tensor([2])), torch.tensor([[4, 3]]), torch.tensor([2])
    assert model.loss(*given) == model.loss(*given)
    model.train()
    assert model.loss(*given) != model.loss(*given)


def test_convolutional_positions_continue_after_a_prompt() -> None:
    stepper: Any = made().stepper(Source(torch.tensor([[4, 5]]), torch.tensor([2])))
    ids = torch.tensor([[4, 6, 5, 7]])
    read = stepper.advance(stepper.extend(stepper.start(1), ids[:, :3], torch.tensor([3])), ids[:, 3])
    stepped = stepper.start(1)
    for t in range(4):
        stepped = stepper.advance(stepped, ids[:, t])
    torch.testing.assert_close(stepper.log_probs(read), stepper.log_probs(stepped), rtol=0.0, atol=1e-12)
