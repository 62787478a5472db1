"""Prove that the tests can fail: apply one-line mutants of the algorithms, and demand that each is caught.

    python tests/mutants/run.py [--jobs 2] [--changed [COMMIT]] [WORDS …]

Each ``tests/mutants/*.toml`` holds mutants:

    [[mutant]]
    file = "src/catena/numerics.py"
    find = "exact source text, once in the file"
    replace = "the fault"
    tests = ["tests/test_numerics.py"]
    why = "what would go wrong, and why a test must notice"

The sources and tests are copied to a temporary folder, so the working tree is never touched. There the tests
must pass as they are, and fail (pytest's exit code 1) with each mutant. A mutant whose text is not found once
and only once is stale; one with which pytest cannot even run is an error of the mutant. With WORDS only those
run whose name, file or reason holds one of them, with --changed those whose file differs from a commit.
Standard library only.
"""

from __future__ import annotations

import argparse
import os
import queue
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

COPIED = ("src", "tests", "pyproject.toml")
KEYS = {"file", "find", "replace", "tests", "why"}
PASSED, FAILED = 0, 1  # pytest's exit codes; 2 and above mean that it could not run the tests
TAIL = 15
PLUGIN = "tests.mutants.no_shrinking"


class MutantError(Exception):
    """A list of mutants, or one of them, that cannot be used."""


@dataclass(frozen=True)
class Mutant:
    """One fault: a text of a file that is replaced by another, and the tests that must notice."""

    name: str
    file: str
    find: str
    replace: str
    tests: tuple[str, ...]
    why: str

    def matches(self, words: Sequence[str]) -> bool:
        return not words or any(word in text for word in words for text in (self.name, self.file, self.why))


@dataclass(frozen=True)
class Outcome:
    """What became of a mutant; ``output`` is the end of what pytest said, where that explains a failure."""

    mutant: Mutant
    caught: bool
    said: str
    output: str = ""


def read_mutants(folder: Path) -> list[Mutant]:
    """Every mutant of every ``*.toml`` in a folder, named after its file and its place in it."""
    mutants = []
    for path in sorted(folder.glob("*.toml")):
        try:
            tables = tomllib.loads(path.read_text(encoding="utf-8")).get("mutant", [])
        except tomllib.TOMLDecodeError as error:
            raise MutantError(f"{path.name} is not valid TOML: {error}") from None
        for number, table in enumerate(tables, start=1):
            name = f"{path.stem}-{number}"
            if set(table) != KEYS or not table["tests"]:
                raise MutantError(f"{name} must have exactly {sorted(KEYS)}, none empty, but has {sorted(table)}")
            tests = tuple(table["tests"])
            mutants.append(Mutant(name, table["file"], table["find"], table["replace"], tests, table["why"]))
    return mutants


def changed_files(root: Path, commit: str) -> set[str]:
    """The files that differ from a commit, in the working tree too, relative to the root of the repository."""
    found = set()
    for words in (["diff", "--name-only", commit, "--"], ["ls-files", "--others", "--exclude-standard"]):
        done = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True)
        if done.returncode:
            raise MutantError(f"git cannot compare with {commit!r}: {done.stderr.strip()}")
        found |= set(done.stdout.splitlines())
    return found


def copy_tree(root: Path, to: Path) -> Path:
    """A copy of what the tests need, without compiled files."""
    for name in COPIED:
        if (root / name).is_dir():
            shutil.copytree(root / name, to / name, ignore=shutil.ignore_patterns("__pycache__", ".*_cache"))
        elif (root / name).exists():
            shutil.copy2(root / name, to / name)
    return to


def run_tests(tree: Path, tests: Sequence[str], timeout: float) -> tuple[int | None, str]:
    """pytest's exit code, or None if it ran too long, and the end of what it said."""
    outer = ("PYTEST_ADDOPTS", "PYTEST_CURRENT_TEST", "PYTEST_XDIST")  # of a pytest that runs us
    environment = {key: value for key, value in os.environ.items() if not key.startswith(outer)}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(tree / "src"), environment.get("PYTHONPATH")]))
    # A compiled file is trusted if size and second of its source agree, as those of a mutant may do.
    environment["PYTHONDONTWRITEBYTECODE"] = "1"
    with tempfile.TemporaryDirectory() as cache:
        environment["NUMBA_CACHE_DIR"] = cache
        plugin = ["-p", PLUGIN] if (tree / PLUGIN.replace(".", "/")).with_suffix(".py").exists() else []
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *plugin, *tests]
        try:
            done = subprocess.run(
                command,
                cwd=tree,
                env=environment,
                timeout=timeout,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
            )
        except subprocess.TimeoutExpired:
            return None, ""
    return done.returncode, "\n".join(done.stdout.splitlines()[-TAIL:])


