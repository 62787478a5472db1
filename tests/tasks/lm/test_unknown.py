"""Literal <unk> in texts, and warnings about scores with unknown words."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from catena.cli.main import main
from catena.tasks.load import load_model
from tests.tasks.lm.helpers import evaluate_file

TEXT = "the <unk> sat , on the <unk> mat .\na dog , ran to the <unk> .\nthe cat , sat .\n" * 12


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("unknown")
    (folder / "x.txt").write_text(TEXT, encoding="utf-8")
    for kind in ("words", "whitespace"):
        train(folder / "x.txt", folder / kind, "--tokenizer", kind)
    train(folder / "x.txt", folder / "rare", "--tokenizer", "words", "--min-count", "13")
    train(folder / "x.txt", folder / "letters", "--tokenizer", "characters")
    return folder


def train(text: Path, folder: Path, *words: str) -> None:
    assert main(["train", "lm", str(text), "--model", "ngram", *words, "-q", "-o", str(folder)]) == 0


def test_words_and_whitespace_tokenizers_agree_on_tokenized_text(runs: Path) -> None:
    one, two = (evaluate_file(load_model(runs / kind), runs / "x.txt").scores() for kind in ("words", "whitespace"))
    assert one == pytest.approx(two)
    tokens = Counter(token for line in TEXT.splitlines() for token in (*line.split(), "</s>"))
    assert one["unknown_fraction"] == pytest.approx(tokens["<unk>"] / tokens.total())


def test_train_reports_literal_unk_once(runs: Path) -> None:
    lines = (runs / "words" / "log.txt").read_text(encoding="utf-8").splitlines()
    (note,) = [line for line in lines if "the text contains <unk>" in line]
    assert note.endswith("read as the unknown symbol <unk>")
    assert "the text contains" not in (runs / "letters" / "log.txt").read_text(encoding="utf-8")


def test_evaluate_warns_of_unknown_tokens(runs: Path) -> None:
    result = evaluate_file(load_model(runs / "words"), runs / "x.txt")
    percent = 100 * result.scores()["unknown_fraction"]
    warning = f"warning: {percent:.2f} % of the tokens are unknown and scored as one symbol."
    assert result.lines()[-1].startswith(warning)
    assert "warning" not in "".join(evaluate_file(load_model(runs / "letters"), runs / "x.txt").lines())


def test_compare_warns_if_vocabularies_differ(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def last_line(first: str, second: str) -> str:
        capsys.readouterr()
        words = ["compare", runs / first, runs / second, runs / "x.txt", "--metric", "bits_per_character"]
        assert main([str(word) for word in (*words, "--samples", "50")]) == 0
        return capsys.readouterr().out.splitlines()[-1]

    assert last_line("words", "rare").startswith("warning: ")
    assert " to the second model. Unknown words are scored as one symbol" in last_line("words", "rare")
    assert last_line("words", "whitespace").startswith("note: ")
    assert last_line("words", "letters").startswith("warning: ")
    assert last_line("letters", "letters").startswith("bits_per_character|")
