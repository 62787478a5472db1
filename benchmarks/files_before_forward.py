"""Count the files of the package whose functions run before ``catena train FILE`` starts to learn.

A network starts to learn with its first forward pass, a model that is fitted in steps with its first step.

    python benchmarks/files_before_forward.py [--list] [ARGUMENTS OF catena train]

The command runs twice in one process, and the second run is counted, so that imports do not count. Without arguments
it trains on the sample corpus that comes with Catena.
"""

from __future__ import annotations

import importlib.resources
import sys
import tempfile
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

import torch

from catena.cli.main import main
from catena.training.stepwise import Learner

PACKAGE = "/catena/"


class StartedToLearn(BaseException):
    """Ends the command at the first forward pass or step."""


def count_files(arguments: list[str]) -> Counter[str]:
    """The number of calls of each file before the first forward pass of a network or step of another model."""
    calls: Counter[str] = Counter()
    forward = torch.nn.Module.__call__

    def stop(module: torch.nn.Module, *args: Any, **options: Any) -> Any:
        if type(module).__module__.startswith("catena."):
            raise StartedToLearn
        return forward(module, *args, **options)

    def count(frame: FrameType, event: str, argument: object) -> None:
        path = frame.f_code.co_filename
        if event == "call" and frame.f_code.co_name == "step" and isinstance(frame.f_locals.get("self"), Learner):
            raise StartedToLearn
        if event == "call" and PACKAGE in path and not _is_importing(frame):
            calls[path.rpartition(PACKAGE)[2]] += 1

    torch.nn.Module.__call__ = stop  # type: ignore[method-assign]
    sys.setprofile(count)
    try:
        main(arguments)
    except StartedToLearn:
        pass
    finally:
        sys.setprofile(None)
        torch.nn.Module.__call__ = forward  # type: ignore[method-assign]
    return calls


def _is_importing(frame: FrameType | None) -> bool:
    """Whether a call is part of an import."""
    while frame is not None:
        if frame.f_code.co_name == "<module>" or "importlib" in frame.f_code.co_filename:
            return frame.f_code.co_filename != __file__
        frame = frame.f_back
    return False


def run(arguments: list[str]) -> None:
    """Print the number of files, and with ``--list`` their names."""
    shows = "--list" in arguments
    words = [word for word in arguments if word != "--list"]
    sample = str(importlib.resources.files("catena.data.samples") / "assistant" / "train.tsv")
    with tempfile.TemporaryDirectory() as folder:
        for i in range(2):
            target = str(Path(folder) / f"run-{i}")
            calls = count_files(["train", *(words or [sample]), "-q", "-o", target])
    print(f"{len(calls)} files before learning starts")
    for name, n in sorted(calls.items()) if shows else ():
        print(f"  {n:8,}  {name}")


if __name__ == "__main__":
    run(sys.argv[1:])
