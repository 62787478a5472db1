"""``catena predict RUN [FILE]``: predict for a file, or for standard input, a line at a time."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import tee
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from catena.cli.flags import Machine, arg, parse_flags
from catena.cli.reading import ReadingFlags
from catena.cli.writing import check_writable, write_lines
from catena.errors import FormatError


@dataclass(frozen=True)
class PredictFlags(ReadingFlags, Machine):
    run: Annotated[tyro.conf.Positional[Path], arg("RUN")]
    """The run or checkpoint folder."""
    file: Annotated[tyro.conf.Positional[str], arg("FILE")] = "-"
    """A file of texts, one a line, or in any format that has texts; standard input if it is - or not named."""
    format: Annotated[Literal["text", "tsv", "jsonl"], arg(shown="(default: tsv)")] = "tsv"
    """text: the label alone; tsv: label, probability, text; jsonl: all probabilities."""
    output: Annotated[Path | None, arg("FILE", "-o")] = None
    """The file to write; standard output if not set."""


def run(argv: Sequence[str]) -> int:
    about = "Predict for a file or standard input."
    flags = parse_flags(PredictFlags, argv, "catena predict RUN [FILE]", about)
    if flags.output is not None:
        check_writable(flags.output, "predictions.tsv")

    from catena.cli.machine import open_model

    model = open_model(flags.run, flags)
    if flags.file == "-":
        lines = _predicted(model, standard_input(flags.encoding or "utf-8"), flags.format, sys.stdin.isatty())
    else:
        lines = _predicted(model, model.read_texts(Path(flags.file), flags.reading()), flags.format, False)
    if flags.output is not None:
        write_lines(flags.output, lines)
        return 0
    for line in lines:
        sys.stdout.write(line + "\n")
    return 0


def _predicted(model: Any, texts: Iterator[str], format: str, at_once: bool) -> Iterator[str]:
    """A line for each text; ``at_once`` answers every text before the next is read, for a person who types."""
    if at_once:
        for text in texts:
            yield model.write(model.predict([text])[0], text, format)
        return
    texts, again = tee(texts)
    for prediction, text in zip(model.predict_stream(texts), again, strict=True):
        yield model.write(prediction, text, format)


def standard_input(encoding: str) -> Iterator[str]:
    for number, line in enumerate(sys.stdin.buffer, start=1):
        try:
            yield line.decode(encoding).removeprefix("\ufeff").rstrip("\r\n")
        except UnicodeDecodeError as error:
            raise FormatError(
                f"standard input, line {number}, is not {encoding} (byte {error.object[error.start]:#04x} at "
                f"{error.start + 1}): name its encoding, such as --encoding latin-1"
            ) from None
        except LookupError:
            raise FormatError(f"there is no text encoding {encoding!r}: say utf-8, latin-1 or another") from None
