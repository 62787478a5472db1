"""Opening a trained model on the device, with the threads and the seed, that the flags name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from catena.checkpoint import META
from catena.cli.flags import DeviceFlags
from catena.cli.weights import WeightFlags
from catena.errors import CheckpointError


def open_model(folder: Path, flags: DeviceFlags) -> Any:
    """The trained model of a run or checkpoint folder."""
    return open_quantized(folder, flags, flags.quantization if isinstance(flags, WeightFlags) else None)


def open_quantized(folder: Path, flags: DeviceFlags, quantization: str | None) -> Any:
    """The same with weights of so many bits, whatever the flags say of them."""
    from catena.randomness import Randomness
    from catena.tasks.load import load
    from catena.tasks.machine import set_threads

    set_threads(flags.threads)
    Randomness(flags.seed).seed_torch("global")
    return load(resolve_run_folder(folder), flags.device, quantization)


def load_ensemble(folder: Path, others: Sequence[Path], flags: DeviceFlags) -> Any:
    """The trained model of a folder, and those of others joined with it, if there are any."""
    model = open_model(folder, flags)
    return model.together([open_model(other, flags) for other in others]) if others else model


def resolve_run_folder(folder: Path) -> Path:
    """The folder, unless it holds the runs of several seeds or folds, of which one must be named."""
    if folder.is_dir() and not (folder / META).exists():
        runs = sorted(path.parent for path in folder.glob(f"*/{META}"))
        if runs:
            raise CheckpointError(f"{folder} holds {len(runs)} runs: name one of them, such as {runs[0]}")
    return folder
