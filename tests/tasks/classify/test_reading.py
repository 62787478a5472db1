"""Which texts of a file are predicted for, whatever the format."""

from __future__ import annotations

from pathlib import Path

import pytest

from catena.errors import FormatError
from catena.tasks.application import DEFAULT_READ_OPTIONS, ReadOptions
from catena.tasks.classify.config import ClassifyDataConfig
from catena.tasks.classify.reading import apply_read_options, read_texts

LABELS = ("good", "bad")


def texts(path: Path, reading: ReadOptions = DEFAULT_READ_OPTIONS, **data: object) -> list[str]:
    return list(read_texts(path, reading, ClassifyDataConfig(**data), LABELS))  # type: ignore[arg-type]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "x"


def test_what_is_asked_for_goes_before_what_training_did() -> None:
    data = ClassifyDataConfig(format="csv", encoding="latin-1", text_column="a")
    found = apply_read_options(data, ReadOptions(encoding="utf-16", label_column="b"))
    assert (found.format, found.encoding, found.text_column, found.label_column) == ("csv", "utf-16", "a", "b")


def test_a_label_in_front_is_taken_off_if_the_model_knows_it(path: Path) -> None:
    path.write_text("good\tone two\nbad\tthree four\n" * 20, encoding="utf-8")
    assert texts(path)[:2] == ["one two", "three four"]
    path.write_text("fine\tone two\npoor\tthree four\n" * 20, encoding="utf-8")
    assert texts(path)[:2] == ["fine\tone two", "poor\tthree four"]


def test_multilabel_in_front_are_told_by_their_separator(path: Path) -> None:
    path.write_text("good|bad\tone two\nbad\tthree four\n" * 20, encoding="utf-8")
    assert texts(path, multilabel=True, label_separator="|")[:2] == ["one two", "three four"]


def test_no_text_is_left_out(path: Path) -> None:
    path.write_text("one\n\n  \ntwo\n", encoding="utf-8")
    assert texts(path) == ["one", "", "  ", "two"]
    path.write_text("text,label\none,good\n,bad\n", encoding="utf-8")
    assert texts(path) == ["one", ""]


def test_the_training_column_is_used_unless_another_is_asked_for(path: Path) -> None:
    path.write_text("body,title\none,two\n", encoding="utf-8")
    assert texts(path, text_column="title") == ["two"]
    assert texts(path, ReadOptions(text_column="body"), text_column="title") == ["one"]
    path.write_text("plain words\n", encoding="utf-8")
    assert texts(path, text_column="title") == ["plain words"], "a plain text has no columns"


def test_a_format_that_is_asked_for_is_not_recognized_again(path: Path) -> None:
    path.write_text("text,label\none,good\n", encoding="utf-8")
    assert texts(path, ReadOptions(format="text")) == ["text,label", "one,good"]


def test_trees_give_their_words_and_sentences_in_columns_are_refused(path: Path) -> None:
    path.write_text("(3 (2 not) (1 bad))\n", encoding="utf-8")
    assert texts(path) == ["not bad"]
    path.write_text("play\tO\nloud\tB-x\n\nstop\tO\n\n", encoding="utf-8")
    with pytest.raises(FormatError, match=r"not a file of texts\. Use --input-format text"):
        texts(path)
