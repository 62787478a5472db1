"""Training on a GPU: half precision, fused optimizers, generators and resuming."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from catena.checkpoint import open_checkpoint
from catena.randomness import Randomness
from catena.training.config import TrainingConfig
from catena.training.loop import TrainingLoop, train
from catena.training.report import SilentReporter
from catena.training.state import preserve_rng, random_states, restore_random_states
from catena.training.task import Batch, EpochPlan
from tests.laws.resume_laws import SEED, Doomed, Killed, die, fresh_run, go_on, without_times
from tests.training.tiny import TinyTask

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA GPU")


def on_gpu(**values: Any) -> TinyTask:
    task = TinyTask(**values)
    task.model.cuda()
    task.ids, task.labels = task.ids.cuda(), task.labels.cuda()
    return task


@pytest.mark.parametrize("optimizer", ["sgd", "adam", "adamw", "adagrad", "adadelta"])
@pytest.mark.parametrize("precision", ["float32", "bf16", "fp16", "auto"])
def test_training_learns_and_resumes(tmp_path: Path, optimizer: str, precision: str) -> None:
    rate = {"sgd": 0.3, "adagrad": 0.1, "adadelta": 5.0}.get(optimizer, 0.05)
    values = {"optimizer": optimizer, "precision": precision, "learning_rate": rate, "ema": 0.9, "patience": 0}
    settings = TrainingConfig(max_epochs=30, eval_every=20, **values)  # type: ignore[arg-type]
    whole, run = fresh_run(tmp_path / "whole"), fresh_run(tmp_path / "killed")
    outcome = train(on_gpu(), settings, whole, Randomness(SEED), SilentReporter())
    assert outcome.score > 0.8
    with pytest.raises(Killed):
        train(Doomed(on_gpu(), 70, die), settings, run, Randomness(SEED), SilentReporter())
    go_on(on_gpu(), settings, run)
    one, two = open_checkpoint(whole.path / "last"), open_checkpoint(run.path / "last")
    for name, value in one.weights().items():
        torch.testing.assert_close(two.weights()[name], value)
    assert one.state()["updater"] == two.state()["updater"]
    for a, b in zip(without_times(whole.metrics()), without_times(run.metrics()), strict=True):
        assert a["step"] == b["step"]
        assert a["loss"] == pytest.approx(b["loss"], rel=1e-4)


def test_precision_follows_config() -> None:
    for name, expected in (("auto", torch.bfloat16), ("bf16", torch.bfloat16), ("fp16", torch.float16)):
        settings = TrainingConfig(precision=name)  # type: ignore[arg-type]
        loop = TrainingLoop(on_gpu(), settings, None, Randomness(0), SilentReporter())
        assert loop.updater.dtype is expected
        assert loop.updater.scaler.is_enabled() == (name == "fp16")


class Held(EpochPlan):
    """Batches that are on the device already."""

    def __init__(self, plan: EpochPlan) -> None:
        self.batches = [plan.batch(i) for i in range(len(plan))]

    def __len__(self) -> int:
        return len(self.batches)

    def batch(self, i: int) -> Batch:
        return self.batches[i]


@pytest.mark.parametrize("precision", ["float32", "bf16"])
def test_step_does_not_synchronize(precision: str) -> None:
    shape = {"clip_norm": 1.0, "clip_value": 1.0, "l1": 0.1, "max_norm": 1.0, "ema": 0.9}
    settings = TrainingConfig(max_epochs=1, precision=precision, **shape)  # type: ignore[arg-type]
    loop = TrainingLoop(on_gpu(), settings, None, Randomness(0), SilentReporter())
    plan = Held(loop.task.epoch(1))
    loop._step(plan)
    torch.cuda.set_sync_debug_mode("error")
    try:
        loop._step(plan)
        loop._step(plan)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    loop._read_losses()
    assert loop.state.loss_items == 12


def test_generators_of_gpu_are_restored() -> None:
    device = torch.device("cuda:0")
    states = random_states(device)
    first = torch.rand(3, device=device)
    restore_random_states(states, device)
    with preserve_rng(device):
        torch.rand(9, device=device)
    assert torch.equal(torch.rand(3, device=device), first)
