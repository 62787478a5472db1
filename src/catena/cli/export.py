"""``catena export RUN -o PATH``, which converts a model to the format of another program."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

from catena.cli.common import MachineOptions, open_task, parse_plain
from catena.cli.parser import Arg, UsageError


class ExportCommand(MachineOptions):
    """Write a trained model in the format of another program."""

    usage = "catena export RUN -o PATH [--options]"
    example = "catena export runs/mt --to ctranslate2 --quantization int8 -o mt-int8"

    run: Annotated[Path, Arg("RUN", positional=True)]
    """Run or checkpoint folder of a translation model or an n-gram language model."""
    to: Literal["ctranslate2", "onnx", "arpa"] | None = None
    """ctranslate2: model folder for CTranslate2 (Transformers); onnx: two ONNX graphs, an encoder and a decoder step
    (Transformers and recurrent models); arpa: n-gram text file for KenLM and SRILM, compressed if the name ends in
    .gz. Default: ctranslate2 for translation models, arpa for n-gram models."""
    quantization: Literal["int8"] | None = None
    """8-bit weights, for ctranslate2: a quarter of the size and faster on a CPU. Default: float32."""
    output: Annotated[Path | None, Arg("PATH", "-o")] = None
    """Folder or file to write. It must not exist yet."""


def run(argv: Sequence[str]) -> int:
    """Write a trained model in the format of another program."""
    options = parse_plain(ExportCommand, argv)
    if options.output is None:
        raise UsageError(f"-o is missing. Usage: {options.usage}.")
    task = open_task(options.run, options.model_copy(update={"quantization": None}))
    task.export(options.to, options.output, options.quantization)
    sys.stdout.write(f"wrote {options.output}\n")
    return 0
