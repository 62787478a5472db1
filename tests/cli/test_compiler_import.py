"""Training and prediction do not import torch's compiler, which takes more than a second."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.cli.conftest import environment
from tests.cli.families import DATA, FAMILIES, Family

BY_NAME = {family.name: family for family in FAMILIES}

RUN_COMMANDS = """
import json, sys
import torch
from catena.cli.main import main

def run(commands):
    for words in commands:
        assert main(words) == 0, words
        assert not {"torch._dynamo", "torch._inductor", "sympy"} & sys.modules.keys(), words

run(json.loads(sys.argv[1]))
layer = torch.nn.Linear(3, 2)
optimizer = torch.optim.Adam(layer.parameters(), lr=0.1, capturable=False)
compiled = torch.compile(layer, backend="eager", fullgraph=True)
before = layer.weight.detach().clone()
compiled(torch.ones(4, 3)).sum().backward()
optimizer.step()
assert torch.allclose(layer.weight, before - 0.1, atol=1e-6)
"""


NEURAL = [family for family in FAMILIES if "--max-steps" in family.train and not family.others]


def run_commands(commands: Sequence[Sequence[str]]) -> None:
    script = [sys.executable, "-c", RUN_COMMANDS, json.dumps(commands)]
    done = subprocess.run(script, env=environment(), capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]


def train_command(family: Family, folder: Path) -> list[str]:
    folder.mkdir(exist_ok=True)
    DATA[family.data](folder)
    return [*family.command(folder, *family.train_command), "-o", str(folder / "run")]


@pytest.mark.parametrize("name", ["classify-cnn", "tag-neural", "parse-biaffine"])
def test_commands_do_not_import_compiler_and_leave_it_usable(name: str, tmp_path: Path) -> None:
    family = BY_NAME[name]
    run_commands([train_command(family, tmp_path), family.command(tmp_path, "predict", "RUN", "input")])


@pytest.mark.parametrize("task", sorted({family.train[0] for family in NEURAL}))
def test_training_of_every_network_does_not_import_compiler(task: str, tmp_path: Path) -> None:
    run_commands([train_command(family, tmp_path / family.name) for family in NEURAL if family.train[0] == task])
