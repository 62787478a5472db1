"""``catena compare RUN_A RUN_B FILE``: test whether one model is better than the other."""

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

_SEEDS = "this test does not see the spread between seeds: train both with --seeds and compare their means for that"


@dataclass(frozen=True)
class CompareFlags(AnswerFlags, DeviceFlags):
    """The two runs, what both are asked, and the test of chance."""

    first: Annotated[tyro.conf.Positional[Path], arg("RUN_A")]
    """The first run or checkpoint folder, or a file of an n-gram model (ARPA, or saved)."""
    second: Annotated[tyro.conf.Positional[Path], arg("RUN_B")]
    """The second, likewise."""
    file: Annotated[tyro.conf.Positional[Path], arg("FILE")]
    """The labeled file that both are asked about."""
    metric: Annotated[str | None, arg("NAME", shown="(default: the task's own)")] = None
    """What they are compared by, such as accuracy, macro_f1 or perplexity."""
    quantization: Annotated[Literal["int8"] | None, arg("int8")] = None
    """Ask the second with weights of 8 bits: name one run twice to learn what they cost it."""
    samples: Annotated[int, arg("N", shown="(default: 10000)")] = 10_000
    """Samples that are drawn."""
    test: Annotated[Literal["randomization", "bootstrap"], arg(shown="(default: randomization)")] = "randomization"
    """Approximate randomization, exact where few examples differ, or the paired bootstrap, whose p-value is too small
    there."""
    format: Annotated[Literal["text", "json"], arg(shown="(default: text)")] = "text"
    """Lines for a person, or one JSON object."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_minimum("--samples", self.samples, 1)


def run(argv: Sequence[str]) -> int:
    """Say by how much one run is better, and whether chance explains it."""
    about = "Test whether one run is better than another: both are asked about the same labeled file."
    flags = parse_flags(CompareFlags, argv, "catena compare RUN_A RUN_B FILE", about)

    from catena.cli.machine import open_quantized
    from catena.metrics.significance import approximate_randomization, paired_bootstrap
    from catena.randomness import Randomness

    _same_task(flags.first, flags.second)
    asked = ((flags.first, None), (flags.second, flags.quantization))
    models = [open_quantized(folder, flags, quantization) for folder, quantization in asked]
    one, two = (model.answers(flags.file, flags.metric, check_target(model, flags.reading())) for model in models)
    if one.right != two.right:
        raise DataError(f"the two models {_unlike(flags, one.asked_by, two.asked_by)}: they cannot be compared on it")
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
    """A line about tokens that the models do not know, whose likelihood is that of one symbol."""
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
    """What keeps two models from being asked the same."""
    told = [
        f"{name} is {one[name]} in {flags.first} and {two[name]} in {flags.second}"
        for name in one
        if name in two and one[name] != two[name]
    ]
    if told:
        return f"are not asked the same about {flags.file} ({', '.join(told)})"
    return f"do not read {flags.file} alike (other columns or labels)"


def _same_task(first: Path, second: Path) -> None:
    """Refuse models of two tasks, before their files are read in two ways."""
    from catena.cli.machine import resolve_run_folder
    from catena.tasks.load import task_of_model

    one, two = (task_of_model(resolve_run_folder(run)) for run in (first, second))
    if one != two:
        raise DataError(
            f"{first} is a model of the task {one} and {second} one of the task {two}: only models of one task can be "
            f"compared"
        )
