"""``catena export RUN --to NAME -o PATH``, which converts a model to the format of another program."""

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
    """Options of ``catena export``."""

    run: Annotated[tyro.conf.Positional[Path], arg("RUN")]
    """Run or checkpoint folder of a translation model or an n-gram language model."""
    to: Literal["ctranslate2", "onnx", "arpa"] = "ctranslate2"
    """ctranslate2: model folder for CTranslate2 (Transformers); onnx: two ONNX graphs, an encoder and a decoder step
    (Transformers and recurrent models); arpa: n-gram text file for KenLM and SRILM, compressed if the name ends in
    .gz."""
    quantization: Annotated[Literal["int8"] | None, arg("int8")] = None
    """8-bit weights, for ctranslate2: a quarter of the size and faster on a CPU. Default: float32."""
    output: Annotated[Path | None, arg("PATH", "-o")] = None
    """Folder or file to write. It must not exist yet."""


def run(argv: Sequence[str]) -> int:
    """Write a trained model in the format of another program."""
    flags = parse_flags(ExportFlags, argv, _USAGE, "Write a trained model in the format of another program.")
    if flags.output is None:
        raise UsageError(f"-o is missing. Usage: {_USAGE}.")

    from catena.cli.machine import open_model

    open_model(flags.run, flags).export(flags.to, flags.output, flags.quantization)
    sys.stdout.write(f"wrote {flags.output}\n")
    return 0
