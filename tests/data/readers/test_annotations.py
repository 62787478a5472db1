"""Exports of annotation tools and chats, written here as the tools write them, against the labels that went in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from catena.data.conversations import read_exchanges
from catena.data.inspection import FileReport, inspect
from catena.data.reading import ReadCounter
from catena.data.records import read_examples
from catena.data.token_tables import read_columns

TEXTS = [f"Ada met {name} in {place} on day {i}" for i, (name, place) in enumerate(
    [(name, place) for name in ("Bob", "Eve", "Kim") for place in ("Paris", "Rome", "Oslo", "Bern")])]  # fmt: skip
LABELS = [("good", "bad", "fine")[i % 3] for i in range(len(TEXTS))]


def task(i: int, result: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    """A task of Label Studio as its JSON export has it."""
    annotation = {"id": i, "completed_by": 1, "result": result, "was_cancelled": False, **more}
    return {"id": i, "annotations": [annotation], "drafts": [], "predictions": [], "data": {"text": TEXTS[i]},
            "meta": {}, "total_annotations": 1, "cancelled_annotations": 0, "project": 1}  # fmt: skip


def choice(value: list[str], name: str = "quality") -> dict[str, Any]:
    return {"value": {"choices": value}, "from_name": name, "to_name": "text", "type": "choices"}


def span(i: int, label: str, word: str) -> dict[str, Any]:
    start = TEXTS[i].index(word)
    return {"start": start, "end": start + len(word), "text": word, "labels": [label]}


def spans(i: int) -> list[dict[str, Any]]:
    return [span(i, "PER", "Ada"), span(i, "LOC", TEXTS[i].split()[4])]


def look(folder: Path, content: Any, name: str = "x.json", **options: Any) -> FileReport:
    path = folder / name
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return inspect([path], **options).files[0]


def test_choices_of_label_studio_are_labels(tmp_path: Path) -> None:
    tasks = [task(i, [choice([label])]) for i, label in enumerate(LABELS)]
    tasks[0] = task(0, [choice(["worse"])], was_cancelled=True)
    tasks[1] = {**tasks[1], "annotations": []}
    report = look(tmp_path, tasks)
    assert (report.task, report.n_examples, report.dropped) == (
        "classify",
        len(TEXTS) - 2,
        {"without an annotation": 2},
    )
    assert [example.labels for example in read_examples(tmp_path / "x.json")][2:] == [(label,) for label in LABELS[2:]]


def test_spans_of_skipped_tasks_are_not_sentences_without_names(tmp_path: Path) -> None:
    def result(i: int) -> list[dict[str, Any]]:
        return [{"value": one, "from_name": "ner", "to_name": "text", "type": "labels"} for one in spans(i)]

    tasks = [task(i, result(i)) for i in range(len(TEXTS))]
    tasks[2] = task(2, result(2), was_cancelled=True)
    tasks[3] = {**tasks[3], "annotations": []}
    tasks[4] = task(4, [])  # annotated: it has no names
    (tmp_path / "x.json").write_text(json.dumps(tasks))
    report = inspect([tmp_path / "x.json"]).files[0]
    assert (report.n_examples, report.dropped) == (len(TEXTS) - 2, {"without an annotation": 2})
    counter = ReadCounter()
    read = list(read_columns(tmp_path / "x.json", separator="spans", counter=counter))
    assert [{row[-1] for row in sentence.rows} == {"O"} for sentence in read] == [i == 2 for i in range(len(TEXTS) - 2)]


def test_span_without_a_label_drops_its_record(tmp_path: Path) -> None:
    records = [{"text": text, "spans": spans(i)} for i, text in enumerate(TEXTS)] * 30
    records[-1] = {"text": TEXTS[-1], "spans": [{"start": 0, "end": 3, "label": None}]}
    (tmp_path / "x.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    report = inspect([tmp_path / "x.jsonl"]).files[0]
    assert report.dropped == {"with a span without a start, an end and a label": 1}


def test_answers_to_two_questions_are_not_mixed(tmp_path: Path) -> None:
    tasks = [
        task(i, [choice([label], "tone"), choice([label[0]], "aspect")][i % 2 :]) for i, label in enumerate(LABELS)
    ]
    report = look(tmp_path, tasks)
    assert report.task is None
    assert "'tone'" in report.why
    assert "'aspect'" in report.why
    named = look(tmp_path, tasks, columns={"label": "aspect"}, task="classify")
    assert set(named.labels) == {label[0] for label in LABELS}


def test_several_choices_of_the_short_export_are_labels(tmp_path: Path) -> None:
    records = [
        {"id": i, "text": text, "sentiment": {"choices": [label, "new"]} if i % 4 == 0 else label, "annotator": 1}
        for i, (text, label) in enumerate(zip(TEXTS, LABELS, strict=True))
    ]
    report = look(tmp_path, records, multilabel=True)
    assert report.labels == {"good": 4, "bad": 4, "fine": 4, "new": 3}


def as_table(delimiter: str) -> str:
    cells = (json.dumps(spans(i)).replace('"', '""') for i in range(len(TEXTS)))
    rows = (f'{i}{delimiter}{text}{delimiter}"{cell}"' for i, (text, cell) in enumerate(zip(TEXTS, cells, strict=True)))
    return "\n".join([delimiter.join(("id", "text", "label")), *rows]) + "\n"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("x.json", [task(i, [{"value": one, "from_name": "ner", "type": "labels"} for one in spans(i)])
                    for i in range(len(TEXTS))]),
        ("x.json", [{"id": i, "text": text, "label": spans(i)} for i, text in enumerate(TEXTS)]),
        ("x.csv", as_table(",")),
        ("x.tsv", as_table("\t")),
        ("x.json", [[text, {"entities": [[s["start"], s["end"], s["labels"][0]] for s in spans(i)]}]
                    for i, text in enumerate(TEXTS)]),
    ],
)  # fmt: skip
def test_spans_are_tags_of_their_words(name: str, content: Any, tmp_path: Path) -> None:
    report = look(tmp_path, content, name)
    assert (report.task, report.n_examples) == ("tag", len(TEXTS))
    options = {key: report.options[key] for key in ("separator", "stored")}
    for sentence, text in zip(read_columns(tmp_path / name, **options), TEXTS, strict=True):
        words = text.split()
        tags = dict.fromkeys(words, "O") | {"Ada": "B-PER", words[4]: "B-LOC"}
        assert list(sentence.rows) == [(word, tags[word]) for word in words]


def node(i: int, n: int, text: str) -> dict[str, Any]:
    message = {"author": {"role": ("user", "assistant")[i % 2]}, "content": {"content_type": "text", "parts": [text]}}
    return {
        "id": f"n{i}",
        "message": message,
        "parent": f"n{i - 1}" if i else "root",
        "children": [f"n{i + 1}"][: n - i],
    }


def test_conversation_of_chatgpt_is_the_branch_that_was_shown(tmp_path: Path) -> None:
    turns = ["how are you", "very well", "and the cat", "asleep"]
    mapping = {"root": {"id": "root", "message": None, "parent": None, "children": ["n0"]}}
    mapping |= {f"n{i}": node(i, len(turns), turn) for i, turn in enumerate(turns)}
    mapping["old"] = {**node(1, 1, "an answer that was replaced"), "id": "old", "children": []}
    path = tmp_path / "conversations.json"
    path.write_text(json.dumps([{"title": "x", "mapping": mapping, "current_node": "n3"}] * 3))
    found = list(read_exchanges(path))
    assert [(one.context, one.responses) for one in found[:3]] == [
        (tuple(turns[:i]), (turns[i],)) for i in range(1, len(turns))
    ]
    assert found[2].own == (False, True, False)


def test_lists_of_different_lengths_are_dialogues(tmp_path: Path) -> None:
    dialogues = [["one two", "three four", "five"][: 2 + i % 2] for i in range(8)]
    report = look(tmp_path, dialogues)
    assert (report.task, report.n_examples) == ("converse", 8)
    messages = [[{"role": "user", "content": turn} for turn in turns] for turns in dialogues]
    assert (look(tmp_path, messages).task, look(tmp_path, messages).n_examples) == ("converse", 8)
