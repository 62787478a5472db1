"""Terms as text: parsing, printing and round trips in both notations, and arbitrary text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catena.errors import CatenaError, DataError, FormatError
from catena.grammar.term_notation import parse_term
from catena.grammar.terms import (
    Abstraction,
    Application,
    Constant,
    Term,
    Variable,
    abstract_over,
    apply_to,
    format_term,
    head_and_arguments,
)
from tests.grammar.lambda_terms import CONSTANTS, built, tuples
from tests.oracle import terms as oracle

X, Y, P = Variable("x"), Variable("y"), Variable("P")
DOG = Constant("dog")


@pytest.mark.parametrize(
    ("text", "term"),
    [
        ("x", X),
        ("dog", DOG),
        ("42", Constant("42")),
        ("P(x)", Application(P, X)),
        ("P x", Application(P, X)),
        ("P(x,y)", apply_to(P, (X, Y))),
        ("P(x)(y)", apply_to(P, (X, Y))),
        ("P x y", apply_to(P, (X, Y))),
        ("P (x y)", Application(P, Application(X, Y))),
        ("P x(y)", apply_to(P, (X, Y))),
        (r"\x.P(x)", Abstraction("x", Application(P, X))),
        ("λx y. P y x", abstract_over("xy", apply_to(P, (Y, X)))),
        (r"\x.\y.x y", abstract_over("xy", Application(X, Y))),
        (r"\dog.dog", Abstraction("dog", Variable("dog"))),
        (r"(\dog.x)(dog)", Application(Abstraction("dog", X), DOG)),
        (r'\dog."dog"', Abstraction("dog", DOG)),
        ("?dog", Variable("dog")),
        ('"x"', Constant("x")),
        (r'"a \"b\" \\"', Constant('a "b" \\')),
        ("exists x.dog(x)", Application(Constant("exists"), Abstraction("x", Application(DOG, X)))),
        ("x & y", apply_to(Constant("&"), (X, Y))),
        ("-x", Application(Constant("not"), X)),
        ("x = y", apply_to(Constant("="), (X, Y))),
    ],
)
def test_parse_term_examples(text: str, term: Term) -> None:
    assert parse_term(text) == term


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("exists x y.chase(x,y)", "exists x.exists y.chase(x,y)"),
        ("∃x. dog(x) ∧ ¬bark(x)", "exists x.(dog(x) & -bark(x))"),
        ("∀x. dog x → bark x", "all x.(dog(x) -> bark(x))"),
        ("some x.dog(x) and not bark(x)", "exists x.(dog(x) & -bark(x))"),
        ("forall x.dog(x) implies bark(x)", "all x.(dog(x) -> bark(x))"),
        ("a or b and c", "a | (b & c)"),
        ("a -> b -> c", "a -> (b -> c)"),
        ("a & b & c", "(a & b) & c"),
        ("a | b -> c <-> d", "((a | b) -> c) <-> d"),
        ("a <=> b ↔ c iff d", "((a <-> b) <-> c) <-> d"),
        ("-a & b", "(-a) & b"),
        ("- - a", "-(-a)"),
        ("not x = y", "-(x = y)"),
        ("~x != y", "!(x ≠ y)"),
        ("f x = g y & h(z)", "(f(x) = g(y)) & h(z)"),
        (r"f \x.x y", r"f(\x.(x(y)))"),
        (r"a & \x.b & c", r"a & (\x.(b & c))"),
        ("exists x.a & b", "exists x.(a & b)"),
        ("a => b", "a → b"),
    ],
)
def test_equivalent_notations_give_equal_terms(one: str, two: str) -> None:
    assert parse_term(one) == parse_term(two)


@pytest.mark.parametrize(
    ("text", "nltk", "math"),
    [
        ("λx y. f y x", r"\x y.f(y,x)", "λx y. f y x"),
        ("exists x.(dog(x) & bark(x))", "exists x.(dog(x) & bark(x))", "∃x. (dog x ∧ bark x)"),
        (
            "all x.(dog(x) -> exists y.(cat(y) & chase(x,y)))",
            "all x.(dog(x) -> exists y.(cat(y) & chase(x,y)))",
            "∀x. (dog x → ∃y. (cat y ∧ chase x y))",
        ),
        (r"(\x.x)(y)", r"(\x.x)(y)", "(λx. x) y"),
        ("f (g x) y", "f(g(x),y)", "f (g x) y"),
        ("(exists x.a) & b", "(exists x.a) & b", "(∃x. a) ∧ b"),
        ("(a & exists x.b) & c", "a & (exists x.b) & c", "a ∧ (∃x. b) ∧ c"),
        ("a & (b & c)", "a & (b & c)", "a ∧ (b ∧ c)"),
        ("(a -> b) -> c", "(a -> b) -> c", "(a → b) → c"),
        ("a & b | c", "(a & b) | c", "(a ∧ b) ∨ c"),
        ("-(a = b)", "-(a = b)", "¬(a = b)"),
        ("--a", "--a", "¬¬a"),
        ("-(exists x.a)", "-(exists x.a)", "¬(∃x. a)"),
        ('"&"(a)', '"&"(a)', '"&" a'),
        ("(a & b)(c)", "(a & b)(c)", "(a ∧ b) c"),
        (r"\x.\x.x", r"\x.\x.x", "λx. λx. x"),
        ("exists x.exists y.f(x,y)", "exists x.exists y.f(x,y)", "∃x. ∃y. f x y"),
        (r"f(\x.x,\y.y)", r"f(\x.x,\y.y)", "f (λx. x) (λy. y)"),
    ],
)
def test_format_term_examples(text: str, nltk: str, math: str) -> None:
    term = parse_term(text)
    assert str(term) == format_term(term, "nltk") == nltk
    assert format_term(term, "math") == math
    assert parse_term(nltk) == parse_term(math) == term


@given(tuples(constants=tuple(c for c in CONSTANTS if c)), st.sampled_from(["nltk", "math"]))
def test_printed_terms_parse_back(term: oracle.Term, style: str) -> None:
    here = built(term)
    assert parse_term(format_term(here, style)) == here


def logic(names: tuple[str, ...]) -> st.SearchStrategy[str]:
    """Return formulas as text, with all brackets."""
    atoms = st.sampled_from(names)
    return st.recursive(
        atoms,
        lambda f: (
            st.tuples(f, st.sampled_from(["&", "|", "->", "<->", "=", "!="]), f).map("({0[0]} {0[1]} {0[2]})".format)
            | f.map("-({})".format)
            | st.tuples(st.sampled_from(["exists", "all", "\\"]), atoms, f).map("({0[0]} {0[1]}.({0[2]}))".format)
            | st.tuples(f, f).map("({0[0]})({0[1]})".format)
        ),
        max_leaves=12,
    )


@given(logic(("x", "y", "dog")), st.sampled_from(["nltk", "math"]))
def test_formulas_keep_necessary_brackets(text: str, style: str) -> None:
    term = parse_term(text)
    assert parse_term(format_term(term, style)) == term


def test_terms_are_values() -> None:
    term = parse_term(r"\x.dog(x)")
    assert term == parse_term(r"\x.dog(x)")
    assert hash(term) == hash(parse_term(r"\x.dog(x)"))
    assert term != parse_term(r"\y.dog(y)")
    assert repr(term) == r"Abstraction('\\x.dog(x)')"
    assert (term.free, term.size) == (frozenset(), 4)
    assert parse_term(r"f(\x.x(y))").free == {"f", "y"}
    assert head_and_arguments(parse_term("f(x,y)")) == (Variable("f"), [X, Y])
    with pytest.raises(AttributeError, match="'body' of Abstraction cannot be set"):
        term.body = X  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match="cannot be deleted"):
        del term.free
    with pytest.raises(DataError, match=r"A variable must be a word.*got '2x'"):
        Variable("2x")
    with pytest.raises(DataError, match="got 'exists'"):
        Abstraction("exists", X)
    with pytest.raises(DataError, match="A constant has an empty name"):
        Constant("")
    with pytest.raises(DataError, match="style must be 'nltk' or 'math', got 'latex'"):
        format_term(X, "latex")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "The term '' is empty, at character 1. Write a term as"),
        ("  ", "is empty"),
        ("dog(", r"The term 'dog\(' ends before a term, at character 5"),
        ("dog(x", "has a bracket that is not closed"),
        ("dog x)", "closes a bracket that is not open, at character 6"),
        ("dog()", r"has '\)' instead of a term, at character 5"),
        ("(x, y)", "has a comma that is not between arguments, at character 3"),
        ("x, y", "has a comma that is not between arguments"),
        (r"\x", "ends before the dot of a binder"),
        (r"\.x", r"has '.' instead of a variable or the dot of a binder, at character 2"),
        (r"\3.x", "has '3' instead of a variable"),
        (r"\exists.x", "has 'exists' instead of a variable"),
        ("x & & y", "has '&' instead of a term, at character 5"),
        ("and x", "has 'and' instead of a term, at character 1"),
        ("x . y", "has '.' out of place, at character 3"),
        ("x -y", "has '-' out of place"),
        ("x $", r"has '\$' instead of a term or an operator, at character 3"),
        ('"dog', "has a quote that is not closed instead of a term or an operator"),
        ("?not", r"has '\?not', which is not a valid variable name"),
        ("NP.sem", "has '.' out of place"),
    ],
)
def test_errors_name_position(text: str, words: str) -> None:
    with pytest.raises(FormatError, match=words):
        parse_term(text)


PIECES = [
    *"xyP().,\\λ&|=-~!¬∧∨→↔≠∃∀<>\"'? ",
    "->",
    "<->",
    "exists ",
    "all ",
    "not ",
    "and ",
    "dog",
    "7",
    "x.",
    "\\x.",
    "exists y.",
]


@given(st.lists(st.sampled_from(PIECES), max_size=15).map("".join) | st.text(max_size=8))
def test_any_text_raises_only_format_errors(text: str) -> None:
    try:
        term = parse_term(text)
    except CatenaError:
        return
    assert parse_term(str(term)) == term


def test_deep_brackets_do_not_recurse() -> None:
    deep = parse_term("(" * 3_000 + "x" + ")" * 3_000)
    assert deep == X
    nested = parse_term("f(" * 3_000 + "x" + ")" * 3_000)
    assert parse_term(str(nested)) == nested
    binders = parse_term("exists x." * 2_000 + "x")
    assert parse_term(format_term(binders, "math")) == binders
    negations = parse_term("-" * 3_000 + "x")
    assert str(negations) == "-" * 3_000 + "x"
    with pytest.raises(FormatError, match="a bracket that is not closed"):
        parse_term("(" * 3_000 + "x")
