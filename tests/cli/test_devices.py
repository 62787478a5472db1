"""Every family of models and every command that uses it, trained on one device and used on another.

Run with ``--device cpu --device cuda`` on a machine with a GPU; without the option all is on the CPU.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Catena
from tests.cli.families import DATA, FAMILIES, Family
from tests.conftest import devices

BY_NAME = {family.name: family for family in FAMILIES}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "used_on" in metafunc.fixturenames:
        known = devices(metafunc.config)
        pairs = [(a, b) for a in known for b in known]
        metafunc.parametrize(("trained_on", "used_on"), pairs, ids=[f"{a}-{b}" for a, b in pairs])


def on(words: list[str], device: str) -> tuple[str, ...]:
    """The option that names the device, for commands that compute on one."""
    return () if words[0] in ("average", "embed") else ("--device", device)


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
        result = catena(*words, *on(words, device), "-o", folder / "run")
        assert result.code == 0, result.err
        return folder

    return run


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_commands_work_on_runs_of_any_device(
    family: Family, trained_on: str, used_on: str, catena: Catena, train: Callable[[Family, str], Path]
) -> None:
    folder = train(family, trained_on)
    for use in family.uses:
        words = family.command(folder, *use)
        result = catena(*words, *on(words, used_on))
        assert result.code == 0, (use, result.err)
        assert result.out, use
