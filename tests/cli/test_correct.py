"""``catena correct``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Catena, matches

WRONG, RIGHT = "文学是一种医术形式", "文学是一种艺术形式"
QUICK = ("--steps", "150", "--chains", "4")


@pytest.fixture
def confusions() -> Path:
    path = Path("confusions.tsv")
    path.write_text("艺\t医 意\n医\t艺\n", encoding="utf-8")
    return path


def test_wrong_character_is_corrected(catena: Catena, character_model: Path, confusions: Path) -> None:
    said = catena("correct", character_model, "--confusions", confusions, *QUICK, stdin=f"{WRONG}\n".encode())
    assert said.code == 0, said.err
    assert said.out == f"{RIGHT}\n"


def test_correct_text_is_unchanged_and_jsonl_has_statistics(
    catena: Catena, character_model: Path, confusions: Path
) -> None:
    words = ("correct", character_model, "--confusions", confusions, *QUICK, "--format", "jsonl")
    said = catena(*words, stdin=f"{RIGHT}\n他学习医术\n\n".encode())
    rows = [json.loads(line) for line in said.out.splitlines()]
    assert [row["corrected"] for row in rows] == [RIGHT, "他学习医术", ""]
    for row in rows[:2]:
        assert 0.5 < row["probability"] <= 1
        assert 0 < row["accepted"] < 1
        assert row["effective_samples"] > 1
        assert sum(other["probability"] for other in row["alternatives"]) <= 1 - row["probability"] + 1e-6
    assert catena(*words, stdin=f"{RIGHT}\n他学习医术\n\n".encode()).out == said.out


def test_correct_reads_and_writes_files(catena: Catena, character_model: Path, confusions: Path) -> None:
    Path("in.txt").write_text(WRONG + "\n", encoding="utf-8")
    words = ("correct", character_model, "in.txt", "--confusions", confusions, *QUICK)
    assert catena(*words, "--format", "tsv", "-o", "out.tsv").code == 0
    probability, corrected, text = Path("out.tsv").read_text(encoding="utf-8").rstrip("\n").split("\t")
    assert (corrected, text) == (RIGHT, WRONG)
    assert 0 < float(probability) <= 1


@pytest.mark.parametrize(
    ("words", "stdin", "sentence"),
    [
        (("--insert", "1.5"), "文", "rates must be from 0 to 1, …"),
        (("--steps", "0"), "文", "--steps must be 1 or more, got 0. Pass 1 or more."),
        (("--confusions", "bad.tsv"), "文", "bad.tsv:2 must be a symbol, a tab and the symbols …"),
    ],
)
def test_invalid_options_print_error(
    catena: Catena, character_model: Path, words: tuple[str, ...], stdin: str, sentence: str
) -> None:
    Path("bad.tsv").write_text("a\tb\nno tab\n", encoding="utf-8")
    said = catena("correct", character_model, *words, *(() if "--steps" in words else QUICK), stdin=stdin.encode())
    assert said.code in (1, 2)
    assert matches(said.sentence, sentence)


def test_text_with_unknown_symbols_is_unchanged(catena: Catena, character_model: Path, confusions: Path) -> None:
    words = ("correct", character_model, "--confusions", confusions, *QUICK)
    said = catena(*words, stdin=f"文zy\n{WRONG}\n".encode())
    assert said.code == 0
    assert said.out == f"文zy\n{RIGHT}\n"
    assert said.sentence == (
        "text 1 is unchanged because the model does not know 'y', 'z'. Use a character-level model that was "
        "trained on more text."
    )
    row = json.loads(catena(*words, "--format", "jsonl", stdin="文zy\n".encode()).out)
    assert (row["corrected"], row["probability"], row["unknown"]) == ("文zy", 0.0, ["y", "z"])


def test_correct_with_other_models_prints_error(catena: Catena, trained: Path) -> None:
    assert "is not a language model" in catena("correct", trained).sentence
