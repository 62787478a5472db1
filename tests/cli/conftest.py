"""Fixtures of the command line tests: a way to call it, small files, and small trained runs."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from catena.cli.main import main
from catena.data.samples.corpus import load_sample
from tests.python_path import python_path

INTENTS = ("weather", "play_music", "smart_home")
EACH = 20
TINY = ("--model", "loglinear", "--max-epochs", "2", "--threads", "1")
NETWORK = ("--model", "mlp", "--hidden", "4", "--max-epochs", "2", "--threads", "1")
"""A small network, for tests of the training loop."""
SRC = Path(__file__).parents[2] / "src"


@dataclass(frozen=True)
class Said:
    """The result of a command."""

    code: int
    out: str
    err: str

    @property
    def sentence(self) -> str:
        """The single line of an error."""
        assert self.err.startswith("catena")
        assert self.err.count("\n") == 1, self.err
        assert self.err.endswith("\n")
        return self.err.partition(": ")[2].rstrip("\n")


Catena = Callable[..., Said]


def matches(sentence: str, expected: str) -> bool:
    """Whether a sentence equals the expected one or, if that ends in "…", begins with it."""
    assert (sentence if not expected.endswith("…") else sentence[: len(expected) - 1] + "…") == expected
    return True


@pytest.fixture
def catena(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Catena:
    """``catena("train", path, "--flag")`` in this process and a temporary folder; a traceback fails the test."""
    monkeypatch.chdir(tmp_path)

    def call(*words: object, stdin: bytes = b"") -> Said:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        capsys.readouterr()
        code = main([str(word) for word in words])
        said = capsys.readouterr()
        assert "Traceback" not in said.out + said.err
        assert "Internal error" not in said.err, said.err
        return Said(code, said.out, said.err)

    return call


def in_process_of_its_own(*words: object, **options: object) -> subprocess.CompletedProcess[str]:
    """Run the command in its own process, as a user does."""
    command = [sys.executable, "-m", "catena", *map(str, words)]
    return subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=120, **options)  # type: ignore[call-overload]


def environment() -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST", "CATENA"))}
    return {**kept, "PYTHONPATH": python_path(SRC), "OMP_NUM_THREADS": "1"}


def rows(split: str, each: int = EACH) -> list[tuple[str, str]]:
    """A few sentences of three intents in mixed order."""
    by_intent = {name: [e.text for e in load_sample(split) if e.labels == (name,)][:each] for name in INTENTS}
    return [(name, texts[i]) for i in range(each) for name, texts in by_intent.items() if i < len(texts)]


def write_rows(path: Path, pairs: list[tuple[str, str]]) -> Path:
    path.write_text("".join(f"{label}\t{text}\n" for label, text in pairs), encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with train.tsv, dev.tsv and texts.txt. Tests must not change it."""
    folder = tmp_path_factory.mktemp("files")
    write_rows(folder / "train.tsv", rows("train"))
    write_rows(folder / "dev.tsv", rows("dev", 8))
    (folder / "texts.txt").write_text("will it rain tomorrow\nturn off the lights\n", encoding="utf-8")
    return folder


@pytest.fixture(scope="session")
def trained(files: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a log-linear model. Tests must not change it."""
    folder = tmp_path_factory.mktemp("runs") / "small"
    words = ["train", files / "train.tsv", "--dev", files / "dev.tsv", "-o", folder, *TINY, "-q"]
    assert main([str(word) for word in words]) == 0
    return folder


@pytest.fixture(scope="session")
def trained_network(files: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a log-linear model. Tests must not change it."""
    folder = tmp_path_factory.mktemp("runs") / "network"
    words = ["train", files / "train.tsv", "--dev", files / "dev.tsv", "-o", folder, *NETWORK, "-q"]
    assert main([str(word) for word in words]) == 0
    return folder


@pytest.fixture(scope="session")
def language_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a small LSTM over words."""
    folder = tmp_path_factory.mktemp("language-model")
    text = folder / "text.txt"
    text.write_text("the cat sat\na dog ran\nthe dog sat on the cat\na cat ran\n" * 20, encoding="utf-8")
    size = ("--model", "lstm", "--model.embedding.d", "8", "--model.encoder.d", "8", "--n-layers", "1")
    quick = ("--max-epochs", "1", "--threads", "1", "-q")
    assert main(["train", "lm", str(text), *size, *quick, "-o", str(folder / "run")]) == 0
    return folder / "run"


@pytest.fixture(scope="session")
def ngram_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a trigram model over the same words."""
    folder = tmp_path_factory.mktemp("ngram-model")
    text = folder / "text.txt"
    text.write_text("the cat sat\na dog ran\nthe dog sat on the cat\na cat ran\n" * 20, encoding="utf-8")
    words = ["train", "lm", str(text), "--model", "ngram", "--model.order", "3", "-q", "-o", str(folder / "run")]
    assert main(words) == 0
    return folder / "run"


@pytest.fixture(scope="session")
def character_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a 6-gram model over the characters of a text that we wrote."""
    folder = tmp_path_factory.mktemp("character-model")
    text = folder / "text.txt"
    lines = [
        "文学是一种艺术形式",
        "音乐是一种艺术形式",
        "绘画是一种艺术",
        "他学习医术",
        "医术救人",
        "艺术是美的",
        "他研究文学",
    ]
    text.write_text("\n".join(lines * 5) + "\n", encoding="utf-8")
    size = ["--model", "ngram", "--model.order", "4", "--tokenizer", "characters", "-q"]
    assert main(["train", "lm", str(text), *size, "-o", str(folder / "run")]) == 0
    return folder / "run"
