"""``catena evaluate RUN FILE``: score a trained model on data with the right answers."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from catena.cli.flags import DeviceFlags, arg, check_minimum, parse_flags
from catena.cli.reading import AnswerFlags, check_target
from catena.cli.usage import UsageError
from catena.cli.weights import WeightFlags

if TYPE_CHECKING:
    from catena.tasks.application import PredictOptions, Predictor

_SEARCH = ("beam_size", "length_penalty", "max_length")
"""What of the search can be asked for by flags."""


@dataclass(frozen=True)
class EvaluateFlags(AnswerFlags, WeightFlags, DeviceFlags):
    """The data with the right answers, and how the model searches."""

    run: Annotated[tyro.conf.Positional[Path], arg("RUN")]
    """The run or checkpoint folder."""
    file: Annotated[tyro.conf.Positional[Path], arg("FILE")]
    """A file like those it was trained on (labeled texts, a text for a language model), read as they were unless flags
    say otherwise."""
    format: Annotated[Literal["text", "json"], arg(shown="(default: text)")] = "text"
    """Lines for a person, or one JSON object."""
    ensemble: Annotated[tuple[Path, ...], arg("RUN")] = ()
    """More runs that answer together with the first; give FILE before this flag."""
    beam_size: Annotated[int | None, arg("N", shown="(default: as trained)")] = None
    """So many beginnings of an answer are kept while it is searched, for models that search."""
    length_penalty: Annotated[float | None, arg("X", shown="(default: as trained)")] = None
    """The power of the length that scores of answers are divided by, for models that search."""
    max_length: Annotated[int | None, arg("N", shown="(default: as trained)")] = None
    """The most tokens of an answer, for models that write."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_minimum("--beam-size", self.beam_size, 1)
        check_minimum("--length-penalty", self.length_penalty, 0)
        check_minimum("--max-length", self.max_length, 1)


def check_search(model: Predictor, asking: PredictOptions) -> None:
    """Refuse a flag of the search that a model which does search has no use for, and tell those that it has."""
    known = [f"--{name.replace('_', '-')}" for name in _SEARCH if name in model.asks]
    for name in _SEARCH:
        if name in asking.beyond() - model.asks and known:
            flag = f"--{name.replace('_', '-')}"
            raise UsageError(f"{model.task_name} is not evaluated with {flag}, but {' and '.join(known)}: leave it out")


def run(argv: Sequence[str]) -> int:
    """Print the scores of a model on a file."""
    usage, about = "catena evaluate RUN FILE", "Score a trained model on data with the right answers."
    flags = parse_flags(EvaluateFlags, argv, usage, about)

    from catena.cli.machine import load_ensemble
    from catena.tasks.application import PredictOptions
    from catena.tasks.written import valid_json

    asking = PredictOptions(beam_size=flags.beam_size, length_penalty=flags.length_penalty, max_length=flags.max_length)
    model = load_ensemble(flags.run, flags.ensemble, flags)
    check_search(model, asking)
    model = model.searching(asking)
    report = model.evaluate(flags.file, check_target(model, flags.reading()))
    if flags.format == "json":
        sys.stdout.write(valid_json({"scores": report.scores, "signatures": report.signatures}) + "\n")
    else:
        sys.stdout.write("\n".join(report.lines) + "\n")
    return 0
