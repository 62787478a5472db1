"""Random terms for the tests of this subpackage, and terms in the form of the oracle."""

from __future__ import annotations

from hypothesis import strategies as st

from catena.grammar.terms import Abstraction, Application, Constant, Term, Variable
from tests.oracle import terms as oracle

NAMES = ("x", "y", "z", "x1", "foo")
CONSTANTS = ("dog", "foo", "x", "&", "exists", "not", "=", "->", "|", "all", "7", 'a "b" \\', "")


def tuples(most: int = 25, constants: tuple[str, ...] = ("dog", "cat")) -> st.SearchStrategy[oracle.Term]:
    """Return terms in the form of the oracle, with few names, so that variable capture is likely."""
    names = st.sampled_from(NAMES)
    leaves = st.tuples(st.just("var"), names) | st.tuples(st.just("const"), st.sampled_from(constants))
    return st.recursive(
        leaves,
        lambda parts: st.tuples(st.just("lam"), names, parts) | st.tuples(st.just("app"), parts, parts),
        max_leaves=most,
    )


def built(term: oracle.Term) -> Term:
    kind, *rest = term
    if kind == "var":
        return Variable(rest[0])
    if kind == "const":
        return Constant(rest[0])
    if kind == "lam":
        return Abstraction(rest[0], built(rest[1]))
    return Application(built(rest[0]), built(rest[1]))


def plain(term: Term) -> oracle.Term:
    if isinstance(term, Variable):
        return ("var", term.name)
    if isinstance(term, Constant):
        return ("const", term.name)
    if isinstance(term, Abstraction):
        return ("lam", term.variable, plain(term.body))
    assert isinstance(term, Application)
    return ("app", plain(term.function), plain(term.argument))


def nameless(term: Term) -> oracle.Term:
    return oracle.nameless(plain(term))
