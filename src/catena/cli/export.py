"""``catena export RUN --to NAME -o PATH``: a trained model in the form of another program."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from catena.cli.flags import DeviceFlags, arg, parse_flags
from catena.cli.usage import UsageError

_USAGE = "catena export RUN --to NAME -o PATH"


@dataclass(frozen=True)
class ExportFlags(DeviceFlags):
    """The other program, and what is written for it."""

    run: Annotated[tyro.conf.Positional[Path], arg("RUN")]
    """The run or checkpoint folder of a translator, or of an n-gram language model."""
    to: Literal["ctranslate2", "onnx", "arpa"] = "ctranslate2"
    """ctranslate2: the model folder of CTranslate2, for Transformers; onnx: two ONNX graphs, one that reads sources and
    one that takes a step, for Transformers and recurrent models; arpa: the text file of an n-gram model, which KenLM
    and SRILM read, compressed if its name ends in .gz."""
    quantization: Annotated[Literal["int8"] | None, arg("int8")] = None
    """Weights of 8 bits, for ctranslate2: a quarter of the size, and faster on a CPU; single precision if not set."""
    output: Annotated[Path | None, arg("PATH", "-o")] = None
    """The folder, or the file, to write; it must not exist."""


def run(argv: Sequence[str]) -> int:
    """Write a trained model for another program."""
    flags = parse_flags(ExportFlags, argv, _USAGE, "Write a trained model in the form of another program.")
    if flags.output is None:
        raise UsageError(f"name the folder or the file to write: {_USAGE}")

    from catena.cli.machine import open_model

    open_model(flags.run, flags).export(flags.to, flags.output, flags.quantization)
    sys.stdout.write(f"wrote {flags.output}\n")
    return 0
