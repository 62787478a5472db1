"""``catena train [TASK] FILES… [--flags]``: the same shape for every task."""

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
_ABOUT = "Train a model. Without a task, the format of the first file decides which."
_USAGE = "catena train [TASK] FILES… [--flags]"
_PAIRS = {
    "translate": ("transduce", "sentences", "strings of characters"),
    "transduce": ("translate", "words", "sentences"),
    "converse": ("translate", "what is said and what is said to it", "sentences and their translations"),
}
"""Tasks that a file of pairs may be for: the other one, and what each takes pairs for."""
_FLAGS_THAT_IMPLY_TASK = {
    "translate": ("target", "source-column", "target-column"),
    "converse": ("context-column", "response-column"),
}
"""Flags that only one task has: texts in two files, and the names of columns."""


@dataclass(frozen=True)
class TrainFlags:
    """Flags of training beside the keys of the config."""

    files: Annotated[tyro.conf.Positional[tuple[str, ...]], arg("[TASK] FILES…")] = ()
    """What to train, such as classify, and the files to train on; dev and test files are named by --dev and --test."""
    config: Annotated[Path | None, arg("FILE", "-c")] = None
    """A config file (see 'catena init') or the name of a recipe; flags go before what it says."""
    output: Annotated[Path | None, arg("FOLDER", "-o")] = None
    """The run folder; the next free runs/TASK-MODEL-NUMBER if not set."""
    overwrite: Annotated[bool, arg()] = False
    """Replace the run folder if it holds an older run."""
    start_from: Annotated[Path | None, arg("RUN", name="from")] = None
    """Start from the weights of this run or checkpoint (fine-tuning), with its config unless flags say otherwise."""
    time: Annotated[str | None, arg("TIME")] = None
    """Time for the whole training, such as 5m; if no model is named, its kind and size are chosen to fit."""
    seeds: Annotated[int, arg("N")] = 1
    """Train so many models, from seeds that follow one another, and give mean and interval of their scores."""
    track: Annotated[str | None, arg("NAME")] = None
    """Also write the curves for: tensorboard."""
    quiet: Annotated[bool, arg(None, "-q")] = False
    """Print the result alone."""

    RENAMED: ClassVar[dict[str, str]] = {"start_from": "from"}

    def __post_init__(self) -> None:
        check_minimum("--seeds", self.seeds, 1)


def run(argv: Sequence[str], usage: str = _USAGE, about: str = _ABOUT) -> int:
    """Train what the command says; ``usage`` and ``about`` are for its help, where it is called by another name."""
    if not argv:
        raise UsageError(f"say what to train on: {_USAGE}")
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
    """The config with what was chosen to fit the time: the model, and of all else that is not said what differs."""
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
    """A word on a choice that a person may not expect: pairs are translated or transduced, and two texts are not."""
    sides = [Path(word) for word in words if is_file(word)]
    if (
        entry.name == "lm"
        and words[0] != "lm"
        and len(sides) == 2
        and sides[0].with_suffix("") == sides[1].with_suffix("")
    ):
        return [
            f"task: lm, for {sides[0]} is plain text; if {sides[1]} translates it line by line, say 'catena train "
            f"{sides[0]} --target {sides[1]}'"
        ]
    if entry.name in words or entry.name not in _PAIRS or _value_of(words, "-c", "--config", "--from") is not None:
        return []
    other, these, those = _PAIRS[entry.name]
    told = f"task: {entry.name}, for these are pairs of {these}"
    if other == "transduce" and any({".csv", ".jsonl"} & set(path.suffixes) for path in sides):
        return [told]  # which reads lines alone
    return [f"{told}; 'catena train {other} …' takes them for {those}"]


def _with_files_and_time(
    data: dict[str, Any], flags: TrainFlags, keys: Sequence[tuple[ConfigKey, str]], entry: TaskSpec
) -> dict[str, Any]:
    """The values with the files and the time that the command names, which it may name once only."""
    named = {key.path for key, _ in keys}
    files = flags.files[1:] if flags.files[:1] == (entry.name,) else flags.files
    if files and ("data", "train") in named:
        raise UsageError(f"the files to train on are named twice, by --train and as {files[0]}: leave one of them out")
    if files and ("data", "source") in named:
        raise UsageError(
            f"{files[0]!r} belongs to no flag, and --source names what to train on: several files are written with "
            f"commas, as in --source a.en,b.en --target a.de,b.de"
        )
    if flags.time is not None and ("training", "max_time") in named:
        raise UsageError("--time and --max-time say the same: leave one of them out")
    if flags.time is not None and all(key.path != ("training", "max_time") for key in all_keys(entry.config_class())):
        raise UsageError(f"{entry.name} is trained for a number of epochs, not for a time: give --epochs, not --time")
    if files:
        key = "source" if ("data", "target") in named and ("data", "source") not in named else "train"
        data = {**data, "data": {**data.get("data", {}), key: list(files)}}
    if flags.time is not None:
        data = {**data, "training": {**data.get("training", {}), "max_time": flags.time}}
    return data


