from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catena.data.detect import detect_format
from catena.data.formats import FORMATS
from catena.data.reading import ReadCounter
from catena.data.schemes import tags_to_spans
from catena.data.token_tables import from_spans


def read(path: Path, counter: ReadCounter | None = None) -> list[tuple[tuple[str, ...], ...]]:
    found = detect_format(path)
    assert (found.format, found.task) == ("columns", "tag")
    return [sentence.rows for sentence in FORMATS["columns"].read(path, counter=counter, **found.options)]


def test_token_in_each_row_of_a_table(tmp_path: Path) -> None:
    path = tmp_path / "ner.csv"
    rows = ["Sentence: 1,Ada,NNP,B-per", ",sings,VB,O", 'Sentence: 2,"a, b",SYM,O', ",,NN,O", "Sentence: 3,x,NN,O"]
    path.write_text("\n".join(["Sentence #,Word,POS,Tag", *rows]) + "\n")
    counter = ReadCounter()
    assert read(path, counter) == [(("Ada", "NNP", "B-per"), ("sings", "VB", "O")), (("x", "NN", "O"),)]
    assert [(d.location.line, d.reason) for d in counter.dropped] == [(5, "with a row without a word or a tag")]


def test_lists_of_tokens_and_tags(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    rows = [{"tokens": ["Ada", "sings"], "ner_tags": ["B-PER", "O"]}] * 30 + [{"tokens": ["a", "b"], "ner_tags": ["O"]}]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    counter = ReadCounter()
    assert read(path, counter) == [(("Ada", "B-PER"), ("sings", "O"))] * 30
    assert [(d.location.line, d.reason) for d in counter.dropped] == [(31, "without a tag for each word")]


@pytest.mark.parametrize(
    "span",
    [[3, 11, "LOC"], {"start": 3, "end": 11, "label": "LOC"}, {"value": {"start": 3, "end": 11, "labels": ["LOC"]}}],
)
def test_spans_of_characters_become_tags(span: object, tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(json.dumps({"text": "to New York", "entities": [span]}) + "\n")
    assert read(path) == [(("to", "O"), ("New", "B-LOC"), ("York", "I-LOC"))]


@pytest.mark.parametrize("spans", [[[0, 99, "X"]], [[3, 3, "X"]], [[0, 3, "X"], [2, 5, "Y"]], [[-1, 2, "X"]]])
def test_spans_outside_or_over_each_other_are_invalid(spans: list) -> None:
    with pytest.raises(ValueError, match="outside the text or overlaps"):
        from_spans("some text", spans)


@given(st.text("ab .,", max_size=12), st.lists(st.integers(0, 12), max_size=6, unique=True).map(sorted))
def test_tags_of_spans_give_the_spans_back(text: str, cuts: list[int]) -> None:
    spans = [[a, b, "X"] for a, b in zip(cuts[::2], cuts[1::2], strict=False) if b <= len(text)]
    rows = from_spans(text, spans)
    assert "".join(token for token, _ in rows) == "".join(text.split())
    filled = [text[a:b].strip() for a, b, _ in spans if text[a:b].strip()]
    found = [rows[a:b] for a, b, _ in tags_to_spans([tag for _, tag in rows], "iob2")]
    assert ["".join(token for token, _ in span) for span in found] == ["".join(part.split()) for part in filled]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("Ada sings .", "B-PER O O"),
        ("['Ada', 'sings', '.']", "['B-PER', 'O', 'O']"),
        ("['Ada' 'sings'\n '.']", "['B-PER' 'O' 'O']"),
        ('["Ada", "sings", "."]', "B-PER O O"),
    ],
)
@pytest.mark.parametrize("header", ["id,tokens,ner_tags", "id,x,y"])
def test_tags_of_a_sentence_in_a_cell(first: str, second: str, header: str, tmp_path: Path) -> None:
    path = tmp_path / "ner.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file)
        table.writerows([header.split(","), *([i, first, second] for i in range(9)), [9, first, "O"]])
    counter = ReadCounter()
    assert read(path, counter) == [(("Ada", "B-PER"), ("sings", "O"), (".", "O"))] * 9
    assert [d.reason for d in counter.dropped] == ["without a tag for each word"]


def test_tags_of_pos_in_lists_are_read_by_name(tmp_path: Path) -> None:
    path = tmp_path / "pos.csv"
    path.write_text("tokens,tags\n" + "\"['Ada', 'sings']\",\"['NNP', 'VBZ']\"\n" * 9)
    assert read(path)[0] == (("Ada", "NNP"), ("sings", "VBZ"))


def test_labels_of_texts_are_not_tags(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("text,labels\n" + "a good text,B-1\nanother text,B-2 O\n" * 9)
    assert detect_format(path).task == "classify"
