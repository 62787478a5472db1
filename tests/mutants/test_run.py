"""The runner of mutants, on a tiny tree of its own: what is caught, not noticed, stale or broken."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.mutants import run

SOURCE = "def double(x):\n    return x + x\n\n\ndef half(x):\n    return x / 2\n"
TEST = "from tiny.sums import double\n\n\ndef test_double():\n    assert double(3) == 6\n"
TESTS = '["tests/test_sums.py"]'
FILE = "src/tiny/sums.py"


def table(find: str, replace: str, tests: str = TESTS, file: str = FILE, why: str = "doubling") -> str:
    change = f"find = '{find}'\nreplace = '{replace}'\n"
    return f"[[mutant]]\nfile = '{file}'\n{change}tests = {tests}\nwhy = '{why}'\n"


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # the tiny tree needs none, and they take a second
    files = {
        "src/tiny/__init__.py": "",
        "src/tiny/sums.py": SOURCE,
        "src/tiny/__pycache__/old.pyc": "not for copying",
        "tests/test_sums.py": TEST,
        "tests/test_half.py": "from tiny.sums import half\n\n\ndef test_half():\n    assert half(4) == 2\n",
        "pyproject.toml": "[tool.pytest.ini_options]\naddopts = '-q'\n",
        "tests/mutants/sums.toml": table("x + x", "x - x"),
        "README.md": "not for copying",
    }
    for name, text in files.items():
        path = tmp_path / "tree" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "tree"


def add(tree: Path, text: str, name: str = "more") -> None:
    (tree / "tests" / "mutants" / f"{name}.toml").write_text(text)


def test_what_is_not_caught_stale_or_broken_fails_and_the_rest_still_runs(
    tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    add(
        tree,
        table("x / 2", "x / 3")  # its test does not look at half
        + table("x / 2", "x / 3", tests='["tests/test_half.py"]')
        + table("x * x", "x")
        + table("return", "yield")
        + table("x / 2", "x /")
        + table("x / 2", "x / 2")
        + table("x", "y", file="src/tiny/gone.py")
        + table("x / 2", "x / 4", tests='["tests/test_sums.py", "tests/test_half.py"]'),
    )
    assert run.main(["--jobs", "2"], tree) == 1
    said = [line for line in capsys.readouterr().out.splitlines() if not line.startswith("    ")]
    assert [line.split("  ")[-2] for line in said[:-1]] == [
        "not noticed: the tests pass with it",
        "caught",
        "stale: its text is in the file 0 times, not once",
        "stale: its text is in the file 2 times, not once",
        "an error: pytest cannot run its tests (exit code 2)",
        "it changes nothing",
        "stale: there is no file src/tiny/gone.py",
        "caught",
        "caught",
    ]
    assert [line[:4] for line in said[:-1]] == ["FAIL", "ok  ", *["FAIL"] * 5, "ok  ", "ok  "]
    assert said[-2] == "ok     9/9  sums-1  src/tiny/sums.py  caught  (doubling)"
    assert said[-1] == "3 passed, 6 failed"
    assert (tree / "src/tiny/sums.py").read_text() == SOURCE  # the copy was changed, not the tree


def test_mutants_are_chosen_by_words(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    add(tree, table("x / 2", "x / 3", tests='["tests/test_half.py"]', why="halving"))
    assert run.main(["--list"], tree) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["more-1", "sums-1"]
    assert run.main(["halving"], tree) == 0
    assert "more-1" in (said := capsys.readouterr().out)
    assert said.endswith("1 passed, 0 failed\n")
    assert run.main(["nothing like it"], tree) == 1
    assert capsys.readouterr().out == "there is no such mutant\n"


def test_changed_chooses_mutants_of_files_that_differ_from_a_commit(
    tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    add(tree, table("x / 2", "x / 3", tests='["tests/test_half.py::test_half"]', file="src/tiny/halves.py"))
    (tree / "src/tiny/halves.py").write_text(SOURCE)
    author = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
    for words in (["init", "-q"], ["add", "."], [*author, "commit", "-q", "-m", "Begin"]):
        subprocess.run(["git", *words], cwd=tree, check=True)

    def chosen() -> str:
        assert run.main(["--changed", "--list"], tree) == 0
        return capsys.readouterr().out

    assert chosen() == "no mutant is in a file that differs from HEAD\n"
    (tree / "src/tiny/halves.py").write_text(SOURCE + "\n")
    assert chosen().split()[0] == "more-1"
    (tree / "src/tiny/sums.py").unlink()
    assert {line.split()[0] for line in chosen().splitlines()} == {"more-1", "sums-1"}
    assert run.main(["--changed", "nowhere", "--list"], tree) == 1
    assert "git cannot compare with 'nowhere'" in capsys.readouterr().out


def test_tests_that_fail_without_a_mutant_prove_nothing(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tree / "tests/test_sums.py").write_text(TEST.replace("== 6", "== 7"))
    assert run.main([], tree) == 1
    said = capsys.readouterr().out
    assert said.startswith("the tests do not pass without any mutant (exit code 1), so they prove nothing:\n")
    assert "passed, " not in said.splitlines()[-1]


def test_tests_that_do_not_exist_are_noticed(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    add(tree, table("x / 2", "x / 3", tests='["tests/test_none.py"]'))
    assert run.main([], tree) == 1
    assert "(exit code 4)" in capsys.readouterr().out


def test_a_mutant_that_never_ends_is_an_error(tree: Path) -> None:
    forever = "def double(x):\n    while True:\n        pass\n"
    mutant = run.Mutant("x", "src/tiny/sums.py", SOURCE.split("\n\n\n")[0], forever, ("tests/test_sums.py",), "")
    outcome = run.try_mutant(mutant, tree, timeout=1)
    assert (outcome.caught, outcome.said) == (False, "an error: its tests ran longer than 1 s")
    assert (tree / "src/tiny/sums.py").read_text() == SOURCE


def test_a_mutant_of_the_same_length_in_the_same_second_is_not_hidden_by_a_compiled_file(tree: Path) -> None:
    mutant = run.Mutant("x", "src/tiny/sums.py", "x + x", "x * x", ("tests/test_sums.py",), "")
    assert run.run_tests(tree, mutant.tests, 60)[0] == run.PASSED
    assert not list(tree.rglob("sums*.pyc"))
    assert run.try_mutant(mutant, tree, 60).caught


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[[mutant]\n", "more.toml is not valid TOML"),
        ("[[mutant]]\nfile = 'x'\n", "more-1 must have exactly ['file', 'find', 'replace', 'tests', 'why']"),
        (table("a", "b", tests="[]"), "more-1 must have exactly"),
        (table("a", "b") + "test = []\n", "more-1 must have exactly"),
    ],
)
def test_lists_that_cannot_be_read(tree: Path, capsys: pytest.CaptureFixture[str], text: str, sentence: str) -> None:
    add(tree, text)
    assert run.main([], tree) == 1
    assert capsys.readouterr().out.startswith(sentence)


def test_only_what_the_tests_need_is_copied(tree: Path, tmp_path: Path) -> None:
    copy = run.copy_tree(tree, tmp_path / "copy")
    assert sorted(p.name for p in copy.iterdir()) == ["pyproject.toml", "src", "tests"]
    assert not list(copy.rglob("__pycache__"))


def test_it_runs_as_a_script() -> None:
    done = subprocess.run([sys.executable, run.__file__, "--list"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == len(run.read_mutants(Path(run.__file__).parent))


def test_hypothesis_does_not_shrink_under_the_plugin(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD")
    plugin = tree / (run.PLUGIN.replace(".", "/") + ".py")
    plugin.write_text((Path(run.__file__).parent / "no_shrinking.py").read_text())
    (tree / "tests/test_sums.py").write_text(
        "import hypothesis\n\n\ndef test_phases():\n"
        "    shrinks = hypothesis.Phase.shrink in hypothesis.settings.default.phases\n"
        "    assert not shrinks and hypothesis.settings().max_examples == hypothesis.settings.default.max_examples\n"
    )
    assert run.run_tests(tree, ["tests/test_sums.py"], 60)[0] == run.PASSED
    plugin.unlink()
    assert run.run_tests(tree, ["tests/test_sums.py"], 60)[0] == run.FAILED


def test_no_mutant_of_this_package_is_stale() -> None:
    root = Path(__file__).parent.parent.parent
    mutants = run.read_mutants(root / "tests" / "mutants")
    texts = {mutant.file: (root / mutant.file).read_text(encoding="utf-8") for mutant in mutants}
    assert len(mutants) > 1000
    assert [mutant.name for mutant in mutants if texts[mutant.file].count(mutant.find) != 1] == []
    tests = {test.partition("::")[0] for mutant in mutants for test in mutant.tests}
    assert [test for test in sorted(tests) if not (root / test).exists()] == []
