from __future__ import annotations

import pytest

from catena.data.column_choice import choose_columns
from catena.data.roles import (
    LABEL,
    TEXT,
    TEXT_COLUMNS,
    NoColumnError,
    are_responses,
    find_column,
    find_pair,
    known_roles,
)
from catena.data.values import is_label_column, is_quantity, lookup, mean_words, one_hot_columns, pair_by_values


@pytest.mark.parametrize(
    ("names", "column"),
    [
        (["ID", "Sentence", "TEXT"], "TEXT"),
        (["Text", "text"], "Text"),
        (["id", "comment_text"], "comment_text"),
        (["id", "Review Text"], "Review Text"),
        (["id", "reviewText"], "reviewText"),
        (["a_text", "b_text"], None),
        (["data.text", "meta.id"], "data.text"),
        (["text_id", "n"], None),
    ],
)
def test_text_column_is_found_by_name(names: list[str], column: str | None) -> None:
    assert find_column(names, TEXT_COLUMNS) == column


@pytest.mark.parametrize(
    ("names", "sides"),
    [
        (["source", "target"], (0, 1)),
        (["TRG", "SRC"], (1, 0)),
        (["id", "en", "fr"], (1, 2)),
        (["English", "note", "German sentence"], (0, 2)),
        (["id", "question", "answer"], (1, 2)),
        (["word", "ipa"], (0, 1)),
        (["translation.en", "translation.de"], (0, 1)),
        (["a", "b"], None),
        (["en", "eng"], None),
    ],
)
def test_columns_of_pairs_are_found_by_name(names: list[str], sides: tuple[int, int] | None) -> None:
    assert find_pair(names) == sides


def test_known_roles_of_a_header() -> None:
    assert known_roles(["text", "label"]).items() >= {("text", "text"), ("label", "label")}
    assert known_roles(["y", "7", ""]) == {}
    assert are_responses("question", "answer")
    assert not are_responses("en", "de")


def rows(**columns: list) -> list[dict]:
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def test_column_is_not_taken_twice() -> None:
    names = ["text", "sentence"]
    found = choose_columns((TEXT, LABEL), names, rows(text=["a"], sentence=["b"]), {"label": "text"}, "x", True)
    assert (found["text"].columns, found["label"].columns) == (("sentence",), ("text",))


def test_label_by_values_needs_repeated_values_below_a_header() -> None:
    sample = rows(id=[str(i) for i in range(9)], text=["a b c"] * 9)
    with pytest.raises(NoColumnError, match="has no label column") as raised:
        choose_columns((TEXT, LABEL), ["id", "text"], sample, {}, "x", True)
    assert raised.value.role == "label"


@pytest.mark.parametrize(
    ("record", "name", "value"),
    [
        ({"a": 1}, "a", 1),
        ({"a.b": 2, "a": {"b": 3}}, "a.b", 2),
        ({"a": {"b": 3}}, "a.b", 3),
        ({"a": [{"b": 3}, {"b": 4}]}, "a.1.b", 4),
        ({"a": [1]}, "a.1", None),
        ({"a": 1}, "a.b", None),
        ({}, "a", None),
    ],
)
def test_lookup_follows_dotted_paths(record: dict, name: str, value: object) -> None:
    assert lookup(record, name) == value


@pytest.mark.parametrize(
    ("labels", "texts", "found"),
    [
        (["a", "b"] * 10, [f"some text {i}" for i in range(20)], True),
        (["a", ""] * 10, [f"some text {i}" for i in range(20)], True),
        (["a", "NA"] * 10, [f"some text {i}" for i in range(20)], True),
        ([str(i) for i in range(20)], [f"some text {i}" for i in range(20)], False),
        (["p ɛ ̃, p ɛ"] * 20, [f"word{i}" for i in range(20)], False),
        (["a", "b", "c"], ["one text", "two texts", "more of it"], True),
        (["Kopf", "Hand"], ["head", "hand"], False),
        ([], [], False),
    ],
)
def test_labels_are_distinguished_from_texts(labels: list[str], texts: list[str], found: bool) -> None:
    assert is_label_column(labels, texts) == found


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ([f"{i / 7:.2f}" for i in range(60)], True),
        ([str(i % 5 + 1) for i in range(60)], False),
        ([f"{i % 10 / 2:.1f}" for i in range(60)], False),
        (["a", "b"] * 30, False),
        ([str(i) for i in range(300)], True),
    ],
)
def test_quantities_are_distinguished_from_classes(values: list[str], found: bool) -> None:
    assert is_quantity(values) == found


def test_columns_of_zeros_and_ones() -> None:
    assert one_hot_columns(["a", "b", "c"], rows(a=["0", "1"], b=[1, 0], c=["2", "0"])) == ("a", "b")
    assert one_hot_columns(["a"], rows(a=["0", "1"])) == ()
    assert one_hot_columns(["a", "b"], rows(a=["0"], b=["0"])) == ()


def test_pairs_of_columns_without_names() -> None:
    texts = ["a dog runs", "two cats sleep"]
    sample = rows(**{"1": ["7", "8"], "2": texts, "3": ["9", "10"], "4": texts})
    assert pair_by_values(["1", "2", "3", "4"], sample) == ("2", "4")
    licenses = ["CC-BY 2.0 by ann and bob", "CC-BY 2.0 by somebody else"]
    assert pair_by_values(["1", "2", "3"], rows(**{"1": texts, "2": texts, "3": licenses})) == ("1", "2")
    assert pair_by_values(["1", "2", "3"], rows(**{"1": texts, "2": texts, "3": texts})) is None


def test_words_in_scripts_without_blanks() -> None:
    assert mean_words(["我今天去学校"]) == 3
    assert mean_words(["two words"]) == 2
    assert mean_words([]) == 0
