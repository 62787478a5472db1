"""``catena diagnose RUN``: do gradients vanish or explode, are gates stuck, how curved is the loss."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from catena.cli.flags import DeviceFlags, arg, check_minimum, parse_flags
from catena.cli.reading import ReadingFlags
from catena.cli.usage import UsageError
from catena.cli.writing import check_writable

if TYPE_CHECKING:
    from catena.draw.picture import Picture
    from catena.tasks.lm.diagnose import Diagnosis

_USAGE = "catena diagnose RUN [FILE], or catena diagnose --simulate tanh"
_LARGEST = (0.5, 0.9, 1.0, 1.1, 1.5)
"""The largest eigenvalues that are simulated."""
_UNITS = 16


@dataclass(frozen=True)
class DiagnoseFlags(ReadingFlags, DeviceFlags):
    """The run or the simulation to look at, and how much of it."""

    run: Annotated[tyro.conf.Positional[Path | None], arg("RUN")] = None
    """The run or checkpoint folder of a neural language model."""
    file: Annotated[tyro.conf.Positional[Path | None], arg("[FILE]")] = None
    """A text to look at the model with; the run's own dev or train file if it is not named."""
    simulate: Annotated[Literal["linear", "tanh", "sigmoid", "relu"] | None, arg("NAME")] = None
    """No run: follow a signal through a recurrence without inputs, for several largest eigenvalues of its matrix."""
    steps: Annotated[int, arg("N", shown="(default: 50)")] = 50
    """How many steps back gradients are followed, or forward a signal."""
    sequences: Annotated[int, arg("N", shown="(default: 16)")] = 16
    """Pieces of the text that are looked at."""
    iterations: Annotated[int, arg("N", shown="(default: 20)")] = 20
    """Products with the Hessian in the search for its extreme eigenvalues."""
    save: Annotated[Path | None, arg("FILE", "-o")] = None
    """Draw the norms by step into this .svg or .png file."""
    format: Annotated[Literal["text", "json"], arg(shown="(default: text)")] = "text"
    """Lines for a person, or one JSON object."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, least in (("steps", 2), ("sequences", 1), ("iterations", 1)):
            check_minimum(f"--{name}", getattr(self, name), least)


def run(argv: Sequence[str]) -> int:
    """Tell how gradients flow through a model, with a picture where one is asked for."""
    about = "See whether a model's gradients vanish or explode. Without a run: catena diagnose --simulate tanh."
    flags = parse_flags(DiagnoseFlags, argv, _USAGE, about)
    if (flags.run is None) == (flags.simulate is None):
        raise UsageError(f"name either a run or --simulate: {_USAGE}")
    if flags.save is not None:
        check_writable(flags.save, "gradients.svg")
        if flags.save.suffix.lower() not in (".svg", ".png"):
            raise UsageError(f"--save must end in .svg or .png, and is {flags.save}")
    lines, values, picture = _simulated(flags) if flags.run is None else _diagnosed(flags, flags.run)
    sys.stdout.write((json.dumps(values) if flags.format == "json" else "\n".join(lines)) + "\n")
    if flags.save is not None:
        picture.save(flags.save)
    return 0


def _diagnosed(flags: DiagnoseFlags, folder: Path) -> tuple[list[str], dict[str, Any], Picture]:
    from catena.cli.machine import open_model
    from catena.draw.curves import draw_curves
    from catena.tasks.lm.diagnose import diagnose
    from catena.tasks.lm.predictor import LmPredictor

    model = open_model(folder, flags)
    if not isinstance(model, LmPredictor):
        raise UsageError(f"{folder} is no language model, and gradients are followed through those alone as yet")
    path = flags.file or _own_text(folder)
    sizes = {"steps": flags.steps, "sequences": flags.sequences, "iterations": flags.iterations, "seed": flags.seed}
    found = diagnose(model, path, **sizes, reading=flags.reading())
    series = {"inputs": found.flow.inputs}
    series |= {f"layer {i}": layer.gradients for i, layer in enumerate(found.flow.layers, start=1)}
    picture = draw_curves(
        {name: [(k, norm or float("nan")) for k, norm in enumerate(norms)] for name, norms in series.items()},
        x_title="steps back", y_title="norm of the gradient", logarithmic=True, title=f"{folder.name}: gradients",
    )  # fmt: skip
    values = dataclasses.asdict(found)
    values["curvature"]["optimal_step"] = found.curvature.optimal_step
    return _lines(found), values, picture


def _lines(found: Diagnosis) -> list[str]:
    from catena.tasks.lm.diagnose import verdict

    lines = [f"{found.sequences} pieces of {found.steps} tokens; gradients of the last token's loss"]
    lines.append(verdict("inputs", found.flow.inputs))
    for i, layer in enumerate(found.flow.layers, start=1):
        lines.append(verdict(f"layer {i}", layer.gradients))
        radii = " ".join(f"{radius:.3f}" for radius in layer.radii)
        lines.append(f"  spectral radius of the Jacobian, first to last step: {radii}")
        for name, gate in layer.gates.items():
            ends = ("small", "saturated") if name == "state" else ("closed", "open")
            lines.append(f"  {name}: {gate.closed:.1%} {ends[0]}, {gate.open:.1%} {ends[1]}")
    curve = found.curvature
    step = "none, the loss curves downwards" if curve.optimal_step is None else f"{curve.optimal_step:.4g}"
    lines += [
        f"loss {curve.loss:.4f}, norm of its gradient {curve.gradient_norm:.4g}",
        f"curvature along the gradient {curve.along_gradient:.4g}; best step of plain gradient descent: {step}",
        f"eigenvalues of the Hessian from {curve.smallest.value:.4g} (within {curve.smallest.error:.1g}) "
        f"to {curve.largest.value:.4g} (within {curve.largest.error:.1g})",
    ]
    return lines


def _own_text(folder: Path) -> Path:
    """The file that a run was judged on, or else trained on."""
    from catena.checkpoint import META, read_meta

    data = read_meta(folder)["data"] if (folder / META).exists() else {}
    for part in ("dev", "train"):
        if part in data and Path(data[part]["path"]).exists():
            return Path(data[part]["path"])
    raise UsageError(f"the text that {folder} was trained on is not there any more: name a FILE to look with")


def _simulated(flags: DiagnoseFlags) -> tuple[list[str], dict[str, Any], Picture]:
    from catena.draw.curves import draw_curves
    from catena.randomness import Randomness
    from catena.training.diagnose.simulation import matrix_with_largest, simulate

    assert flags.simulate is not None
    found = {}
    for largest in _LARGEST:  # the same directions for all of them
        matrix = matrix_with_largest(largest, _UNITS, Randomness(flags.seed).torch("simulate"))
        found[f"{largest:g}"] = simulate(matrix, flags.simulate, flags.steps)
    lines = [f"h = {flags.simulate}(W h), {_UNITS} units, after {flags.steps} steps"]
    lines.append("largest eigenvalue   norm of the state   norm of the gradient")
    for name, one in found.items():
        lines.append(f"{name:>18}   {one.states[-1]:>17.4g}   {one.gradients[-1]:>20.4g}")
    picture = draw_curves(
        {name: [(k, norm or float("nan")) for k, norm in enumerate(one.gradients)] for name, one in found.items()},
        x_title="steps back", y_title="norm of the gradient", logarithmic=True,
        title=f"{flags.simulate}, by largest eigenvalue",
    )  # fmt: skip
    return lines, {name: dataclasses.asdict(one) for name, one in found.items()}, picture
