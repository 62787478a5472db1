"""Files as programs export them, with the task, the number of examples and the labels that a careful reader finds."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from catena.data.detect import detect_format
from catena.data.inspection import FileReport, inspect
from catena.data.records import read_records
from catena.data.roles import TEXT

TEXTS = [f"{verb} the {thing} in {room}, please" for verb in ("move", "clean", "paint") for thing in ("red chair",
         "old lamp", "big table") for room in ("the hall", "my office", "our garden")]  # fmt: skip
LABELS = ["billing" if i % 3 else "tech support" for i in range(len(TEXTS))]
NAMES = set(LABELS)
ROWS = list(zip(TEXTS, LABELS, strict=True))
RECORDS = [{"text": text, "label": label} for text, label in ROWS]
SENTENCES = [
    [("Ada", "B-PER"), ("Rhodes", "I-PER"), ("sings", "O")],
    [("Paris", "B-LOC"), ("is", "O"), ("old", "O")],
    [("Bob", "B-PER"), ("left", "O")],
] * 4


def table(rows: Sequence[Sequence[Any]], header: Sequence[str] = (), **options: Any) -> str:
    file = io.StringIO()
    csv.writer(file, lineterminator="\n", **options).writerows([header, *rows] if header else rows)
    return file.getvalue()


def look(folder: Path, name: str, content: str, **options: Any) -> FileReport:
    path = folder / name
    path.write_text(content, encoding="utf-8")
    return inspect([path], **options).files[0]


def errors(report: FileReport) -> str:
    return " ".join(finding.message for finding in report.findings if finding.level == "error")


CLASSIFIED = {
    "sep_tab.csv": "sep=\t\n" + table(ROWS, ["text", "label"], delimiter="\t"),
    "titled.csv": "Tickets of May,,\nExported today,,\n"
    + table([(i, *row) for i, row in enumerate(ROWS)], ["id", "text", "label"]),
    "short_title.csv": "Tickets,\n" + table(ROWS, ["text", "label"]),
    "r_tabs.txt": '"text"\t"label"\n' + "".join(f'"{i}"\t"{text}"\t"{name}"\n' for i, (text, name) in enumerate(ROWS)),
    "r_commas.csv": "text,label\n" + table([(i, *row) for i, row in enumerate(ROWS)]),
    "empty_last.csv": "text,label\n" + table([(*row, "") for row in ROWS]),
    "sqlite.txt": "".join(f"{i}|{label}|{text}\n" for i, (text, label) in enumerate(ROWS)),
    "bools.csv": table([(text, label == "billing", label != "billing") for text, label in ROWS],
                       ["text", "billing", "tech support"]),
    "cats.jsonl": "".join(json.dumps({"text": text, "cats": {name: float(name == label) for name in sorted(NAMES)}})
                          + "\n" for text, label in ROWS),
    "rows.json": json.dumps([list(row) for row in ROWS]),
    "rows_below_names.json": json.dumps([["text", "label"], *map(list, ROWS)]),
    "one_after_another.json": "".join(json.dumps(record, indent=1) + "\n" for record in RECORDS),
    "one_line.jsonl": " ".join(map(json.dumps, RECORDS)),
}  # fmt: skip


@pytest.mark.parametrize("name", CLASSIFIED)
def test_every_record_of_an_export_is_a_labeled_text(name: str, tmp_path: Path) -> None:
    report = look(tmp_path, name, CLASSIFIED[name])
    assert not errors(report)
    assert (report.task, report.n_examples, set(report.labels)) == ("classify", len(ROWS), NAMES), report.why


@pytest.mark.parametrize("where", ["before", "after"])
def test_labels_of_fasttext_may_be_at_either_end(where: str, tmp_path: Path) -> None:
    lines = [f"__label__{label[:4]} {text}\n" if where == "before" else f"{text} __label__{label[:4]}\n"
             for text, label in ROWS]  # fmt: skip
    report = look(tmp_path, "f.txt", "".join(lines))
    assert (report.format, report.n_examples, set(report.labels)) == ("fasttext", len(ROWS), {"bill", "tech"})


@pytest.mark.parametrize("ids", [[f"q{i}" for i in range(27)], list(range(1, 28)), [f"{i:08x}" for i in range(27)]])
def test_ids_are_neither_labels_nor_sources(ids: Sequence[object], tmp_path: Path) -> None:
    for n in (4, 27):
        lines = "".join(f"{one}\t{text}\n" for one, text in zip(ids[:n], TEXTS[:n], strict=True))
        report = look(tmp_path, f"{n}.tsv", lines)
        assert report.task is None
        assert "has ids and texts and no labels" in report.why


def test_class_title_and_text_are_not_a_pair(tmp_path: Path) -> None:
    rows = [(i % 3 + 1, text[::-1], text) for i, text in enumerate(TEXTS)]
    report = look(tmp_path, "news.csv", table(rows))
    assert report.task is None
    assert "without a header" in report.why
    scored = [(text, text[::-1], i + 0.5) for i, text in enumerate(TEXTS)]
    assert look(tmp_path, "scored.csv", table(scored)).task == "translate"


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("dump.sql", "INSERT INTO t VALUES ('a b c', 'd');\n" * 5, "SQL"),
        ("dump.txt", "INSERT INTO t VALUES ('a b c', 'd');\n" * 5, "SQL"),
        ("page.html", "<p>a text here</p>\n" * 5, "HTML"),
        ("features.txt", "".join(f"{i % 2} 1:0.5 7:{i}\n" for i in range(20)), "LIBSVM"),
        ("brown.txt", "The_DT cat_NN sat_VBD ._.\nA_DT dog_NN ran_VBD ._.\n" * 5, "word_TAG"),
        ("splits.json", json.dumps({"train": RECORDS[:9], "test": RECORDS[9:]}), "records under 'train' and 'test'"),
        ("clinc.json", json.dumps({"train": [list(row) for row in ROWS], "val": [list(ROWS[0])] * 3}), "under 'train'"),
        ("turns.txt", "1 hi there you\thello my friend\n2 how are you\tvery well thanks\n" * 9, "ParlAI"),
        ("tags.csv", "".join("".join(f"{word},{tag}\n" for word, tag in one) + "\n" for one in SENTENCES), "tabs"),
    ],
)  # fmt: skip
def test_other_content_is_named_and_not_trained_on(name: str, content: str, said: str, tmp_path: Path) -> None:
    report = look(tmp_path, name, content)
    assert report.task is None
    assert said in report.why


UNNAMED = {
    "ids": table([(f"x{i}", text) for i, text in enumerate(TEXTS)], ["id", "text"]),
    "column": table([(text,) for text in TEXTS], ["text"]),
    "quoted": table(ROWS),
    "array": json.dumps(TEXTS),
}


@pytest.mark.parametrize("name", UNNAMED)
def test_table_without_a_name_is_read_as_with_it(name: str, tmp_path: Path) -> None:
    path = tmp_path / "standard-input"
    path.write_text(UNNAMED[name], encoding="utf-8")
    assert [record["text"] for record in read_records(path, (TEXT,))] == TEXTS


def test_strings_of_json_are_texts(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps(text) + "\n" for text in TEXTS), encoding="utf-8")
    assert [record["text"] for record in read_records(path, (TEXT,))] == TEXTS


def test_plain_text_with_quotes_and_brackets_stays_text(tmp_path: Path) -> None:
    for first in ('"Yes," she said, "it is."', '["a" is a letter]', "text, they say, is text", "Text"):
        path = tmp_path / "a.txt"
        path.write_text(f'{first}\nand so on, as always\n"No," he said.\n', encoding="utf-8")
        assert detect_format(path).format == "text", first


# --- words and tags ---------------------------------------------------------------------------------------------------


def sentences(first: str = "", swap: bool = False, tag: str | None = None) -> str:
    rows = [[(word, tag_ if tag is None else tag[len(word) % 2]) for word, tag_ in one] for one in SENTENCES]
    return first + "".join("".join("\t".join(row[::-1] if swap else row) + "\n" for row in one) + "\n" for one in rows)


def test_words_below_a_header_are_sentences(tmp_path: Path) -> None:
    for name in ("a.tsv", "a.conll", "a.txt"):
        report = look(tmp_path, name, sentences("word\ttag\n"))
        assert (report.task, report.n_examples) == ("tag", len(SENTENCES)), name
        assert "tag" not in report.labels


def test_tags_without_spans_and_blank_lines_are_sentences(tmp_path: Path) -> None:
    report = look(tmp_path, "a.tsv", sentences(tag="NV"))
    assert (report.task, report.n_examples) == ("tag", len(SENTENCES))
    grouped = "".join(f"{name}{i}\t{name}\n" for name in ("Ada", "Bob", "Eve", "Tom") for i in range(9))
    report = look(tmp_path, "groups.tsv", grouped.replace("8\tAda\n", "8\tAda\n\n").replace("8\tEve\n", "8\tEve\n\n"))
    assert report.task == "classify"


def test_tags_before_words_need_options(tmp_path: Path) -> None:
    from catena.cli.main import main
    from catena.tasks.load import load

    report = look(tmp_path, "a.bio", sentences(swap=True))
    assert report.task is None
    assert report.why.endswith("Pass --text-column 1 --tags-column 0.")
    words = ["train", "tag", str(tmp_path / "a.bio"), "--model", "hmm", "-q", "-o", str(tmp_path / "run")]
    assert main(words) == 1
    assert main([*words, "--text-column", "1", "--tags-column", "0"]) == 0
    assert load(tmp_path / "run").predict([["Bob", "left"]])[0].tags == ("B-PER", "O")


# --- labels -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("label", ["-", "?", "none", "Unknown"])
def test_labels_that_may_be_missing_are_reported(label: str, tmp_path: Path) -> None:
    rows = [(text, label if i in (3, 5) else name) for i, (text, name) in enumerate(ROWS)]
    found = [
        f for f in look(tmp_path, "a.csv", table(rows, ["text", "label"])).findings if f.kind == "placeholder-label"
    ]
    assert [finding.count for finding in found] == [1]
    assert found[0].message.startswith(f"2 texts have the label {label!r}")


def test_label_joined_with_another_label_is_reported(tmp_path: Path) -> None:
    rows = [(text, "billing,sales" if i == 4 else name) for i, (text, name) in enumerate(ROWS)]
    found = look(tmp_path, "a.csv", table(rows, ["text", "label"])).findings
    assert "joined-labels" in [finding.kind for finding in found]
