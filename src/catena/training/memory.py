"""Running out of memory, answered with what was in the batch and which flags to change."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from catena.errors import OutOfMemoryError
from catena.training.task import Batch, Task

_WORDS = ("DefaultCPUAllocator", "not enough memory", "can't allocate memory", "out of memory")
"""How torch says that the CPU has no memory left, for which it has no error of its own."""


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error means that a device has no memory left."""
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return True
    return isinstance(error, RuntimeError) and any(word in str(error) for word in _WORDS)


@contextmanager
def memory_advice(task: Task, doing: str = "training", batch: Batch | None = None) -> Iterator[None]:
    """Turn running out of memory inside into one sentence that says what was being done."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        device = next(task.model.parameters()).device
        on = "" if batch is None else f" on a batch of {task.describe_batch(batch)}"
        raise OutOfMemoryError(
            f"the device {device} ran out of memory while {doing}{on}. Make batches smaller with --batch-size"
            f" or leave long examples out with --max-length"
        ) from error
