"""The texts of a file to predict, in every format."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from catena.data.reading import ReadCounter
from catena.errors import FormatError
from catena.tasks.classify.data import read_labeled_texts
from catena.tasks.classify.linear.task import LinearTask
from tests.tasks.classify.helpers import config_of, task_of


def texts(path: Path, **data: Any) -> list[str]:
    """The texts of a file for a model with the classes good and bad."""
    config = config_of({"model": {"kind": "loglinear"}, "data": data})
    known = task_of(config_of({"model": {"kind": "loglinear"}}), ["a", "b"], ["good", "bad"])
    task = LinearTask(config, known.encoding, known.learner.weights, known.learner.bias)
    return [example.text for example in task.read_inputs(path, ReadCounter())]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "x"


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
    assert [text.strip() for text in texts(path)] == ["one", "", "", "two"]
    path.write_text("text,label\none,good\n,bad\n", encoding="utf-8")
    assert texts(path) == ["one", ""]


def test_text_column_is_the_one_of_training_if_the_file_has_it(path: Path) -> None:
    path.write_text("body,title\none,two\nthree,four\n", encoding="utf-8")
    assert texts(path, text_column="title") == ["two", "four"]
    path.write_text("plain words\n", encoding="utf-8")
    assert texts(path, text_column="title") == ["plain words"], "a plain text has no columns"


def test_given_format_is_not_detected_again(path: Path) -> None:
    path.write_text("text,label\none,good\n", encoding="utf-8")
    assert texts(path, input_format="text") == ["text,label", "one,good"]


def test_trees_give_words_and_column_files_are_rejected(path: Path) -> None:
    path.write_text("(3 (2 not) (1 bad))\n", encoding="utf-8")
    assert texts(path) == ["not bad"]
    path.write_text("play\tO\nloud\tB-x\n\nstop\tO\n\n", encoding="utf-8")
    with pytest.raises(FormatError, match=r"not one text\. Use --input-format text"):
        texts(path)


def test_texts_with_spans_are_classified_by_their_labels(tmp_path: Path) -> None:
    spans = [{"start": 6, "end": 10, "value": "Rome", "entity": "city"}]
    records = [{"text": "go to Rome now", "intent": "ab"[i % 2], "entities": spans} for i in range(20)]
    path = tmp_path / "x.json"
    path.write_text(json.dumps(records))
    for gold in (True, False):
        found = list(read_labeled_texts(config_of().data, path, ReadCounter(), gold=gold))
        assert [example.text for example in found] == ["go to Rome now"] * 20
        assert [example.labels for example in found] == [("ab"[i % 2],) if gold else () for i in range(20)]
