"""Values of records as texts and lists of labels."""

from __future__ import annotations

import math
from typing import Any

import pytest

from catena.data.roles import MISSING
from catena.data.values import are_written_integers, to_list, to_text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a", "a"),
        (3, "3"),
        (3.0, "3"),
        (3.5, "3.5"),
        (None, None),
        (math.nan, None),
        (["a", "b"], "a\nb"),
        ({"@type": "HowToStep", "text": "stir"}, "stir"),
    ],
)
def test_text_of_a_value(value: Any, text: str | None) -> None:
    assert to_text(value) == text


@pytest.mark.parametrize(
    ("value", "problem"),
    [(True, "true or false"), ({"a": 1}, "nested object"), ("\ud800", "surrogate"), ([b"a"], "binary value")],
)
def test_value_without_text_is_rejected(value: Any, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        to_text(value)


@pytest.mark.parametrize(
    ("value", "labels"),
    [
        ("a", ("a",)),
        (" a\u200b", ("a",)),
        ("['a', 'b']", ("a", "b")),
        ('["a", "b"]', ("a", "b")),
        ("[a", ("[a",)),
        (["a", "a", None, "b"], ("a", "b")),
        (True, ("true",)),
        (3.0, ("3",)),
        *((spelling, ()) for spelling in sorted(MISSING)),
    ],
)
def test_labels_of_a_value(value: Any, labels: tuple[str, ...]) -> None:
    assert to_list(value, MISSING) == labels


def test_labels_are_separated_by_separator_or_line_end() -> None:
    assert to_list("a;b\nc; ;a", MISSING, ";") == ("a", "b", "c")
    assert to_list("a;b", MISSING) == ("a;b",)


def test_integers_written_as_floats_are_integers_only_if_set() -> None:
    assert to_list("1.0", MISSING, integers=True) == ("1",)
    assert to_list("1.0", MISSING) == ("1.0",)


def test_numbered_class_has_its_name() -> None:
    assert to_list(1, MISSING, class_names=("no", "yes")) == ("yes",)


@pytest.mark.parametrize("value", [-1, 2])
def test_class_without_name_is_rejected(value: int) -> None:
    with pytest.raises(ValueError, match=f"with class {value}, outside the 2 classes"):
        to_list(value, MISSING, class_names=("no", "yes"))


def test_lists_as_numpy_writes_them_are_not_joined() -> None:
    assert to_list("['a' 'b c']", MISSING) == ("a", "b c")
    assert to_list("[0 12]", MISSING) == ("0", "12")
    assert to_list("[not a list]", MISSING) == ("[not a list]",)


def test_labels_are_in_nfc() -> None:
    assert to_list("cafe\u0301", MISSING) == to_list("caf\u00e9", MISSING) == ("caf\u00e9",)


@pytest.mark.parametrize(
    ("values", "expected"),
    [(["1", "2.0"], True), (["1.0", "-2.0", "NaN"], True), (["1", "2"], False), (["1.0", "1.5"], False), ([], False)],
)
def test_integers_with_and_without_a_point_are_written_integers(values: list[str], expected: bool) -> None:
    assert are_written_integers(values) is expected
