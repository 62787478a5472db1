"""Encoder-decoders as two ONNX graphs, which any runtime of ONNX can run: one reads sources, one takes a step.

``encoder.onnx``
    ``ids`` (b s) and ``lengths`` (b) → ``state_0``, ``state_1``, …: what the first step is given, the rows first.
``step.onnx``
    ``ids`` (n), ``position`` (1: how many ids were read before) and the states → ``log_probs`` (n v) of what comes
    next, and ``next_0``, ``next_1``, …, the states that have changed, in the order that ``signature.json`` tells.

Rows of states may be taken, repeated and left out between steps, as a beam does: each has the rows on its first axis.
``signature.json`` names the first and the last id, and which state each ``next`` replaces. Knows no tokens.
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
_UNTOLD_SHAPES = re.compile(rb"Warning: The shape inference of prim::(PackPadded|PadPacked) type is missing")
"""What compiled code writes to standard error of networks over packed sequences: they are gone from the graph when it
is done."""
ENCODER, STEP, SIGNATURE = "encoder.onnx", "step.onnx", "signature.json"


def to_onnx(model: EncoderDecoder, folder: Path) -> None:
    """Write both graphs into a folder, which must not be there. The model is on a CPU and not in training."""
    require("onnx", "onnx", "exporting to ONNX")
    if folder.exists():
        raise ConfigError(f"{folder} is there already: name a folder that is not")
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
    """Reading as a module of its own."""

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
        torch.onnx.export(  # the older exporter, which needs no more packages
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
    """The exporter follows sizes as tensors, where annotations that someone checks say numbers."""
    before = config.jaxtyping_disable
    config.update("jaxtyping_disable", True)
    try:
        yield
    finally:
        config.update("jaxtyping_disable", before)


@contextmanager
def _without_harmless_warnings() -> Iterator[None]:
    """Leave out what is known and harmless: that the exporter is the older one; that checks of sizes, which the example
    passes, are no part of the graph; that networks over packed sequences have sizes of batches, which the graph takes
    from its input. All else is said."""
    with warnings.catch_warnings(), _said_but(_UNTOLD_SHAPES):
        warnings.simplefilter("ignore", torch.jit.TracerWarning)
        warnings.simplefilter("ignore", DeprecationWarning)
        warnings.filterwarnings("ignore", "Exporting a model to ONNX with a batch_size other than 1")
        yield


@contextmanager
def _said_but(known: re.Pattern[bytes]) -> Iterator[None]:
    """What is written to standard error, from compiled code too, comes out at the end without the lines that are
    known."""
    try:
        there = os.dup(2)
    except OSError:  # it is closed
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
