"""Optimizers that do not import torch's compiler compute the same as those of torch."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
import torch
from torch import nn

from catena.training.optimize import without_compiler

KINDS: tuple[tuple[Any, dict[str, Any]], ...] = (
    (torch.optim.SGD, {"momentum": 0.9, "fused": True}),
    (torch.optim.Adam, {"fused": True}),
    (torch.optim.AdamW, {"fused": True}),
    (torch.optim.Adagrad, {"fused": True}),
    (torch.optim.Adadelta, {}),
)


def train(optimizer: torch.optim.Optimizer, weight: nn.Parameter, steps: int) -> None:
    for step in range(steps):
        weight.grad = torch.tensor([1.0, -2.0, 0.5]) * (step + 1) + weight.detach()
        optimizer.step()
        optimizer.zero_grad()


@pytest.mark.parametrize(("kind", "options"), KINDS)
def test_steps_and_restored_state_equal_torch(kind: Any, options: dict[str, Any]) -> None:
    ours, theirs, restored = (nn.Parameter(torch.arange(3.0)) for _ in range(3))
    first = without_compiler(kind)([ours], lr=0.1, weight_decay=0.01, **options)
    train(first, ours, 3)
    second = without_compiler(kind)([restored], lr=0.5, **options)
    second.load_state_dict(first.state_dict())
    restored.data.copy_(ours.data)
    train(second, restored, 3)
    expected = kind([theirs], lr=0.1, weight_decay=0.01, **options)
    train(expected, theirs, 3)
    assert torch.equal(ours, theirs)
    train(expected, theirs, 3)
    assert torch.equal(restored, theirs)
    assert isinstance(first, kind)


def test_step_is_not_differentiable_and_takes_a_closure() -> None:
    weight = nn.Parameter(torch.ones(2))
    optimizer = without_compiler(torch.optim.SGD)([weight], lr=1.0)

    def closure() -> torch.Tensor:
        loss = (weight**2).sum()
        loss.backward()
        return loss

    loss = optimizer.step(closure)
    assert loss is not None
    assert torch.as_tensor(loss).detach() == 2.0
    assert weight.tolist() == [-1.0, -1.0]
    assert weight.is_leaf


SCRIPT = """
import sys
import torch
from catena.training.optimize import without_compiler

for name in ("SGD", "Adam", "AdamW", "Adagrad", "Adadelta"):
    weight = torch.nn.Parameter(torch.ones(2))
    optimizer = without_compiler(getattr(torch.optim, name))([weight], lr=0.1)
    weight.grad = torch.ones(2)
    optimizer.step()
    optimizer.load_state_dict(optimizer.state_dict())
    optimizer.zero_grad()
assert "torch._dynamo" not in sys.modules

weight = torch.nn.Parameter(torch.ones(2))
optimizer = torch.optim.SGD([weight], lr=0.5)

@torch.compile(backend="eager")
def train_step(x):
    (weight * x).sum().backward()
    optimizer.step()
    optimizer.zero_grad()

train_step(torch.tensor([1.0, 2.0]))
assert weight.tolist() == [0.5, 0.0], weight
print("compiled")
"""


def test_compiler_is_not_imported_and_works_afterwards() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=300, check=False)
    assert done.stdout.strip() == "compiled", done.stderr[-2000:]
