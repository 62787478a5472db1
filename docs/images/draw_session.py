"""Draws session.svg from a real session: trains, scores and asks a model in a temporary folder.

python docs/images/draw_session.py
"""

from __future__ import annotations

import io
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.text import Text

from catena.data.samples.corpus import sample_path

TRAIN = "catena train train.tsv --dev dev.tsv --d 100 --filters 50 --batch-size 20 --learning-rate 0.003 --max-epochs 4"
RUN = "runs/classify-cnn-001"
COMMANDS = (TRAIN, f"catena evaluate {RUN} test.tsv | head -5", f"catena predict {RUN} texts.txt")
TEXTS = "wake me at half six tomorrow\nremind me to call mum when I get home\nwhat does serendipity mean\n"
WIDTH = 128


def main() -> None:
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
    with tempfile.TemporaryDirectory() as folder:
        for part in ("train", "dev", "test"):
            shutil.copy(sample_path(f"assistant/{part}.tsv"), folder)
        (Path(folder) / "texts.txt").write_text(TEXTS, encoding="utf-8")
        for command in COMMANDS:
            console.print(Text.assemble(("$ ", "bold green"), (command, "bold")), soft_wrap=True)
            for line in said(command, folder):
                console.print(Text(line))
            console.print()
    drawn = console.export_svg(title="catena", unique_id="session")
    drawn = re.sub(r"\s*@font-face \{.*?\}", "", drawn, flags=re.S)  # no font is fetched from a network
    (Path(__file__).parent / "session.svg").write_text(drawn, encoding="utf-8")


def said(command: str, folder: str) -> list[str]:
    """What a command prints, or the first lines of it."""
    command, _, head = command.partition(" | head -")
    words = [sys.executable, "-m", *shlex.split(command)]
    lines = subprocess.run(words, cwd=folder, check=True, capture_output=True, text=True).stdout.splitlines()
    return lines[: int(head)] if head else lines


if __name__ == "__main__":
    main()
