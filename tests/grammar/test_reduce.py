"""Reduction compared with nameless terms, Church numerals, and terms without a normal form."""

from __future__ import annotations

import pytest
from hypothesis import given

from catena.errors import LimitError
from catena.grammar.lambda_calculus import alpha_equal
from catena.grammar.reduce import eta_reduce, normal_form, reductions
from catena.grammar.term_notation import parse_term
from catena.grammar.terms import Application, Term, apply_to
from tests.grammar.lambda_terms import built, nameless, tuples
from tests.oracle import terms as oracle

PLUS = parse_term(r"\m n f x.m f (n f x)")
TIMES = parse_term(r"\m n f.m (n f)")
POWER = parse_term(r"\m n.n m")
PREDECESSOR = parse_term(r"\n f x.n (\g h.h (g f)) (\u.x) (\u.u)")
IS_ZERO = parse_term(r"\n.n (\x.\t f.f) (\t f.t)")
Y = parse_term(r"\f.(\x.f (x x)) (\x.f (x x))")
OMEGA = parse_term(r"(\x.x x) (\x.x x)")


def church(n: int) -> Term:
    return parse_term(r"\f x." + "f (" * n + "x" + ")" * n)


def number(term: Term) -> int:
    """Return the integer that a Church numeral in normal form encodes."""
    return next(n for n in range(200) if alpha_equal(term, church(n)) or (n == 1 and str(term) in (r"\f.f", r"\x.x")))


@given(tuples(12))
def test_every_step_equals_oracle(term: oracle.Term) -> None:
    wanted = oracle.steps(oracle.nameless(term), most=30)
    found: list[Term] = []
    try:
        for after in reductions(built(term), steps=30, size=2000):
            found.append(after)
        ended = True
    except LimitError:
        ended = False
    assert [nameless(after) for after in found] == wanted[: len(found)]
    if ended:
        assert len(found) == len(wanted)
        assert oracle.step(wanted[-1]) is None
        assert nameless(normal_form(built(term), steps=30)) == wanted[-1]
    else:
        assert len(wanted) >= len(found)
        assert oracle.step(wanted[len(found) - 1]) is not None


@given(tuples(10), tuples(6))
def test_reduction_respects_alpha_equivalence(term: oracle.Term, argument: oracle.Term) -> None:
    one = Application(built(("lam", "x", term)), built(argument))
    renamed = built(("lam", "q", oracle_renamed(term)))
    two = Application(renamed, built(argument))
    assert alpha_equal(one, two)
    try:
        normal = normal_form(one, steps=50, size=5000)
    except LimitError:
        with pytest.raises(LimitError):
            normal_form(two, steps=50, size=5000)
    else:
        assert alpha_equal(normal, normal_form(two, steps=50, size=5000))


def oracle_renamed(term: oracle.Term) -> oracle.Term:
    """Return the term with the free variable x renamed to q."""
    if term[0] == "var":
        return ("var", "q") if term[1] == "x" else term
    if term[0] == "lam":
        return term if term[1] == "x" else ("lam", term[1], oracle_renamed(term[2]))
    return ("app", oracle_renamed(term[1]), oracle_renamed(term[2])) if term[0] == "app" else term


def test_arithmetic_of_numerals() -> None:
    for m, n in [(0, 0), (0, 3), (2, 3), (5, 4), (1, 1)]:
        assert number(normal_form(PLUS(church(m), church(n)))) == m + n
        assert number(normal_form(TIMES(church(m), church(n)))) == m * n
    assert number(normal_form(POWER(church(3), church(4)))) == 81
    assert number(normal_form(POWER(church(2), church(5)))) == 32
    assert [number(normal_form(PREDECESSOR(church(n)))) for n in range(5)] == [0, 0, 1, 2, 3]
    assert str(normal_form(IS_ZERO(church(0)))) == r"\t f.t"
    assert str(normal_form(IS_ZERO(church(3)))) == r"\t f.f"


def test_recursion_by_fixed_point() -> None:
    names = r"\zero times pred."
    step = apply_to(parse_term(names + r"\r n.zero n (\f x.f x) (times n (r (pred n)))"), (IS_ZERO, TIMES, PREDECESSOR))
    assert number(normal_form(Application(Y, step)(church(3)))) == 6


def test_numerals_deeper_than_stack() -> None:
    big = normal_form(TIMES(church(60), church(60)), steps=20_000)
    assert big.size == 2 * 3600 + 3
    assert len(str(big)) > 7200


def test_normal_order_skips_diverging_argument() -> None:
    assert str(normal_form(parse_term(r"\x y.x")(parse_term("a"), OMEGA))) == "a"


def test_terms_without_normal_form_raise() -> None:
    with pytest.raises(LimitError, match=r"has no normal form: in step 1 .* reduces to itself"):
        normal_form(OMEGA)
    with pytest.raises(LimitError, match=r"has no normal form within 100 steps. It may have none, like"):
        normal_form(parse_term(r"(\x.x x x) (\x.x x x)"), steps=100)
    with pytest.raises(LimitError, match=r"grew to more than 1,000 nodes in \d+ steps"):
        normal_form(parse_term(r"(\x.x x x) (\x.x x x)"), size=1000)
    with pytest.raises(LimitError, match="in step 3"):
        normal_form(parse_term(r"(\y.y) (\z.f z) ((\x.x x) (\x.x x))"))
    # A redex that produces an equal term elsewhere does not loop.
    assert str(normal_form(parse_term(r"(\x.x) ((\x.x) a)"))) == "a"


def test_limit_that_is_just_enough() -> None:
    term = PLUS(church(1), church(1))
    used = len(list(reductions(term))) - 1
    assert normal_form(term, steps=used) == normal_form(term)
    with pytest.raises(LimitError):
        normal_form(term, steps=used - 1)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (r"\x.f(x)", "f"),
        (r"\x y.f(x,y)", "f"),
        (r"\x.x(x)", r"\x.x(x)"),
        (r"\x.f(x,x)", r"\x.f(x,x)"),
        (r"\x.g(\y.f(x,y))", r"\x.g(f(x))"),
        (r"\x.dog(y)", r"\x.dog(y)"),
        (r"exists x.dog(x)", '"exists"(dog)'),
    ],
)
def test_eta(text: str, wanted: str) -> None:
    assert str(eta_reduce(parse_term(text))) == wanted


def test_eta_after_beta() -> None:
    assert str(normal_form(parse_term(r"\x.(\y.y)(f)(x)"), eta=True)) == "f"
    assert str(normal_form(parse_term(r"\x.(\y.y)(f)(x)"))) == r"\x.f(x)"
