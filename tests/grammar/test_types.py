"""Simple types of terms."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catena.errors import CatenaError, DataError, FormatError
from catena.grammar.reduce import normal_form
from catena.grammar.term_notation import parse_term
from catena.grammar.types import E, T, Type, function, infer_type, parse_type
from tests.grammar.lambda_terms import built, tuples
from tests.oracle import terms as oracle


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("e", E),
        (" < e , t > ", function(E, T)),
        ("<e,<e,t>>", function(E, E, T)),
        ("<<e,t>,<<e,t>,t>>", function(function(E, T), function(E, T), T)),
    ],
)
def test_types_are_parsed_and_printed(text: str, wanted: Type) -> None:
    assert parse_type(text) == wanted
    assert parse_type(str(wanted)) == wanted


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (r"\x.x", "<a,a>"),
        (r"\x y.x", "<a,<b,a>>"),
        (r"\f g x.f(g(x))", "<<a,b>,<<c,a>,<c,b>>>"),
        (r"\f x.f(f(x))", "<<a,a>,<a,a>>"),
        ("exists x.(dog(x) & -bark(x))", "t"),
        (r"\P Q.all x.(P(x) -> Q(x))", "<<e,t>,<<e,t>,t>>"),
        (r"\x y.x = y", "<a,<a,t>>"),
        ('"&"', "<t,<t,t>>"),
    ],
)
def test_most_general_type(text: str, wanted: str) -> None:
    assert str(infer_type(parse_term(text)).type) == wanted


def test_types_of_names_in_term() -> None:
    found = infer_type(parse_term("exists x.(dog(x) & chase(x,y))"))
    assert {name: str(kind) for name, kind in found.names.items()} == {"chase": "<e,<a,t>>", "dog": "<e,t>", "y": "a"}
    known = {"chase": parse_type("<e,<e,t>>")}
    assert str(infer_type(parse_term(r"\x y.chase(y,x)"), known).type) == "<e,<e,t>>"
    assert str(infer_type(parse_term("chase(x,y)"), known).names["y"]) == "e"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (r"\x.x(x)", "has no simple type: something is applied to itself"),
        (r"(\x.x x)(\x.x x)", "has no simple type"),
        ("dog(dog)", "has no simple type"),
        ("rex(x)", r"in 'rex\(x\)' the function cannot be applied to the argument"),
        ("dog(bark(x))", "the function cannot be applied to the argument"),
        ("dog(x) & rex", "has no simple type"),
    ],
)
def test_terms_without_type(text: str, words: str) -> None:
    known = {"rex": E, "dog": function(E, T), "bark": function(E, T)}
    with pytest.raises(DataError, match=words):
        infer_type(parse_term(text), known)


@given(tuples(15))
def test_reduction_keeps_type(term: oracle.Term) -> None:
    here = built(term)
    try:
        before = infer_type(here)
    except CatenaError:
        return
    after = infer_type(normal_form(here))
    assert instance(after.type, before.type, {})


def instance(general: Type, special: Type, found: dict[str, Type]) -> bool:
    """Return whether the first type becomes the second by filling in its unknown types."""
    if general.argument is None or general.result is None:
        return found.setdefault(general.name, special) == special
    if special.argument is None or special.result is None:
        return False
    return instance(general.argument, special.argument, found) and instance(general.result, special.result, found)


@given(st.text(alphabet="<>et, x", max_size=12))
def test_any_text_raises_only_format_errors(text: str) -> None:
    try:
        found = parse_type(text)
    except FormatError:
        return
    assert parse_type(str(found)) == found


def test_types_nested_too_deeply_raise() -> None:
    with pytest.raises(FormatError, match="is not a type"):
        parse_type("<" * 500 + "e")
    with pytest.raises(DataError, match="nested more than 100 deep"):
        infer_type(parse_term("\\" + " ".join(f"x{n}" for n in range(200)) + ".y"))
