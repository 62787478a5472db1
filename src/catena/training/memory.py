"""Out-of-memory errors that report the contents of the batch and which options to change."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from catena.errors import OutOfMemoryError
from catena.training.task import Batch, Task

_WORDS = ("DefaultCPUAllocator", "not enough memory", "can't allocate memory", "out of memory")
"""Phrases of torch's errors when the CPU is out of memory, for which it has no error class."""


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error means that a device is out of memory."""
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
