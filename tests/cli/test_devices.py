"""Every family of models and every command that uses it, trained on one device and used on another.

Run with ``--device cpu --device cuda`` on a machine with a GPU. ``test_golden.py`` runs the same commands on the CPU.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Catena
from tests.cli.families import DATA, FAMILIES, Family, device_option
from tests.conftest import devices

BY_NAME = {family.name: family for family in FAMILIES}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "used_on" in metafunc.fixturenames:
        known = devices(metafunc.config)
        pairs = [(a, b) for a in known for b in known if (a, b) != ("cpu", "cpu")]
        cases = [(family, *pair) for pair in pairs for family in FAMILIES]
        names = [f"{a}-{b}-{family.name}" for family, a, b in cases]
        metafunc.parametrize(("family", "trained_on", "used_on"), cases, ids=names)


@pytest.fixture
def train(catena: Catena, tmp_path: Path) -> Callable[[Family, str], Path]:
    """A function that trains a family in a folder of its own, after those whose runs it needs."""

    def run(family: Family, device: str) -> Path:
        folder = tmp_path / family.name
        folder.mkdir()
        for other in family.others:
            run(BY_NAME[other], device)
        DATA[family.data](folder)
        words = family.command(folder, *family.train_command)
        result = catena(*words, *device_option(words, device), "-o", folder / "run")
        assert result.code == 0, result.err
        return folder

    return run


def test_commands_work_on_runs_of_any_device(
    family: Family, trained_on: str, used_on: str, catena: Catena, train: Callable[[Family, str], Path]
) -> None:
    folder = train(family, trained_on)
    assert (folder / "run").is_dir()
    for use in family.uses:
        words = family.command(folder, *use)
        result = catena(*words, *device_option(words, used_on))
        assert result.code == 0, (use, result.err)
        assert result.out, use
