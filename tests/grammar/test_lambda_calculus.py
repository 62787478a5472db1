"""Substitution and alpha-equivalence compared with nameless terms."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catena.grammar.lambda_calculus import alpha_equal, fresh, substitute
from catena.grammar.term_notation import parse_term
from catena.grammar.terms import Abstraction, Application, Term, Variable
from tests.grammar.lambda_terms import NAMES, built, nameless, plain, tuples
from tests.oracle import terms as oracle


@given(tuples(), tuples(8), tuples(8))
def test_substitution_captures_nothing(term: oracle.Term, first: oracle.Term, second: oracle.Term) -> None:
    here, values = built(term), {"x": built(first), "y": built(second)}
    result = substitute(here, values)
    wanted = oracle.replaced(oracle.nameless(term), {name: nameless(value) for name, value in values.items()})
    assert nameless(result) == wanted
    entering = frozenset().union(*(values[name].free for name in here.free & values.keys()))
    assert result.free == (here.free - values.keys()) | entering


@given(tuples(), tuples())
def test_alpha_equivalence_is_equality_without_names(one: oracle.Term, two: oracle.Term) -> None:
    assert alpha_equal(built(one), built(two)) == (oracle.nameless(one) == oracle.nameless(two))
    assert alpha_equal(built(one), built(one))


def renamed(term: oracle.Term, names: list[str]) -> oracle.Term:
    """Return the term with bound variables renamed from the list, without capture."""
    if term[0] == "lam":
        body = renamed(term[2], names[1:] or names)
        name = fresh(names[0], built(body).free - {term[1]})
        new = substitute(built(body), {term[1]: Variable(name)})
        return ("lam", name, plain(new))
    if term[0] == "app":
        return ("app", renamed(term[1], names), renamed(term[2], names))
    return term


@given(tuples(), st.lists(st.sampled_from(NAMES), min_size=1, max_size=4))
def test_renaming_bound_variables_keeps_alpha_equivalence(term: oracle.Term, names: list[str]) -> None:
    other = renamed(term, names)
    assert oracle.nameless(other) == oracle.nameless(term)
    assert alpha_equal(built(term), built(other))


@pytest.mark.parametrize(
    ("one", "two", "equal"),
    [
        (r"\x.x", r"\y.y", True),
        (r"\x.y", r"\y.y", False),
        (r"\x y.x", r"\y x.y", True),
        (r"\x y.x", r"\x y.y", False),
        (r"\x.\x.x", r"\y.\x.x", True),
        (r"\x.\x.x", r"\x.\y.x", False),
        ("x", "y", False),
        ("exists x.dog(x)", "exists y.dog(y)", True),
        ("exists x.dog(x)", "all x.dog(x)", False),
        (r"(\x.x)(x)", r"(\y.y)(x)", True),
        (r"(\x.x)(x)", r"(\y.y)(y)", False),
        (r"\x.dog", r"\x.x", False),
        (r"\x.x(x)", r"\x.x", False),
    ],
)
def test_alpha_equivalence_by_hand(one: str, two: str, equal: bool) -> None:
    assert alpha_equal(parse_term(one), parse_term(two)) is equal


def test_bound_variable_makes_way() -> None:
    assert str(substitute(parse_term(r"\y.x(y)"), {"x": parse_term("f(y)")})) == r"\y1.f(y,y1)"
    assert str(substitute(parse_term(r"\x.x"), {"x": parse_term("y")})) == r"\x.x"
    assert str(substitute(parse_term(r"\y y1.x(y,y1)"), {"x": parse_term("y")})) == r"\y1 y2.y(y1,y2)"
    both = substitute(parse_term("f(x,y)"), {"x": parse_term("y"), "y": parse_term("x")})
    assert str(both) == "f(y,x)"


def test_new_name_is_not_one_of_body() -> None:
    x, x1, y = Variable("x"), Variable("x1"), Variable("y")
    body = Application(Application(x1, x), y)
    expected = Abstraction("z", Application(Application(x1, Variable("z")), x))
    assert alpha_equal(substitute(Abstraction("x", body), {"y": x}), expected)


def test_bound_variable_is_not_replaced_with_one_that_is_free() -> None:
    x, y, a, b = (Variable(name) for name in "xyab")
    found = substitute(Abstraction("x", Application(x, y)), {"x": a, "y": b})
    assert found == Abstraction("x", Application(x, b))


def test_fresh_names() -> None:
    assert fresh("x", {"y"}) == "x"
    assert fresh("x", {"x", "x1"}) == "x2"
    assert fresh("x7'", {"x7'", "x1"}) == "x2"


def test_terms_deeper_than_stack() -> None:
    deep: Term = Variable("x")
    other: Term = Variable("x")
    for n in range(3_000):
        deep = Abstraction("y", Application(deep, Variable("y")))
        other = Abstraction(f"z{n % 7}", Application(other, Variable(f"z{n % 7}")))
    assert alpha_equal(deep, other)
    assert deep != other
    assert deep == substitute(deep, {"q": Variable("x")})
    assert substitute(deep, {"x": Variable("y")}).free == {"y"}
    assert len({deep, other}) == 2
