"""The task of a table, by its column names and values."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from catena.data.detect import detect_format
from catena.data.task_rules import to_span

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
