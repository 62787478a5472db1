"""``catena evaluate RUN FILE``, which scores a trained model on labeled data."""

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
"""Search options that have a command line option."""


@dataclass(frozen=True)
class EvaluateFlags(AnswerFlags, WeightFlags, DeviceFlags):
    """Options of ``catena evaluate``."""

    run: Annotated[tyro.conf.Positional[Path], arg("RUN")]
    """Run or checkpoint folder."""
    file: Annotated[tyro.conf.Positional[Path], arg("FILE")]
    """File like the training files (labeled texts; plain text for a language model). It is read as they were unless
    options say otherwise."""
    format: Annotated[Literal["text", "json"], arg(shown="(default: text)")] = "text"
    """Output format: readable text, or one JSON object."""
    ensemble: Annotated[tuple[Path, ...], arg("RUN")] = ()
    """More runs to ensemble with the first. Write FILE before this option."""
    beam_size: Annotated[int | None, arg("N", shown="(default: as trained)")] = None
    """Beam size, for models that search."""
    length_penalty: Annotated[float | None, arg("X", shown="(default: as trained)")] = None
    """Exponent of the length by which scores are divided, for models that search."""
    max_length: Annotated[int | None, arg("N", shown="(default: as trained)")] = None
    """Maximum number of tokens of a prediction, for models that generate."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_minimum("--beam-size", self.beam_size, 1)
        check_minimum("--length-penalty", self.length_penalty, 0)
        check_minimum("--max-length", self.max_length, 1)


def check_search(model: Predictor, options: PredictOptions) -> None:
    """Raise UsageError for a search option that the model does not support."""
    known = [f"--{name.replace('_', '-')}" for name in _SEARCH if name in model.supported_options]
    for name in _SEARCH:
        if name in options.beyond() - model.supported_options and known:
            flag = f"--{name.replace('_', '-')}"
            raise UsageError(
                f"{flag} is not supported by {model.task_name}. Remove it; supported options are {' and '.join(known)}."
            )


def run(argv: Sequence[str]) -> int:
    """Print the scores of a model on a file."""
    usage, about = "catena evaluate RUN FILE", "Score a trained model on labeled data."
    flags = parse_flags(EvaluateFlags, argv, usage, about)

    from catena.cli.machine import load_ensemble
    from catena.tasks.application import PredictOptions
    from catena.tasks.written import valid_json

    options = PredictOptions(
        beam_size=flags.beam_size, length_penalty=flags.length_penalty, max_length=flags.max_length
    )
    model = load_ensemble(flags.run, flags.ensemble, flags)
    check_search(model, options)
    model = model.searching(options)
    report = model.evaluate(flags.file, check_target(model, flags.reading()))
    if flags.format == "json":
        sys.stdout.write(valid_json({"scores": report.scores, "signatures": report.signatures}) + "\n")
    else:
        sys.stdout.write("\n".join(report.lines) + "\n")
    return 0
