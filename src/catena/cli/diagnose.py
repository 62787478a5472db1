"""``catena diagnose RUN``, which measures gradient flow, gate saturation and curvature of the loss."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from catena.cli.common import MachineOptions, RunCommand, check_language_model, check_writable
from catena.cli.parser import Arg, UsageError

if TYPE_CHECKING:
    from catena.draw.picture import Picture
    from catena.tasks.lm.diagnose import Diagnosis

_LARGEST = (0.5, 0.9, 1.0, 1.1, 1.5)
"""The largest eigenvalues that are simulated."""
_UNITS = 16


class DiagnoseCommand(MachineOptions):
    """Check whether a model's gradients vanish or explode. Without a run: catena diagnose --simulate tanh."""

    usage = "catena diagnose RUN [FILE], or catena diagnose --simulate tanh"
    example = "catena diagnose runs/lm -o gradients.svg"

    run: Annotated[Path | None, Arg("[RUN]", positional=True)] = None
    """Run or checkpoint folder of a neural language model."""
    file: Annotated[Path | None, Arg("[FILE]", positional=True)] = None
    """Text to feed to the model. Default: the dev or train file of the run."""
    simulate: Literal["linear", "tanh", "sigmoid", "relu"] | None = None
    """Instead of a run: simulate a recurrence without inputs, for several values of the largest eigenvalue of its
    matrix."""
    steps: int = Field(50, ge=2)
    """Number of steps: backward for gradients, forward for a simulated signal."""
    sequences: int = Field(16, ge=1)
    """Number of sequences taken from the text."""
    iterations: int = Field(20, ge=1)
    """Hessian-vector products used to find the extreme eigenvalues."""
    output: Annotated[Path | None, Arg("FILE", "-o")] = None
    """Plot the norms by step to this .svg or .png file."""
    format: Literal["text", "json"] = "text"
    """Output format: readable text, or one JSON object."""


def run(argv: Sequence[str]) -> int:
    """Print how gradients flow through a model, and plot them if an output file is set."""
    command = RunCommand(DiagnoseCommand, argv, predicts=False)
    options = command.options
    if (options.run is None) == (options.simulate is None):
        raise UsageError(f"Pass exactly one of RUN and --simulate. Usage: {options.usage}.")
    if options.output is not None:
        check_writable(options.output, "gradients.svg")
        if options.output.suffix.lower() not in (".svg", ".png"):
            raise UsageError(f"-o must end in .svg or .png, got {options.output}. Rename the file.")
    lines, values, picture = _simulated(options) if options.run is None else _diagnosed(command)
    sys.stdout.write((json.dumps(values) if options.format == "json" else "\n".join(lines)) + "\n")
    if options.output is not None:
        picture.save(options.output)
    return 0


def _diagnosed(command: RunCommand) -> tuple[list[str], dict[str, Any], Picture]:
    from catena.draw.curves import draw_curves
    from catena.tasks.lm.diagnose import diagnose
    from catena.tasks.lm.sound.task import SoundLmTask

    options, model = command.options, command.open()
    if isinstance(model, SoundLmTask):
        raise UsageError(f"{options.run} is a model of recordings. Pass a run of 'catena train lm' on texts.")
    check_language_model(model, options.run)
    sizes = {name: getattr(options, name) for name in ("steps", "sequences", "iterations", "seed")}
    found = diagnose(model, options.file or _own_text(options.run), **sizes)
    series = {"inputs": found.flow.inputs}
    series |= {f"layer {i}": layer.gradients for i, layer in enumerate(found.flow.layers, start=1)}
    picture = draw_curves(
        {name: [(k, norm or float("nan")) for k, norm in enumerate(norms)] for name, norms in series.items()},
        x_title="steps back", y_title="norm of the gradient", logarithmic=True, title=f"{options.run.name}: gradients",
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


def _simulated(options: DiagnoseCommand) -> tuple[list[str], dict[str, Any], Picture]:
    from catena.draw.curves import draw_curves
    from catena.randomness import Randomness
    from catena.training.diagnose.simulation import matrix_with_largest, simulate

    assert options.simulate is not None
    found = {}
    for largest in _LARGEST:  # same eigenvectors for all of them
        matrix = matrix_with_largest(largest, _UNITS, Randomness(options.seed).torch("simulate"))
        found[f"{largest:g}"] = simulate(matrix, options.simulate, options.steps)
    lines = [f"h = {options.simulate}(W h), {_UNITS} units, after {options.steps} steps"]
    lines.append("largest eigenvalue   norm of the state   norm of the gradient")
    for name, one in found.items():
        lines.append(f"{name:>18}   {one.states[-1]:>17.4g}   {one.gradients[-1]:>20.4g}")
    picture = draw_curves(
        {name: [(k, norm or float("nan")) for k, norm in enumerate(one.gradients)] for name, one in found.items()},
        x_title="steps back", y_title="norm of the gradient", logarithmic=True,
        title=f"{options.simulate}, by largest eigenvalue",
    )  # fmt: skip
    return lines, {name: dataclasses.asdict(one) for name, one in found.items()}, picture
