"""``catena train [TASK] FILES… [--flags]``: the same shape for every task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from catena.cli.flags import UsageError, parse_flags
from catena.config import override, parse, read_toml, split_flags
from catena.errors import ConfigError
from catena.registry import did_you_mean
from catena.tasks.table import TASKS, Entry, task_of_config, task_of_file

ABOUT = "Train a model. Without a task, the format of the first file decides which."


@dataclass(frozen=True)
class TrainFlags:
    files: tyro.conf.Positional[tuple[str, ...]] = ()
    """Files to train on; dev and test files are named by --dev and --test."""
    config: Annotated[Path | None, tyro.conf.arg(aliases=["-c"])] = None
    """A config file (see 'catena init'); flags go before what it says."""
    output: Annotated[Path | None, tyro.conf.arg(aliases=["-o"])] = None
    """The run folder; the next free runs/TASK-MODEL-NUMBER if not set."""
    overwrite: bool = False
    """Replace the run folder if it holds an older run."""
    start_from: Annotated[Path | None, tyro.conf.arg(name="from")] = None
    """Start from the weights of this run or checkpoint (fine-tuning), with its config unless flags say otherwise."""
    time: str | None = None
    """Time for the whole training, such as 5m; if no model is named, its kind and size are chosen to fit."""
    seeds: int = 1
    """Train so many models, from seeds that follow one another, and give mean and interval of their scores."""
    track: str | None = None
    """Also write the curves for: tensorboard."""
    quiet: Annotated[bool, tyro.conf.arg(aliases=["-q"])] = False
    """Print the result alone."""


def run(argv: Sequence[str]) -> int:
    entry, rest = _find_task(argv)
    schema = entry.config_class()
    data, text, source = _starting_point(rest)
    keys, rest = split_flags(schema, rest, data)
    flags = parse_flags(TrainFlags, _renamed(rest), f"catena train {entry.name}", ABOUT, schema)
    data = override(data, keys)
    if flags.files:
        data = {**data, "data": {**data.get("data", {}), "train": list(flags.files)}}
    if flags.time is not None:
        data = {**data, "training": {**data.get("training", {}), "max_time": flags.time}}
    config = parse(schema, data, source=source, text=text)

    from catena.cli.training import Plan, carry_out  # torch is imported from here on

    chosen: list[str] = []
    if flags.time is not None and "model" not in data:
        config, chosen = entry.open().fit_to_time(config)
    plan = Plan(
        entry,
        config,
        output=flags.output,
        overwrite=flags.overwrite,
        start_from=flags.start_from,
        seeds=flags.seeds,
        track=flags.track,
        quiet=flags.quiet,
        chosen=tuple(chosen),
    )
    return carry_out(plan)


def _find_task(argv: Sequence[str]) -> tuple[Entry, list[str]]:
    """The task that is named, or that the config is for, or that the first file looks like; and what remains."""
    arguments = list(argv)
    if not arguments or arguments[0] in ("-h", "--help"):
        return TASKS["classify"], [*arguments, "--help"]
    first = arguments[0]
    if first in TASKS:
        return TASKS[first], arguments[1:]
    if (config := _value_of(arguments, "-c", "--config")) is not None:
        return task_of_config(Path(config)), arguments
    if (old := _value_of(arguments, "--from")) is not None:
        return task_of_config(_config_of_run(Path(old))), arguments
    if first.startswith("-"):
        raise UsageError("say what to train on: catena train [TASK] FILES… [--flags]")
    if not Path(first).exists() and "/" not in first and "." not in first:
        raise UsageError(f"{first!r} is neither a task nor a file. As a task: {did_you_mean(first, TASKS)}")
    return task_of_file(Path(first)), arguments


def _config_of_run(folder: Path) -> Path:
    for place in (folder, folder / "best", folder / "last"):
        if (place / "config.toml").is_file():
            return place / "config.toml"
    raise ConfigError(f"--from {folder} must name a run or a checkpoint, and there is no config.toml in it")


def _renamed(words: Sequence[str]) -> list[str]:
    return [word.replace("_", "-") if word.startswith("--") and "=" not in word else word for word in words]


def _starting_point(words: Sequence[str]) -> tuple[dict[str, Any], str, str]:
    """The values that flags are put over: a config file's, an old run's, or none."""
    given = _value_of(words, "-c", "--config")
    if given is not None:
        return *read_toml(Path(given)), given
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
