"""``catena predict RUN [FILE]``, which predicts for a file or for each line of standard input."""

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
"""Options whose results ``--format text`` does not show."""


@dataclass(frozen=True)
class PredictFlags(PredictOptionFlags, ReadingFlags, WeightFlags, DeviceFlags):
    """Options of ``catena predict``."""

    run: Annotated[tyro.conf.Positional[Path], arg("RUN")]
    """Run or checkpoint folder."""
    file: Annotated[tyro.conf.Positional[str], arg("[FILE]")] = "-"
    """File with one text per line, or in any format that contains texts. - or nothing: standard input."""
    format: Annotated[str | None, arg("NAME")] = None
    """Output format: text (predictions only), tsv, jsonl (all details), or a format of the task such as conll, conllu
    or brackets. Default: the task's own format."""
    output: Annotated[Path | None, arg("FILE", "-o")] = None
    """Output file. Default: standard output."""
    ensemble: Annotated[tuple[Path, ...], arg("RUN")] = ()
    """More runs to ensemble with the first. Write FILE before this option."""


def run(argv: Sequence[str]) -> int:
    """Write a prediction for each input as it is read."""
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
            f"RUN must be a run folder, got the file {flags.run}. Train a model with 'catena train {flags.run}' (for "
            f"conversations, 'catena train converse {flags.run} --model bm25' takes a second), or use 'catena chat "
            f"{flags.run}', which needs no training."
        )
    model, options = load_ensemble(flags.run, flags.ensemble, flags), flags.options(flags.seed)
    model.check(options)
    reading = check_columns(model, flags.reading())
    format = _format_of(model, flags.format, options)
    if flags.file == "-":
        items = model.items_of_lines(standard_input(flags.encoding or "utf-8"))
    else:
        path = file_of_texts(flags.file)
        for said in model.about_inputs(path, reading):
            sys.stderr.write(f"catena predict: {said}\n")
        items = model.read_inputs(path, reading)
    lines = _predicted(model, items, format, options, flags.file == "-" and stdin_is_terminal())
    if flags.output is not None:
        write_lines(flags.output, lines)
        return 0
    for line in lines:
        sys.stdout.write(line + "\n")
    return 0


def file_of_texts(name: str) -> Path:
    """The path of a file. Raise UsageError if the name looks like a text instead of a file name."""
    path = Path(name)
    if len(name.split()) > 1 and not is_file(name) and "/" not in name:
        raise UsageError(
            f"File not found: {name!r}. To predict for a text, use standard input: echo {name!r} | catena predict RUN"
        )
    return path


def is_file(name: str) -> bool:
    """Whether an argument is the name of an existing file."""
    try:
        return Path(name).is_file()
    except (OSError, ValueError):  # too long for a file name, or contains NUL
        return False


def _format_of(model: Predictor, named: str | None, options: PredictOptions) -> str:
    if named is None:
        return model.format_for(options)
    if named not in model.formats:
        raise UsageError(f"--format must be {' or '.join(model.formats)}, got {named!r}. Choose one of these.")
    if named == "text" and options.beyond() & _NOT_IN_TEXT_FORMAT and model.format_for(options) != "text":
        flag = f"--{min(options.beyond() & _NOT_IN_TEXT_FORMAT)}"
        sys.stderr.write(f"catena predict: --format text does not show the results of {flag}; use --format jsonl\n")
    return named


def _predicted(
    model: Predictor, items: Iterator[object], format: str, options: PredictOptions, at_once: bool
) -> Iterator[str]:
    """The output for each item. ``at_once`` predicts each before the next is read, for interactive input."""
    heard: Counter[str] = Counter()
    items, again = tee(items)
    stream = (model.predict([item], options)[0] for item in items) if at_once else model.predict_stream(items, options)
    for prediction, item in zip(stream, again, strict=True):
        yield model.write(prediction, item, format)
        heard.update(model.remarks(prediction))
    for words, n in heard.items():
        said = words.format(n=f"{n:,}", s="s" * (n != 1), was="was" if n == 1 else "were")
        sys.stderr.write(f"catena predict: {said}\n")


def stdin_is_terminal() -> bool:
    """Whether standard input is a terminal. It is None if it was closed."""
    return sys.stdin is not None and sys.stdin.isatty()


def standard_input(encoding: str) -> Iterator[str]:
    """The lines of standard input as they arrive."""
    if sys.stdin is None:
        raise UsageError("Standard input is closed and FILE is missing. Pass FILE, or pipe in texts.")
    for number, line in enumerate(sys.stdin.buffer, start=1):
        try:
            yield line.decode(encoding).removeprefix("\ufeff").rstrip("\r\n")
        except UnicodeDecodeError as error:
            raise FormatError(
                f"standard input:{number} must be encoded in {encoding}, got byte {error.object[error.start]:#04x} at "
                f"{error.start + 1}. Pass its encoding, such as --encoding latin-1."
            ) from None
        except LookupError:
            raise FormatError(f"Unknown encoding {encoding!r}. Use utf-8 or latin-1, for example.") from None
