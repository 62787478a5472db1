"""``catena answer``, and the other commands on a reader."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from catena.data.samples.corpus import sample_path
from tests.cli.conftest import Catena

SMALL = (
    "--model.words.d", 8, "--model.contextual.d", 6, "--model.modeling.d", 6, "--model.end.d", 6,
    "--filters", 6, "--max-steps", 3, "--batch-size", 8, "--device", "cpu", "--threads", 1,
)  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from catena.cli.main import main

    folder = tmp_path_factory.mktemp("runs") / "reader"
    words = ["train", str(sample_path("village/train.json")), *map(str, SMALL), "-q", "-o", str(folder)]
    assert main(words) == 0
    return folder


def test_reader_is_trained_by_the_format_of_the_file_and_used(run: Path, catena: Catena, tmp_path: Path) -> None:
    test = sample_path("village/test.json")
    assert 'task = "read"' in (run / "config.toml").read_text(encoding="utf-8")
    report = catena("evaluate", run, test, "--max-answer", 3, "--device", "cpu").out
    assert report.startswith("read 60; used 60; dropped 0\nf1 ")
    assert "exact_match" in report
    found = catena("predict", run, test, "--n-best", 2, "--format", "jsonl", "--device", "cpu").out.splitlines()
    assert len(found) == 60
    first = json.loads(found[0])
    context = json.loads(test.read_text(encoding="utf-8"))["data"][0]["paragraphs"][0]["context"]
    for one in (first, *first["n_best"]):
        assert context[one["start_char"] : one["end_char"]] == one["answer"]
    (tmp_path / "one.jsonl").write_text(json.dumps({"context": context, "question": "Who is it?"}) + "\n")
    drawn = catena("draw", run, "--file", "one.jsonl", "-o", "x.svg", "--device", "cpu")
    assert (drawn.code, (tmp_path / "x.svg").read_text(encoding="utf-8").startswith("<svg")) == (0, True)
    assert "attends to" in catena("draw", run, "--file", "one.jsonl", "--device", "cpu").out
    assert catena("resume", run, "--max-steps", 4).code == 0


def test_answers_from_a_file_name_sentence_and_file(run: Path, catena: Catena) -> None:
    island = sample_path("village/island.txt")
    said = catena("answer", run, island, "Where does Ada live?", "What does Ada sell?", "--n-best", 2)
    lines = said.out.splitlines()
    assert (said.code, said.err) == (0, "")
    assert [line for line in lines if not line.startswith(" ") and line] == [
        "Where does Ada live?",
        "What does Ada sell?",
    ]
    assert len(lines) == 11
    assert lines[2].endswith(")")
    assert f"({island}, character " in lines[2]


def test_answers_from_a_folder_read_the_best_paragraphs(run: Path, catena: Catena, tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "a.txt").write_text("Ada sells plum jam.\n\nNobody sells rain.\n", encoding="utf-8")
    (notes / "b.txt").write_text("The tower fell in a storm.\n", encoding="utf-8")
    (notes / "c.bin").write_bytes(b"\0\1\2" * 100)
    (notes / "d.txt").write_bytes("Öl fließt.\n".encode("latin-1"))
    (tmp_path / "questions.txt").write_text("What does Ada sell?\n\nWhen did the tower fall?\n", encoding="utf-8")
    said = catena("answer", run, notes, "--file", "questions.txt", "--k", 1, "--format", "jsonl", "-o", "out.jsonl")
    assert (said.code, said.out) == (0, "")
    assert "dropped 2 (2 not text)" in said.err
    assert "c.bin" in said.err
    assert "d.txt:1 is not UTF-8" in said.err, "the file that needs --encoding is named"
    found = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [Path(one["file"]).name for one in found] == ["a.txt", "b.txt"]
    for one in found:
        text = Path(one["file"]).read_text(encoding="utf-8")
        assert text[one["start_char"] : one["end_char"]] == one["answer"]
    words = catena("answer", run, notes, "What?", "--ranker", "tfidf", "--format", "tsv").out.split("\t")
    assert len(words) == 5


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("RUN", "x.txt"), "QUESTION… is missing. Pass a question in quotes"),
        (("RUN", "missing", "Who?"), "FILE_OR_FOLDER must exist, got missing. Check the path."),
        (("RUN", "x.txt", "Who?", "--no-answer-threshold", 1), "no_answer_threshold needs a model with a score"),
        (("RUN", "blank.txt", "Who?"), "blank.txt has no paragraph of text"),
        (("RUN", "x.txt", " "), "A question must have at least one word"),
    ],
)
def test_wrong_use_is_one_sentence(
    words: tuple[object, ...], sentence: str, run: Path, catena: Catena, tmp_path: Path
) -> None:
    (tmp_path / "x.txt").write_text("Ada sells jam.\n", encoding="utf-8")
    (tmp_path / "blank.txt").write_text("\n\n", encoding="utf-8")
    said = catena("answer", *(run if word == "RUN" else word for word in words))
    assert said.code in (1, 2)
    assert said.sentence.startswith(sentence)


def test_model_of_another_task_is_rejected(catena: Catena, tmp_path: Path) -> None:
    (tmp_path / "t.tsv").write_text("a\tgood day\nb\tbad day\n" * 8, encoding="utf-8")
    assert catena("train", "classify", "t.tsv", "--model", "loglinear", "--max-steps", 1, "-q", "-o", "run").code == 0
    said = catena("answer", "run", "t.tsv", "Who?")
    assert said.sentence.startswith("RUN must be a reader, got run, a model of another task.")
