"""Files of questions: every format gives the same examples, and everything wrong is counted and listed."""

from __future__ import annotations

import csv
import gzip
import io
import json
from pathlib import Path
from typing import Any

import pytest

from catena.data.readers.questions import QuestionCounter, QuestionExample, ReferenceAnswer, read_questions
from catena.errors import CatenaError, DataError, FormatError

CONTEXT = "Zoë 𝔸da met Zoë\nin Łódź."
ROWS: list[dict[str, Any]] = [
    {"id": "a", "context": CONTEXT, "question": "Who met?", "answers": ["𝔸da"], "start": [4]},
    {"id": "b", "context": CONTEXT, "question": "Whom, then?", "answers": ["Zoë"], "start": [12]},
    {"id": "c", "context": CONTEXT, "question": "When?", "answers": [], "start": []},
]


def squad(rows: list[dict[str, Any]]) -> dict[str, Any]:
    qas = [
        {
            "id": row["id"],
            "question": row["question"],
            "answers": [
                {"text": text, "answer_start": start} for text, start in zip(row["answers"], row["start"], strict=True)
            ],
            "is_impossible": not row["answers"],
        }
        for row in rows
    ]
    return {"version": "v2.0", "data": [{"title": "T", "paragraphs": [{"context": CONTEXT, "qas": qas}]}]}


def table(delimiter: str) -> str:
    out = io.StringIO()
    writer = csv.writer(out, delimiter=delimiter)
    writer.writerow(["id", "Context", "question", "answer", "start"])
    for row in ROWS:
        writer.writerow([row["id"], CONTEXT, row["question"], "".join(row["answers"]), *(row["start"] or [""])])
    return out.getvalue()


def write(path: Path, content: str) -> Path:
    path.write_bytes(content.encode())
    return path


def contents() -> dict[str, str]:
    nested = [{**row, "answers": {"text": row["answers"], "answer_start": row["start"]}} for row in ROWS]
    objects = [
        {**row, "answers": [{"text": t, "start": s} for t, s in zip(row["answers"], row["start"], strict=True)]}
        for row in ROWS
    ]
    return {
        "squad.json": json.dumps(squad(ROWS)),
        "indented.json": json.dumps(squad(ROWS), indent=1),
        "list.json": json.dumps(ROWS),
        "lines.jsonl": "\n".join(map(json.dumps, ROWS)),
        "nested.jsonl": "\n\n".join(map(json.dumps, nested)),
        "objects.json": "\n".join(map(json.dumps, objects)),
        "table.csv": table(","),
        "table.tsv": table("\t"),
    }


@pytest.mark.parametrize("name", list(contents()))
def test_read_questions_of_every_format_gives_the_same(tmp_path: Path, name: str) -> None:
    counter = QuestionCounter()
    found = read_questions(write(tmp_path / name, contents()[name]), counter)
    assert [(e.id, e.question, e.answers) for e in found] == [
        ("a", "Who met?", (ReferenceAnswer("𝔸da", 4),)),
        ("b", "Whom, then?", (ReferenceAnswer("Zoë", 12),)),
        ("c", "When?", ()),
    ]
    for e in found:
        assert e.context == CONTEXT
        assert all(e.context[a.start : a.end] == a.text for a in e.answers)
    assert counter.sentences() == ["questions: read 3; used 3; dropped 0", "answers: read 2; used 2; dropped 0"]


def test_read_questions_decompresses_and_keeps_titles(tmp_path: Path) -> None:
    path = tmp_path / "x.json.gz"
    path.write_bytes(gzip.compress(json.dumps(squad(ROWS)).encode()))
    assert {e.title for e in read_questions(path)} == {"T"}


