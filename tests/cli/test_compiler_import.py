"""Training and prediction do not import torch's compiler, which takes more than a second."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import environment
from tests.cli.families import DATA, FAMILIES

BY_NAME = {family.name: family for family in FAMILIES}

RUN_COMMANDS = """
import json, sys
import torch
from catena.cli.main import main

for words in json.loads(sys.argv[1]):
    assert main(words) == 0, words
    assert not {"torch._dynamo", "torch._inductor", "sympy"} & sys.modules.keys(), words

layer = torch.nn.Linear(3, 2)
optimizer = torch.optim.Adam(layer.parameters(), lr=0.1, capturable=False)
compiled = torch.compile(layer, backend="eager", fullgraph=True)
before = layer.weight.detach().clone()
compiled(torch.ones(4, 3)).sum().backward()
optimizer.step()
assert torch.allclose(layer.weight, before - 0.1, atol=1e-6)
"""


@pytest.mark.parametrize("name", ["classify-cnn", "tag-neural", "parse-biaffine"])
def test_commands_do_not_import_compiler_and_leave_it_usable(name: str, tmp_path: Path) -> None:
    family = BY_NAME[name]
    DATA[family.data](tmp_path)
    train = [*family.command(tmp_path, *family.train_command), "-o", str(tmp_path / "run")]
    commands = [train, family.command(tmp_path, "predict", "RUN", "input")]
    script = [sys.executable, "-c", RUN_COMMANDS, json.dumps(commands)]
    done = subprocess.run(script, env=environment(), capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
