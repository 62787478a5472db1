"""Devices and threads: what a person asks for, made into what torch takes."""

from __future__ import annotations

import torch

from catena.errors import ConfigError


def choose_device(name: str) -> torch.device:
    """The device of a name; ``auto`` is a GPU if there is one. A device that is not there is said, not replaced."""
    if name == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda")
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise ConfigError(f"there is no device {name!r}: say auto, cpu, cuda, cuda:0 or mps") from None
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ConfigError(
            f"the device {name!r} was asked for, and this machine has no CUDA GPU: say --device cpu or auto"
        )
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise ConfigError(
            f"the device {name!r} was asked for, and there are {torch.cuda.device_count()} GPUs, counted from 0"
        )
    if device.type == "mps" and not torch.backends.mps.is_available():
        raise ConfigError("the device 'mps' was asked for, and this machine has none: say --device cpu or auto")
    return device


def set_threads(threads: int | None) -> None:
    """Use so many CPU threads; leave torch's own choice if None."""
    if threads is not None:
        torch.set_num_threads(threads)
