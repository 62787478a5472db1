"""``catena texture SAMPLE -o FILE``, which makes a new picture with the texture of a sample.

Tested in tests/cli/test_style.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from catena.cli.common import parse_plain
from catena.cli.painting import PaintingOptions, paint
from catena.cli.parser import Arg


class TextureCommand(PaintingOptions):
    """Make a new picture with the texture of a sample. Ctrl-C keeps the best picture."""

    usage = "catena texture SAMPLE -o FILE [--options]"
    example = "catena texture bricks.jpg -o out.png --width 512 --tileable"

    sample: Annotated[Path, Arg("SAMPLE", positional=True)]
    """Picture of the texture."""
    size: int = Field(256, ge=16, le=4096)
    """Longest side of the sample in pixels. A larger sample is reduced."""
    height: int | None = Field(None, ge=16, le=4096)
    """Height of the result. Default: height of the reduced sample."""
    width: int | None = Field(None, ge=16, le=4096)
    """Width of the result. Default: width of the reduced sample."""
    tileable: bool = False
    """Make a picture that can be repeated without seams."""
    start: Literal["spectrum", "noise", "patches"] = "spectrum"
    """Picture before the first step: noise with the spectrum of the sample, white noise, or patches of the sample."""


def run(argv: Sequence[str]) -> int:
    """Make the picture and write it to the output."""
    options = parse_plain(TextureCommand, argv)

    from catena.niche.style import synthesize_texture

    return paint("texture", options, synthesize_texture)
