"""Encoder-decoders as ONNX graphs: a search in an ONNX runtime gives the same results."""

from __future__ import annotations

import json
import os
import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from catena.errors import ConfigError
from catena.export.onnx import to_onnx
from catena.export.steps import step_module
from catena.seq2seq.base import EncoderDecoder, Source
from catena.seq2seq.build import build_encoder_decoder
from catena.seq2seq.config import ConvolutionalSeq2SeqConfig, RecurrentSeq2SeqConfig, TransformerSeq2SeqConfig
from tests.laws.seq2seq_laws import SIDES

needed = pytest.mark.skipif(find_spec("onnxruntime") is None or find_spec("onnx") is None, reason="needs onnxruntime")
SMALL = {"d": 8, "n_heads": 2, "n_encoder_layers": 2, "n_decoder_layers": 2, "d_ff": 12}
PLAIN = {"d": 8, "d_embedding": 6, "cell": "gru", "attention": "none"}
KINDS = {
    "transformer": TransformerSeq2SeqConfig(**SMALL),
    "rotary": TransformerSeq2SeqConfig(**SMALL, positions="rotary", norm="post"),
    "learned": TransformerSeq2SeqConfig(**SMALL, positions="learned", max_length=20),
    "lstm": RecurrentSeq2SeqConfig(cell="lstm", d=8, d_embedding=6),
    "gru": RecurrentSeq2SeqConfig(cell="gru", d=8, d_embedding=6, order="bahdanau"),
    "elman, reversed": RecurrentSeq2SeqConfig(
        cell="elman", d=8, d_embedding=6, reverse=True, attention_kind="local_predictive", window=2
    ),
    "gnmt": RecurrentSeq2SeqConfig(
        d=8, d_embedding=6, order="gnmt", n_layers=3, residual=True, bidirectional="first", n_heads=2
    ),
    "latent": RecurrentSeq2SeqConfig(
        encoder="additive", d=8, d_embedding=6, attention_kind="marginal", input_feeding=False
    ),
    "adaptive": RecurrentSeq2SeqConfig(**PLAIN, output={"kind": "adaptive", "cutoffs": (3,)}),
    "classes": RecurrentSeq2SeqConfig(**PLAIN, output={"kind": "hierarchical", "tree": "classes"}),
    "tree": RecurrentSeq2SeqConfig(**PLAIN, tied=False, output={"kind": "hierarchical", "tree": "huffman"}),
}


def made(settings: Any) -> EncoderDecoder:
    torch.manual_seed(4)
    model = build_encoder_decoder(settings, SIDES).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return model


class Session:
    """Both graphs in onnxruntime."""

    def __init__(self, folder: Path) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        paths = [str(folder / name) for name in ("encoder.onnx", "step.onnx")]
        self.reads, self.steps = (
            onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"]) for path in paths
        )
        self.signature = json.loads((folder / "signature.json").read_text())

    def read(self, ids: np.ndarray, lengths: np.ndarray) -> list[np.ndarray]:
        return self.reads.run(None, self._given(self.reads, ["ids", "lengths"], [ids, lengths]))

    def step(self, ids: np.ndarray, position: int, states: list[np.ndarray]) -> tuple[np.ndarray, list[np.ndarray]]:
        names = ["ids", "position", *(f"state_{i}" for i in range(len(states)))]
        given = self._given(self.steps, names, [ids, np.array([position]), *states])
        log_probs, *changed = self.steps.run(None, given)
        states = list(states)
        for place, state in zip(self.signature["next"], changed, strict=True):
            states[place] = state
        return log_probs, states

    @staticmethod
    def _given(session: Any, names: list[str], values: list[np.ndarray]) -> dict[str, np.ndarray]:
        """Return the inputs by name, without those that a graph does not use, such as a position."""
        known = {one.name for one in session.get_inputs()}
        return {name: value for name, value in zip(names, values, strict=True) if name in known}


@needed
@pytest.mark.parametrize("kind", KINDS)
def test_steps_in_onnxruntime_equal_model(kind: str, tmp_path: Path) -> None:
    model = made(KINDS[kind])
    to_onnx(model, tmp_path / "model")
    there = Session(tmp_path / "model")
    assert (there.signature["begin"], there.signature["end"]) == (SIDES.begin, SIDES.end)
    ids = torch.tensor([[4, 5, 6, 7, 8], [5, 3, 0, 0, 0], [8, 7, 6, 3, 0]])
    lengths = torch.tensor([5, 2, 4])
    stepper = model.stepper(Source(ids, lengths))
    ours, states = stepper.start(3), there.read(ids.numpy(), lengths.numpy())
    given = np.full(3, SIDES.begin)
    for position, (chosen, rows) in enumerate((([4, 5, 6], [2, 0, 1]), ([7, 4, 4], [1, 1, 2]), ([5, 6, 7], [0, 1, 2]))):
        log_probs, states = there.step(given, position, states)
        np.testing.assert_allclose(log_probs, stepper.log_probs(ours).numpy(), rtol=0, atol=2e-4)
        ours = stepper.select(ours, torch.tensor(rows))
        states = [state[rows] for state in states]
        given = np.array(chosen)
        ours = stepper.advance(ours, torch.tensor(chosen))


def test_unsupported_models_raise(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="ConvolutionalSeq2Seq cannot be exported to ONNX"):
        step_module(made(ConvolutionalSeq2SeqConfig(d=8, d_embedding=6)))
    with pytest.raises(ConfigError, match="An encoder of CoupledLSTM uses a loop"):
        step_module(made(RecurrentSeq2SeqConfig(cell="coupled_lstm", d=8, d_embedding=6)))
    step_module(made(RecurrentSeq2SeqConfig(cell="coupled_lstm", encoder="additive", d=8, d_embedding=6)))


@needed
def test_existing_folder_raises(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="already exists"):
        to_onnx(made(KINDS["gru"]), tmp_path)


@needed
def test_harmless_warnings_are_suppressed(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        to_onnx(made(KINDS["lstm"]), tmp_path / "model")
        to_onnx(made(KINDS["elman, reversed"]), tmp_path / "reversed")
    assert not heard
    assert capfd.readouterr().err == ""


@needed
def test_other_warnings_are_shown(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def export(*given: Any, **named: Any) -> None:
        os.write(
            2, b"[W1] Warning: The shape inference of prim::PackPadded type is missing\n[W2] Warning: a real one\n"
        )
        warnings.warn("another", UserWarning, stacklevel=1)

    monkeypatch.setattr(torch.onnx, "export", export)
    with pytest.warns(UserWarning, match="another"):
        to_onnx(made(KINDS["gru"]), tmp_path / "model")
    assert capfd.readouterr().err == "[W2] Warning: a real one\n" * 2
