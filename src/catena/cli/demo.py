"""``catena demo``, which trains, evaluates and queries a small model on the bundled corpus."""

from __future__ import annotations

import itertools
import shlex
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from catena.cli.common import MachineOptions, parse_plain
from catena.cli.parser import Arg

_QUICK = {"cnn": ("--d", "100", "--filters", "50", "--learning-rate", "0.003")}
"""Options that make a model small enough to train in seconds."""
QUESTIONS = (
    "wake me at half six tomorrow",
    "remind me to call mum when I get home",
    "what does serendipity mean",
    "how do I get to the station from here",
    "it's freezing in here, turn the heating up",
)


class DemoCommand(MachineOptions):
    """Train a model on the corpus that comes with Catena, evaluate it and predict with it."""

    usage = "catena demo [--options]"
    example = "catena demo --model recurrent"

    model: Annotated[str, Arg("KIND")] = "cnn"
    """Model: loglinear, perceptron, mlp, cnn, recurrent, convolution or transformer."""
    output: Annotated[Path | None, Arg("FOLDER", "-o")] = None
    """Run folder. Default: runs/demo, or runs/demo-2 and so on if it exists."""


def run(argv: Sequence[str]) -> int:
    """Show training, evaluation and prediction."""
    options = parse_plain(DemoCommand, argv)
    with tempfile.TemporaryDirectory(prefix="catena-demo-") as temporary:
        questions = Path(temporary) / "questions.txt"
        questions.write_text("\n".join(QUESTIONS) + "\n", encoding="utf-8")
        folder = options.output or _free_folder(Path("runs"))
        if code := _show(options, folder, questions):
            return code
    _say(f'\nThe run is in {folder}. Query it: echo "play some jazz" | catena predict {shlex.quote(str(folder))}')
    return 0


def _free_folder(parent: Path) -> Path:
    """The first of demo, demo-2, demo-3 and so on that does not exist."""
    names = itertools.chain(["demo"], (f"demo-{i}" for i in itertools.count(2)))
    return next(parent / name for name in names if not (parent / name).exists())


def _show(options: DemoCommand, folder: Path, questions: Path) -> int:
    from catena.cli import evaluate, predict, train
    from catena.data.samples.corpus import sample_path

    files = {part: str(sample_path(f"assistant/{part}.tsv")) for part in ("train", "dev", "test")}
    # Such a small model gains nothing from a second thread, and on a busy machine it would wait for it.
    chosen = {"--device": options.device, "--threads": options.threads or 1, "--seed": options.seed}
    machine = [str(word) for name in chosen if chosen[name] not in ("auto", 0) for word in (name, chosen[name])]
    model = ["--model", options.model, *_QUICK.get(options.model, ()), "-o", str(folder)]
    steps = [
        (train.run, ["train", "classify", files["train"], "--dev", files["dev"], *model, *machine]),
        (evaluate.run, ["evaluate", str(folder), files["test"], *machine]),
        (predict.run, ["predict", str(folder), str(questions), *machine]),
    ]
    for work, words in steps:
        _say(f"\n$ catena {shlex.join(words)}")
        if code := work(words[1:]):
            return code
    return 0


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
