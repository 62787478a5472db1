"""Test ids are the same in every process: workers that collect different ids end the whole run."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
LATER = """
import time
_now, _now_ns = time.time, time.time_ns
time.time = lambda: _now() + 1e6
time.time_ns = lambda: _now_ns() + 10**15
"""


def collecting(folder: Path, hash_seed: int, *options: str) -> subprocess.Popen[str]:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST")}
    environment |= {"PYTHONHASHSEED": str(hash_seed), "PYTHONPATH": f"{folder / 'src'}{os.pathsep}{folder}"}
    command = [sys.executable, "-m", "pytest", "--collect-only", "-p", "no:cacheprovider", "-p", "no:randomly"]
    return subprocess.Popen(
        [*command, "-o", "addopts=", "-q", *options, "tests"],
        cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip


def collected(process: subprocess.Popen[str]) -> list[str]:
    output = process.communicate(timeout=900)[0]
    assert process.returncode == 0, output[-4000:]
    return [line for line in output.splitlines() if "::" in line]


def test_ids_do_not_depend_on_clock_folder_or_hash_seed(tmp_path: Path) -> None:
    copy = tmp_path / "another" / "folder"
    copy.mkdir(parents=True)
    for name in ("src", "tests", "docs", "examples", "benchmarks"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__", "*.nbi", "*.nbc"))
    for path in [*ROOT.glob("*.md"), ROOT / "pyproject.toml", ROOT / "Makefile", ROOT / "constraints.txt"]:
        shutil.copy(path, copy)
    (copy / "later_clock.py").write_text(LATER, encoding="utf-8")
    processes = collecting(ROOT, 1), collecting(copy, 2, "-p", "later_clock")
    here, there = map(collected, processes)
    assert len(here) > 1000
    assert here == there
