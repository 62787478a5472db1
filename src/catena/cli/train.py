"""``catena train [TASK] FILES… [--options]``, which trains a model of any task."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, ClassVar

from catena.cli.common import HELP, end_with, is_file
from catena.cli.help import full_help, short_help
from catena.cli.parser import Arg, Section, UsageError, first_argument, parse_command
from catena.cli.train_options import COMMON_GROUPS, TrainingOptions, config_of_run, find_value, starting_point
from catena.config import ConfigKey, parse
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


def run(argv: Sequence[str]) -> int:
    """Train as the command line specifies."""
    wants_help = any(word in HELP for word in argv)
    words = [word for word in argv if word not in HELP]
    if not words and not wants_help:
        raise UsageError(f"FILES… is missing. Usage: {TrainCommand.usage}.")
    spec, reason = _find_task(words, wants_help)
    if spec is None:
        end_with(_tasks_help())
        return 0
    if not spec.has_examples:
        from catena.cli.play import run as play

        rest = list(argv)
        if first_argument(TrainCommand, words) == spec.name:
            rest.remove(spec.name)
        return play(rest)
    data, text, source = starting_point(words)
    data = _with_kind(spec, data, words)
    title = f"Config of the task {spec.name}"
    section = Section(spec.config_class(), data, title=title)
    if wants_help:
        with suppress(UsageError):  # of the chosen model, as far as the options are valid
            section = Section(spec.config_class(), parse_command(TrainCommand, words, [section])[1][0], title=title)
        end_with(_help(spec, section, full="--help-all" in argv))
    options, (values,) = parse_command(TrainCommand, words, [section])
    values = _with_files(values, options, spec, words)
    config: Any = parse(spec.config_class(), values, source=source, text=text)

    from catena.cli.training import TrainRequest, run_search, run_training
    from catena.tasks.auto.default import default_values
    from catena.tasks.auto.table import read_candidates

    request = TrainRequest(
        spec,
        config,
        output=options.output,
        overwrite=options.overwrite,
        init_from=options.init_from,
        seeds=options.seeds,
        track=options.track,
        quiet=options.quiet,
        command=("catena", "train", *argv),
        chosen=(reason,) if reason else (),
    )
    if "model" in values or options.init_from is not None or options.config is not None:
        return run_training(request)
    is_one = options.seeds == 1 and getattr(config.data, "folds", None) is None
    if is_one and read_candidates(spec.name) and config.training.max_time is not None:
        return run_search(request, values, source)
    values, line = default_values(spec, values)
    config = parse(spec.config_class(), values, source=source)
    return run_training(replace(request, config=config, chosen=(*request.chosen, *filter(None, [line]))))


def _with_files(values: dict[str, Any], options: TrainCommand, spec: TaskSpec, words: Sequence[str]) -> dict[str, Any]:
    """The values with the files of the command line. Raise UsageError if they are set twice."""
    files = options.files[1:] if options.files[:1] == (spec.name,) else options.files
    if not files:
        return values
    data = values.get("data", {})
    set_here = {word.partition("=")[0] for word in words}
    if set_here & {"--train", "--data.train", "--source", "--data.source"}:
        raise UsageError(f"The training files are set twice, by an option and as {files[0]}. Remove one of them.")
    key = "source" if "target" in data else "train"
    return {**values, "data": {**data, key: list(files)}}


def _with_kind(spec: TaskSpec, data: dict[str, Any], words: Sequence[str]) -> dict[str, Any]:
    """The values with the kind of model that the files need, such as pictures, if the user names none."""
    first = first_argument(TrainCommand, words[1:] if words[:1] == [spec.name] else words)
    if first is None or find_value(words, "--model", "--model.kind") is not None:
        return data
    column = find_value(words, "--file-column", "--data.file-column")
    named = {**data, "data": {**data.get("data", {}), "file_column": column}} if column else data
    chosen = spec.choose_kind(named, [Path(first)])
    return {**data, "model": chosen["model"]} if "model" in chosen else data


# --- the task ---------------------------------------------------------------------------------------------------------


def _find_task(words: Sequence[str], wants_help: bool) -> tuple[TaskSpec | None, str]:
    """The task that is named, that a config is for, or that the first file looks like, and why it was chosen."""
    if words and words[0] in TASKS:
        return TASKS[words[0]], ""
    if (config := find_value(words, "-c", "--config")) is not None:
        return read_spec(find_config(config)), ""
    if (run := find_value(words, "--init-from")) is not None:
        return read_spec(config_of_run(Path(run))), ""
    first = _first_file(words)
    if first is not None and first in TASKS:
        return TASKS[first], ""
    if first is None:
        if wants_help:
            return None, ""
        raise UsageError(f"FILES… is missing. Usage: {TrainCommand.usage}.")
    if not Path(first).exists() and "/" not in first and "." not in first:
        raise UsageError(
            f"{first!r} is neither a task nor a file. Check the path; as a task: {did_you_mean(first, TASKS)}"
        )
    return _detect(first, words)


def _first_file(words: Sequence[str]) -> str | None:
    """The first task or file. Until the task is known, so is not which of its options have a value."""
    first = first_argument(TrainCommand, words)
    pairs = zip(("", *words), words, strict=False)
    free = [word for before, word in pairs if not word.startswith("-") and not before.startswith("--")]
    if first is None or first in TASKS or Path(first).exists():
        return first
    return first if first in free else next((word for word in words if word in TASKS or is_file(word)), None)


def _detect(first: str, words: Sequence[str]) -> tuple[TaskSpec, str]:
    """The task of a file, and a note if the choice may surprise."""
    from catena.tasks.spec import detect_spec

    for task in TASKS.values():
        if any(find_value(words, f"--{name}", f"--data.{name}") for name in task.implied_by):
            return task, ""
    labels = find_value(words, "--label-column", "--data.label-column")
    encoding = find_value(words, "--encoding", "--data.encoding")
    format = find_value(words, "--input-format", "--data.input-format")
    for task in TASKS.values():
        if format is not None and format in task.formats:
            return task, ""
    spec = detect_spec(Path(first), encoding, labeled=labels is not None)
    if spec.name in ("transduce", "translate") and find_value(words, "--text-column", "--data.text-column"):
        spec = TASKS["classify"]
    return spec, _note(spec, words)


def _note(spec: TaskSpec, words: Sequence[str]) -> str:
    """A note on a choice that may surprise: pairs are translated or transduced, two separate texts are not paired."""
    files = [Path(word) for word in words if is_file(word)]
    if spec.name == "lm" and len(files) == 2 and files[0].with_suffix("") == files[1].with_suffix(""):
        return (
            f"task: lm, because {files[0]} is plain text; if {files[1]} is its translation line by line, use 'catena "
            f"train {files[0]} --target {files[1]}'"
        )
    if spec.name not in _PAIRS:
        return f"task: {spec.name}"
    other, these, those = _PAIRS[spec.name]
    return f"task: {spec.name}, because these are pairs of {these}; 'catena train {other} …' treats them as {those}"


# --- help -------------------------------------------------------------------------------------------------------------


def _help(spec: TaskSpec, section: Section, full: bool) -> str:
    class Command(TrainCommand):
        __doc__ = f"Train a model of the task {spec.name}: {spec.summary}."
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
