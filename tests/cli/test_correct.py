"""``catena correct``: words by an index, and characters by Markov chains."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from catena.cli.main import main
from tests.cli.conftest import Catena, matches

TEXTS = (
    "turn on the lights in the kitchen",
    "what is the weather in Paris tomorrow",
    "play some music by the Beatles",
    "wake me up at seven in the morning",
    "set an alarm for half past six",
)
WRONG, RIGHT = "文学是一种医术形式", "文学是一种艺术形式"
QUICK = ("--steps", "150", "--chains", "4")


@pytest.fixture(scope="session")
def word_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of an n-gram model of words."""
    folder = tmp_path_factory.mktemp("word-model")
    text = folder / "text.txt"
    text.write_text("\n".join(TEXTS * 4) + "\n", encoding="utf-8")
    words = ("train", "lm", text, "--model", "ngram", "--model.order", "3", "--estimator", "witten-bell", "--min-count")
    assert main([str(word) for word in (*words, "1", "-q", "-o", folder / "run")]) == 0
    return folder / "run"


def test_misspelled_words_are_corrected(catena: Catena, word_model: Path) -> None:
    said = catena("correct", word_model, stdin=b"turn on teh  lihgts in the kichen!\n\nSet an alrm for 6:30, Londno\n")
    assert said.code == 0, said.err
    assert said.out == "turn on the  lights in the kitchen!\n\nSet an alarm for 6:30, Londno\n"


def test_jsonl_lists_changes_with_alternatives(catena: Catena, word_model: Path) -> None:
    said = catena("correct", word_model, "--format", "jsonl", stdin=b"play sme muzic\n")
    row = json.loads(said.out)
    assert (row["text"], row["corrected"]) == ("play sme muzic", "play some music")
    assert [(change["start"], change["end"], change["corrected"]) for change in row["changes"]] == [
        (5, 8, "some"),
        (9, 14, "music"),
    ]
    assert all(change["alternatives"] for change in row["changes"])
    assert 0 < row["probability"] <= 1
    tsv = catena("correct", word_model, "--format", "tsv", stdin=b"play sme muzic\n").out.rstrip("\n").split("\t")
    assert tsv[1:] == ["play some music", "play sme muzic"]
    assert float(tsv[0]) == pytest.approx(row["probability"], abs=1e-4)


def test_words_and_errors_are_read_from_files(catena: Catena, word_model: Path) -> None:
    Path("names.txt").write_text("Lihgts and more", encoding="utf-8")
    Path("errors.tsv").write_text("lite\tlight\n", encoding="utf-8")
    words = ("correct", word_model, "--words", "names.txt", "--errors", "errors.tsv")
    assert catena(*words, stdin=b"turn on teh Lihgts\n").out == "turn on the Lihgts\n"


def test_character_model_with_words_uses_the_index(catena: Catena, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("letters")
    (folder / "text.txt").write_text("\n".join(TEXTS * 4) + "\n", encoding="utf-8")
    words = ("train", "lm", folder / "text.txt", "--model", "ngram", "--model.order", "6", "--tokenizer", "characters")
    assert catena(*words, "--min-count", "1", "-q", "-o", folder / "run").code == 0
    command = ("correct", folder / "run", "--words", folder / "text.txt")
    assert catena(*command, stdin=b"set an alrm for half past six\n").out == "set an alarm for half past six\n"
    said = catena("correct", folder / "run", "--method", "index", stdin=b"sevn\n")
    assert matches(said.sentence, "words must be given for a model of characters, got none. …")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--steps", "5"), "--steps applies only to --method mcmc, got --method index. Remove --steps."),
        (
            ("--method", "mcmc", "--real-words", "1"),
            "--real-words applies only to --method index, got --method mcmc. Remove --real-words.",
        ),
        (("--new-words", "2"), "new_words must be from 0 to 1, got 2.0. …"),
        (("--max-edits", "5"), "max_edits must be 1 or 2, got 5. …"),
        (("--errors", "bad.tsv"), "bad.tsv:1 must be a misspelled word, a tab and the correct word, …"),
    ],
)
def test_invalid_index_options_print_error(
    catena: Catena, word_model: Path, words: tuple[str, ...], sentence: str
) -> None:
    Path("bad.tsv").write_text("no tab\n", encoding="utf-8")
    said = catena("correct", word_model, *words, stdin=b"the\n")
    assert said.code in (1, 2)
    assert matches(said.sentence, sentence)


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
        (("--steps", "0"), "文", "--steps must be 1 or more, got 0. See --help."),
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
