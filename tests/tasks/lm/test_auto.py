"""Choice of a model by text size and time."""

from __future__ import annotations

from pathlib import Path

import pytest

from catena.config import parse
from catena.tasks.lm.auto import FEW, choose, fit_to_time
from catena.tasks.lm.config import LmConfig


def config(path: Path, **sections: object) -> LmConfig:
    return parse(LmConfig, {"data": {"train": [str(path)]}, "training": {"max_time": "30s"}, **sections})


def test_choose_ngram_for_small_text_and_network_for_large_text() -> None:
    model, why = choose(FEW - 1, 300, 60.0, 1e12)
    assert (model.kind, why) == ("ngram", "an n-gram model, which is the better choice below 20,000 tokens")
    assert choose(FEW, 300, 60.0, 1e12)[0].kind == "lstm"
    assert choose(FEW, 300, 60.0, 1e3)[0].kind == "ngram"


@pytest.mark.parametrize(
    ("text", "tokenizer", "chosen", "tokens"),
    [
        ("Anna\nBen\n", None, "characters", 9),
        ("Anna\nBen\n", "bpe", "bpe", 4),
        ("Anna sees Ben\nBen sleeps\n", None, LmConfig().tokenizer.kind, 7),
        ("\u6625\u7720\u4e0d\u899a\u6681\n", None, "characters", 6),
    ],
)
def test_fit_to_time_uses_characters_for_lines_of_one_word(
    text: str, tokenizer: str | None, chosen: str, tokens: int, tmp_path: Path
) -> None:
    path = tmp_path / "text.txt"
    path.write_text(text, encoding="utf-8")
    sections = {} if tokenizer is None else {"tokenizer": {"kind": tokenizer}}
    made, (said,) = fit_to_time(config(path, **sections))
    assert made.tokenizer.kind == chosen
    assert said.startswith(f"chosen for {tokens} tokens in 30 s: ")
    assert ("each line is one word" in said) == (chosen == "characters")


def test_fit_to_time_masked_objective_uses_bidirectional_network(tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    path.write_text("Anna sees Ben\nBen sleeps\n", encoding="utf-8")
    made, _ = fit_to_time(config(path, objective={"kind": "masked"}))
    assert made.model.kind == "lstm"
    assert made.model.encoder.bidirectional
    assert choose(FEW, 300, 60.0, 1e3, masked=True)[0].encoder.d == 128
