"""``catena train [TASK] FILES… [--options]``, which trains a model of any task."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, ClassVar

from catena.cli.common import COMMON_GROUPS, TrainingOptions, end_with
from catena.cli.help import full_help, short_help
from catena.cli.parser import (
    Arg,
    CommandLine,
    Section,
    UsageError,
    config_of_run,
    is_file,
    parse_command,
    starting_point,
)
from catena.config import ConfigKey, get_kind, get_sections, parse
from catena.recipes.catalog import find_config
from catena.registry import did_you_mean
from catena.tasks.spec import TASKS, TaskSpec, read_spec

_PAIRS = {
    "translate": ("transduce", "sentences", "strings of characters"),
    "transduce": ("translate", "words", "sentences"),
    "converse": ("translate", "contexts and responses", "sentences and their translations"),
}
"""Tasks that read files of pairs, with the alternative task and a description of the pairs of both."""


class TrainCommand(TrainingOptions):
    """Train a model. Without TASK, it is chosen by the format of the first file."""

    usage: ClassVar[str] = "catena train [TASK] FILES… [--options]"
    example: ClassVar[str] = "catena train reviews.csv --max-time 5m -o runs/first"

    files: Annotated[tuple[str, ...], Arg("[TASK] FILES…", positional=True)] = ()
    """Task, such as classify, and the files to train on. Dev and test files are set by --dev and --test."""
    unlabeled: Annotated[Path | None, Arg("FILE")] = None
    """With --max-time, for classify and tag: text without labels, on which word vectors for networks are trained."""


def run(argv: Sequence[str]) -> int:
    """Train as the command line specifies."""
    line = CommandLine(TrainCommand, argv)
    spec, reason = _find_task(line)
    if spec is None:
        end_with(_tasks_help())
    if not spec.has_examples:
        from catena.cli.play import run as play

        rest = list(argv)
        if line.first == spec.name:
            rest.remove(spec.name)
        return play(rest)
    _check_model(spec, line)
    data, text, source = starting_point(line)
    section = Section(spec.config_class(), _with_kind(spec, data, line), title=f"Config of the task {spec.name}")
    if line.help:
        with suppress(UsageError):  # of the chosen model, as far as the options are valid
            section = replace(section, data=parse_command(TrainCommand, line.words, [section])[1][0])
        end_with(_help(spec, section, full=line.help == "full"))
    options, (values,) = line.parse([section])
    values = _with_files(values, options, spec, line)
    config: Any = parse(spec.config_class(), values, source=source, text=text)

    from catena.cli.training import TrainRequest, run_search, run_training
    from catena.tasks.auto.table import default_values, read_candidates

    request = TrainRequest(spec, config, options, ("catena", "train", *argv), (reason,) if reason else ())
    has_model = "model" in values or options.init_from is not None or options.config is not None
    if options.unlabeled is not None and (has_model or config.training.max_time is None):
        raise UsageError(
            "--unlabeled needs a search for a model. Use it with --max-time 5m and without --model, or train vectors "
            "with 'catena train embed'."
        )
    if has_model:
        return run_training(request)
    is_one = options.seeds == 1 and getattr(config.data, "folds", None) is None
    if is_one and read_candidates(spec.name) and config.training.max_time is not None:
        return run_search(request, values, source, unlabeled=options.unlabeled)
    values, chosen = default_values(spec, values)
    config = parse(spec.config_class(), values, source=source)
    lines = [f"{chosen}; --max-time 5m searches"] if chosen else []
    return run_training(replace(request, config=config, chosen=(*request.chosen, *lines)))


def _check_model(spec: TaskSpec, line: CommandLine) -> None:
    """Raise UsageError if the model is one of other tasks."""
    kind = line.value("model", "model.kind")
    if kind is None or kind in _models(spec):
        return
    if owners := [name for name, other in TASKS.items() if kind in _models(other)]:
        raise UsageError(
            f"--model must be a model of the task {spec.name}, got {kind!r}, a model of {' and '.join(owners)}. Use "
            f"'catena train {owners[0]} …' if that is the task."
        )


def _models(spec: TaskSpec) -> list[str]:
    """The kinds of models of a task, as they are written on the command line."""
    return [get_kind(model) for model in get_sections(spec.config_class()).get("model", ())]


def _with_files(values: dict[str, Any], options: TrainCommand, spec: TaskSpec, line: CommandLine) -> dict[str, Any]:
    """The values with the files of the command line. Raise UsageError if they are set twice."""
    files = options.files[1:] if options.files[:1] == (spec.name,) else options.files
    if not files:
        return values
    data = values.get("data", {})
    if line.value("train", "source") is not None:
        raise UsageError(f"The training files are set twice, by an option and as {files[0]}. Remove one of them.")
    key = "source" if "target" in data else "train"
    return {**values, "data": {**data, key: list(files)}}


def _with_kind(spec: TaskSpec, data: dict[str, Any], line: CommandLine) -> dict[str, Any]:
    """The values with the kind of model that the files need, such as pictures, if the user names none."""
    files = line.arguments[1:] if line.arguments[:1] == [spec.name] else line.arguments
    first = next(iter(files or line.candidates), None)
    if first is None or line.value("model", "model.kind") is not None:
        return data
    column = line.value("file_column")
    named = {**data, "data": {**data.get("data", {}), "file_column": column}} if column else data
    chosen = spec.choose_kind(named, [Path(first)])
    return {**data, "model": chosen["model"]} if "model" in chosen else data


# --- the task ---------------------------------------------------------------------------------------------------------


def _find_task(line: CommandLine) -> tuple[TaskSpec | None, str]:
    """The task that is named, that a config is for, or that the first file looks like, and why it was chosen."""
    if line.words and line.words[0] in TASKS:
        return TASKS[line.words[0]], ""
    if (config := line.value("config")) is not None:
        return read_spec(find_config(config)), ""
    if (run := line.value("init_from")) is not None:
        return read_spec(config_of_run(Path(run))), ""
    first = _first_file(line)
    if first is not None and first in TASKS:
        return TASKS[first], ""
    if first is None:
        if line.help:
            return None, ""
        raise UsageError(f"FILES… is missing. Usage: {TrainCommand.usage}.")
    if not Path(first).exists() and "/" not in first and "." not in first:
        raise UsageError(
            f"{first!r} is neither a task nor a file. Check the path; as a task: {did_you_mean(first, TASKS)}"
        )
    return _detect(first, line)


def _first_file(line: CommandLine) -> str | None:
    """The first task or file. A word after an option is one if it exists, since only the task knows its options."""
    if line.arguments:
        return line.arguments[0]
    return next((word for word in line.candidates if word in TASKS or is_file(word)), None)


def _detect(first: str, line: CommandLine) -> tuple[TaskSpec, str]:
    """The task of a file, and a note if the choice may surprise."""
    from catena.tasks.spec import detect_spec

    format = line.value("input_format")
    for task in TASKS.values():
        named = [name for name in task.implied_by if line.value(name.replace("-", "_"))]
        if named and task.name == "translate" and set(named) <= {"source-column", "target-column"}:
            return _detect_pairs(first, line)
        if named:
            return task, ""
    for task in TASKS.values():
        if format is not None and format in task.formats:
            return task, ""
    labeled, texts = (line.value(f"{role}_column") is not None for role in ("label", "text"))
    spec = detect_spec(Path(first), line.value("encoding"), labeled, texts)
    if spec.name in ("transduce", "translate") and texts:
        spec = TASKS["classify"]
    return spec, _note(spec, line.arguments, line.value("encoding"))


def _detect_pairs(first: str, line: CommandLine) -> tuple[TaskSpec, str]:
    """The task of two columns that are named: sentences are translated, words are transduced."""
    from catena.tasks.spec import detect_pairs

    columns = {side: line.value(f"{side}_column") for side in ("source", "target")}
    spec = detect_pairs(Path(first), columns, line.value("encoding"))
    return spec, _note(spec, line.arguments, line.value("encoding"))


def _note(spec: TaskSpec, names: Sequence[str], encoding: str | None) -> str:
    """A note on a choice that may surprise: pairs are translated or transduced, two separate texts are not paired."""
    files = [Path(name) for name in names if is_file(name)]
    if spec.name == "lm" and len(files) == 2 and files[0].with_suffix("") == files[1].with_suffix(""):
        return (
            f"task: lm, because {files[0]} is plain text; if {files[1]} is its translation line by line, use 'catena "
            f"train {files[0]} --target {files[1]}'"
        )
    if spec.name not in _PAIRS or (spec.name == "converse" and not _are_pairs(files, encoding)):
        return f"task: {spec.name}"
    other, these, those = _PAIRS[spec.name]
    return f"task: {spec.name}, because these are pairs of {these}; 'catena train {other} …' treats them as {those}"


def _are_pairs(files: Sequence[Path], encoding: str | None) -> bool:
    """Whether the first file has columns of contexts and responses, rather than dialogues."""
    from catena.data.detect import detect_format

    return bool(files) and {"source", "target"} <= detect_format(files[0], encoding).columns.keys()


# --- help -------------------------------------------------------------------------------------------------------------


def _help(spec: TaskSpec, section: Section, full: bool) -> str:
    class Command(TrainCommand):
        usage: ClassVar[str] = f"catena train {spec.name} FILES… [--options]"
        example: ClassVar[str] = f"catena train {spec.name} {spec.example}"

    Command.__doc__ = f"Train a model of the task {spec.name}: {spec.summary}."
    if full:
        return full_help(Command, [section])
    columns = tuple(name for name in _data_keys(section) if name.endswith("_column"))
    groups = {"Data": ("files", "dev", "test", "input_format", *columns), "Model": spec.main_options, **COMMON_GROUPS}
    return short_help(Command, [section], groups) + f"\nGuide: docs/{spec.guide}"


def _data_keys(section: Section) -> list[str]:
    found: list[ConfigKey] = [key for key in section.options() if key.path[0] == "data"]
    return [key.path[-1] for key in found]


def _tasks_help() -> str:
    width = max(map(len, TASKS))
    tasks = "\n".join(f"  {name:<{width}}  {TASKS[name].summary}" for name in TASKS)
    return f"{short_help(TrainCommand)}\n\nTasks ('catena train TASK --help' shows the options of each):\n{tasks}"
