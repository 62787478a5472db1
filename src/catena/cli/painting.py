"""What ``catena style`` and ``catena texture`` have in common: options, network, progress with previews, output.

Tested in tests/cli/test_style.py.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from catena.cli.common import MachineOptions, check_writable
from catena.cli.parser import Arg, UsageError, get_arg
from catena.config import keys

if TYPE_CHECKING:
    from catena.encoders.image_features import ImageFeatures
    from catena.niche.style import SynthesisProgress, SynthesisResult

_OF_COMMAND = ("output", "weights", "preprocessing", "pooling", "preview", "threads")
"""Options that are not keywords of the functions that make pictures."""


class PaintingOptions(MachineOptions):
    """Options of both commands."""

    output: Annotated[Path | None, Arg("FILE", short="-o")] = None
    """Picture file to write; the extension decides the format."""
    weights: Annotated[Path | None, Arg("FILE")] = None
    """Weights of VGG 11, 13, 16 or 19: a .safetensors or .npz file. Default: random filters, which need no weights."""
    preprocessing: Literal["torchvision", "caffe", "caffe_rgb"] | None = None
    """Input that the weights were trained with, if the file does not say it."""
    pooling: Literal["average", "max"] = "average"
    """Pooling of VGG; average looks better."""
    layers: Annotated[tuple[str, ...], Arg("NAMES")] = ()
    """Style layers. Default: conv1_1 conv2_1 conv3_1 conv4_1 conv5_1, or all random filters."""
    layer_weights: Annotated[tuple[float, ...], Arg("NUMBERS")] = ()
    """Weights of the style layers. Default: equal."""
    variation_weight: float = Field(0.0, ge=0)
    """Weight of the total variation, which removes noise. Too much of it gives a solid color."""
    loss: Literal["relative", "paper"] = "relative"
    """Loss relative to the targets, or the sums of the paper."""
    optimizer: Literal["lbfgs", "adam"] = "lbfgs"
    """Optimizer of the pixels."""
    steps: int = Field(200, ge=1)
    """Largest number of steps in all. Each coarse level gets a sixth of them."""
    learning_rate: float = Field(0.05, gt=0)
    """Learning rate of Adam."""
    history: int = Field(20, ge=1)
    """Past steps that L-BFGS stores, at most 1 GB."""
    levels: int = Field(1, ge=1, le=8)
    """Resolutions from coarse to fine, each half of the next one."""
    tile: int = Field(512, ge=64)
    """Longest side of the tiles in which the loss is computed. Smaller tiles need less memory."""
    max_pixels: int = Field(100_000_000, ge=1)
    """Largest number of pixels of a file."""
    preview: int = Field(20, ge=0)
    """Report the losses and write a preview to the output every N steps; 0: never."""


def paint(command: str, options: Any, make: Callable[..., SynthesisResult]) -> int:
    """Make a picture, report the progress, and write it. Exit code 130 if it was interrupted.

    Args:
        command: the name of the command.
        options: its options.
        make: the function that makes the picture. Its arguments have the names of the options.
    """
    from catena.niche.style.pictures import check_picture_path
    from catena.training.device import set_threads

    given = [getattr(options, key.path[0]) for key in keys(type(options)) if get_arg(key).positional]
    inputs = [path for value in given for path in (value if isinstance(value, tuple) else (value,))]
    output = options.output
    if output is None:
        raise UsageError(f"-o is missing. Write 'catena {command} {' '.join(map(str, inputs))} -o out.png'.")
    check_picture_path(output)
    for name in inputs:
        check_writable(output, "out.png", str(name))
    set_threads(options.threads)
    named = [key.path[0] for key in keys(type(options)) if not get_arg(key).positional]
    chosen = {name: value for name in named if name not in _OF_COMMAND and (value := getattr(options, name)) != ()}
    result = make(*given, network=_open_network(options), on_step=_Reporter(options), **chosen)
    result.save(output)
    _write(f"{'interrupted; ' if result.interrupted else ''}wrote {output}, {_describe(result.best)}")
    return 130 if result.interrupted else 0


def _open_network(options: Any) -> ImageFeatures | None:
    if options.weights is None:
        if options.preprocessing is not None:
            raise UsageError("--preprocessing needs --weights. Pass the file of the weights, or remove it.")
        return None
    from catena.encoders.vgg_weights import read_vgg

    return read_vgg(options.weights, options.preprocessing, options.pooling)


class _Reporter:
    """Prints the losses and writes a preview every few steps."""

    def __init__(self, options: Any) -> None:
        self.every, self.output = options.preview, options.output
        self.start = time.monotonic()

    def __call__(self, progress: SynthesisProgress) -> None:
        from catena.niche.style.pictures import write_picture

        step = progress.losses.step
        if not self.every or step % self.every:
            return
        seconds = time.monotonic() - self.start
        _write(f"step {step}/{progress.n_steps}: {_describe(progress.losses)}, {seconds:.0f} s")
        if 0 < step < progress.n_steps:
            write_picture(progress.picture(), self.output)


def _describe(losses: Any) -> str:
    content = f", content {losses.content:.4f}" if losses.content else ""
    return f"style loss {losses.style:.4f}{content}"


def _write(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
