"""The texts of a file to predict, in every format."""

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


def test_read_options_override_the_data_config() -> None:
    data = ClassifyDataConfig(format="csv", encoding="latin-1", text_column="a")
    found = apply_read_options(data, ReadOptions(encoding="utf-16", label_column="b"))
    assert (found.format, found.encoding, found.text_column, found.label_column) == ("csv", "utf-16", "a", "b")


def test_first_column_is_dropped_if_it_is_a_known_label(path: Path) -> None:
    path.write_text("good\tone two\nbad\tthree four\n" * 20, encoding="utf-8")
    assert texts(path)[:2] == ["one two", "three four"]
    path.write_text("fine\tone two\npoor\tthree four\n" * 20, encoding="utf-8")
    assert texts(path)[:2] == ["fine\tone two", "poor\tthree four"]


def test_first_column_of_several_labels_is_dropped(path: Path) -> None:
    path.write_text("good|bad\tone two\nbad\tthree four\n" * 20, encoding="utf-8")
    assert texts(path, multilabel=True, label_separator="|")[:2] == ["one two", "three four"]


def test_blank_texts_are_kept(path: Path) -> None:
    path.write_text("one\n\n  \ntwo\n", encoding="utf-8")
    assert texts(path) == ["one", "", "  ", "two"]
    path.write_text("text,label\none,good\n,bad\n", encoding="utf-8")
    assert texts(path) == ["one", ""]


def test_text_column_defaults_to_the_one_of_training(path: Path) -> None:
    path.write_text("body,title\none,two\n", encoding="utf-8")
    assert texts(path, text_column="title") == ["two"]
    assert texts(path, ReadOptions(text_column="body"), text_column="title") == ["one"]
    path.write_text("plain words\n", encoding="utf-8")
    assert texts(path, text_column="title") == ["plain words"], "a plain text has no columns"


def test_given_format_is_not_detected_again(path: Path) -> None:
    path.write_text("text,label\none,good\n", encoding="utf-8")
    assert texts(path, ReadOptions(format="text")) == ["text,label", "one,good"]


def test_trees_give_words_and_column_files_are_rejected(path: Path) -> None:
    path.write_text("(3 (2 not) (1 bad))\n", encoding="utf-8")
    assert texts(path) == ["not bad"]
    path.write_text("play\tO\nloud\tB-x\n\nstop\tO\n\n", encoding="utf-8")
    with pytest.raises(FormatError, match=r"not a file of texts\. Use --input-format text"):
        texts(path)
