r"""The lambda calculus: alpha-equivalence and capture-avoiding substitution.

.. math::  (\lambda x.\, t)\; u \;\to_\beta\; t[x := u]

Terms themselves are in :mod:`catena.grammar.terms`, their notation in :mod:`catena.grammar.term_notation`, reduction in
:mod:`catena.grammar.reduce`. Terms may be deeper than Python's stack, so the functions here are not recursive.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count

from catena.grammar.terms import Abstraction, Application, Constant, Term, Variable


def alpha_equal(one: Term, two: Term) -> bool:
    """Return whether the terms differ only in the names of their bound variables. Time O(size)."""
    # For each name, the indices of the enclosing binders that bind it, the innermost last.
    left: dict[str, list[int]] = {}
    right: dict[str, list[int]] = {}
    binders = count()
    waiting: list[tuple[Term, Term] | tuple[str, str]] = [(one, two)]
    while waiting:
        a, b = waiting.pop()
        if isinstance(a, str) and isinstance(b, str):  # the scope of a pair of binders ends
            left[a].pop()
            right[b].pop()
        elif isinstance(a, Variable) and isinstance(b, Variable):
            bound_a, bound_b = left.get(a.name), right.get(b.name)
            if (bound_a[-1] if bound_a else a.name) != (bound_b[-1] if bound_b else b.name):
                return False
        elif isinstance(a, Constant) and isinstance(b, Constant):
            if a.name != b.name:
                return False
        elif isinstance(a, Application) and isinstance(b, Application):
            if a.size != b.size:
                return False
            waiting += [(a.argument, b.argument), (a.function, b.function)]
        elif isinstance(a, Abstraction) and isinstance(b, Abstraction):
            number = next(binders)
            left.setdefault(a.variable, []).append(number)
            right.setdefault(b.variable, []).append(number)
            waiting += [(a.variable, b.variable), (a.body, b.body)]
        else:
            return False
    return True


# --- substitution -------------------------------------------------------------------------------------------


def fresh(name: str, taken: frozenset[str] | set[str]) -> str:
    """Return the name, or the first of name1, name2 … that is not taken."""
    if name not in taken:
        return name
    stem = name.rstrip("'0123456789")
    return next(other for i in count(1) if (other := f"{stem}{i}") not in taken)


def substitute(term: Term, values: Mapping[str, Term]) -> Term:
    """Return the term with free variables replaced by terms simultaneously.

    No free variable of a value is captured: bound variables that would capture it are renamed.
    """
    results: list[Term] = []
    waiting: list[tuple[Term, Mapping[str, Term]] | tuple[str, None] | None] = [(term, values)]
    while waiting:
        item = waiting.pop()
        if item is None:  # both parts of an application are done
            argument = results.pop()
            results.append(Application(results.pop(), argument))
            continue
        here, given = item
        if isinstance(here, str):  # the body of an abstraction is done
            results.append(Abstraction(here, results.pop()))
            continue
        assert given is not None
        if here.free.isdisjoint(given):
            results.append(here)
        elif isinstance(here, Variable):
            results.append(given[here.name])
        elif isinstance(here, Application):
            waiting += [None, (here.argument, given), (here.function, given)]
        elif isinstance(here, Abstraction):
            variable, inner = _under_binder(here, given)
            waiting += [(variable, None), (here.body, inner)]
    return results[0]


def _under_binder(term: Abstraction, given: Mapping[str, Term]) -> tuple[str, Mapping[str, Term]]:
    """Return the name of the bound variable, and the substitution for the body."""
    inner = {name: value for name, value in given.items() if name in term.free}
    entering = frozenset().union(*(value.free for value in inner.values()))
    if term.variable not in entering:
        return term.variable, inner
    variable = fresh(term.variable, entering | term.body.free)
    return variable, {**inner, term.variable: Variable(variable)}
