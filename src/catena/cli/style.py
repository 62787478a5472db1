"""``catena style CONTENT STYLES… -o FILE``, which paints one picture in the style of others."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from catena.cli.common import parse_plain
from catena.cli.painting import PaintingOptions, paint
from catena.cli.parser import Arg, UsageError


class StyleCommand(PaintingOptions):
    """Paint a picture in the style of another. Ctrl-C keeps the best picture."""

    usage = "catena style CONTENT STYLES… -o FILE [--options]"
    example = "catena style photo.jpg painting.jpg -o out.png --weights vgg16.safetensors --preprocessing torchvision"

    content: Annotated[Path, Arg("CONTENT", positional=True)]
    """Picture whose content is kept."""
    styles: Annotated[tuple[Path, ...], Arg("STYLES…", positional=True)] = ()
    """One or several pictures whose style is transferred."""
    size: int = Field(512, ge=16, le=4096)
    """Longest side of the result in pixels. A smaller picture keeps its size."""
    style_size: int | None = Field(None, ge=16, le=4096)
    """Longest side of the style pictures; smaller: finer strokes. Default: --size."""
    style_weight: float | None = Field(None, ge=0)
    """Weight of the style loss. Default: 10, or 1000 with --loss paper."""
    content_weight: float = Field(1.0, ge=0)
    """Weight of the content loss."""
    mix: Annotated[tuple[float, ...], Arg("NUMBERS")] = ()
    """Weights of the style pictures. Default: equal."""
    content_layers: Annotated[tuple[str, ...], Arg("NAMES")] = ()
    """Content layers. Default: conv4_2, or random5."""
    color: Literal["style", "luminance", "histogram"] = "style"
    """Colors of the style, or of the content by its luminance or by matched colors."""
    start: Literal["content", "noise"] = "content"
    """Picture before the first step."""


def run(argv: Sequence[str]) -> int:
    """Make the picture and write it to the output."""
    options = parse_plain(StyleCommand, argv)
    if not options.styles:
        raise UsageError(f"STYLES… is missing. Usage: {StyleCommand.usage}.")

    from catena.niche.style import transfer_style

    return paint("style", options, transfer_style)
