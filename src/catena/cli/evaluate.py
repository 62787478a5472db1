"""``catena evaluate RUN FILE``: score a trained model on labelled data."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import tyro

from catena.cli.flags import Machine, parse_flags


@dataclass(frozen=True)
class EvaluateFlags(Machine):
    run: tyro.conf.Positional[Path] = Path()
    """The run or checkpoint folder."""
    file: tyro.conf.Positional[Path] = Path()
    """The labelled file."""
    format: Literal["text", "json"] = "text"
    """Lines for a person, or one JSON object."""


def run(argv: Sequence[str]) -> int:
    flags = parse_flags(EvaluateFlags, argv, "catena evaluate", "Score a trained model on labelled data.")

    from catena.cli.machine import open_model

    report = open_model(flags.run, flags).evaluate(flags.file)
    if flags.format == "json":
        sys.stdout.write(json.dumps({"scores": report.scores, "signatures": report.signatures}) + "\n")
    else:
        sys.stdout.write("\n".join(report.lines) + "\n")
    return 0
