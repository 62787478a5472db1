"""The torch device and the number of threads that the user chose."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

from catena.errors import ConfigError

if TYPE_CHECKING:
    import torch


_NAMES = re.compile(r"auto|(cpu|cuda|mps|xpu)(:\d+)?")


def check_device_name(name: str) -> None:
    """Raise ConfigError if no device has this name. Needs no torch."""
    if not _NAMES.fullmatch(name):
        raise ConfigError(f"device {name!r} is not known. Use auto, cpu, cuda, cuda:0 or mps.")


def choose_device(name: str) -> torch.device:
    """The device with a name; ``auto`` is a GPU if there is one. Raises ConfigError if the device is not available."""
    import torch

    check_device_name(name)
    if name == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda")
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    device = torch.device(name)
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ConfigError(
            f"device {name!r} is not available: this machine has no CUDA GPU. Use --device cpu or --device auto."
        )
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise ConfigError(
            f"device {name!r} is not available: this machine has {torch.cuda.device_count()} GPUs, counted from 0. Use "
            f"--device cuda:{torch.cuda.device_count() - 1} or a lower number."
        )
    if device.type == "mps" and not torch.backends.mps.is_available():
        raise ConfigError("device 'mps' is not available on this machine. Use --device cpu or --device auto.")
    return device


def set_threads(threads: int | None) -> None:
    """Set the number of CPU threads; None keeps torch's default."""
    if threads is not None:
        import torch

        torch.set_num_threads(threads)


def count_threads() -> int:
    """The number of CPU threads of torch; 1 if it is not loaded, since everything else computes on one thread."""
    return sys.modules["torch"].get_num_threads() if "torch" in sys.modules else 1
