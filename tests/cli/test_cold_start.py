"""A command on a few lines does not load what it can do without: torch, Numba, torch's compiler."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Catena, environment
from tests.cli.families import DATA, FAMILIES

BY_NAME = {family.name: family for family in FAMILIES}
RUN_COMMAND = """
import sys
from catena.cli.main import main

absent, *words = sys.argv[1:]
assert main(words) == 0
loaded = [name for name in absent.split(",") if name in sys.modules]
assert not loaded, loaded
"""
AT_EXIT = """
import atexit, gc
atexit.register(lambda: print(gc.get_freeze_count() > 0))
from catena.cli.main import main
main(["--version"])
"""
COMPILER = "torch._dynamo,torch._inductor,sympy"


@pytest.mark.parametrize(
    ("name", "command", "absent"),
    [
        ("classify-loglinear", "predict", "torch,numba,scipy,sklearn"),
        ("lm-ngram", "score", "torch,numba,scipy,sklearn"),
        ("lm-ngram", "predict", "torch,numba,scipy,sklearn"),
        ("tag-features", "predict", "torch,numba,scipy,sklearn"),
        ("tag-hmm", "predict", "torch,numba,scipy,sklearn"),
        ("tag-neural", "predict", f"numba,{COMPILER}"),
        ("tag-semimarkov", "predict", f"numba,{COMPILER}"),
        ("parse-biaffine", "predict", f"numba,{COMPILER}"),
        ("parse-span", "predict", f"numba,{COMPILER}"),
        ("translate-transformer", "predict", f"numba,{COMPILER}"),
        ("converse-bm25", "predict", f"numba,{COMPILER}"),
        ("transduce-edit", "predict", f"numba,{COMPILER}"),
    ],
)
def test_cold_command_gives_the_same_output_without_modules(
    name: str, command: str, absent: str, catena: Catena, tmp_path: Path
) -> None:
    family = BY_NAME[name]
    DATA[family.data](tmp_path)
    trained = catena(*family.command(tmp_path, *family.train_command), "-o", tmp_path / "run")
    assert trained.code == 0
    words = family.command(tmp_path, command, "RUN", "input")
    script = [sys.executable, "-c", RUN_COMMAND, absent, *words]
    done = subprocess.run(script, env=environment(), capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout == catena(*words).out


def test_exit_does_not_collect_what_ends_with_the_process() -> None:
    done = subprocess.run([sys.executable, "-c", AT_EXIT], env=environment(), capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "True", done.stderr
