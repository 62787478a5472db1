"""Export of encoder-decoders as two ONNX graphs, one that encodes sources and one that takes a decoding step.

``encoder.onnx``
    ``ids`` (b s) and ``lengths`` (b) → ``state_0``, ``state_1``, …: the initial states, with rows on the first axis.
``step.onnx``
    ``ids`` (n), ``position`` (1: the number of previous ids) and the states → ``log_probs`` (n v) of the next id, and
    ``next_0``, ``next_1``, …, the states that changed, in the order given in ``signature.json``.

Rows of states may be selected, repeated and dropped between steps, as in beam search: each state has the rows on its
first axis. ``signature.json`` has the begin and end id, and which state each ``next`` replaces. Works on ids.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from jaxtyping import config
from torch import Tensor, nn

from catena.errors import ConfigError
from catena.export.steps import StepModule, step_module
from catena.extras import require
from catena.seq2seq.base import EncoderDecoder

_OPSET = 17
_HARMLESS_WARNING = re.compile(rb"Warning: The shape inference of prim::(PackPadded|PadPacked) type is missing")
"""A warning that compiled code prints for packed sequences, which are not in the final graph."""
ENCODER, STEP, SIGNATURE = "encoder.onnx", "step.onnx", "signature.json"


def to_onnx(model: EncoderDecoder, folder: Path) -> None:
    """Write both graphs into a new folder. The model must be on the CPU and in eval mode.

    Args:
        model: the encoder-decoder.
        folder: the folder to write, which must not exist.
    """
    require("onnx", "onnx", "exporting to ONNX")
    if folder.exists():
        raise ConfigError(f"The folder {folder} already exists. Choose another one.")
    steps = step_module(model)
    # Two sources of different lengths and two steps, so that no size of the example is 1.
    ids, lengths = torch.tensor([[4, 5, 3], [4, 3, 0]]), torch.tensor([3, 2])
    with torch.no_grad():
        states = steps.read(ids, lengths)
        first = torch.full((2,), steps.begin)
        states = steps.after(states, steps(first, torch.tensor([0]), *states)[1:])
    folder.mkdir(parents=True)
    names = [f"state_{i}" for i in range(len(states))]
    axes = {"ids": {0: "b", 1: "s"}, "lengths": {0: "b"}}
    _write(_Reader(steps), (ids, lengths), folder / ENCODER, ["ids", "lengths"], names, axes, steps)
    given = {"ids": {0: "n"}, "position": {}}
    inputs = (first, torch.tensor([1]), *states)
    results = ["log_probs", *(f"next_{i}" for i in range(len(steps.changing)))]
    _write(steps, inputs, folder / STEP, ["ids", "position", *names], results, given, steps)
    signature = {"begin": steps.begin, "end": steps.end, "states": len(states), "next": list(steps.changing)}
    (folder / SIGNATURE).write_text(json.dumps(signature, indent=1) + "\n", encoding="utf-8")


class _Reader(nn.Module):
    """The encoder as a separate module."""

    def __init__(self, steps: StepModule) -> None:
        super().__init__()
        self.steps = steps

    def forward(self, ids: Tensor, lengths: Tensor) -> tuple[Tensor, ...]:
        return self.steps.read(ids, lengths)


def _write(
    module: nn.Module,
    given: tuple[Tensor, ...],
    path: Path,
    names: Sequence[str],
    results: Sequence[str],
    axes: dict[str, dict[int, str]],
    steps: StepModule,
) -> None:
    axes = {**axes, "log_probs": {0: "n"}}
    for i, growing in enumerate(steps.growing):
        axes[f"state_{i}"] = {0: "n", **{axis: f"{name}" for axis, name in growing.items()}}
    for i, state in enumerate(steps.changing):
        axes[f"next_{i}"] = {0: "n", **{axis: f"{name}_after" for axis, name in steps.growing[state].items()}}
    used: dict[str, Any] = {name: axes[name] for name in (*names, *results) if axes.get(name)}
    with _sizes_as_tensors(), _without_harmless_warnings():
        torch.onnx.export(  # the older exporter, which needs no additional packages
            module,
            given,
            str(path),
            input_names=list(names),
            output_names=list(results),
            dynamic_axes=used,
            opset_version=_OPSET,
            dynamo=False,
        )


@contextmanager
def _sizes_as_tensors() -> Iterator[None]:
    """Let the exporter trace sizes as tensors, although annotations that are checked at run time say int."""
    before = config.jaxtyping_disable
    config.update("jaxtyping_disable", True)
    try:
        yield
    finally:
        config.update("jaxtyping_disable", before)


@contextmanager
def _without_harmless_warnings() -> Iterator[None]:
    """Suppress known, harmless warnings of the exporter.

    These concern the older exporter; size checks, which the example passes, that are not part of the graph; and batch
    sizes of packed sequences, which the graph takes from its input. All other warnings are shown.
    """
    with warnings.catch_warnings(), _without_lines(_HARMLESS_WARNING):
        warnings.simplefilter("ignore", torch.jit.TracerWarning)
        warnings.simplefilter("ignore", DeprecationWarning)
        warnings.filterwarnings("ignore", "Exporting a model to ONNX with a batch_size other than 1")
        yield


@contextmanager
def _without_lines(known: re.Pattern[bytes]) -> Iterator[None]:
    """Capture standard error, also of compiled code, and print it at the end without the known lines."""
    try:
        there = os.dup(2)
    except OSError:  # stderr is closed
        yield
        return
    sys.stderr.flush()
    with tempfile.TemporaryFile() as heard:
        os.dup2(heard.fileno(), 2)
        try:
            yield
        finally:
            sys.stderr.flush()
            os.dup2(there, 2)
            os.close(there)
            heard.seek(0)
            rest = b"".join(line for line in heard if not known.search(line))
            if rest:
                os.write(2, rest)
