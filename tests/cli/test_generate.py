"""``catena generate``: prompts, searches, constraints, streaming."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.cli.conftest import Catena, matches


@pytest.fixture(params=["language_model", "ngram_model"])
def model(request: pytest.FixtureRequest) -> Path:
    return request.getfixturevalue(request.param)


def test_prompt_is_continued_deterministically_by_seed(catena: Catena, model: Path) -> None:
    words = ("generate", model, "the cat", "--max-length", "12", "--seed", "5")
    said = catena(*words)
    assert said.code == 0, said.err
    assert said.out.startswith("the cat")
    assert said.out.count("\n") == 1
    assert catena(*words).out == said.out
    assert len({catena(*words[:-1], seed).out for seed in range(12)}) > 1


def test_prompt_with_trailing_blank_gets_no_second_blank(catena: Catena, ngram_model: Path) -> None:
    said = catena("generate", ngram_model, "the ", "--search", "beam", "--min-length", "2", "--max-length", "9")
    assert said.out.startswith("the ")
    assert "  " not in said.out


def test_streamed_text_equals_jsonl_text(catena: Catena, model: Path) -> None:
    words = ("generate", model, "a", "--max-length", "9")
    streamed = catena(*words).out
    (row,) = map(json.loads, catena(*words, "--format", "jsonl").out.splitlines())
    assert row["prompt"] + row["text"] + "\n" == streamed
    assert row["prompt"] + " " + " ".join(row["tokens"]) == streamed.rstrip("\n") or not row["tokens"]


def test_log_probs_equal_score(catena: Catena, model: Path) -> None:
    found = catena(
        "generate", model, "--search", "beam", "--beam-size", "8", "--n-best", "5", "--unknown", "--format", "jsonl",
        "--max-length", "8",
    )  # fmt: skip
    rows = [json.loads(line) for line in found.out.splitlines()]
    assert len(rows) == 5
    assert [row["log_prob"] for row in rows] == sorted((row["log_prob"] for row in rows), reverse=True)
    finished = [row for row in rows if row["finished"] and "<unk>" not in row["tokens"]]
    assert finished
    stdin = "".join(row["text"] + "\n" for row in finished).encode()
    scored = [json.loads(line) for line in catena("score", model, "--format", "jsonl", stdin=stdin).out.splitlines()]
    for row, score in zip(finished, scored, strict=True):
        assert row["log_prob"] == pytest.approx(score["log_prob"], abs=1e-3)


def test_constraints_are_satisfied(catena: Catena, model: Path) -> None:
    words = ("generate", model, "the", "a", "--n", "10", "--max-length", "9", "--format", "jsonl")
    rows = [json.loads(line) for line in catena(*words, "--include", "cat sat", "--exclude", "dog").out.splitlines()]
    assert len(rows) == 20
    for row in rows:
        assert "cat sat" in row["text"]
        assert "dog" not in row["text"]
    rows = [json.loads(line) for line in catena(*words, "--regex", "[a-d]{3} [a-z]+( ran)?").out.splitlines()]
    for row in rows:
        assert re.fullmatch("[a-d]{3} [a-z]+( ran)?", row["text"].lstrip())


def test_constraint_options_can_be_repeated(catena: Catena, model: Path) -> None:
    constraints = ("--include", "dog", "--include", "cat", "--exclude", "a")
    words = ("generate", model, *constraints, "the", "--n", "5", "--max-length", "9")
    lines = catena(*words).out.splitlines()
    assert len(lines) == 5
    for line in lines:  # "the" is the prompt
        assert line.startswith("the")
        assert "dog" in line.split()
        assert "cat" in line.split()
        assert "a" not in line.split()


def test_all_hypotheses_are_shown(catena: Catena, model: Path) -> None:
    assert len(catena("generate", model, "the", "--search", "beam", "--n-best", "3").out.splitlines()) == 3
    assert len(catena("generate", model, "the", "--search", "stochastic", "--n", "3").out.splitlines()) == 3


def test_unknown_words_are_generated_only_with_option(catena: Catena, tmp_path: Path) -> None:
    Path("text.txt").write_text("a b c\n" * 10 + "x y z\n" + "w v u\n", encoding="utf-8")
    size = ("--model", "ngram", "--model.order", "1", "--min-count", "2", "--dev-fraction", "0.3", "-q", "-o", "run")
    assert catena("train", "lm", "text.txt", *size).code == 0
    words = ("generate", "run", "--n", "100", "--format", "tsv", "--max-length", "20")
    assert "<unk>" not in catena(*words).out
    assert "<unk>" in catena(*words, "--unknown").out


def test_prompt_may_be_an_option(catena: Catena, model: Path) -> None:
    by_option = catena("generate", model, "--prompt", "the cat", "--seed", "3")
    assert by_option == catena("generate", model, "the cat", "--seed", "3")


def test_prompts_are_read_from_file(catena: Catena, model: Path) -> None:
    Path("prompts.txt").write_text("the\na dog\n", encoding="utf-8")
    said = catena("generate", model, "--file", "prompts.txt", "--search", "greedy", "--max-length", "4")
    assert [line[:3] for line in said.out.splitlines()] == ["the", "a d"]


def test_shallow_fusion_changes_output(catena: Catena, language_model: Path, ngram_model: Path) -> None:
    words = ("generate", language_model, "the", "--search", "beam", "--format", "jsonl", "--max-length", "8")
    alone = json.loads(catena(*words).out)
    fused = json.loads(catena(*words, "--fuse", ngram_model, "--fuse-weight", "5").out)
    trigram = json.loads(catena("generate", ngram_model, *words[2:]).out)
    assert fused["text"] == trigram["text"]
    assert fused["score"] != alone["score"]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            ("--include", "zebra"),
            "The phrase 'zebra' has words outside the vocabulary: 'zebra'. Remove or rephrase it.",
        ),
        (("--include", ""), "A phrase must have at least one word, got ''. Remove or rephrase it."),
        (
            ("--regex", "[0-9]+"),
            "The pattern does not accept any text that the vocabulary can write. Use only characters that occur in "
            "the model's tokens.",
        ),
        (("--fuse-weight", "-1"), "--fuse-weight must be 0 or more, got -1. See --help."),
    ],
)
def test_invalid_constraints_print_error(
    catena: Catena, ngram_model: Path, words: tuple[str, ...], sentence: str
) -> None:
    said = catena("generate", ngram_model, *words)
    assert said.code in (1, 2)
    assert matches(said.sentence, sentence)


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("--temperature", "0"), "search.temperature must be greater than 0, got 0"),
        (("--search", "beem"), "search.kind is 'beem': did you mean 'beam'?"),
        (("--search", "beam", "--n-best", "9"), "n_best must be at most beam_size = 5, got 9"),
    ],
)
def test_invalid_search_options_print_error(
    catena: Catena, ngram_model: Path, words: tuple[str, ...], problem: str
) -> None:
    said = catena("generate", ngram_model, *words)
    assert said.code == 1
    assert said.err.startswith("catena generate: the command line has an invalid value: " + problem)
    assert said.err.count("\n") == 1


def test_generate_with_other_models_prints_error(
    catena: Catena, trained: Path, ngram_model: Path, character_model: Path
) -> None:
    assert "is not a language model" in catena("generate", trained).sentence
    assert "need the same vocabulary" in catena("generate", ngram_model, "--fuse", character_model).sentence


@pytest.mark.parametrize("model", [("ngram",), ("lstm", "--n-layers", "1", "--max-steps", "1")])
def test_training_output_ends_with_next_commands(catena: Catena, tmp_path: Path, model: tuple[str, ...]) -> None:
    (tmp_path / "text.txt").write_text("the cat sat\na dog ran\n" * 9, encoding="utf-8")
    said = catena("train", "lm", "text.txt", "--model", *model, "--threads", "1", "-o", "run")
    assert said.out.splitlines()[-1] == "next: catena generate run, or catena score run FILE"


def test_verse_with_rhymes_and_cost(catena: Catena, tmp_path: Path) -> None:
    poems = ["春風花，江月家。", "山雨沙，孤舟斜。", "明月沙，夜風花。", "江山人，夜月春。", "孤雨身，風水人。"] * 4
    (tmp_path / "poems.txt").write_text("\n".join(poems), encoding="utf-8")
    (tmp_path / "rhymes.txt").write_text("花 家 沙 斜\n人 春 身\n", encoding="utf-8")
    characters = ("--tokenizer", "characters", "--min-count", "1", "--model.order", "2")
    assert catena("train", "lm", "poems.txt", "--model", "ngram", *characters, "-o", "run").code == 0
    words = ("generate", "run", "--verse", "???a，???a。", "--n", "6", "--max-length", "20")
    said = catena(*words, "--rhymes", "rhymes.txt", "--cost", "20")
    assert said.code == 0
    for line in said.out.splitlines():
        assert (len(line), line[3], line[7]) == (8, "，", "。")
        assert ({line[2], line[6]} <= set("花家沙斜")) or ({line[2], line[6]} <= set("人春身"))
    first, second = said.err.splitlines()
    assert first.startswith("cost of the constraints, from 20 texts of 9.0 tokens: ")
    assert second.startswith("all texts that satisfy them together have log-probability -")
    long = tmp_path / "long.txt"
    long.write_text("\n".join("".join(poems[i : i + 4]) for i in range(0, 20, 3)), encoding="utf-8")
    assert catena(*words, "--rhymes-from", "long.txt").code == 0
    assert "has rhymes, but no symbol of the model has a rhyme" in catena(*words).sentence


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--rhymes", "x"), "--rhymes requires a verse form. Add --verse, such as --verse quatrain-5."),
        (
            ("--verse", "??", "--rhymes", "x", "--rhymes-from", "y"),
            "--rhymes and --rhymes-from cannot be combined. …",
        ),
        (("--cost", "1"), "--cost must be 2 or more, got 1. See --help."),
    ],
)
def test_invalid_verse_options_print_error(
    catena: Catena, ngram_model: Path, words: tuple[str, ...], sentence: str
) -> None:
    said = catena("generate", ngram_model, *words)
    assert said.code == 2
    assert matches(said.sentence, sentence)


def test_nucleus_alias_equals_top_p(catena: Catena, ngram_model: Path) -> None:
    words = ("generate", ngram_model, "--n", "3", "--max-length", "9", "--seed", "4")
    assert catena(*words, "--top-p", "0.5") == catena(*words, "--top-p", "0.5") == catena(*words, "--top-p=0.5")
