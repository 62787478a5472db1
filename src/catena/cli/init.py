"""``catena init TASK``, which writes a commented config."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from catena.cli.common import check_writable, parse_or_help, write_output
from catena.cli.parser import Arg, CommandLine, CommandOptions, Section, UsageError
from catena.config import parse, to_toml
from catena.errors import ConfigError
from catena.registry import did_you_mean
from catena.tasks.spec import TASKS


class InitCommand(CommandOptions):
    """Write a config for a task, with a comment for every key. Options change the values."""

    usage = "catena init TASK [-o FILE] [--options]"
    example = "catena init tag --model features -o config.toml"

    task: Annotated[str, Arg("TASK", positional=True)]
    """Task, such as classify."""
    output: Annotated[Path | None, Arg("FILE", "-o")] = None
    """File to write. Default: standard output."""
    overwrite: bool = False
    """Replace the file if it exists."""


def run(argv: Sequence[str]) -> int:
    """Write a config with a comment for every key."""
    line = CommandLine(InitCommand, argv)
    spec = next((TASKS[word] for word in (*line.arguments, *line.candidates) if word in TASKS), None)
    if line.help and (spec is None or line.help == "short"):
        parse_or_help(line)
    if spec is None:
        if line.first is None:
            raise UsageError(f"TASK is missing. Use one of {', '.join(TASKS)}.")
        raise UsageError(f"Unknown task {line.first!r}: {did_you_mean(line.first, TASKS)}")
    options, (values,) = parse_or_help(line, [Section(spec.config_class(), title=f"Config of the task {spec.name}")])
    files = " FILES…" if spec.has_examples else ""
    heading = f"Config of the task {spec.name}: {spec.summary}.\nTrain with it: catena train -c THIS_FILE{files}"
    text = to_toml(parse(spec.config_class(), values, source="the command line"), heading=heading)
    if options.output is None:
        sys.stdout.write(text)
        return 0
    check_writable(options.output, "config.toml")
    if options.output.exists() and not options.overwrite:
        raise ConfigError(f"{options.output} exists already. Pass another file, or add --overwrite.")
    write_output(text.splitlines(), options.output)
    sys.stdout.write(f"wrote {options.output}\nnext: catena train -c {options.output}{files}\n")
    return 0
