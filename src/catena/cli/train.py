"""``catena train [TASK] FILES… [--options]``, which trains a model of any task."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeVar

import tyro

from catena.cli.flags import arg, check_minimum, parse_flags, take_keys
from catena.cli.predict import is_file
from catena.cli.usage import UsageError
from catena.config import KIND, Config, ConfigKey, override, parse, read_toml
from catena.config import keys as all_keys
from catena.errors import CatenaError
from catena.recipes.table import find_config
from catena.registry import did_you_mean
from catena.tasks.table import TASKS, TaskSpec, task_of_config, task_of_file

C = TypeVar("C", bound=Config)
_ABOUT = "Train a model. Without TASK, it is chosen by the format of the first file."
_USAGE = "catena train [TASK] FILES… [--options]"
_PAIRS = {
    "translate": ("transduce", "sentences", "strings of characters"),
    "transduce": ("translate", "words", "sentences"),
    "converse": ("translate", "contexts and responses", "sentences and their translations"),
}
"""Tasks that read files of pairs, with the alternative task and a description of the pairs of both."""
_FLAGS_THAT_IMPLY_TASK = {
    "translate": ("target", "source-column", "target-column"),
    "converse": ("context-column", "response-column"),
}
"""Options that only one task has: texts in two files, and column names."""


@dataclass(frozen=True)
class TrainFlags:
    """Options of ``catena train`` other than the config options."""

    files: Annotated[tyro.conf.Positional[tuple[str, ...]], arg("[TASK] FILES…")] = ()
    """Task, such as classify, and the files to train on. Dev and test files are set by --dev and --test."""
    config: Annotated[Path | None, arg("FILE", "-c")] = None
    """Config file (see 'catena init') or the name of a recipe. Options override its values."""
    output: Annotated[Path | None, arg("FOLDER", "-o")] = None
    """Run folder. Default: the next free runs/TASK-MODEL-NUMBER."""
    overwrite: Annotated[bool, arg()] = False
    """Replace the run folder if it contains an older run."""
    start_from: Annotated[Path | None, arg("RUN", name="from")] = None
    """Fine-tune: start from the weights of this run or checkpoint, with its config unless options override it."""
    time: Annotated[str | None, arg("TIME")] = None
    """Time limit for the whole training, such as 5m. Without --model, the model and its size are chosen to fit."""
    seeds: Annotated[int, arg("N")] = 1
    """Train N models with consecutive seeds and report the mean and a confidence interval of their scores."""
    track: Annotated[str | None, arg("NAME")] = None
    """Also log the curves to: tensorboard."""
    quiet: Annotated[bool, arg(None, "-q")] = False
    """Print only the result."""

    RENAMED: ClassVar[dict[str, str]] = {"start_from": "from"}

    def __post_init__(self) -> None:
        check_minimum("--seeds", self.seeds, 1)


def run(argv: Sequence[str], usage: str = _USAGE, about: str = _ABOUT) -> int:
    """Train as the command line specifies. ``usage`` and ``about`` replace the texts of its help."""
    if not argv:
        raise UsageError(f"FILES… is missing. Usage: {_USAGE}.")
    entry = _find_task(argv)
    _check_model(argv, entry)
    schema = entry.config_class()
    data, text, source = _starting_point(argv)
    keys, rest = take_keys(schema, TrainFlags, argv, data)
    flags = parse_flags(TrainFlags, rest, usage, about, schema, override(data, keys))
    data = _with_files_and_time(override(data, keys), flags, keys, entry)
    config = parse(schema, data, source=source, text=text)

    from catena.cli.training import TrainRequest, run_training  # torch is imported from here on

    chosen = _told(entry, argv)
    if flags.time is not None and "model" not in data:
        fitted, why = entry.open().fit_to_time(config)
        chosen += why
        config = _with_choices(schema, data, fitted, source)
    plan = TrainRequest(
        entry,
        config,
        output=flags.output,
        overwrite=flags.overwrite,
        start_from=flags.start_from,
        seeds=flags.seeds,
        track=flags.track,
        quiet=flags.quiet,
        command=("catena", "train", *argv),
        chosen=tuple(chosen),
    )
    return run_training(plan)


def _with_choices(schema: type[C], data: dict[str, Any], fitted: Any, source: str) -> C:
    """The config with the model that fits the time limit, and its other values that the user did not set."""
    values = {**data, "model": fitted.model.model_dump()}
    config: Any = parse(schema, values, source=source)
    for name in ("tokenizer", "batches"):
        if name not in data and getattr(fitted, name, None) != getattr(config, name, None):
            values[name] = getattr(fitted, name).model_dump()
    if set(data.get("training", {})) <= {"max_time"}:
        for name in ("learning_rate", "metric"):
            if getattr(fitted.training, name) != getattr(config.training, name):
                values["training"] = {**values.get("training", {}), name: getattr(fitted.training, name)}
    return parse(schema, values, source=source)


def _told(entry: TaskSpec, words: Sequence[str]) -> list[str]:
    """A note on a choice that may surprise: pairs are translated or transduced, two separate texts are not paired."""
    sides = [Path(word) for word in words if is_file(word)]
    if (
        entry.name == "lm"
        and words[0] != "lm"
        and len(sides) == 2
        and sides[0].with_suffix("") == sides[1].with_suffix("")
    ):
        return [
            f"task: lm, because {sides[0]} is plain text; if {sides[1]} is its translation line by line, use 'catena "
            f"train {sides[0]} --target {sides[1]}'"
        ]
    if entry.name in words or entry.name not in _PAIRS or _value_of(words, "-c", "--config", "--from") is not None:
        return []
    other, these, those = _PAIRS[entry.name]
    told = f"task: {entry.name}, because these are pairs of {these}"
    if other == "transduce" and any({".csv", ".jsonl"} & set(path.suffixes) for path in sides):
        return [told]  # transduce reads only lines
    return [f"{told}; 'catena train {other} …' treats them as {those}"]


def _with_files_and_time(
    data: dict[str, Any], flags: TrainFlags, keys: Sequence[tuple[ConfigKey, str]], entry: TaskSpec
) -> dict[str, Any]:
    """The values with the files and the time limit of the command line. Raise UsageError if one is set twice."""
    named = {key.path for key, _ in keys}
    files = flags.files[1:] if flags.files[:1] == (entry.name,) else flags.files
    if files and ("data", "train") in named:
        raise UsageError(f"The training files are set twice, by --train and as {files[0]}. Remove one of them.")
    if files and ("data", "source") in named:
        raise UsageError(
            f"Unexpected argument {files[0]!r}: --source sets the training files. Separate several files by commas: "
            f"--source a.en,b.en --target a.de,b.de."
        )
    if flags.time is not None and ("training", "max_time") in named:
        raise UsageError("--time and --max-time are the same option. Remove one of them.")
    if flags.time is not None and all(key.path != ("training", "max_time") for key in all_keys(entry.config_class())):
        raise UsageError(f"--time does not apply to {entry.name}, which trains for a number of epochs. Use --epochs.")
    if files:
        key = "source" if ("data", "target") in named and ("data", "source") not in named else "train"
        data = {**data, "data": {**data.get("data", {}), key: list(files)}}
    if flags.time is not None:
        data = {**data, "training": {**data.get("training", {}), "max_time": flags.time}}
    return data


# --- task detection ---------------------------------------------------------------------------------------------------


def _find_task(words: Sequence[str]) -> TaskSpec:
    """The task that is named, that the config is for, or that the first file looks like."""
    if words[0] in TASKS:
        return TASKS[words[0]]
    if (config := _value_of(words, "-c", "--config")) is not None:
        return task_of_config(find_config(config))
    if (old := _value_of(words, "--from")) is not None:
        return task_of_config(_config_of_run(Path(old)))
    if "-h" in words or "--help" in words:
        return next((TASKS[word] for word in words if word in TASKS), None) or _task_to_help_with(words)
    for task, flags in _FLAGS_THAT_IMPLY_TASK.items():
        if any(_value_of(words, f"--{flag}", f"--data.{flag}", f"--data.{flag.replace('-', '_')}") for flag in flags):
            return TASKS[task]
    first = _first_file(words)
    if first in TASKS:
        return TASKS[first]
    if not Path(first).exists() and "/" not in first and "." not in first:
        raise UsageError(
            f"{first!r} is neither a task nor a file. Check the path; as a task: {did_you_mean(first, TASKS)}"
        )
    if (format := _value_of(words, "--format", "--data.format")) is not None:
        for entry in TASKS.values():
            if format in entry.formats:
                return entry
    labels = _value_of(words, "--label-column", "--data.label-column", "--data.label_column")
    return task_of_file(Path(first), _value_of(words, "--encoding", "--data.encoding"), labeled=labels is not None)


def _task_to_help_with(words: Sequence[str]) -> TaskSpec:
    """The task whose options the help shows: the task of the first file, if it can be detected."""
    for word in words:
        if is_file(word):
            with contextlib.suppress(CatenaError):
                return task_of_file(Path(word))
    return TASKS["classify"]


def _check_model(words: Sequence[str], entry: TaskSpec) -> None:
    """Raise UsageError if only other tasks have the model, probably because the wrong task was detected."""
    named = _value_of(words, "--model", "--model.kind")
    if named is None or named in _kinds(entry):
        return
    owners = [name for name in TASKS if named in _kinds(TASKS[name])]
    if owners:
        why = "" if entry.name in words else ", the task detected from the file"
        raise UsageError(
            f"{named!r} is a model of {' and '.join(owners)}, not of {entry.name}{why}. Use 'catena train "
            f"{owners[0]} FILES… --model {named}'."
        )


def _kinds(entry: TaskSpec) -> tuple[str, ...]:
    """The kinds of model that a task has."""
    found = (key for key in all_keys(entry.config_class()) if key.path == ("model", KIND))
    return next((tuple(map(str, key.values)) for key in found), ())


def _first_file(words: Sequence[str]) -> str:
    """The first positional argument, parsed with the options of the task that knows most of them."""
    rests, problems = [], []
    for schema in [entry.config_class() for entry in TASKS.values()]:
        try:
            rests.append((take_keys(schema, TrainFlags, words)[1], schema))
        except UsageError as problem:
            if "is not a known key" not in str(problem):  # after -s: another task may have the key
                raise
            problems.append(problem)
    if not rests:
        raise problems[0]
    rest, schema = min(rests, key=lambda pair: len(pair[0]))
    files = parse_flags(TrainFlags, rest, _USAGE, _ABOUT, schema).files
    if not files:
        raise UsageError(f"FILES… is missing. Usage: {_USAGE}.")
    return files[0]


def _config_of_run(folder: Path) -> Path:
    for place in (folder, folder / "best", folder / "last"):
        if (place / "config.toml").is_file():
            return place / "config.toml"
    from catena.checkpoint import open_checkpoint
    from catena.cli.machine import resolve_run_folder

    return open_checkpoint(resolve_run_folder(folder)).folder / "config.toml"  # raises if it is invalid


def _starting_point(words: Sequence[str]) -> tuple[dict[str, Any], str, str]:
    """The values that options override: those of a config file, of an old run, or none."""
    given = _value_of(words, "-c", "--config")
    if given is not None:
        return *read_toml(find_config(given)), given
    old = _value_of(words, "--from")
    if old is not None:
        data, _ = read_toml(_config_of_run(Path(old)))
        data.pop("data", None)  # the new run has its own files
        return data, "", str(old)
    return {}, "", "the command line"


def _value_of(words: Sequence[str], *names: str) -> str | None:
    """The value of an option, regardless of the other arguments."""
    for i, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name in names and equals:
            return value
        if word in names and i + 1 < len(words):
            return words[i + 1]
    return None
