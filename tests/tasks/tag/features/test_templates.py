"""Parsing of templates, and features of words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catena.errors import ConfigError, DataError
from catena.tasks.tag.features.templates import (
    atom_value,
    collapsed_word_shape,
    parse_template,
    parse_templates,
    shape,
    template_columns,
)
from catena.tasks.word_inputs.sentences import Sentence


def names(*texts: str) -> list[str]:
    return [str(template) for template in parse_templates(texts)]


def test_templates_print_as_they_are_parsed() -> None:
    texts = ["w[0]", "w[-1]|w[0]", "suffix3[0]", "column1[-1]|column1[0]", "bias", "upos[1]", "tag[-1]|w[0]"]
    assert names(*texts) == texts


def test_range_of_positions_gives_several_templates() -> None:
    assert names("w[-1..1]") == ["w[-1]", "w[0]", "w[1]"]
    assert names("shape[0]|w[1..2]") == ["shape[0]|w[1]", "shape[0]|w[2]"]


def test_parse_templates_removes_duplicates() -> None:
    assert names("w[0]", "word[0]", "column0[0]", "w[+0]", "U00:%x[0,0]") == ["w[0]"]


def test_crf_plus_plus_templates_are_parsed() -> None:
    assert names("U05:%x[-1,0]/%x[0,0]", "U10:%x[-2,1]", "U") == ["w[-1]|w[0]", "column1[-2]", "bias"]
    assert [t.pairs for t in parse_templates(["B", "B01:%x[0,0]"])] == [True, True]
    assert names("B01:%x[0,0]") == ["tag[-1]|w[0]"]


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("prefix2[0]", ["Aß", None]),
        ("suffix2[0]", ["ßC", None]),
        ("lower_prefix2[0]", ["aß", None]),
        ("lower_suffix2[0]", ["ßc", None]),
        ("lower_suffix1[-1]", ["<-1>", "c"]),
    ],
)
def test_affixes(text: str, values: list[str | None]) -> None:
    atom, sentence = parse_template(text)[0].atoms[0], Sentence(("AßC", "D"))
    assert [atom_value(atom, sentence, i, ()) for i in range(2)] == values


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("w", "must be a name with a position"),
        ("w[0]|", "must be a name with a position"),
        ("sufix3[0]", "did you mean 'suffix3'"),
        ("suffix[0]", r"needs a number\. Write it like suffix3\[0\]"),
        ("tag[0]", "got another position"),
        ("tag[-1]|tag[-1]|w[0]", "more than once"),
        ("w[2..1]", "ends before it begins"),
        ("w[0..1]|w[1..2]", "more than one range"),
        ("U05:%x[-1,0]+%x[0,0]", "more than cells"),
        ("X05:%x[-1,0]", "is not a template of CRF"),
    ],
)
def test_invalid_templates_are_rejected(text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        parse_template(text)


@pytest.mark.parametrize(
    ("word", "whole", "short"),
    [
        ("IBM", "XXX", "X"),
        ("McDonald's-1997", "XxXxxxx'x-dddd", "XxXx'x-d"),
        ("1,234,567.89", "d,ddd,ddd.dd", "d,d,d.d"),
        ("aaaaaaa", "xxxx", "x"),
        ("分词", "xx", "x"),
        ("", "", ""),
    ],
)
def test_shapes(word: str, whole: str, short: str) -> None:
    assert (shape(word), collapsed_word_shape(word)) == (whole, short)


@given(st.text(max_size=12))
def test_shape_has_no_run_longer_than_four(word: str) -> None:
    assert not any(len(set(shape(word)[i : i + 5])) == 1 for i in range(len(shape(word)) - 4))
    assert all(a != b for a, b in zip(collapsed_word_shape(word), collapsed_word_shape(word)[1:], strict=False))


def test_positions_outside_a_sentence_have_special_values() -> None:
    sentence = Sentence(("a", "b"))
    (far, *_, end) = parse_templates(["w[-2..3]"])
    assert atom_value(far.atoms[0], sentence, 0, ()) == "<-2>"
    assert atom_value(far.atoms[0], sentence, 1, ()) == "<-1>"
    assert atom_value(end.atoms[0], sentence, 0, ()) == "<+2>"
    assert far.filled(sentence, 0, ()) == "w[-2]=<-2>"


def test_template_columns() -> None:
    templates = parse_templates(["w[0]", "column2[0]|column1[1]", "upos[0]", "column2[1]"])
    assert template_columns(templates) == ("2", "1", "upos")
    filled = templates[1].filled(
        Sentence(("a", "b"), (("x", "y"), ("p", "q"), ("N", "V"))), 0, template_columns(templates)
    )
    assert filled == "column2[0]|column1[1]=x|q"


def test_sentence_without_columns_is_rejected() -> None:
    (template,) = parse_template("column1[0]")
    with pytest.raises(DataError, match="the sentence 'a b' has no column '1', which the model's templates read"):
        template.filled(Sentence(("a", "b")), 0, ("1",))
