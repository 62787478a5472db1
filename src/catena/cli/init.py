"""``catena init TASK``, which writes a commented config."""

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

_USAGE = "catena init TASK [-o FILE] [--options]"


@dataclass(frozen=True)
class InitFlags:
    """Options of ``catena init``."""

    task: Annotated[tyro.conf.Positional[str], arg("TASK")]
    """Task, such as classify."""
    output: Annotated[Path | None, arg("FILE", "-o")] = None
    """File to write. Default: standard output."""
    overwrite: Annotated[bool, arg()] = False
    """Replace the file if it exists."""


def run(argv: Sequence[str]) -> int:
    """Write a config with a comment for every key."""
    entry = next((TASKS[word] for word in argv if word in TASKS), None)
    schema = (entry or TASKS["classify"]).config_class()
    keys, rest = take_keys(schema, InitFlags, argv)
    about = "Write a config for a task, with a comment for every key. Options change the values."
    flags = parse_flags(InitFlags, rest, _USAGE, about, schema, override({}, keys))
    if entry is None or flags.task != entry.name:
        raise UsageError(f"Unknown task {flags.task!r}: {did_you_mean(flags.task, TASKS)}")
    config = parse(schema, override({}, keys), source="the command line")
    heading = f"Config of the task {entry.name}: {entry.summary}.\nTrain with it: catena train -c THIS_FILE FILES…"
    text = to_toml(config, heading=heading)
    if flags.output is None:
        sys.stdout.write(text)
        return 0
    check_writable(flags.output, "config.toml")
    if flags.output.exists() and not flags.overwrite:
        raise ConfigError(f"{flags.output} exists already. Pass another file, or add --overwrite.")
    write_lines(flags.output, text.splitlines())
    sys.stdout.write(f"wrote {flags.output}\nnext: catena train -c {flags.output} FILES…\n")
    return 0
