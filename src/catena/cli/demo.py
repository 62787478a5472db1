"""``catena demo``: train, evaluate and ask a small model, on the corpus that comes with Catena."""

from __future__ import annotations

import shlex
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from catena.cli.flags import parse_flags

QUESTIONS = (
    "wake me at half six tomorrow",
    "remind me to call mum when I get home",
    "what does serendipity mean",
    "how do I get to the station from here",
    "it's freezing in here, turn the heating up",
)


@dataclass(frozen=True)
class DemoFlags:
    model: str = "cnn"
    """The kind of model: loglinear, perceptron, mlp, cnn, recurrent, convolution or transformer."""
    output: Annotated[Path | None, tyro.conf.arg(aliases=["-o"])] = None
    """The run folder; a temporary one, removed at the end, if not set."""


def run(argv: Sequence[str]) -> int:
    flags = parse_flags(
        DemoFlags,
        argv,
        "catena demo",
        "Train, evaluate and ask a model on the corpus that comes with Catena.",
    )
    with tempfile.TemporaryDirectory(prefix="catena-demo-") as temporary:
        questions = Path(temporary) / "questions.txt"
        questions.write_text("\n".join(QUESTIONS) + "\n", encoding="utf-8")
        return _show(flags.model, flags.output or Path(temporary) / "run", questions)


def _show(model: str, folder: Path, questions: Path) -> int:
    from catena.cli import evaluate, predict, train
    from catena.data.samples.corpus import sample_path

    files = {part: str(sample_path(f"assistant/{part}.tsv")) for part in ("train", "dev", "test")}
    steps = [
        (
            train.run,
            ["train", "classify", files["train"], "--dev", files["dev"], "--model", model, "-o", str(folder)],
        ),
        (evaluate.run, ["evaluate", str(folder), files["test"]]),
        (predict.run, ["predict", str(folder), str(questions)]),
    ]
    for work, words in steps:
        _say(f"\n$ catena {shlex.join(words)}")
        if code := work(words[1:]):
            return code
    return 0


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
