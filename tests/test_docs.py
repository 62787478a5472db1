"""Docs that run: every Python block, every ``catena`` command and every example is executed, page by page.

A page runs from top to bottom in its own folder, which has ``train.tsv``, ``dev.tsv`` and ``test.tsv`` of the sample
corpus of Catena, and ``texts.txt`` with a few of its sentences.

- ```` ```python ````: executed; all blocks of a page use one namespace.
- ```` ```console ```` and ```` ```bash ````: the lines ``$ catena …`` (or ``$ … | catena …``) are executed and must
  succeed; with ``exit=1`` after the language, the last one must exit with this code.
- ``no-run: why`` after the language: not executed, for the given reason.
- ``needs=package,package`` after the language: not executed where one of these test dependencies is missing, as on a
  GPU machine that reaches no registry.
- ``<!-- setup … -->``: Python that creates the files used on the page; executed first.
"""

from __future__ import annotations

import io
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from unittest.mock import patch

import jaxtyping
import pytest

from catena.cli.main import COMMANDS, main
from catena.data.samples.corpus import load_sample, sample_path
from catena.tasks.spec import TASKS
from tests.python_path import python_path

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
README = ROOT / "README.md"
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
SHELL = ("console", "bash", "sh", "shell")


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, the rest of the fence line, its lines, and its first line number."""

    language: str
    info: str
    text: str
    line: int

    @property
    def skipped(self) -> bool:
        needed = self.info.removeprefix("needs=").split(",") if self.info.startswith("needs=") else []
        return self.info.startswith("no-run") or any(find_spec(package) is None for package in needed)

    @property
    def exit_code(self) -> int:
        found = re.fullmatch(r"exit=(\d+)", self.info)
        return int(found[1]) if found else 0

    def commands(self) -> Iterator[str]:
        """Yield the command lines that run Catena, without the prompt."""
        for line in self.text.replace("\\\n", " ").splitlines():
            command = line.removeprefix("$ ")
            prompted = line.startswith("$ ") or self.language != "console"
            if prompted and re.search(r"(^|\| *)catena ", command):
                yield command


def blocks(page: Path) -> Iterator[Block]:
    text = page.read_text(encoding="utf-8")
    matches = list(re.finditer(r"^```(\S+) *(.*?)\n(.*?)^```$", text, re.M | re.S))
    assert 2 * len(matches) == len(re.findall(r"^```", text, re.M)), f"{page.name} has a block without a language"
    for found in matches:
        yield Block(found[1], found[2].strip(), found[3], text[: found.start()].count("\n") + 1)


def setups(page: Path) -> list[str]:
    return re.findall(r"^<!-- setup\n(.*?)^-->$", page.read_text(encoding="utf-8"), re.M | re.S)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    for part in ("train", "dev", "test"):
        shutil.copy(sample_path(f"assistant/{part}.tsv"), tmp_path)
    texts = [example.text for example in load_sample("dev")[:5]]
    (tmp_path / "texts.txt").write_text("\n".join(texts) + "\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    jaxtyping.config.update("jaxtyping_disable", True)  # pages run as they do for their readers, and sooner
    with patch.dict(TASKS):  # a page may register a task of its own
        yield tmp_path
    jaxtyping.config.update("jaxtyping_disable", False)


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_page_runs_from_top_to_bottom(page: Path, folder: Path) -> None:
    names: dict[str, object] = {"__name__": "__main__", "ROOT": ROOT}
    for setup in setups(page):
        exec(compile(setup, f"{page.name} (setup)", "exec"), names)
    del names["ROOT"]  # only for setups: readers of the page do not have it
    for block in blocks(page):
        if block.skipped:
            continue
        if block.language == "python":
            code = "\n" * block.line + block.text  # so that tracebacks have the line of the page
            exec(compile(code, str(page), "exec"), names)
        elif block.language in SHELL:
            run_commands(block, page, folder)


def run_commands(block: Block, page: Path, folder: Path) -> None:
    commands = list(block.commands())
    for i, command in enumerate(commands):
        wanted = block.exit_code if i == len(commands) - 1 else 0
        code = ended_with(command, page, folder)
        assert code == wanted, f"{page.name}:{block.line}: {command!r} ended with {code}"


def ended_with(command: str, page: Path, folder: Path) -> int:
    """Run a command and return its exit code: in a shell on the first page, in this process (faster) on the others."""
    said, piped, asked = command.rpartition(" | catena ")
    if re.search(r"[|<>&;]", without_quotes(f"catena {asked}" if piped else command)) or (piped and page == README):
        return in_a_shell(command, folder)
    if not piped:
        return here(command)
    told = subprocess.run(["bash", "-c", said], cwd=folder, check=True, stdout=subprocess.PIPE).stdout
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(told), encoding="utf-8"))
        return here(f"catena {asked}")


def without_quotes(command: str) -> str:
    return re.sub(r"'[^']*'|\"[^\"]*\"", "", command)


def here(command: str) -> int:
    words = shlex.split(command)
    assert words[0] == "catena"
    return main(words[1:])


def in_a_shell(command: str, folder: Path) -> int:
    path = folder / ".bin"
    path.mkdir(exist_ok=True)
    script = path / "catena"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m catena "$@"\n', encoding="utf-8")
    script.chmod(0o755)
    environment = {**os.environ, "PATH": f"{path}:{os.environ['PATH']}", "PYTHONPATH": python_path(ROOT / "src")}
    return subprocess.run(["bash", "-c", f"set -o pipefail; {command}"], cwd=folder, env=environment).returncode


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_skipped_blocks_have_reason_and_links_resolve(page: Path) -> None:
    for block in blocks(page):
        if block.info.startswith("needs="):
            assert set(block.info.removeprefix("needs=").split(",")) <= {"ctranslate2", "onnx", "onnxruntime"}
        elif block.skipped:
            assert re.fullmatch(r"no-run: \S.{5,}", block.info), f"{page.name}:{block.line} must give a reason"
        elif block.language in ("python", *SHELL):
            assert re.fullmatch(r"(exit=\d+)?", block.info), f"{page.name}:{block.line}: {block.info!r} is not known"
    prose = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", prose):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_readme_shows_two_commands_picture_and_five_lines_of_python() -> None:
    text = README.read_text(encoding="utf-8")
    assert "make demo" in text
    assert "make test" in text
    assert re.search(r"!\[[^]]+\]\(docs/images/\w+\.svg\)", text)
    first = next(block for block in blocks(README) if block.language == "python")
    assert len([line for line in first.text.splitlines() if line]) == 5


def test_every_page_is_in_the_navigation_of_the_site() -> None:
    text = (ROOT / "docs" / "site" / "zensical.toml").read_text(encoding="utf-8")
    listed = set(re.findall(r'"([\w/]+\.md)"', text))
    pages = {path.relative_to(ROOT / "docs").as_posix() for path in PAGES if path.parent != ROOT}
    made = {"readme.md", "contributing.md", "changelog.md", "recipes.md", "examples/index.md", "reference/files.md"}
    assert pages == listed - made


def test_reference_lists_every_command_and_task_with_its_guide() -> None:
    text = (ROOT / "docs" / "reference" / "commands.md").read_text(encoding="utf-8")
    commands, _, tasks = text.partition("## Tasks")
    listed = {name for names in re.findall(r"^\| (`.*?`) \|", commands, re.M) for name in re.findall(r"\w+", names)}
    assert listed == set(COMMANDS)
    rows = {found[1]: found[0] for found in re.finditer(r"^\| `(\w+)` \|.*$", tasks, re.M)}
    guides = {name: f"(../{TASKS[name].guide})" in row for name, row in rows.items()}
    assert guides == dict.fromkeys(TASKS, True)


@pytest.mark.parametrize("example", EXAMPLES, ids=name_of)
def test_example_runs(example: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(example), run_name="__main__")
    assert capsys.readouterr().out, "an example shows something"
