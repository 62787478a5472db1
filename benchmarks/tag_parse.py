"""Taggers and parsers through Catena and through its peers: time to the same answer, turn by turn, ratios.

    CATENA_DATA=… python benchmarks/tag_parse.py [features] [layer] [parsing] [wnut] [--threads 1]

Each part is a file of its own, ``tag_parse_features.py`` and so on, with a function ``run(options)``; without a name
all parts run. Contestants take turns in one process, so that a busy machine slows them alike. A figure is the median of
the processor time (of the clock with more than one thread), a ratio a peer's time to Catena's.

Peers that are not installed are left out; those of ``requirements-peers.txt`` want a virtual environment of their own,
with this repository's ``src`` on ``PYTHONPATH``.
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
    """The names of all parts: what files beside this one are called."""
    return sorted(path.stem.removeprefix(PREFIX) for path in Path(__file__).resolve().parent.glob(f"{PREFIX}*.py"))


def line(name: str, cells: dict[str, str]) -> None:
    """A row of a table: a name, and figures with what they are."""
    print(f"  {name:32}" + "   ".join(f"{head} {cell}" for head, cell in cells.items()), flush=True)


def verdict(found: float, wanted: float, at_least: bool = True) -> str:
    """A ratio beside what it should be."""
    holds = found >= wanted if at_least else found <= wanted
    return f"{found:.2f}x (wanted: {'at least' if at_least else 'at most'} {wanted:g}x){'' if holds else '  MISSED'}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", help=f"which of {', '.join(parts())}; all if none is named")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sentences", type=int, default=None, help="train on so many sentences only")
    parser.add_argument("--iterations", type=int, default=60, help="iterations that a peer is given")
    options = parser.parse_args()
    for part in options.parts:
        if part not in parts():
            parser.error(f"no part is called {part!r}; choose from {', '.join(parts())}")
    print(f"torch {torch.__version__}, python {sys.version.split()[0]}, {os.cpu_count()} processors", flush=True)
    torch.set_num_threads(options.threads)
    for part in options.parts or parts():
        importlib.import_module(PREFIX + part).run(options)


if __name__ == "__main__":
    main()
