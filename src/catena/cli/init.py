"""``catena init TASK``: write a commented config."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from catena.cli.flags import arg, parse_flags, take_keys
from catena.cli.usage import UsageError
from catena.cli.writing import check_writable, write_lines
from catena.config import override, parse, to_toml
from catena.errors import ConfigError
from catena.registry import did_you_mean
from catena.tasks.table import TASKS

_USAGE = "catena init TASK [-o FILE] [--flags]"


@dataclass(frozen=True)
class InitFlags:
    """The task, and where its config goes."""

    task: Annotated[tyro.conf.Positional[str], arg("TASK")]
    """The task: classify."""
    output: Annotated[Path | None, arg("FILE", "-o")] = None
    """The file to write; standard output if not set."""
    overwrite: Annotated[bool, arg()] = False
    """Replace the file if it exists."""


def run(argv: Sequence[str]) -> int:
    """Write a config with every key explained."""
    entry = next((TASKS[word] for word in argv if word in TASKS), None)
    schema = (entry or TASKS["classify"]).config_class()
    keys, rest = take_keys(schema, InitFlags, argv)
    about = "Write a commented config for a task, with every key and what it means; flags change its values."
    flags = parse_flags(InitFlags, rest, _USAGE, about, schema, override({}, keys))
    if entry is None or flags.task != entry.name:
        raise UsageError(f"{flags.task!r} is no task: {did_you_mean(flags.task, TASKS)}")
    config = parse(schema, override({}, keys), source="the command line")
    heading = f"A config of the task {entry.name}: {entry.summary}.\ncatena train -c THIS_FILE FILES… trains with it."
    text = to_toml(config, heading=heading)
    if flags.output is None:
        sys.stdout.write(text)
        return 0
    check_writable(flags.output, "config.toml")
    if flags.output.exists() and not flags.overwrite:
        raise ConfigError(f"{flags.output} exists: name another file, or give --overwrite")
    write_lines(flags.output, text.splitlines())
    sys.stdout.write(f"wrote {flags.output}\nnext: catena train -c {flags.output} FILES…\n")
    return 0
