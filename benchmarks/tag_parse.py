"""Taggers and parsers of Catena and other libraries: time to the same result, and ratios.

    CATENA_DATA=… python benchmarks/tag_parse.py [features] [layer] [parsing] [spacy] [wnut] [--threads 1]

Each part is a file, ``tag_parse_features.py`` and so on, with a function ``run(options)``; by default all parts run.
Contestants alternate in one process, so that a busy machine slows all of them. A value is the median of the process
time (wall time with more than one thread), a ratio the time of a library divided by Catena's.

Libraries that are not installed are skipped; install ``requirements-peers.txt`` in a separate virtual environment, with
this repository's ``src`` on ``PYTHONPATH``.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Callable
from pathlib import Path

import torch

Run = Callable[[argparse.Namespace], None]
PREFIX = "tag_parse_"


def parts() -> list[str]:
    """Return the names of all parts, from the names of the files."""
    return sorted(path.stem.removeprefix(PREFIX) for path in Path(__file__).resolve().parent.glob(f"{PREFIX}*.py"))


def line(name: str, cells: dict[str, str]) -> None:
    """Print a row of a table: a name, and values with their headings."""
    print(f"  {name:32}" + "   ".join(f"{head} {cell}" for head, cell in cells.items()), flush=True)


def verdict(found: float, wanted: float, at_least: bool = True) -> str:
    """Return a ratio with its required value."""
    holds = found >= wanted if at_least else found <= wanted
    return f"{found:.2f}x (wanted: {'at least' if at_least else 'at most'} {wanted:g}x){'' if holds else '  MISSED'}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", help=f"parts to run, of {', '.join(parts())}; default: all")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sentences", type=int, default=None, help="train on this number of sentences")
    parser.add_argument("--iterations", type=int, default=60, help="number of iterations of other libraries")
    options = parser.parse_args()
    for part in options.parts:
        if part not in parts():
            parser.error(f"unknown part {part!r}; choose from {', '.join(parts())}")
    print(f"torch {torch.__version__}, python {sys.version.split()[0]}, {os.cpu_count()} processors", flush=True)
    torch.set_num_threads(options.threads)
    for part in options.parts or parts():
        importlib.import_module(PREFIX + part).run(options)


if __name__ == "__main__":
    main()
