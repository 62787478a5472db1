"""``catena.load(run)``: the trained model of a run folder or a checkpoint folder, whatever its task."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any

from catena.checkpoint import open_checkpoint
from catena.tasks.table import task_of_config


def load(folder: str | PathLike[str], device: str = "auto") -> Any:
    """Open a trained model. ``folder`` is a run, its ``best`` or ``last``, or a checkpoint; never a name on a hub."""
    checkpoint = open_checkpoint(Path(folder))
    return task_of_config(checkpoint.folder / "config.toml").open().load(checkpoint.folder, device)
