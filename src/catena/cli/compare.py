"""``catena compare RUN_A RUN_B FILE``, a significance test between two models."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from catena.cli.flags import DeviceFlags, arg, check_minimum, parse_flags
from catena.cli.reading import AnswerFlags, check_target
from catena.errors import DataError

if TYPE_CHECKING:
    from catena.tasks.application import PairedPredictions

_SEEDS = "this test ignores the variance between seeds: to measure it, train both with --seeds and compare the means"


@dataclass(frozen=True)
class CompareFlags(AnswerFlags, DeviceFlags):
    """Options of ``catena compare``."""

    first: Annotated[tyro.conf.Positional[Path], arg("RUN_A")]
    """First run or checkpoint folder, or an n-gram model file (ARPA or saved)."""
    second: Annotated[tyro.conf.Positional[Path], arg("RUN_B")]
    """Second run, checkpoint folder or n-gram model file."""
    file: Annotated[tyro.conf.Positional[Path], arg("FILE")]
    """Labeled file on which both models are evaluated."""
    metric: Annotated[str | None, arg("NAME", shown="(default: the task's own)")] = None
    """Metric to compare, such as accuracy, macro_f1 or perplexity."""
    quantization: Annotated[Literal["int8"] | None, arg("int8")] = None
    """Load the second model with 8-bit weights. Pass the same run twice to measure the cost of quantization."""
    samples: Annotated[int, arg("N", shown="(default: 10000)")] = 10_000
    """Number of bootstrap samples or random shuffles."""
    test: Annotated[Literal["randomization", "bootstrap"], arg(shown="(default: randomization)")] = "randomization"
    """randomization: approximate randomization, exact if few examples differ; bootstrap: paired bootstrap, whose
    p-value is too small if few examples differ."""
    format: Annotated[Literal["text", "json"], arg(shown="(default: text)")] = "text"
    """Output format: readable text, or one JSON object."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_minimum("--samples", self.samples, 1)


def run(argv: Sequence[str]) -> int:
    """Print the difference between two runs and whether it is significant."""
    about = "Test whether one run is better than another on the same labeled file."
    flags = parse_flags(CompareFlags, argv, "catena compare RUN_A RUN_B FILE", about)

    from catena.cli.machine import open_quantized
    from catena.metrics.significance import approximate_randomization, paired_bootstrap
    from catena.randomness import Randomness

    _same_task(flags.first, flags.second)
    asked = ((flags.first, None), (flags.second, flags.quantization))
    models = [open_quantized(folder, flags, quantization) for folder, quantization in asked]
    one, two = (model.answers(flags.file, flags.metric, check_target(model, flags.reading())) for model in models)
    if one.right != two.right:
        raise DataError(f"The two models {_unlike(flags, one.asked_by, two.asked_by)} and cannot be compared on it.")
    measure = one.measure.over(one.right, one.given, two.given) if one.measure.over else one.measure
    first, second = (measure.statistics(a.right, a.given) for a in (one, two))
    generator = Randomness(flags.seed).numpy("compare")
    draws = {"resamples" if flags.test == "bootstrap" else "shuffles": flags.samples}
    test = paired_bootstrap if flags.test == "bootstrap" else approximate_randomization
    options = {"metric": measure.name, "tolerance": measure.tolerance, **draws}
    found = test(first, second, measure.score, generator, **options)
    if flags.format == "json":
        sys.stdout.write(json.dumps(dataclasses.asdict(found)) + "\n")
        return 0
    named = f"{flags.second} in {flags.quantization}" if flags.quantization else str(flags.second)
    lines = [found.sentence(str(flags.first), named), _SEEDS, found.signature, *_unknown_warning(one, two)]
    sys.stdout.write("\n".join(lines) + "\n")
    return 0


def _unknown_warning(one: PairedPredictions, two: PairedPredictions) -> list[str]:
    """A line about tokens unknown to the models, which all have the probability of a single symbol."""
    first, second = (f"{100 * answers.unknown:.2f} %" for answers in (one, two))
    if first != second:
        return [
            f"warning: {first} of the tokens are unknown to the first and {second} to the second model. Unknown words "
            f"are scored as one symbol, so the model with more of them looks better."
        ]
    if one.unknown:
        return [f"note: {first} of the tokens are unknown to both models and scored as one symbol."]
    return []


def _unlike(flags: CompareFlags, one: Mapping[str, object], two: Mapping[str, object]) -> str:
    """Why the two models did not get the same test."""
    told = [
        f"{name} is {one[name]} in {flags.first} and {two[name]} in {flags.second}"
        for name in one
        if name in two and one[name] != two[name]
    ]
    if told:
        return f"are evaluated differently on {flags.file} ({', '.join(told)})"
    return f"read {flags.file} differently (other columns or labels)"


def _same_task(first: Path, second: Path) -> None:
    """Raise DataError if the models are for different tasks, before the data is read."""
    from catena.cli.machine import resolve_run_folder
    from catena.tasks.load import task_of_model

    one, two = (task_of_model(resolve_run_folder(run)) for run in (first, second))
    if one != two:
        raise DataError(
            f"Both runs must be for the same task, got {one} ({first}) and {two} ({second}). Pass two runs of one task."
        )
