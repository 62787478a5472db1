"""``catena evaluate RUN FILE``: score a trained model on data with the right answers."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from catena.cli.flags import Machine, arg, at_least, parse_flags
from catena.cli.reading import AnswerFlags, check_target
from catena.cli.weights import WeightFlags


@dataclass(frozen=True)
class EvaluateFlags(AnswerFlags, WeightFlags, Machine):
    run: Annotated[tyro.conf.Positional[Path], arg("RUN")]
    """The run or checkpoint folder."""
    file: Annotated[tyro.conf.Positional[Path], arg("FILE")]
    """A file like those it was trained on (labelled texts, a text for a language model), read as they were unless flags
    say otherwise."""
    format: Annotated[Literal["text", "json"], arg(shown="(default: text)")] = "text"
    """Lines for a person, or one JSON object."""
    ensemble: Annotated[tuple[Path, ...], arg("RUN")] = ()
    """More runs that answer together with the first; give FILE before this flag."""
    beam_size: Annotated[int | None, arg("N", "--num-beams", shown="(default: as trained)")] = None
    """So many beginnings of an answer are kept while it is searched, for models that search."""
    length_penalty: Annotated[float | None, arg("X", shown="(default: as trained)")] = None
    """The power of the length that scores of answers are divided by, for models that search."""
    max_length: Annotated[int | None, arg("N", shown="(default: as trained)")] = None
    """The most tokens of an answer, for models that write."""

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least("--beam-size", self.beam_size, 1)
        at_least("--length-penalty", self.length_penalty, 0)
        at_least("--max-length", self.max_length, 1)


def run(argv: Sequence[str]) -> int:
    usage, about = "catena evaluate RUN FILE", "Score a trained model on data with the right answers."
    flags = parse_flags(EvaluateFlags, argv, usage, about)

    from catena.cli.machine import open_together
    from catena.tasks.application import Asking

    asking = Asking(beam_size=flags.beam_size, length_penalty=flags.length_penalty, max_length=flags.max_length)
    model = open_together(flags.run, flags.ensemble, flags).searching(asking)
    report = model.evaluate(flags.file, check_target(model, flags.reading()))
    if flags.format == "json":
        sys.stdout.write(json.dumps({"scores": report.scores, "signatures": report.signatures}) + "\n")
    else:
        sys.stdout.write("\n".join(report.lines) + "\n")
    return 0
