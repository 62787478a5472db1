"""``catena diagnose RUN``, which measures gradient flow, gate saturation and curvature of the loss."""

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
    """Options of ``catena diagnose``."""

    run: Annotated[tyro.conf.Positional[Path | None], arg("RUN")] = None
    """Run or checkpoint folder of a neural language model."""
    file: Annotated[tyro.conf.Positional[Path | None], arg("[FILE]")] = None
    """Text to feed to the model. Default: the dev or train file of the run."""
    simulate: Annotated[Literal["linear", "tanh", "sigmoid", "relu"] | None, arg("NAME")] = None
    """Instead of a run: simulate a recurrence without inputs, for several values of the largest eigenvalue of its
    matrix."""
    steps: Annotated[int, arg("N", shown="(default: 50)")] = 50
    """Number of steps: backward for gradients, forward for a simulated signal."""
    sequences: Annotated[int, arg("N", shown="(default: 16)")] = 16
    """Number of sequences taken from the text."""
    iterations: Annotated[int, arg("N", shown="(default: 20)")] = 20
    """Hessian-vector products used to find the extreme eigenvalues."""
    save: Annotated[Path | None, arg("FILE", "-o")] = None
    """Plot the norms by step to this .svg or .png file."""
    format: Annotated[Literal["text", "json"], arg(shown="(default: text)")] = "text"
    """Output format: readable text, or one JSON object."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, least in (("steps", 2), ("sequences", 1), ("iterations", 1)):
            check_minimum(f"--{name}", getattr(self, name), least)


def run(argv: Sequence[str]) -> int:
    """Print how gradients flow through a model, and save a plot if ``--save`` is set."""
    about = "Check whether a model's gradients vanish or explode. Without a run: catena diagnose --simulate tanh."
    flags = parse_flags(DiagnoseFlags, argv, _USAGE, about)
    if (flags.run is None) == (flags.simulate is None):
        raise UsageError(f"Pass exactly one of RUN and --simulate. Usage: {_USAGE}.")
    if flags.save is not None:
        check_writable(flags.save, "gradients.svg")
        if flags.save.suffix.lower() not in (".svg", ".png"):
            raise UsageError(f"--save must end in .svg or .png, got {flags.save}. Rename the file.")
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
        raise UsageError(f"{folder} is not a language model. Pass a run of 'catena train lm'.")
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

    lines = [f"{found.sequences} sequences of {found.steps} tokens; gradients of the last token's loss"]
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
    """The dev file of a run, or else its train file."""
    from catena.checkpoint import META, read_meta

    data = read_meta(folder)["data"] if (folder / META).exists() else {}
    for part in ("dev", "train"):
        if part in data and Path(data[part]["path"]).exists():
            return Path(data[part]["path"])
    raise UsageError(f"The train and dev files of {folder} no longer exist. Pass FILE.")


def _simulated(flags: DiagnoseFlags) -> tuple[list[str], dict[str, Any], Picture]:
    from catena.draw.curves import draw_curves
    from catena.randomness import Randomness
    from catena.training.diagnose.simulation import matrix_with_largest, simulate

    assert flags.simulate is not None
    found = {}
    for largest in _LARGEST:  # same eigenvectors for all of them
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
