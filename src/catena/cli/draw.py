"""``catena draw RUN [TEXT …]``, which draws predictions in the terminal or as SVG or PNG."""

from __future__ import annotations

import dataclasses
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from catena.cli.flags import DeviceFlags, arg, parse_flags
from catena.cli.predict import is_file, standard_input
from catena.cli.predict_flags import PredictOptionFlags
from catena.cli.reading import ReadingFlags
from catena.cli.usage import UsageError
from catena.cli.writing import check_writable
from catena.errors import CatenaError


@dataclass(frozen=True)
class DrawFlags(PredictOptionFlags, ReadingFlags, DeviceFlags):
    """Options of ``catena draw``."""

    run: Annotated[tyro.conf.Positional[Path], arg("RUN")]
    """Run or checkpoint folder."""
    texts: Annotated[tyro.conf.Positional[tuple[str, ...]], arg("[TEXT …]")] = ()
    """Texts to predict and draw. Default: the texts of --file, or of standard input."""
    file: Annotated[Path | None, arg("FILE", "-f")] = None
    """File of texts or examples, read as by 'catena predict'."""
    output: Annotated[Path | None, arg("FILE", "-o")] = None
    """Image to write, .svg or .png, numbered if there are several texts. Default: draw in the terminal."""
    layer: Annotated[int | None, arg("N")] = None
    """For models with several attention layers: draw only layer N, counted from 1. Default: the mean of all layers."""
    head: Annotated[int | None, arg("N")] = None
    """For multi-head attention: draw only head N, counted from 1. Default: the mean of all heads."""
    word: Annotated[str | None, arg("WORD")] = None
    """Draw only this word of the prediction, in every layer and head."""
    within: Annotated[Literal["source", "target"] | None, arg("source|target")] = None
    """For Transformers: draw self-attention within the source or within the target instead of cross-attention. --word
    is then a word of that side."""


def run(argv: Sequence[str]) -> int:
    """Draw predictions in the terminal or to a file."""
    about = "Draw the predictions of a model."
    flags = parse_flags(DrawFlags, argv, "catena draw RUN [TEXT …]", about)
    if flags.output is not None:
        check_writable(flags.output, "picture.svg")
        if flags.output.suffix.lower() not in (".svg", ".png"):
            raise UsageError(f"-o must end in .svg or .png, got {flags.output.name}. Rename the file.")
    if flags.texts and flags.file is not None:
        raise UsageError("Texts and --file cannot be combined. Remove one of them.")
    if len(flags.texts) == 1 and Path(flags.texts[0]).suffix and is_file(flags.texts[0]):
        raise UsageError(f"{flags.texts[0]} is a file, not a text. Pass it as --file {flags.texts[0]}.")

    from catena.cli.machine import open_model

    model = open_model(flags.run, flags)
    options = dataclasses.replace(
        flags.options(flags.seed), layer=flags.layer, head=flags.head, word=flags.word, within=flags.within
    )
    model.check(options)
    items = list(_items(model, flags))
    for i, item in enumerate(items, start=1):
        if flags.output is None:
            sys.stdout.write("\n" * (i > 1) + model.sketch(item, options) + "\n")
            continue
        path = flags.output if len(items) == 1 else flags.output.with_stem(f"{flags.output.stem}-{i}")
        sys.stdout.write(f"{model.picture(item, options).save(path)}\n")
    return 0


def _items(model: Any, flags: DrawFlags) -> Iterator[Any]:
    if flags.file is not None:
        return model.read_inputs(flags.file, flags.reading())
    if not flags.texts:
        return model.items_of_lines(standard_input(flags.encoding or "utf-8"))
    try:
        return iter(list(model.items_of_lines(iter(flags.texts))))
    except CatenaError as error:
        raise type(error)(_of_texts(str(error))) from None


def _of_texts(said: str) -> str:
    """An error about lines of standard input, reworded for texts given as arguments."""
    for written, meant in (
        (r"standard input:(\d+)", r"text \1"),
        (r"[Ll]ine (\d+) of standard input", r"text \1"),
        ("the first line of standard input", "the first text"),
        ("standard input", "the text"),
    ):
        said = re.sub(written, meant, said)
    return said
