"""Opening a trained model on the device, with the threads and the seed, that the flags name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from catena.cli.flags import Machine
from catena.randomness import Randomness
from catena.tasks.load import load
from catena.tasks.machine import set_threads


def open_model(folder: Path, flags: Machine) -> Any:
    set_threads(flags.threads)
    Randomness(flags.seed).seed_torch("global")
    return load(folder, flags.device)
