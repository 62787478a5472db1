"""``catena predict RUN [FILE]``: predict for a file, or for standard input, a line at a time."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import tee
from pathlib import Path
from typing import Annotated, Literal

import tyro

from catena.cli.flags import Machine, parse_flags


@dataclass(frozen=True)
class PredictFlags(Machine):
    run: tyro.conf.Positional[Path] = Path()
    """The run or checkpoint folder."""
    file: tyro.conf.Positional[str] = "-"
    """A file of texts, one a line, or in any format with a text column; - is standard input."""
    format: Literal["text", "tsv", "jsonl"] = "tsv"
    """text: the label alone; tsv: label, probability, text; jsonl: all probabilities."""
    output: Annotated[Path | None, tyro.conf.arg(aliases=["-o"])] = None
    """The file to write; standard output if not set."""
    input_format: str = "auto"
    """Format of the file: text (one text a line), or a name that 'catena inspect' gives; auto looks at it."""
    encoding: str | None = None
    """Encoding of the file if it is not UTF-8."""


def run(argv: Sequence[str]) -> int:
    flags = parse_flags(PredictFlags, argv, "catena predict", "Predict for a file or standard input.")

    from catena.cli.machine import open_model

    model = open_model(flags.run, flags)
    texts, again = tee(_texts(flags, model.labels))
    lines = (model.write(p, text, flags.format) for p, text in zip(model.predict_stream(texts), again, strict=True))
    if flags.output is None:
        for line in lines:
            sys.stdout.write(line + "\n")
        sys.stdout.flush()
        return 0
    _write_whole(flags.output, lines)
    return 0


def _texts(flags: PredictFlags, labels: Sequence[str]) -> Iterator[str]:
    if flags.file == "-":
        stream = sys.stdin.buffer
        for number, line in enumerate(stream, start=1):
            yield _decoded(line, flags.encoding or "utf-8", number)
        return
    from catena.data.readers.text import read
    from catena.data.recognise import read_examples

    path = Path(flags.file)
    format = _format_of(path, flags, labels)
    if format == "text":
        yield from (example.text for example in read(path, encoding=flags.encoding))
    else:
        yield from (e.text for e in read_examples(path, format, labelled=False, encoding=flags.encoding))


def _format_of(path: Path, flags: PredictFlags, labels: Sequence[str]) -> str | None:
    """The format to read a file in; None leaves it to the reader, which looks again for columns and the like.

    A label in front of a text is told from its first word by whether the model knows it as a label.
    """
    from catena.data.recognise import read_examples, recognise

    if flags.input_format != "auto":
        return flags.input_format
    found = recognise(path, flags.encoding).format
    if found in ("kim", "tsv-label", "fasttext"):
        first = next(iter(read_examples(path, encoding=flags.encoding)), None)
        return None if first and set(first.labels) <= set(labels) else "text"
    return None if found in ("csv", "tsv", "jsonl", "parquet", "datasets") else "text"


def _decoded(line: bytes, encoding: str, number: int) -> str:
    from catena.errors import FormatError

    try:
        return line.decode(encoding).removeprefix("\ufeff").rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise FormatError(
            f"standard input, line {number}, is not {encoding} (byte {error.object[error.start]:#04x} at "
            f"{error.start + 1}): name its encoding, such as --encoding latin-1"
        ) from None


def _write_whole(path: Path, lines: Iterator[str]) -> None:
    """Write to a temporary name first, so that a file is there whole or not at all."""
    temporary = path.with_name(f".{path.name}.unfinished")
    try:
        with temporary.open("w", encoding="utf-8", newline="\n") as file:
            for line in lines:
                file.write(line + "\n")
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
