"""``catena predict RUN [FILE]``, which predicts for a file, standard input or texts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

from catena.accelerators import start_cold
from catena.cli.common import (
    RunCommand,
    WeightOptions,
    check_writable,
    input_file,
    open_ensemble,
    stdin_is_terminal,
    typed_lines,
    warn,
    write_output,
)
from catena.cli.parser import Arg, UsageError
from catena.errors import DataError

_SHOWN_ERRORS = 5
"""Number of pictures or sounds that cannot be decoded whose errors are shown."""


class PredictCommand(WeightOptions):
    """Predict for a file, for standard input, or for texts."""

    usage = "catena predict RUN [FILE] [--options]"
    example = "catena predict runs/first reviews.csv --format csv -o predictions.csv"

    run: Annotated[Path, Arg("RUN", positional=True)]
    """Run or checkpoint folder."""
    file: Annotated[str, Arg("[FILE]", positional=True)] = "-"
    """File in any format that contains inputs. - or nothing: standard input, read like a file."""
    text: Annotated[tuple[str, ...], Arg("TEXT", repeat=True)] = ()
    """Text to predict, instead of a file. Repeat the option for more."""
    format: Annotated[str | None, Arg("NAME")] = None
    """Output format: text, tsv, csv, jsonl, or a format of the task, such as conll. Default: the task's own."""
    output: Annotated[Path | None, Arg("FILE", "-o")] = None
    """Output file. Default: standard output."""
    ensemble: Annotated[tuple[Path, ...], Arg("RUN")] = ()
    """More runs to ensemble with the first."""


@start_cold()
def run(argv: Sequence[str]) -> int:
    """Write a prediction for each input."""
    command = RunCommand(PredictCommand, argv)
    options = command.options
    if options.text and options.file != "-":
        raise UsageError(f"--text and FILE ({options.file}) cannot be combined. Remove one of them.")
    if options.output is not None:
        check_writable(options.output, "predictions.tsv", options.file)
    _check_is_run(options.run)
    task = open_ensemble(command, options.ensemble)
    chosen = command.predict_options(task)
    format = _format(task, options.format, chosen)
    with ExitStack() as stack:
        examples = _examples(task, command, stack)
        typed = options.file == "-" and not options.text and stdin_is_terminal()
        write_output(_lines(task, examples, chosen, format, one_by_one=typed), options.output)
    return 0


def _check_is_run(path: Path) -> None:
    from catena.tasks.load import holds_ngrams

    if path.is_file() and not holds_ngrams(path):
        raise UsageError(
            f"RUN must be a run folder, got the file {path}. Train a model with 'catena train {path}' (for "
            f"conversations, 'catena train converse {path} --model bm25' takes a second), or use 'catena chat {path}', "
            f"which needs no training."
        )


def _format(task: Any, name: str | None, options: Any) -> str:
    if name is None:
        return task.format_for(options)
    if name not in task.formats:
        raise UsageError(f"--format must be {' or '.join(task.formats)}, got {name!r}. Choose one of these.")
    omitted = [f"--{option}" for option in task.not_in_text if name == "text" and getattr(options, option)]
    if omitted:
        warn("predict", f"--format text does not show the results of {' and '.join(omitted)}; use --format jsonl")
    return name


def _examples(task: Any, command: RunCommand, stack: ExitStack) -> Iterator[Any]:
    """The examples to predict; those of a terminal one by one."""
    options = command.options
    if options.text:
        return iter([task.to_example(text) for text in options.text])
    if options.file == "-" and stdin_is_terminal():
        encoding = getattr(task.config.data, "encoding", None) or "utf-8"
        return (task.to_example(line) for line in typed_lines(encoding))
    path = stack.enter_context(input_file(options.file))
    return _read(task, path, command.options.file)


def _read(task: Any, path: Path, name: str) -> Iterator[Any]:
    """The examples of a file, and at its end a line about what was read."""
    from catena.data.reading import NOT_DECODED, ReadCounter

    counter = ReadCounter()
    yield from task.read_inputs(path, counter)
    shown = "standard input" if name == "-" else name
    if not counter.read:
        raise DataError(f"{shown} has no records. Pass a file with text.")
    if counter.dropped:
        warn("predict", f"{shown}: {counter.counts(counter.used).sentence('')}")
    errors = [dropped.text for dropped in counter.dropped if dropped.reason == NOT_DECODED]
    for error in errors[:_SHOWN_ERRORS]:
        warn("predict", error)


def _lines(task: Any, examples: Iterator[Any], options: Any, format: str, *, one_by_one: bool) -> Iterator[str]:
    """The output for each example, and warnings at the end. Typed examples are predicted one by one."""
    from catena.tasks.writing import PredictionWriter

    writer = PredictionWriter(format)
    warnings: Counter[str] = Counter()
    kept: list[Any] = []

    def remembered() -> Iterator[Any]:
        for example in examples:
            kept.append(example)
            yield example

    if one_by_one:
        stream = (task.predict([example], options)[0] for example in remembered())
    else:
        stream = task.predict_stream(remembered(), options)
    for prediction in stream:
        yield from writer.lines(prediction, getattr(kept.pop(0), "ids", None))
        warnings.update(task.warnings(prediction, options))
    for words, n in warnings.items():
        warn("predict", words.format(n=f"{n:,}", s="s" * (n != 1), was="was" if n == 1 else "were"))
