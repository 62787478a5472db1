"""The task of a table, by its column names and values."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from catena.data.detect import detect_format
from catena.data.records import open_records
from catena.data.roles import TEXT
from catena.data.task_rules import to_span
from catena.errors import FormatError

LABELED = [
    ("weather", "will it rain"),
    ("music", "play it again"),
    ("weather", "is it hot"),
    ("music", "play some jazz"),
]


@pytest.mark.parametrize(
    ("content", "task"),
    [
        ("text,label\nwill it rain,weather\nplay some jazz,music\n", "classify"),
        ("".join(f"{label},{text}\n" for label, text in LABELED), "classify"),
        ("".join(f"{text},{label}\n" for label, text in LABELED), "classify"),
        ("sports,won\nweather,rain\n" * 4, "classify"),
        ("word,ipa\ncat,kæt\ndog,dɒɡ\n", "transduce"),
        ("en,de\nhe is not here,er ist nicht hier\n", "translate"),
        ("question,answer\nis it hot today,yes very\n", "converse"),
        ("question,answer,label\nis it hot,yes,1\nis it hot,no,0\n", "converse"),
        ("question,answer,label\nis it hot,yes,weather\nis it loud,no,music\n", "classify"),
        (
            "sentence,correction,label\nhe go home now,he goes home now,bad\nhe is at home,he is at home,good\n",
            "classify",
        ),
        (
            "Text,Summary,Score\n"
            + "it broke after a day,did not last,1\nit works very well,great little thing,5\n" * 3,
            "classify",
        ),
        ("Text,Summary\nit broke after a day,did not last\nit works very well,great little thing\n", "translate"),
        ("title,ingredients,directions\nsoup,water|salt,boil it all\n", "compose"),
        ("title,keywords,text,label\nsoup,water|salt,boil it all,food\n", "classify"),
        ("sentence_id,word,tag\n1,he,PRON\n1,is,VERB\n2,no,INTJ\n", "tag"),
        ("text\nwill it rain\nis it hot\n", "lm"),
        ("id,amount\n1,3.5\n2,3.7\n", None),
    ],
)
def test_table_has_the_task_of_its_columns(content: str, task: str | None, tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text(content, encoding="utf-8")
    assert detect_format(path).task == task


def test_label_before_single_words_is_first(tmp_path: Path) -> None:
    path = tmp_path / "x.tsv"
    path.write_text("sports\twon\nweather\train\n" * 4, encoding="utf-8")
    columns = detect_format(path).columns
    assert (columns["label"].columns, columns["text"].columns) == (("1",), ("2",))


@pytest.mark.parametrize(
    ("record", "task"),
    [
        ({"tokens": ["he", "is"], "ner_tags": ["O", "O"]}, "tag"),
        ({"text": "he is", "label": [[0, 2, "PER"]]}, "tag"),
        ({"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yes"}]}, "converse"),
        ({"translation": {"en": "he is not here", "de": "er ist nicht hier"}}, "translate"),
        ({"context": "he is here", "question": "where", "answers": {"text": ["here"]}}, "read"),
        ({"passage": "he is here", "question": "where", "answer": "here"}, "read"),
    ],
)
def test_json_has_the_task_of_its_keys(record: dict[str, Any], task: str | None, tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text((json.dumps(record) + "\n") * 3, encoding="utf-8")
    assert detect_format(path).task == task


@pytest.mark.parametrize(
    ("value", "span"),
    [
        ([0, 2, "PER"], (0, 2, "PER")),
        ({"start": 0, "end": 2, "label": "PER"}, (0, 2, "PER")),
        ({"value": {"start": 0, "end": 2, "labels": ["PER"]}}, (0, 2, "PER")),
        ([0, 2], None),
        ([0, True, "PER"], None),
        (["0", "2", "PER"], None),
        ({"start": 0, "end": 2, "labels": ["PER", "ORG"]}, None),
    ],
)
def test_span_in_its_usual_forms(value: Any, span: tuple[int, int, str] | None) -> None:
    assert to_span(value) == span


@pytest.mark.parametrize("indent", [None, 1])
def test_squad_document_is_for_reading_even_if_it_is_one_long_line(indent: int | None, tmp_path: Path) -> None:
    question = {"id": "1", "question": "where", "answers": [{"text": "here", "answer_start": 6}]}
    paragraphs = [{"context": "he is here " * 30, "qas": [question]}] * 600
    path = tmp_path / "x.json"
    path.write_text(json.dumps({"version": "1.1", "data": [{"title": "t", "paragraphs": paragraphs}]}, indent=indent))
    assert path.stat().st_size > 1 << 17
    assert detect_format(path).task == "read"


WORDS = ["a fine film", "a dull long film", "an old play", "the new song of a band", "two short plays"]


@pytest.mark.parametrize(
    ("name", "line"),
    [("x.tsv", "{value:.2f}\t{text}"), ("x.tsv", "{text}\t{value:.2f}"), ("x.txt", "{value:.2f} {text}")],
)
def test_quantities_without_a_header_are_for_regress(name: str, line: str, tmp_path: Path) -> None:
    """They were pairs of words, and lines of text."""
    values = [(37 * i % 61) / 7 for i in range(60)]
    lines = [line.format(value=value, text=f"{WORDS[i % 5]} {i}") for i, value in enumerate(values)]
    (tmp_path / name).write_text("\n".join(lines) + "\n")
    found = detect_format(tmp_path / name)
    assert found.task == "regress"
    assert f"{len({f'{value:.2f}' for value in values})} different" in found.why


def test_decimals_that_count_up_are_numbers_of_lines(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("".join(f"{1 + i / 100:.2f} {WORDS[i % 5]}\n" for i in range(60)))
    assert detect_format(tmp_path / "x.txt").task == "lm"


@pytest.mark.parametrize(
    ("header", "row", "cure"),
    [
        ("text,age", "{text} {i},{n}", "'catena train regress {path} --value-column age' to predict them"),
        ("text,portion", "{text} {i},{n}.5%", "'catena train regress {path} --value-column portion' to predict them"),
        ("area,age", "{n}.25,{i}.5", "'catena train regress {path} --value-column age'"),
        (
            "plot,genre,year,title",
            "{text} and {text} {i},{g},{n},{text} {n}",
            "--text-column plot --label-column genre to",
        ),
        ("a,b,c", "{text} {i},{text} of {n},{text} or {n}", "--source-column a --target-column b for pairs"),
        (
            "sentence1,sentence2,score",
            "{text} {i},{text} {n},{n}.25",
            "'catena train regress {path} --text-column sentence1 --value-column score'",
        ),
    ],
)
def test_table_that_no_task_reads_has_a_cure_that_fits_its_columns(
    header: str, row: str, cure: str, tmp_path: Path
) -> None:
    path = tmp_path / "x.csv"
    rows = [row.format(text=WORDS[i % 5], i=i, n=18 + 37 * i % 47, g="ab"[i % 2]) for i in range(60)]
    path.write_text("\n".join([header, *rows]) + "\n")
    found = detect_format(path)
    assert found.task is None
    assert cure.format(path=path) in found.why


def test_text_column_that_prediction_lacks_is_not_half_of_a_pair(tmp_path: Path) -> None:
    """A classifier that predicts has no --source-column."""
    path = tmp_path / "x.csv"
    path.write_text("first,second\n" + "".join(f"{WORDS[i % 5]} {i},{WORDS[i % 4]} or {i}\n" for i in range(20)))
    with pytest.raises(FormatError, match=r"Pass --text-column second\.$"):
        open_records(path, (TEXT,))


@pytest.mark.parametrize(
    ("row", "cure"),
    [
        ("{g},{text} {i},{text} of {text} and {i}", "--text-column 3 --label-column 1 for texts and labels, or"),
        ("{i},{g},{text} {i},{text} or {i}", "--source-column 3 --target-column 4 for pairs"),
    ],
)
def test_cure_for_columns_without_names_fits_their_values(row: str, cure: str, tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("".join(row.format(g="0123"[i % 4], text=WORDS[i % 5], i=i) + "\n" for i in range(40)))
    found = detect_format(path)
    assert found.task is None
    assert cure in found.why


@pytest.mark.parametrize("has_prompt", [False, True])
def test_preferences_are_not_pairs(has_prompt: bool, tmp_path: Path) -> None:
    records = [{"chosen": f"{one}, yes", "rejected": f"{one}, no"} for one in WORDS * 4]
    if has_prompt:
        records = [{"prompt": f"Is it {i}?", **record} for i, record in enumerate(records)]
    path = tmp_path / "x.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    found = detect_format(path)
    option = "--context-column prompt --response-column chosen" if has_prompt else "--text-column chosen"
    assert found.task is None
    assert f"{option}'" in found.why


def test_folder_of_brat_and_archive_in_an_archive_are_named(tmp_path: Path) -> None:
    (tmp_path / "brat").mkdir()
    (tmp_path / "brat/a.txt").write_text("Ada is here")
    (tmp_path / "brat/a.ann").write_text("T1\tPER 0 3\tAda\n")
    assert "brat" in detect_format(tmp_path / "brat").why
    for outer, inner, content in (("b.zip", "x.csv", b"text,label\n"), ("c.zip", "b.zip", None)):
        with zipfile.ZipFile(tmp_path / outer, "w") as archive:
            archive.writestr(inner, content if content is not None else (tmp_path / "b.zip").read_bytes())
    assert "another archive or an office document inside. Unpack it" in detect_format(tmp_path / "c.zip").why


def test_questions_with_answers_and_a_category_are_for_converse(tmp_path: Path) -> None:
    path = tmp_path / "faq.csv"
    rows = [
        f"{['billing', 'service'][i % 2]},Where is {WORDS[i % 5]} {i}?,It is with {WORDS[i % 4]} {i}."
        for i in range(20)
    ]
    path.write_text("\n".join(["Category,Question,Answer", *rows]) + "\n")
    found = detect_format(path)
    assert found.task == "converse"
    assert "'catena train classify' reads 'Category' as labels" in found.why
    short = [f"{['billing', 'service'][i % 2]},Where is {WORDS[i % 5]} {i}?,{['yes', 'no'][i % 2]}" for i in range(20)]
    path.write_text("\n".join(["Category,Question,Answer", *short]) + "\n")
    assert detect_format(path).task == "classify"