def test_fields_of_tables_may_hold_several_answers(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", "context,question,answers,start\na b b,q,a|b|c,0|4\n")
    (found,) = read_questions(path, separator="|")
    assert found.answers == (ReferenceAnswer("a", 0), ReferenceAnswer("b", 4), ReferenceAnswer("c", None))
    assert found.references == ("a", "b", "c")
    assert found.id == "2"


def one(tmp_path: Path, counter: QuestionCounter | None = None, **row: Any) -> QuestionExample:
    given = {"context": CONTEXT, "question": "q", **row}
    return read_questions(write(tmp_path / "x.jsonl", json.dumps(given)), counter)[0]


@pytest.mark.parametrize(
    ("context", "answer", "start", "found"),
    [
        ("the other he", "he", None, 10),  # not inside "the" or "other"
        ("other", "he", None, 2),
        ("no no no no", "no", 7, 6),
        ("no no", "no", -5, 0),
        ("no no", "no", 99, 3),
        ("aaa", "aa", 2, 1),
        ("é𝔸 no no", "no", 9, 6),
        ("é𝔸 no no", "no", None, 3),
    ],
)
def test_answer_is_moved_to_an_occurrence(
    tmp_path: Path, context: str, answer: str, start: int | None, found: int
) -> None:
    counter = QuestionCounter()
    example = one(tmp_path, counter, context=context, answers=answer, start=start)
    assert example.answers == (ReferenceAnswer(answer, found),)
    assert len(counter.moved) == (start is not None)
    if counter.moved:
        assert counter.moved[0].reason == f"the answer is at character {found}, not {start}"


def test_answer_outside_its_context_is_listed_and_kept_for_evaluation(tmp_path: Path) -> None:
    counter = QuestionCounter()
    example = one(tmp_path, counter, answers=["Ada", "𝔸da", " "], start=[4, 4, 0])
    assert example.answers == (ReferenceAnswer("Ada", None), ReferenceAnswer("𝔸da", 4), ReferenceAnswer(" ", None))
    assert [(d.reason, d.text) for d in counter.answers.dropped] == [
        ("not in the context", "Ada"),
        ("not in the context", " "),
    ]
    assert counter.sentences()[1] == "answers: read 3; used 1; dropped 2 (2 not in the context)"


def test_blank_questions_are_dropped_and_counted(tmp_path: Path) -> None:
    rows = [{"context": c, "question": q} for c, q in [("x", "  "), ("", "q"), (None, "q"), ("x", "q"), (3, "q")]]
    counter = QuestionCounter()
    found = read_questions(write(tmp_path / "x.json", json.dumps(rows)), counter)
    assert [e.location.line for e in found] == [4]
    assert counter.sentences()[0] == "questions: read 5; used 1; dropped 4 (3 without context, 1 without question)"


def test_repeated_ids_become_unique(tmp_path: Path) -> None:
    rows = [{"id": 7, "context": "x", "question": "q"}] * 2
    counter = QuestionCounter()
    assert [e.id for e in read_questions(write(tmp_path / "x.json", json.dumps(rows)), counter)] == ["7", "7#2"]
    assert "corrected: 1" in counter.sentences()[2]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.json", '{"data": [\n{"a" 1}]}', r"x\.json:2 is not valid JSON \(Expecting ':' delimiter\)"),
        ("x.json", '{"data": 3}', r"x\.json:1 must have a key 'context', got 'data'"),
        ("x.json", '{"data": [{"title": "t"}]}', r"x\.json:1 must have a key 'context', got 'title'"),
        ("x.json", '{"data": [[]]}', r"x\.json is a JSON object with the keys 'data' and without an array of records"),
        (
            "x.json",
            '{"data": [{"paragraphs": [{"qas": [1]}]}]}',
            r"x\.json:1 must have a key 'context', got 'paragraphs'",
        ),
        ("x.json", "[1]", r"x\.json:1 must be a JSON object; the line is '1'"),
        ("x.json", "context", r"must be JSON, JSON lines, or a table named \.csv or \.tsv, got"),
        ("x.jsonl", '{"context": "x"}', r"x\.jsonl:1 must have a key 'question', got 'context'"),
        (
            "x.jsonl",
            '{"context": "x", "question": "q", "answers": [3]}',
            r"An answer of .*x\.jsonl:1 must be a text with an integer start, got",
        ),
        (
            "x.jsonl",
            '{"context": "x", "question": "q", "answers": "x", "start": "0"}',
            r"must be a text with an integer start",
        ),
        ("x.csv", "context,question,start\nx,q,one\n", r"start of .*x\.csv:2 must be an integer, got 'one'"),
        ("x.csv", "context,question\nx\n", r"x\.csv:2 is a record with 1 field instead of 2"),
    ],
)
def test_wrong_files_give_one_clear_sentence(tmp_path: Path, name: str, content: str, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        read_questions(write(tmp_path / name, content))


def test_file_without_usable_question_raises(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="has no question that can be used: read 1; used 0; dropped 1"):
        one(tmp_path, question=" ")
    with pytest.raises(CatenaError):
        read_questions(tmp_path / "missing.json")


def test_squad_files_reconcile(real_data: Path) -> None:
    counter = QuestionCounter()
    folder = real_data / "squad_small"
    sizes = {"train.json": 15_965, "dev.json": 965, "test.json": 1_578, "dev-v2.0.json": 11_873}
    for name, n in sizes.items():
        found = read_questions(folder / name, counter)
        assert len(found) == n
        for e in found:
            assert all(a.start is not None and e.context[a.start : a.end] == a.text for a in e.answers)
    assert counter.questions.used == sum(sizes.values())
    assert not counter.answers.dropped
    assert not counter.moved
    unanswerable = [e for e in read_questions(folder / "dev-v2.0.json") if not e.answers]
    assert len(unanswerable) == 5_945
