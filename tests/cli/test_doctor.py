"""``catena doctor``."""

from __future__ import annotations

import importlib.metadata
import re
import tomllib
from pathlib import Path

import pytest

from catena.cli import doctor
from catena.extras import EXTRAS
from tests.cli.conftest import Catena

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def names(requirements: list[str]) -> set[str]:
    return {re.split(r"[<>=\[]", line)[0] for line in requirements}


def test_doctor_lists_every_dependency_and_extra() -> None:
    assert set(doctor.NEEDED) == names(PROJECT["dependencies"])
    extras = {name: names(lines) for name, lines in PROJECT["optional-dependencies"].items() if name != "dev"}
    assert {name: set(packages) for name, packages in EXTRAS.items()} == extras


def test_doctor_reports_all_good(catena: Catena) -> None:
    said = catena("doctor")
    assert said.code == 0
    assert said.out.startswith("catena ")
    assert f"  torch        {importlib.metadata.version('torch')}\n" in said.out
    assert re.search(r"^  cpu +\d+ cores, torch uses \d+ threads?, works$", said.out, re.M)
    assert said.out.endswith("all good\n")


def test_missing_packages_are_printed_with_install_command(catena: Catena, monkeypatch: pytest.MonkeyPatch) -> None:
    found = doctor._version
    monkeypatch.setattr(doctor, "_version", lambda name: None if name in ("numba", "pyarrow") else found(name))
    said = catena("doctor")
    assert said.code == 1
    assert "  parquet (extra)      -   pip install pyarrow" in said.out
    assert said.out.endswith("missing: numba   pip install numba\n")
