"""``catena compare RUN_A RUN_B FILE``: is one model better than the other, or is it chance?"""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import tyro

from catena.cli.flags import Machine, parse_flags
from catena.errors import DataError


@dataclass(frozen=True)
class CompareFlags(Machine):
    first: tyro.conf.Positional[Path] = Path()
    """The first run or checkpoint folder."""
    second: tyro.conf.Positional[Path] = Path()
    """The second run or checkpoint folder."""
    file: tyro.conf.Positional[Path] = Path()
    """The labelled file that both are asked about."""
    metric: str = "accuracy"
    """What they are compared by."""
    samples: int = 10_000
    """Bootstrap samples."""
    test: Literal["bootstrap", "randomisation"] = "bootstrap"
    """Paired bootstrap, or approximate randomisation."""
    format: Literal["text", "json"] = "text"
    """Lines for a person, or one JSON object."""


def run(argv: Sequence[str]) -> int:
    about = "Test whether one run is better than another: both are asked about the same labelled file."
    flags = parse_flags(CompareFlags, argv, "catena compare", about)

    from catena.cli.machine import open_model
    from catena.metrics.significance import approximate_randomisation, paired_bootstrap
    from catena.randomness import Randomness

    answers = [open_model(folder, flags).answers(flags.file, flags.metric) for folder in (flags.first, flags.second)]
    if answers[0].right != answers[1].right:
        raise DataError(
            f"the two models do not read {flags.file} alike (other columns or labels): they cannot be compared on it"
        )
    measure = answers[0].measure
    first, second = (measure.statistics(a.right, a.given) for a in answers)
    generator = Randomness(flags.seed).numpy("compare")
    if flags.test == "bootstrap":
        found = paired_bootstrap(first, second, measure.score, generator, metric=measure.name, resamples=flags.samples)
    else:
        found = approximate_randomisation(
            first, second, measure.score, generator, metric=measure.name, shuffles=flags.samples
        )
    if flags.format == "json":
        sys.stdout.write(json.dumps(dataclasses.asdict(found)) + "\n")
        return 0
    sys.stdout.write(f"{found.sentence(str(flags.first), str(flags.second))}\n{found.signature}\n")
    return 0
