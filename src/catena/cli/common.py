"""What several commands use: options of the machine, opening a trained model, reading inputs, writing outputs."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NoReturn, TypeVar

from pydantic import Field

from catena.checkpoint import CONFIG, META, open_checkpoint
from catena.cli.help import full_help, short_help
from catena.cli.parser import (
    Arg,
    CommandLine,
    CommandOptions,
    Section,
    UsageError,
    parse_values,
)
from catena.errors import CatenaError, CheckpointError, FormatError
from catena.files import atomic_write, escape_controls

if TYPE_CHECKING:
    from catena.tasks.lm.task import LmTask

O = TypeVar("O", bound=CommandOptions)  # noqa: E741
_NOT_FOR_READING = (
    "train", "dev", "test", "dev_fraction", "test_fraction", "folds", "fold", "max_length", "too_long", "split",
    "source", "dev_source", "dev_target", "test_source", "test_target",
)  # fmt: skip
"""Keys of the section ``data`` that matter only in training."""


class MachineOptions(CommandOptions):
    """Options of every command that runs a model."""

    device: Annotated[str, Arg("DEVICE")] = "auto"
    """Device: auto, cpu, cuda, cuda:1 or mps."""
    threads: int | None = Field(None, ge=1)
    """Number of CPU threads. Default: all cores."""
    seed: int = Field(0, ge=0)
    """Seed of the random number generators."""


class WeightOptions(MachineOptions):
    """Options of commands that can load a model with 8-bit weights."""

    quantization: Literal["int8"] | None = None
    """8-bit weights, for networks on a CPU: a quarter of the memory and faster. Default: float32."""


def parse_or_help(
    line: CommandLine, sections: Sequence[Section] = (), groups: Mapping[str, Sequence[str]] | None = None
) -> tuple[Any, list[dict[str, Any]]]:
    """The options of the command, and the values of each section. ``--help`` prints the help and ends the command.

    Args:
        line: the command line.
        sections: the options that the task adds.
        groups: the most important options by group, for the short help.
    """
    if line.help:
        full = line.help == "full"
        end_with(full_help(line.schema, sections) if full else short_help(line.schema, sections, groups))
    return line.parse(sections)


def parse_plain(schema: type[O], argv: Sequence[str]) -> O:
    """Parse a command without options of a task. ``--help`` prints the help and ends the command."""
    return parse_or_help(CommandLine(schema, argv))[0]


def end_with(text: str) -> NoReturn:
    """Print a help text and end the command."""
    sys.stdout.write(text + "\n")
    raise SystemExit(0)


# --- commands that train ----------------------------------------------------------------------------------------------


COMMON_GROUPS = {
    "Training": ("max_time", "max_epochs", "batch_size", "learning_rate", "optimizer", "metric"),
    "Run": ("output", "config", "init_from", "overwrite", "seeds", "seed", "device", "threads", "quiet"),
}


class TrainingOptions(CommandOptions):
    """Options of commands that train, other than the config of the task."""

    config: Annotated[Path | None, Arg("FILE", "-c")] = None
    """Config file (see 'catena init') or the name of a recipe. Options override its values."""
    output: Annotated[Path | None, Arg("FOLDER", "-o")] = None
    """Run folder. Default: the next free runs/TASK-MODEL-NUMBER."""
    overwrite: bool = False
    """Replace the run folder if it contains an older run."""
    init_from: Annotated[Path | None, Arg("RUN")] = None
    """Fine-tune: start from the weights of this run or checkpoint, with its config unless options override it."""
    seeds: int = Field(1, ge=1)
    """Train N models with consecutive seeds and report the mean and a confidence interval of their scores."""
    track: Annotated[str | None, Arg("NAME")] = None
    """Also log the curves to: tensorboard."""
    quiet: Annotated[bool, Arg(short="-q")] = False
    """Print only the result."""


# --- commands on a run ------------------------------------------------------------------------------------------------


class RunCommand:
    """A parsed command on a run: its own options, those of the task's ``predict``, and how files are read.

    Args:
        schema: the options of the command; the field ``run`` is the run.
        argv: the command line.
        predicts: whether the options of ``predict`` apply.
    """

    def __init__(self, schema: type[O], argv: Sequence[str], *, predicts: bool = True) -> None:
        line = CommandLine(schema, argv)
        self.spec, config = _find_spec(line.first)
        sections = []
        if self.spec is not None and self.spec.has_examples:
            data = type(config.data)
            reading = [name for name in data.model_fields if name not in _NOT_FOR_READING]
            options = self.spec.options_class()
            taken = set(options.model_fields) if predicts else set()
            sections = [
                Section(options, only=None if predicts else (), title="Prediction"),
                Section(data, only=[name for name in reading if name not in taken], title="Reading the file"),
            ]
        self.options, values = parse_or_help(line, sections)
        self.predicts = predicts
        self.predict_values, self.read_values = values if values else ({}, {})
        if self.spec is not None:
            parse_values(self.spec.options_class(), self.predict_values)  # before the model loads

    def open(self, folder: Path | None = None, quantization: str | None = None) -> Any:
        """The trained model, reading files as the options say."""
        task = open_task(folder or self.options.run, self.options, quantization)
        values = dict(self.read_values)
        if self.predicts and task.detects_inputs:
            values.setdefault("input_format", "auto")
        if values:
            data = task.config.data.for_reading(values)
            task.config = task.config.model_copy(update={"data": data})
        return task

    def predict_options(self, task: Any) -> Any:
        """The options of ``predict``; models of other files than runs have their own."""
        values = dict(self.predict_values)
        if "seed" in task.options_class.model_fields:
            values.setdefault("seed", self.options.seed)
        return parse_values(task.options_class, values)


def _find_spec(run: str | None) -> tuple[Any, Any]:
    """The task and the config of a run, if the argument is one."""
    from catena.tasks.spec import read_spec

    try:
        folder = open_checkpoint(Path(run), lambda words: None).folder if run else None
        if folder is None:
            return None, None
        spec = read_spec(folder / CONFIG)
        return spec, spec.load_config(folder / CONFIG)
    except (CatenaError, OSError):
        return None, None  # reported when the model is opened


def open_task(folder: Path, options: Any, quantization: str | None = None) -> Any:
    """The trained model in a run or checkpoint folder, or a file of an n-gram model."""
    from catena.tasks.load import load_model
    from catena.training.device import set_threads

    set_threads(options.threads)
    quantization = quantization or getattr(options, "quantization", None)
    return load_model(resolve_run_folder(folder), options.device, quantization, options.seed)


def open_language_model(folder: Path, options: Any) -> LmTask:
    """The language model of a run; UsageError if it is a model of another task."""
    return check_language_model(open_task(folder, options), folder)


def check_language_model(model: Any, folder: Path) -> LmTask:
    """The model itself; UsageError if it is not a language model of texts."""
    from catena.tasks.lm.task import LmTask

    if not isinstance(model, LmTask):
        raise UsageError(f"{folder} is not a language model. Train one with 'catena train lm'.")
    return model


def open_ensemble(command: RunCommand, others: Sequence[Path]) -> Any:
    """The trained model of a command, ensembled with others if there are any."""
    task = command.open()
    return task.ensemble([command.open(other) for other in others]) if others else task


def resolve_run_folder(folder: Path) -> Path:
    """The folder itself. Raise CheckpointError if it contains the runs of several seeds or folds."""
    if folder.is_dir() and not (folder / META).exists():
        runs = sorted(path.parent for path in folder.glob(f"*/{META}"))
        if runs:
            raise CheckpointError(f"{folder} contains {len(runs)} runs. Pass one of them, such as {runs[0]}.")
    return folder


# --- input and output -------------------------------------------------------------------------------------------------


def stdin_is_terminal() -> bool:
    """Whether standard input is a terminal. It is None if it was closed."""
    return sys.stdin is not None and sys.stdin.isatty()


@contextmanager
def input_file(name: str) -> Iterator[Path]:
    """The path of an input; ``-`` is standard input, which is copied to a temporary file."""
    if name != "-":
        yield _existing(name)
        return
    if sys.stdin is None:
        raise UsageError("Standard input is closed and FILE is missing. Pass FILE, or pipe in texts.")
    with tempfile.TemporaryDirectory(prefix="catena-") as folder:
        path = Path(folder) / "standard-input"
        with path.open("wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
        try:
            yield path
        except CatenaError as error:
            error.args = (str(error).replace(str(path), "standard input"),)
            raise


def _existing(name: str) -> Path:
    if "/" not in name and (len(name.split()) > 1 or "." not in name) and not os.path.exists(name):
        raise UsageError(f"File not found: {name!r}. To predict for a text, use --text {name!r}.")
    return Path(name)


def typed_lines(encoding: str = "utf-8") -> Iterator[str]:
    """The lines of standard input as they arrive."""
    if sys.stdin is None:
        raise UsageError("Standard input is closed and FILE is missing. Pass FILE, or pipe in texts.")
    for number, line in enumerate(sys.stdin.buffer, start=1):
        try:
            yield line.decode(encoding).removeprefix("\ufeff").rstrip("\r\n")
        except UnicodeDecodeError as error:
            raise FormatError(
                f"standard input:{number} must be encoded in {encoding}, got byte {error.object[error.start]:#04x} at "
                f"{error.start + 1}. Pass its encoding, such as --encoding cp1252."
            ) from None
        except LookupError:
            raise FormatError(f"Unknown encoding {encoding!r}. Use utf-8 or cp1252, for example.") from None


def check_writable(path: Path, example: str, read: str = "-") -> None:
    """Raise UsageError if ``path`` is a folder, in a missing folder, or the input file ``read`` (unless it is "-")."""
    if path.is_dir():
        raise UsageError(f"-o must be a file, got the folder {path}. Use {path / example}, for example.")
    if not path.parent.is_dir():
        raise UsageError(f"Cannot write {path}: there is no folder {path.parent}. Create it first.")
    if read != "-" and path.exists() and os.path.exists(read) and os.path.samefile(path, read):
        raise UsageError(f"{path} is the input file and would be overwritten. Pass another file as -o.")


def write_output(lines: Iterable[str], path: Path | None) -> None:
    """Write lines to a file, complete or not at all, or to standard output as they come.

    Control characters are escaped on standard output; those that set the direction of text only on a terminal.
    """
    if path is None:
        is_terminal = sys.stdout.isatty()
        for line in lines:
            sys.stdout.write(escape_controls(line, direction=is_terminal) + "\n")
        return
    with atomic_write(path) as unfinished, unfinished.open("w", encoding="utf-8", newline="\n") as file:
        for line in lines:
            file.write(line + "\n")


def warn(command: str, words: str) -> None:
    """Print a warning on standard error."""
    sys.stderr.write(f"catena {command}: {escape_controls(words)}\n")
