"""The task of docs/new_task.md, which reverses a string, gets its commands, estimator and run folders.

Its code is read from the page, so that what the page shows is what is tested.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from unittest.mock import patch

import pytest

import catena as package
from catena.tasks.spec import TASKS
from tests.cli.conftest import Catena, catena  # noqa: F401  (a fixture)

PAGE = Path(__file__).parents[2] / "docs" / "new_task.md"
WORDS = ["abc", "bca", "cab", "acb", "bac"] * 8


def code() -> str:
    found = re.search(r"```python [^\n]*\n(# reverse.py\n.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert found
    return found[1]


@pytest.fixture
def reverse(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "reverse.py").write_text(code(), encoding="utf-8")
    sys.modules.pop("reverse", None)
    with patch.dict(TASKS):
        yield importlib.import_module("reverse")
    del sys.modules["reverse"]


def test_declaration_of_a_task_takes_less_than_120_statement_lines() -> None:
    lines = [line for line in code().splitlines() if line.strip() and not line.strip().startswith(('"""', "#"))]
    assert len([line for line in lines if not line.startswith(("import ", "from "))]) < 120


def test_toy_task_trains_predicts_and_evaluates_on_the_command_line(
    reverse: ModuleType,
    catena: Catena,  # noqa: F811
    tmp_path: Path,
) -> None:
    (tmp_path / "words.txt").write_text("\n".join(WORDS) + "\n")
    assert catena("train", "reverse", "words.txt", "--device", "cpu", "--d", 8, "-o", "run").code == 0
    assert catena("predict", "run", "words.txt").out.splitlines()[:2] == ["cba", "acb"]
    assert '"reversed": "acb"' in catena("predict", "run", "--text", "bca", "--format", "jsonl").out
    assert catena("evaluate", "run", "words.txt").out.startswith("read 40; used 40; dropped 0\naccuracy 1.0000")
    assert catena("resume", "run", "--max-epochs", 31).code == 0


def test_toy_task_has_help_config_and_guide(reverse: ModuleType, catena: Catena) -> None:  # noqa: F811
    assert "strings into reversed strings" in catena("train", "--help").out
    short = catena("train", "reverse", "--help").out
    assert "docs/new_task.md" in short
    assert "catena train reverse words.txt -o runs/reverse" in short
    assert "--d N" in catena("train", "reverse", "--help-all").out
    assert "Size of the vector of a letter" in catena("init", "reverse").out


def test_toy_task_has_an_estimator_with_its_options_as_keywords(reverse: ModuleType, tmp_path: Path) -> None:
    model = reverse.Reverser(d=8, max_epochs=40, learning_rate=0.05).fit(["abc", "bca", "cab"] * 10)
    assert [str(one) for one in model.predict(["cba"])] == ["abc"]
    assert "d: Size of the vector of a letter" in str(reverse.Reverser.__doc__)
    model.save(tmp_path / "saved")
    assert package.load(tmp_path / "saved").predict(["ab"])[0].reversed == "ba"
