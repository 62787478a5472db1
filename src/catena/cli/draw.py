"""``catena draw RUN [TEXT …]``, which draws predictions in the terminal or as SVG or PNG."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

from catena.cli.common import MachineOptions, RunCommand, check_writable, input_file
from catena.cli.parser import Arg, UsageError, is_file
from catena.data.media_files import media_kind


class DrawCommand(MachineOptions):
    """Draw the predictions of a model: tags, trees, arcs, attention."""

    usage = "catena draw RUN [TEXT …] [--options]"
    example = 'catena draw runs/parser "the cat sat on the mat" -o tree.svg'

    run: Annotated[Path, Arg("RUN", positional=True)]
    """Run or checkpoint folder."""
    texts: Annotated[tuple[str, ...], Arg("[TEXT …]", positional=True)] = ()
    """Texts to predict and draw. Default: the texts of --file, or of standard input."""
    file: Annotated[str | None, Arg("FILE", "-f")] = None
    """File of texts or examples, read as by 'catena predict'."""
    output: Annotated[Path | None, Arg("FILE", "-o")] = None
    """Image to write, .svg or .png, numbered if there are several texts. Default: draw in the terminal."""


def run(argv: Sequence[str]) -> int:
    """Draw predictions in the terminal or to a file."""
    command = RunCommand(DrawCommand, argv)
    options = command.options
    _check(options)
    task = command.open()
    chosen = command.predict_options(task)
    task.check_options(chosen)
    with ExitStack() as stack:
        examples = list(_examples(task, options, stack))
    for i, example in enumerate(examples, start=1):
        if options.output is None:
            sys.stdout.write("\n" * (i > 1) + task.draw_text(example, chosen) + "\n")
            continue
        path = options.output if len(examples) == 1 else options.output.with_stem(f"{options.output.stem}-{i}")
        sys.stdout.write(f"{task.draw(example, chosen).save(path)}\n")
    return 0


def _check(options: DrawCommand) -> None:
    if options.output is not None:
        check_writable(options.output, "picture.svg")
        if options.output.suffix.lower() not in (".svg", ".png"):
            raise UsageError(f"-o must end in .svg or .png, got {options.output.name}. Rename the file.")
    if options.texts and options.file is not None:
        raise UsageError("Texts and --file cannot be combined. Remove one of them.")
    is_input = media_kind(options.texts[0]) is not None if options.texts else False  # a picture is an input itself
    if len(options.texts) == 1 and Path(options.texts[0]).suffix and is_file(options.texts[0]) and not is_input:
        raise UsageError(f"{options.texts[0]} is a file, not a text. Pass it as --file {options.texts[0]}.")


def _examples(task: Any, options: DrawCommand, stack: ExitStack) -> Iterator[Any]:
    from catena.data.reading import ReadCounter

    if options.texts:
        return (task.to_example(text) for text in options.texts)
    path = stack.enter_context(input_file(options.file or "-"))
    return task.read_inputs(path, ReadCounter())
