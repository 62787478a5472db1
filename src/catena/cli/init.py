"""``catena init TASK``: write a commented config."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from catena.cli.flags import UsageError, parse_flags
from catena.config import override, parse, split_flags, to_toml
from catena.errors import ConfigError
from catena.tasks.table import TASKS


@dataclass(frozen=True)
class InitFlags:
    task: tyro.conf.Positional[str]
    """The task: classify."""
    output: Annotated[Path | None, tyro.conf.arg(aliases=["-o"])] = None
    """The file to write; standard output if not set."""
    overwrite: bool = False
    """Replace the file if it exists."""


def run(argv: Sequence[str]) -> int:
    words = [word for word in argv if not word.startswith("-")]
    if "-h" in argv or "--help" in argv or not words:
        parse_flags(InitFlags, ["--help"], "catena init", "Write a commented config for a task.")
    entry = TASKS[words[0]]
    keys, rest = split_flags(entry.config_class(), argv)
    flags = parse_flags(InitFlags, rest, "catena init", "Write a commented config for a task.", entry.config_class())
    config = parse(entry.config_class(), override({}, keys), source="the command line")
    text = to_toml(
        config,
        heading=f"A config of the task {entry.name}: {entry.summary}.\ncatena train -c THIS_FILE trains with it.",
    )
    if flags.output is None:
        sys.stdout.write(text)
        return 0
    if flags.output.exists() and not flags.overwrite:
        raise ConfigError(f"{flags.output} exists: name another file, or give --overwrite")
    if flags.output.is_dir():
        raise UsageError(f"{flags.output} is a folder: name a file, such as {flags.output / 'config.toml'}")
    flags.output.write_text(text, encoding="utf-8")
    sys.stdout.write(f"wrote {flags.output}\nnext: catena train -c {flags.output} FILES…\n")
    return 0