# --- what is to be trained --------------------------------------------------------------------------------------------


def _find_task(words: Sequence[str]) -> TaskSpec:
    """The task that is named, or that the config is for, or that the first file looks like."""
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
        raise UsageError(f"{first!r} is neither a task nor a file. As a task: {did_you_mean(first, TASKS)}")
    if (format := _value_of(words, "--format", "--data.format")) is not None:
        for entry in TASKS.values():
            if format in entry.formats:
                return entry
    labels = _value_of(words, "--label-column", "--data.label-column", "--data.label_column")
    return task_of_file(Path(first), _value_of(words, "--encoding", "--data.encoding"), labeled=labels is not None)


def _task_to_help_with(words: Sequence[str]) -> TaskSpec:
    """The task whose flags the help tells: that of the first file which is named, if it can be told."""
    for word in words:
        if is_file(word):
            with contextlib.suppress(CatenaError):
                return task_of_file(Path(word))
    return TASKS["classify"]


def _check_model(words: Sequence[str], entry: TaskSpec) -> None:
    """Refuse a kind of model that only other tasks have: most likely the file was taken for another task's."""
    named = _value_of(words, "--model", "--model.kind")
    if named is None or named in _kinds(entry):
        return
    owners = [name for name in TASKS if named in _kinds(TASKS[name])]
    if owners:
        why = "" if entry.name in words else ", which the file looks like"
        raise UsageError(
            f"{named!r} is a model of the task {' and '.join(owners)}, not of {entry.name}{why}: say 'catena train "
            f"{owners[0]} FILES… --model {named}'"
        )


def _kinds(entry: TaskSpec) -> tuple[str, ...]:
    """The kinds of model that a task knows."""
    found = (key for key in all_keys(entry.config_class()) if key.path == ("model", KIND))
    return next((tuple(map(str, key.values)) for key in found), ())


def _first_file(words: Sequence[str]) -> str:
    """The first word that belongs to no flag, read with the flags of the task that knows most of them."""
    rests, problems = [], []
    for schema in [entry.config_class() for entry in TASKS.values()]:
        try:
            rests.append((take_keys(schema, TrainFlags, words)[1], schema))
        except UsageError as problem:
            if "is not a known key" not in str(problem):  # after -s: another task may have it
                raise
            problems.append(problem)
    if not rests:
        raise problems[0]
    rest, schema = min(rests, key=lambda pair: len(pair[0]))
    files = parse_flags(TrainFlags, rest, _USAGE, _ABOUT, schema).files
    if not files:
        raise UsageError(f"say what to train on: {_USAGE}")
    return files[0]


def _config_of_run(folder: Path) -> Path:
    for place in (folder, folder / "best", folder / "last"):
        if (place / "config.toml").is_file():
            return place / "config.toml"
    from catena.checkpoint import open_checkpoint
    from catena.cli.machine import resolve_run_folder

    return open_checkpoint(resolve_run_folder(folder)).folder / "config.toml"  # says what is wrong with it


def _starting_point(words: Sequence[str]) -> tuple[dict[str, Any], str, str]:
    """The values that flags are put over: a config file's, an old run's, or none."""
    given = _value_of(words, "-c", "--config")
    if given is not None:
        return *read_toml(find_config(given)), given
    old = _value_of(words, "--from")
    if old is not None:
        data, _ = read_toml(_config_of_run(Path(old)))
        data.pop("data", None)  # the old run's files are not the new run's
        return data, "", str(old)
    return {}, "", "the command line"


def _value_of(words: Sequence[str], *names: str) -> str | None:
    """What is given for a flag, whatever else the words hold."""
    for i, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name in names and equals:
            return value
        if word in names and i + 1 < len(words):
            return words[i + 1]
    return None
