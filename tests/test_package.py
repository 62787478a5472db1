"""The built wheel is complete and works outside the clone."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

from catena.version import __version__

ROOT = Path(__file__).parent.parent
NEEDED = ("pyproject.toml", "README.md", "LICENSE", "src")

TRY_IT = """
import sys
from pathlib import Path
import catena
from catena.cli.main import main
from catena.data.samples.corpus import sample_path

assert Path(catena.__file__).is_relative_to(sys.argv[1]), catena.__file__
train, texts = sample_path("assistant/dev.tsv"), Path("texts.txt")
texts.write_text("will it rain tomorrow\\n", encoding="utf-8")
tiny = ["--model", "loglinear", "--max-epochs", "2", "--threads", "1", "-q"]
assert main(["train", str(train), *tiny, "-o", "run"]) == 0
assert main(["predict", "run", str(texts)]) == 0
print(catena.load("run").predict(["turn off the lights"])[0])
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the wheel, built from a copy so that nothing is left in the clone."""
    folder = tmp_path_factory.mktemp("source")
    for name in NEEDED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
        else:
            shutil.copy(ROOT / name, folder / name)
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", "dist", "."]
    done = subprocess.run(command, cwd=folder, env=outside(), capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = (folder / "dist").glob("*.whl")
    return built


def outside(path: Path | None = None) -> dict[str, str]:
    """Return an environment that adds only ``path`` to the interpreter's own packages and those of PYTHONPATH."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST", "CATENA"))}
    entries = [entry for entry in kept.get("PYTHONPATH", "").split(os.pathsep) if entry and Path(entry) != ROOT / "src"]
    return {**kept, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join([*([str(path)] if path else []), *entries])}


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("pip", reason="pip must be installed in this environment, which uv leaves out")
    target = tmp_path_factory.mktemp("installed")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", target, wheel]
    done = subprocess.run(list(map(str, command)), env=outside(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return target


def test_wheel_has_exactly_package_files(wheel: Path) -> None:
    held = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    source = wheel.parents[1] / "src"
    assert held == {path.relative_to(source).as_posix() for path in source.rglob("*") if path.is_file()}
    for name in ("py.typed", "data/samples/assistant/train.tsv", "data/samples/assistant/test.conll"):
        assert f"catena/{name}" in held
    assert {f"catena/recipes/{path.name}" for path in (ROOT / "src/catena/recipes").glob("*.toml")} <= held


def test_metadata_lists_dependencies_without_upper_bounds(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
    metadata = Parser().parsestr(archive.read(name).decode())
    assert (metadata["Name"], metadata["Version"], metadata["Requires-Python"]) == ("catena", __version__, ">=3.11")
    assert metadata["License-Expression"] == "Apache-2.0"
    needed = metadata.get_all("Requires-Dist", [])
    assert "torch>=2.11" in needed
    assert not [line for line in needed if re.search(r"[<~]|==", line.partition(";")[0])]
    assert any(name.endswith("/licenses/LICENSE") for name in archive.namelist())


def test_command_is_installed_and_works(installed: Path, tmp_path: Path) -> None:
    command = [sys.executable, str(installed / "bin" / "catena"), "doctor"]
    done = subprocess.run(command, cwd=tmp_path, env=outside(installed), capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith(f"catena {__version__} on Python ")
    assert done.stdout.endswith("all good\n")


def test_wheel_trains_and_predicts_outside_clone(installed: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-c", TRY_IT, str(installed)]
    done = subprocess.run(command, cwd=tmp_path, env=outside(installed), capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    dev, prediction, label = done.stdout.splitlines()
    assert dev.startswith("dev: accuracy ")
    assert re.fullmatch(r"\w+\t[01]\.\d{4}\twill it rain tomorrow", prediction)
    assert re.fullmatch(r"\w+", label)
