"""Out-of-memory errors report the batch and the options to change."""

from __future__ import annotations

import pytest
import torch

from catena.errors import OutOfMemoryError
from catena.randomness import Randomness
from catena.training.config import TrainingConfig
from catena.training.device import is_out_of_memory
from catena.training.loop import train
from catena.training.report import SilentReporter
from catena.training.task import Batch, BatchLoss, Evaluation
from tests.training.tiny import TinyTask

CPU_WORDS = "[enforce fail at alloc_cpu.cpp:124] err == 0. DefaultCPUAllocator: can't allocate memory: you tried"


def full(error: BaseException, where: str) -> TinyTask:
    class Full(TinyTask):
        def loss(self, batch: Batch) -> BatchLoss:
            if where == "loss":
                raise error
            return super().loss(batch)

        def evaluate(self) -> Evaluation:
            if where == "evaluate":
                raise error
            return super().evaluate()

    return Full()


def go(task: TinyTask) -> None:
    train(task, TrainingConfig(max_steps=1), None, Randomness(0), SilentReporter())


@pytest.mark.parametrize(
    "error", [torch.OutOfMemoryError("CUDA out of memory."), RuntimeError(CPU_WORDS), MemoryError()]
)
def test_error_names_batch_and_options(error: BaseException) -> None:
    words = (
        r"device cpu ran out of memory while training on a batch of 4 examples, longest 5 tokens\. Reduce --batch-size"
    )
    with pytest.raises(OutOfMemoryError, match=words) as raised:
        go(full(error, "loss"))
    assert "--batch-size" in str(raised.value)
    assert "--max-length" in str(raised.value)
    assert raised.value.__cause__ is error


def test_error_in_evaluation_is_reported() -> None:
    with pytest.raises(OutOfMemoryError, match="ran out of memory while evaluating"):
        go(full(RuntimeError(CPU_WORDS), "evaluate"))


def test_real_allocation_error_is_detected() -> None:
    with pytest.raises(RuntimeError) as raised:
        torch.empty(1 << 60)
    assert is_out_of_memory(raised.value)


def test_other_errors_are_unchanged() -> None:
    error = RuntimeError("mat1 and mat2 shapes cannot be multiplied")
    with pytest.raises(RuntimeError, match="mat1 and mat2") as raised:
        go(full(error, "loss"))
    assert raised.value is error
