"""``catena score``: per text, per token, and in total."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import pytest

from tests.cli.conftest import Catena

TEXTS = "the cat sat\na dog\n\nzebra quagga\n"


def test_totals_are_sums_over_tokens(catena: Catena, language_model: Path, tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text(TEXTS, encoding="utf-8")
    said = catena("score", language_model, "x.txt", "--format", "jsonl")
    rows = [json.loads(line) for line in said.out.splitlines()]
    assert [row["text"] for row in rows] == TEXTS.split("\n")[:-1]
    nats = -sum(sum(row["log_probs"]) for row in rows)
    tokens = sum(len(row["tokens"]) for row in rows)
    assert tokens == 3 + 2 + 0 + 2 + 4  # an end for each text
    assert said.err.startswith(f"4 texts, {tokens} tokens including end tokens, 2 unknown: ")
    bits = nats / math.log(2)
    wanted = [-nats, math.exp(nats / tokens), bits / len(TEXTS), bits / len(TEXTS.encode())]
    assert [float(number) for number in re.findall(r"-?\d+\.\d+", said.err)] == pytest.approx(wanted, abs=2e-4)
    for row in rows:
        assert row["log_prob"] == pytest.approx(sum(row["log_probs"]), abs=1e-4)


def test_text_format(catena: Catena, language_model: Path) -> None:
    said = catena("score", language_model, "--tokens", stdin=b"the cat yawned\n")
    first, *tokens, total = said.out.splitlines()
    assert first.endswith("the cat yawned")
    assert [line.split("\t")[1:] for line in tokens] == [["the"], ["cat"], ["yawned", "<unk>"], ["</s>"]]
    assert total.startswith("1 text, 4 tokens including end tokens, 1 unknown")
    assert said.err == ""


def test_output_file_has_lines_and_stderr_has_totals(catena: Catena, language_model: Path) -> None:
    said = catena("score", language_model, "--format", "tsv", "-o", "out.tsv", stdin=b"the cat\na dog\n")
    assert said.out == ""
    assert said.err.startswith("2 texts")
    assert [line.split("\t")[2] for line in Path("out.tsv").read_text().splitlines()] == ["the cat", "a dog"]


def test_empty_input_is_an_error(catena: Catena, language_model: Path) -> None:
    said = catena("score", language_model, stdin=b"")
    assert said.code == 1
    assert said.out == ""
    assert said.sentence == "standard input is empty. Pass a file with text."


def test_score_with_other_models_prints_error(catena: Catena, trained: Path) -> None:
    said = catena("score", trained, stdin=b"x\n")
    assert said.code == 2
    assert said.sentence == f"{trained} is not a language model. Train one with 'catena train lm'."
