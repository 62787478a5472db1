"""``catena compare RUN_A RUN_B FILE``, a significance test between two models."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from catena.cli.common import MachineOptions, RunCommand, input_file, resolve_run_folder
from catena.cli.evaluate import evaluate_file
from catena.cli.parser import Arg
from catena.errors import DataError

if TYPE_CHECKING:
    from catena.tasks.base import PairedPredictions

_SEEDS = "this test ignores the variance between seeds: to measure it, train both with --seeds and compare the means"


class CompareCommand(MachineOptions):
    """Test whether one run is better than another on the same labeled file."""

    usage = "catena compare RUN_A RUN_B FILE [--options]"
    example = "catena compare runs/cnn runs/loglinear test.tsv --metric macro_f1"

    run: Annotated[Path, Arg("RUN_A", positional=True)]
    """First run or checkpoint folder, or an n-gram model file (ARPA or saved)."""
    second: Annotated[Path, Arg("RUN_B", positional=True)]
    """Second run, checkpoint folder or n-gram model file."""
    file: Annotated[str, Arg("FILE", positional=True)]
    """Labeled file on which both models are evaluated."""
    metric: Annotated[str | None, Arg("NAME")] = None
    """Metric to compare, such as accuracy, macro_f1 or perplexity. Default: the task's own."""
    quantization: Literal["int8"] | None = None
    """Load the second model with 8-bit weights. Pass the same run twice to measure the cost of quantization."""
    samples: int = Field(10_000, ge=1)
    """Number of bootstrap samples or random shuffles."""
    test: Literal["randomization", "bootstrap"] = "randomization"
    """randomization: approximate randomization, exact if few examples differ; bootstrap: paired bootstrap, whose
    p-value is too small if few examples differ."""
    format: Literal["text", "json"] = "text"
    """Output format: readable text, or one JSON object."""


def run(argv: Sequence[str]) -> int:
    """Print the difference between two runs and whether it is significant."""
    command = RunCommand(CompareCommand, argv, predicts=False)
    options = command.options
    _check_same_task(options.run, options.second)

    from catena.metrics.significance import approximate_randomization, paired_bootstrap
    from catena.randomness import Randomness

    chosen = options.model_copy(update={"quantization": None})
    command.options = chosen
    tasks = [command.open(), command.open(options.second, options.quantization)]
    with input_file(options.file) as path:
        one, two = (_paired(task, path, options.metric) for task in tasks)
    if list(one.references) != list(two.references):
        raise DataError(
            f"The two models {_difference(options, one.conditions, two.conditions)} and cannot be compared."
        )
    metric = one.metric.over(one.references, one.predictions, two.predictions) if one.metric.over else one.metric
    first, second = (metric.statistics(side.references, side.predictions) for side in (one, two))
    generator = Randomness(options.seed).numpy("compare")
    repeats = {"resamples" if options.test == "bootstrap" else "shuffles": options.samples}
    test = paired_bootstrap if options.test == "bootstrap" else approximate_randomization
    result = test(first, second, metric.score, generator, metric=metric.name, tolerance=metric.tolerance, **repeats)
    if options.format == "json":
        sys.stdout.write(json.dumps(dataclasses.asdict(result)) + "\n")
        return 0
    name = f"{options.second} in {options.quantization}" if options.quantization else str(options.second)
    lines = [result.sentence(str(options.run), name), _SEEDS, result.signature, *_unknown_warning(one, two)]
    sys.stdout.write("\n".join(lines) + "\n")
    return 0


def _paired(task: Any, path: Path, metric: str | None) -> PairedPredictions:
    name = metric or getattr(task.config.training, "metric", None) or task.metric
    return evaluate_file(task, path).paired(name)


def _unknown_warning(one: PairedPredictions, two: PairedPredictions) -> list[str]:
    """A line about tokens unknown to the models, which all have the probability of a single symbol."""
    first, second = (f"{100 * side.unknown:.2f} %" for side in (one, two))
    if first != second:
        return [
            f"warning: {first} of the tokens are unknown to the first and {second} to the second model. Unknown words "
            f"are scored as one symbol, so the model with more of them looks better."
        ]
    if one.unknown:
        return [f"note: {first} of the tokens are unknown to both models and scored as one symbol."]
    return []


def _difference(options: CompareCommand, one: Mapping[str, object], two: Mapping[str, object]) -> str:
    """Why the two models did not get the same test."""
    differ = [
        f"{name} is {one[name]} in {options.run} and {two[name]} in {options.second}"
        for name in one
        if name in two and one[name] != two[name]
    ]
    if differ:
        return f"are evaluated differently on {options.file} ({', '.join(differ)})"
    return f"read {options.file} differently (other columns or labels)"


def _check_same_task(first: Path, second: Path) -> None:
    """Raise DataError if the models are for different tasks, before the data is read."""
    from catena.tasks.load import task_of_model

    one, two = (task_of_model(resolve_run_folder(run)) for run in (first, second))
    if one != two:
        raise DataError(
            f"Both runs must be for the same task, got {one} ({first}) and {two} ({second}). Pass two runs of one task."
        )
