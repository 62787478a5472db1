"""Each module says in one sentence what it has, and its tests can be found by its path, docstring or mutants."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def source_map() -> ModuleType:
    spec = importlib.util.spec_from_file_location("source_map", ROOT / "docs" / "site" / "source_map.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_each_module_has_tests_that_exist(source_map: ModuleType) -> None:
    modules = source_map.list_modules()
    assert len(modules) > 400
    without = [str(path.relative_to(ROOT)) for path in modules if not source_map.find_tests(path)]
    assert not without, "add 'Tested in tests/….py.' to the docstrings of: " + ", ".join(without)
    missing = {test for path in modules for test in source_map.find_tests(path) if not (ROOT / test).exists()}
    assert not missing, "docstrings or mutants name tests that do not exist: " + ", ".join(sorted(missing))


def test_page_has_one_row_for_each_module(source_map: ModuleType) -> None:
    page = source_map.write_map()
    rows = [line.split(" | ") for line in page.splitlines() if line.startswith("| `")]
    assert len(rows) == len(source_map.list_modules())
    assert not [row[0] for row in rows if len(row) != 3 or not row[1].strip()]


@pytest.mark.parametrize(
    ("docstring", "tests"),
    [
        ("Sums. Tested in tests/a.py.", ["tests/a.py"]),
        (
            "Sums.\n\nTested in tests/a.py, tests/b/c.py\nand tests/d. More in tests/e.py.",
            ["tests/a.py", "tests/b/c.py", "tests/d"],
        ),
        ("Sums, as in tests/a.py.", []),
    ],
)
def test_tests_are_read_from_docstring(source_map: ModuleType, docstring: str, tests: list[str]) -> None:
    assert source_map.named_tests(docstring) == tests
