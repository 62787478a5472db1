from __future__ import annotations

import pytest

from catena.data.readers.names import choose_columns, find_name, named_columns, parse_labels, split_labels
from catena.errors import FormatError


def test_names_are_found_in_the_order_of_preference_whatever_their_case() -> None:
    assert named_columns(["ID", "Sentence", "TEXT", "Class"]) == {"text_column": "TEXT", "label_column": "Class"}
    assert named_columns(["id", "n"]) == {}
    assert find_name(["Text", "text"], ("text",)) == "Text"


def test_a_column_that_was_asked_for_is_not_taken_twice() -> None:
    assert choose_columns("x", ["text", "sentence"], None, "text", True).text == "sentence"
    with pytest.raises(FormatError, match="x has no label column"):
        choose_columns("x", ["text", "sentence"], "text", None, True)


def test_labels_between_separators() -> None:
    assert split_labels(" a | b|a||", "|") == ("a", "b")
    assert split_labels(" a | b", None) == ("a | b",)
    assert split_labels("  ", None) == ()


def test_numbered_classes() -> None:
    assert parse_labels([1, 0], None, ("neg", "pos")) == ("pos", "neg")
    for number in (-1, 2):
        with pytest.raises(ValueError, match=f"is class {number}, outside the 2 classes"):
            parse_labels(number, None, ("neg", "pos"))