@contextmanager
def applied(mutant: Mutant, tree: Path) -> Iterator[None]:
    """The mutant in its file, and the file as it was afterwards."""
    path = tree / mutant.file
    if not path.is_file():
        raise MutantError(f"stale: there is no file {mutant.file}")
    source = path.read_bytes()
    found = source.decode("utf-8").count(mutant.find)
    if found != 1:
        raise MutantError(f"stale: its text is in the file {found} times, not once")
    if mutant.find == mutant.replace:
        raise MutantError("it changes nothing")
    try:
        path.write_bytes(source.decode("utf-8").replace(mutant.find, mutant.replace).encode("utf-8"))
        yield
    finally:
        path.write_bytes(source)


def try_mutant(mutant: Mutant, tree: Path, timeout: float) -> Outcome:
    """Apply a mutant, run its tests, put the file back."""
    try:
        with applied(mutant, tree):
            code, output = run_tests(tree, mutant.tests, timeout)
    except MutantError as error:
        return Outcome(mutant, False, str(error))
    if code == FAILED:
        return Outcome(mutant, True, "caught")
    if code == PASSED:
        return Outcome(mutant, False, "not noticed: the tests pass with it", output)
    if code is None:
        return Outcome(mutant, False, f"an error: its tests ran longer than {timeout:.0f} s")
    return Outcome(mutant, False, f"an error: pytest cannot run its tests (exit code {code})", output)


def try_all(mutants: Sequence[Mutant], trees: Sequence[Path], timeout: float) -> Iterator[Outcome]:
    """The outcome of each mutant, in order; as many run at once as there are copies of the tree."""
    free: queue.Queue[Path] = queue.Queue()
    for tree in trees:
        free.put(tree)

    def one(mutant: Mutant) -> Outcome:
        tree = free.get()
        try:
            return try_mutant(mutant, tree, timeout)
        finally:
            free.put(tree)

    with ThreadPoolExecutor(len(trees)) as pool:
        try:
            yield from pool.map(one, mutants)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def check_untouched(mutants: Sequence[Mutant], tree: Path, timeout: float) -> str:
    """What is wrong with the tests without a mutant, or "" if they pass: a broken test catches everything."""
    tests = list(dict.fromkeys(test for mutant in mutants for test in mutant.tests))
    code, output = run_tests(tree, tests, timeout)
    if code == PASSED:
        return ""
    how = f"ran longer than {timeout:.0f} s" if code is None else f"exit code {code}"
    return f"the tests do not pass without any mutant ({how}), so they prove nothing:\n{output}"


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main(argv: Sequence[str] | None = None, root: Path = Path(__file__).parents[2]) -> int:
    parser = argparse.ArgumentParser(description="Apply one-line mutants and demand that the tests catch each.")
    parser.add_argument("words", nargs="*", help="run only mutants whose name, file or reason holds one of these")
    parser.add_argument("--jobs", type=int, default=1, help="how many to run at once")
    parser.add_argument("--timeout", type=float, default=600, help="seconds that the tests of one mutant may take")
    parser.add_argument("--list", action="store_true", help="list the mutants and run nothing")
    parser.add_argument(
        "--changed", nargs="?", const="HEAD", metavar="COMMIT", help="run only mutants of files that differ from it"
    )
    options = parser.parse_args(argv)
    try:
        mutants = [m for m in read_mutants(root / "tests" / "mutants") if m.matches(options.words)]
        if options.changed:
            paths = changed_files(root, options.changed)
            mutants = [m for m in mutants if m.file in paths]
    except MutantError as error:
        say(str(error))
        return 1
    if not mutants and options.changed:
        say(f"no mutant is in a file that differs from {options.changed}")
        return 0
    if not mutants:
        say("there is no such mutant")
        return 1
    if options.list:
        for mutant in mutants:
            say(f"{mutant.name}  {mutant.file}  {mutant.why}")
        return 0
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        jobs = max(1, min(options.jobs, len(mutants)))
        trees = [copy_tree(root, Path(folder) / str(number)) for number in range(jobs)]
        return _report(mutants, trees, options.timeout)


def _report(mutants: Sequence[Mutant], trees: Sequence[Path], timeout: float) -> int:
    if wrong := check_untouched(mutants, trees[0], timeout * len(mutants)):
        say(wrong)
        return 1
    passed = 0
    for number, outcome in enumerate(try_all(mutants, trees, timeout), start=1):
        passed += outcome.caught
        mark = "ok  " if outcome.caught else "FAIL"
        mutant = outcome.mutant
        say(f"{mark} {number:>3}/{len(mutants)}  {mutant.name}  {mutant.file}  {outcome.said}  ({mutant.why})")
        for line in outcome.output.splitlines():
            say(f"         {line}")
    failed = len(mutants) - passed
    say(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
