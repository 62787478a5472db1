"""Loading a trained model with the device, threads and seed of the command line."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from catena.checkpoint import META
from catena.cli.flags import DeviceFlags
from catena.cli.weights import WeightFlags
from catena.errors import CheckpointError


def open_model(folder: Path, flags: DeviceFlags) -> Any:
    """The trained model in a run or checkpoint folder."""
    return open_quantized(folder, flags, flags.quantization if isinstance(flags, WeightFlags) else None)


def open_quantized(folder: Path, flags: DeviceFlags, quantization: str | None) -> Any:
    """The trained model with weights quantized as given, regardless of ``flags.quantization``."""
    from catena.randomness import Randomness
    from catena.tasks.load import load
    from catena.tasks.machine import set_threads

    set_threads(flags.threads)
    Randomness(flags.seed).seed_torch("global")
    return load(resolve_run_folder(folder), flags.device, quantization)


def load_ensemble(folder: Path, others: Sequence[Path], flags: DeviceFlags) -> Any:
    """The trained model in a folder, ensembled with the models in ``others`` if there are any."""
    model = open_model(folder, flags)
    return model.together([open_model(other, flags) for other in others]) if others else model


def resolve_run_folder(folder: Path) -> Path:
    """The folder itself. Raise CheckpointError if it contains the runs of several seeds or folds."""
    if folder.is_dir() and not (folder / META).exists():
        runs = sorted(path.parent for path in folder.glob(f"*/{META}"))
        if runs:
            raise CheckpointError(f"{folder} contains {len(runs)} runs. Pass one of them, such as {runs[0]}.")
    return folder
