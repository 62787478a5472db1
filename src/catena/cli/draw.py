"""``catena draw RUN [TEXT …]``: a picture of what a model predicts, on the terminal or as SVG or PNG."""

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
    """What is drawn, and the file for the picture."""

    run: Annotated[tyro.conf.Positional[Path], arg("RUN")]
    """The run or checkpoint folder."""
    texts: Annotated[tyro.conf.Positional[tuple[str, ...]], arg("[TEXT …]")] = ()
    """The texts to draw a prediction for; those of --file, or of standard input, if none is given."""
    file: Annotated[Path | None, arg("FILE", "-f")] = None
    """A file of texts or of examples, as 'catena predict' reads it."""
    output: Annotated[Path | None, arg("FILE", "-o")] = None
    """The picture to write, .svg or .png; with several texts they are numbered. Drawn on the terminal if not set."""
    layer: Annotated[int | None, arg("N")] = None
    """Of a model with several layers of attention: this one alone, the first is 1; the mean of all if not set."""
    head: Annotated[int | None, arg("N")] = None
    """Of an attention of several heads: this one alone, the first is 1; the mean of all if not set."""
    word: Annotated[str | None, arg("WORD")] = None
    """Draw this word of the answer alone, in every layer and head."""
    within: Annotated[Literal["source", "target"] | None, arg("source|target")] = None
    """Of a Transformer: how the words of the text (source) or of the answer (target) look at each other, and not those
    of the answer at the text; --word is then one of these."""


def run(argv: Sequence[str]) -> int:
    """Draw a prediction on the terminal, or into a file."""
    about = "Draw what a model predicts."
    flags = parse_flags(DrawFlags, argv, "catena draw RUN [TEXT …]", about)
    if flags.output is not None:
        check_writable(flags.output, "picture.svg")
        if flags.output.suffix.lower() not in (".svg", ".png"):
            raise UsageError(f"a picture is saved as .svg or .png, not as {flags.output.name}")
    if flags.texts and flags.file is not None:
        raise UsageError("give texts or --file, not both")
    if len(flags.texts) == 1 and Path(flags.texts[0]).suffix and is_file(flags.texts[0]):
        raise UsageError(
            f"{flags.texts[0]} is a file, and would be drawn as a text: give it as --file {flags.texts[0]}"
        )

    from catena.cli.machine import open_model

    model = open_model(flags.run, flags)
    asking = dataclasses.replace(
        flags.asking(flags.seed), layer=flags.layer, head=flags.head, word=flags.word, within=flags.within
    )
    model.check(asking)
    items = list(_items(model, flags))
    for i, item in enumerate(items, start=1):
        if flags.output is None:
            sys.stdout.write("\n" * (i > 1) + model.sketch(item, asking) + "\n")
            continue
        path = flags.output if len(items) == 1 else flags.output.with_stem(f"{flags.output.stem}-{i}")
        sys.stdout.write(f"{model.picture(item, asking).save(path)}\n")
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
    """A complaint about lines of standard input, which tasks read texts as, in words that fit texts of a command."""
    for written, meant in (
        (r"standard input:(\d+)", r"text \1"),
        (r"[Ll]ine (\d+) of standard input", r"text \1"),
        ("the first line of standard input", "the first text"),
        ("standard input", "the text"),
    ):
        said = re.sub(written, meant, said)
    return said
