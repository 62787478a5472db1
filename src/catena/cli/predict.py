"""``catena predict RUN [FILE]``: predict for a file, or for standard input, a line at a time."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import tee
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from catena.cli.flags import DeviceFlags, arg, parse_flags
from catena.cli.predict_flags import PredictOptionFlags
from catena.cli.reading import ReadingFlags, check_columns, check_lines
from catena.cli.usage import UsageError
from catena.cli.weights import WeightFlags
from catena.cli.writing import check_writable, write_lines
from catena.errors import FormatError

if TYPE_CHECKING:
    from catena.tasks.application import PredictOptions, Predictor


_NOT_IN_TEXT_FORMAT = {"scores", "alignment"}
"""What is asked for in vain where answers alone are written."""


@dataclass(frozen=True)
class PredictFlags(PredictOptionFlags, ReadingFlags, WeightFlags, DeviceFlags):
    """What is predicted for, and how the predictions are written."""

    run: Annotated[tyro.conf.Positional[Path], arg("RUN")]
    """The run or checkpoint folder."""
    file: Annotated[tyro.conf.Positional[str], arg("[FILE]")] = "-"
    """A file of texts, one a line, or in any format that has texts; standard input if it is - or not named."""
    format: Annotated[str | None, arg("NAME")] = None
    """How predictions are written: text (the answer alone), tsv, jsonl (all there is), or a format of the task such as
    conll, conllu or brackets; the task's own if not set."""
    output: Annotated[Path | None, arg("FILE", "-o")] = None
    """The file to write; standard output if not set."""
    ensemble: Annotated[tuple[Path, ...], arg("RUN")] = ()
    """More runs that answer together with the first; give FILE before this flag."""


def run(argv: Sequence[str]) -> int:
    """Write a prediction for each item, as it comes in."""
    about = "Predict for a file or standard input."
    flags = parse_flags(PredictFlags, argv, "catena predict RUN [FILE]", about)
    if flags.output is not None:
        check_writable(flags.output, "predictions.tsv", flags.file)
    if flags.file == "-":
        check_lines(flags)

    from catena.cli.machine import load_ensemble
    from catena.tasks.load import holds_ngrams

    if flags.run.is_file() and not holds_ngrams(flags.run):
        raise UsageError(
            f"{flags.run} is a file, and a model is asked: 'catena train {flags.run}' makes one of it, or, of "
            f"conversations, 'catena train converse {flags.run} --model bm25' in a second; 'catena chat {flags.run}' "
            f"answers from those without training"
        )
    model, asking = load_ensemble(flags.run, flags.ensemble, flags), flags.asking(flags.seed)
    model.check(asking)
    reading = check_columns(model, flags.reading())
    format = _format_of(model, flags.format, asking)
    if flags.file == "-":
        items = model.items_of_lines(standard_input(flags.encoding or "utf-8"))
    else:
        path = file_of_texts(flags.file)
        for said in model.about_inputs(path, reading):
            sys.stderr.write(f"catena predict: {said}\n")
        items = model.read_inputs(path, reading)
    lines = _predicted(model, items, format, asking, flags.file == "-" and stdin_is_terminal())
    if flags.output is not None:
        write_lines(flags.output, lines)
        return 0
    for line in lines:
        sys.stdout.write(line + "\n")
    return 0


def file_of_texts(name: str) -> Path:
    """The file of a name, unless that is plainly a text."""
    path = Path(name)
    if len(name.split()) > 1 and not is_file(name) and "/" not in name:
        raise UsageError(
            f"there is no file {name!r}: a text is given on standard input, as in echo {name!r} | catena predict RUN"
        )
    return path


def is_file(name: str) -> bool:
    """Whether a word of the command line is the name of a file."""
    try:
        return Path(name).is_file()
    except (OSError, ValueError):  # too long for a name, or with a NUL
        return False


def _format_of(model: Predictor, named: str | None, asking: PredictOptions) -> str:
    if named is None:
        return model.format_for(asking)
    if named not in model.formats:
        raise UsageError(f"--format is {named!r}, and must be {' or '.join(model.formats)}")
    if named == "text" and asking.beyond() & _NOT_IN_TEXT_FORMAT and model.format_for(asking) != "text":
        flag = f"--{min(asking.beyond() & _NOT_IN_TEXT_FORMAT)}"
        sys.stderr.write(f"catena predict: --format text has the answers alone, without what {flag} asks for\n")
    return named


def _predicted(
    model: Predictor, items: Iterator[object], format: str, asking: PredictOptions, at_once: bool
) -> Iterator[str]:
    """What is written for each item; ``at_once`` answers each before the next is read, for a person who types."""
    heard: Counter[str] = Counter()
    items, again = tee(items)
    stream = (model.predict([item], asking)[0] for item in items) if at_once else model.predict_stream(items, asking)
    for prediction, item in zip(stream, again, strict=True):
        yield model.write(prediction, item, format)
        heard.update(model.remarks(prediction))
    for words, n in heard.items():
        said = words.format(n=f"{n:,}", s="s" * (n != 1), was="was" if n == 1 else "were")
        sys.stderr.write(f"catena predict: {said}\n")


def stdin_is_terminal() -> bool:
    """Whether a person types into standard input, which may be closed: then it is None."""
    return sys.stdin is not None and sys.stdin.isatty()


def standard_input(encoding: str) -> Iterator[str]:
    """The lines of standard input, as they come."""
    if sys.stdin is None:
        raise UsageError("standard input is closed, and no file is named: give texts by one of them")
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
