"""Marks of tests, and the quick tests: ``--quick`` runs one variant of each test that takes little time.

Tests with a mark of ``NOT_QUICK`` and those listed in slow_tests.txt are left out. ``pytest --update-slow`` runs one
variant of each test without such a mark, and lists those that take more than ``LIMIT`` seconds of CPU time.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
SLOW_TESTS = TESTS / "slow_tests.txt"
LIMIT = 0.1
MARKS = {
    "test_docs.py": "docs",
    "tasks": "train",
    "cli": "train",
    "agents": "train",
    "training": "train",
    "test_recipes.py": "train",
    "test_collection.py": "slow",
    "test_package.py": "slow",
    "test_benchmarks.py": "slow",
    "mutants": "slow",
}
"""Marks of the tests in a file or folder of tests/."""
NOT_QUICK = {"slow", "docs", "train", "gpu", "browser", "data", "peers"}
SECONDS = pytest.StashKey[float]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--quick",
        action="store_true",
        help="Run one variant of each test, without those of tests/slow_tests.txt and those marked slow, docs, train, "
        "gpu, browser, data or peers.",
    )
    parser.addoption("--update-slow", action="store_true", help="Write the list of slow tests again.")


def is_short(config: pytest.Config) -> bool:
    """Whether one variant of each test is collected."""
    return bool(config.getoption("--quick") or config.getoption("--update-slow"))


def folder_mark(path: Path) -> str | None:
    """The mark of all tests in a file or folder."""
    inner = path.relative_to(TESTS).parts if path.is_relative_to(TESTS) else ()
    return MARKS.get(inner[0]) if inner else None


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    return True if is_short(config) and folder_mark(collection_path) in NOT_QUICK else None


@pytest.hookimpl(wrapper=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> Iterator[None]:
    yield
    if is_short(metafunc.config):
        del metafunc._calls[1:]  # to collect all variants takes longer than to run the first


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if mark := folder_mark(item.path):
            item.add_marker(mark)
        if "cuda" in item.path.name or "cuda" in item.name.partition("[")[2]:
            item.add_marker("gpu")
        if "real_data" in getattr(item, "fixturenames", ()):
            item.add_marker("data")
    if is_short(config):
        keep_quick(config, items)


def keep_quick(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect tests that are marked, or listed as slow."""
    listed = set() if config.getoption("--update-slow") else set(SLOW_TESTS.read_text(encoding="utf-8").split())
    quick, slow = [], []
    for item in items:
        is_slow = name(item) in listed or NOT_QUICK & {mark.name for mark in item.iter_markers()}
        (slow if is_slow else quick).append(item)
    config.hook.pytest_deselected(items=slow)
    items[:] = quick


def name(item: pytest.Item) -> str:
    """The name of a test without its variant."""
    return item.nodeid.partition("[")[0]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[object]:
    before = cpu_seconds()
    try:
        return (yield)
    finally:
        item.stash[SECONDS] = cpu_seconds() - before


def cpu_seconds() -> float:
    """The CPU time of this process and of those that it started."""
    return sum(os.times()[:4])


def pytest_sessionfinish(session: pytest.Session) -> None:
    if session.config.getoption("--update-slow"):
        slow = [name(item) for item in session.items if item.stash.get(SECONDS, 0.0) > LIMIT]
        SLOW_TESTS.write_text("".join(f"{line}\n" for line in sorted(slow)), encoding="utf-8")
