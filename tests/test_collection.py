"""Test ids are the same in every process: workers that collect different ids end the whole run.

The ids of this run, or of a second process if this run collected only a part of the tests, are compared with those of
a process with another clock, folder and hash seed. The copy keeps the compiled files, which halves the time.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.python_path import python_path

ROOT = Path(__file__).parent.parent
LATER = """
import time
_now, _now_ns = time.time, time.time_ns
time.time = lambda: _now() + 1e6
time.time_ns = lambda: _now_ns() + 10**15
"""


def copy_of_checkout(folder: Path) -> Path:
    folder.mkdir(parents=True)
    for name in ("src", "tests", "docs", "examples", "benchmarks"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("*.nbi", "*.nbc"))
    for path in [*ROOT.glob("*.md"), ROOT / "pyproject.toml", ROOT / "Makefile", ROOT / "constraints.txt"]:
        shutil.copy(path, folder)
    (folder / "later_clock.py").write_text(LATER, encoding="utf-8")
    return folder


def collecting(folder: Path, hash_seed: int, *options: str) -> subprocess.Popen[str]:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST")}
    environment |= {"PYTHONHASHSEED": str(hash_seed), "PYTHONPATH": python_path(folder / "src", folder)}
    command = [sys.executable, "-m", "pytest", "--collect-only", "-p", "no:cacheprovider", "-p", "no:randomly"]
    return subprocess.Popen(
        [*command, "-o", "addopts=", "-q", *options, "tests"],
        cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip


def collected(process: subprocess.Popen[str]) -> list[str]:
    output = process.communicate(timeout=900)[0]
    assert process.returncode == 0, output[-4000:]
    return [line for line in output.splitlines() if "::" in line]


def collected_by(session: pytest.Session) -> list[str] | None:
    """The ids of this run in their order, or None if it selected or shuffled them."""
    options = session.config.option
    last_failed = getattr(options, "lf", False)  # missing without pytest's cache
    selected = options.keyword or options.markexpr or options.deselect or options.ignore or last_failed
    if selected or options.file_or_dir not in ([], ["tests"]) or session.config.pluginmanager.hasplugin("randomly"):
        return None
    return [item.nodeid for item in session.items]


UNSTABLE = {
    "clock": "time.time() // 1e6",
    "nanoseconds": "time.time_ns() // 10**15",
    "folder": "str(Path(__file__).parent)",
    "hash seed": "hash('a')",
}
TEST = """
import time
from pathlib import Path
import pytest

@pytest.mark.parametrize("value", [{value}])
def test_value(value): pass
"""


@pytest.mark.parametrize("value", [*UNSTABLE.values(), "'stable'"], ids=[*UNSTABLE, "stable"])
def test_only_unstable_ids_differ_between_collections(value: str, tmp_path: Path) -> None:
    processes = []
    for seed, options in ((1, ()), (2, ("-p", "later_clock"))):
        folder = tmp_path / f"folder-{seed}"
        (folder / "tests").mkdir(parents=True)
        (folder / "tests" / "test_value.py").write_text(TEST.format(value=value), encoding="utf-8")
        (folder / "later_clock.py").write_text(LATER, encoding="utf-8")
        processes.append(collecting(folder, seed, *options))
    here, there = map(collected, processes)
    assert len(here) == 1
    assert (here == there) == (value == "'stable'")


def test_ids_do_not_depend_on_clock_folder_or_hash_seed(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    devices = [f"--device={device}" for device in request.config.getoption("--device") or ()]
    elsewhere = collecting(copy_of_checkout(tmp_path / "another" / "folder"), 2, "-p", "later_clock", *devices)
    here = collected_by(request.session) or collected(collecting(ROOT, 1, *devices))
    there = collected(elsewhere)
    assert len(here) > 1000
    assert here == there
