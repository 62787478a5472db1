"""The machine that a run computes on: device, threads, signals that stop it, and lack of memory. Imports no torch.

Tested in tests/training/test_interrupt.py, test_memory.py and tests/cli/test_train.py.
"""

from __future__ import annotations

import re
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any

from catena.errors import ConfigError, OutOfMemoryError

if TYPE_CHECKING:
    import torch

    from catena.training.task import Batch, Task

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


# --- Ctrl-C -----------------------------------------------------------------------------------------------------------


class Interruption:
    """Context in which SIGINT and SIGTERM set :attr:`requested`. A second SIGINT raises KeyboardInterrupt.

    Signals reach only the main thread. In other threads this has no effect.
    """

    def __init__(self) -> None:
        self.requested = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Interruption:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before.clear()

    def _note(self, number: int, _: FrameType | None) -> None:
        if self.requested and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.requested = True


# --- out of memory ----------------------------------------------------------------------------------------------------


_WORDS = ("DefaultCPUAllocator", "not enough memory", "can't allocate memory", "out of memory")
"""Phrases of torch's errors when the CPU is out of memory, for which it has no error class."""


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error means that a device is out of memory."""
    import torch

    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return True
    return isinstance(error, RuntimeError) and any(word in str(error) for word in _WORDS)


@contextmanager
def memory_advice(task: Task, doing: str = "training", batch: Batch | None = None) -> Iterator[None]:
    """Context that turns an out-of-memory error into one that states the activity and the batch."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        device = next(task.model.parameters()).device
        on = "" if batch is None else f" on a batch of {task.describe_batch(batch)}"
        raise OutOfMemoryError(
            f"The device {device} ran out of memory while {doing}{on}. Reduce --batch-size, or drop long examples with "
            f"--max-length."
        ) from error
