"""``catena demo``: train, evaluate and ask a small model, on the corpus that comes with Catena."""

from __future__ import annotations

import shlex
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from catena.cli.flags import DeviceFlags, arg, parse_flags

_QUICK = {"cnn": ("--d", "100", "--filters", "50", "--learning-rate", "0.003")}
"""What makes a model small enough to be there in seconds."""
QUESTIONS = (
    "wake me at half six tomorrow",
    "remind me to call mum when I get home",
    "what does serendipity mean",
    "how do I get to the station from here",
    "it's freezing in here, turn the heating up",
)


@dataclass(frozen=True)
class DemoFlags(DeviceFlags):
    """The kind of model that is shown, and where its run is kept."""

    model: Annotated[str, arg("KIND", shown="(default: cnn)")] = "cnn"
    """The kind of model: loglinear, perceptron, mlp, cnn, recurrent, convolution or transformer."""
    output: Annotated[Path | None, arg("FOLDER", "-o")] = None
    """The run folder; a temporary one, removed at the end, if not set."""


def run(argv: Sequence[str]) -> int:
    """Show training, evaluation and predictions in one go."""
    about = "Train, evaluate and ask a model, on the corpus that comes with Catena."
    flags = parse_flags(DemoFlags, argv, "catena demo", about)
    with tempfile.TemporaryDirectory(prefix="catena-demo-") as temporary:
        questions = Path(temporary) / "questions.txt"
        questions.write_text("\n".join(QUESTIONS) + "\n", encoding="utf-8")
        return _show(flags, flags.output or Path(temporary) / "run", questions)


def _show(flags: DemoFlags, folder: Path, questions: Path) -> int:
    from catena.cli import evaluate, predict, train
    from catena.data.samples.corpus import sample_path

    files = {part: str(sample_path(f"assistant/{part}.tsv")) for part in ("train", "dev", "test")}
    # So small a model gains nothing from a second thread, and on a busy machine it would wait for it.
    asked = {"--device": flags.device, "--threads": flags.threads or 1, "--seed": flags.seed}
    machine = [str(word) for name in asked if asked[name] not in ("auto", 0) for word in (name, asked[name])]
    model = ["--model", flags.model, *_QUICK.get(flags.model, ()), "-o", str(folder)]
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
