"""The lambda calculus without names of bound variables (de Bruijn 1972). Imports nothing of catena.

A named term is ``("var", name)``, ``("const", name)``, ``("lam", name, body)`` or ``("app", function, argument)``.
Without names, a bound variable is ``("bound", n)``, where n counts the abstractions between it and its own; a free
one stays ``("var", name)``. Two terms are alpha-equivalent if and only if they are equal here.
"""

from __future__ import annotations

Term = tuple


def nameless(term: Term, scope: tuple[str, ...] = ()) -> Term:
    """The term without names of bound variables."""
    kind = term[0]
    if kind == "var":
        return ("bound", scope.index(term[1])) if term[1] in scope else term
    if kind == "lam":
        return ("lam", nameless(term[2], (term[1], *scope)))
    if kind == "app":
        return ("app", nameless(term[1], scope), nameless(term[2], scope))
    return term


def shifted(term: Term, by: int, above: int = 0) -> Term:
    """With the numbers of variables bound outside of the term raised."""
    kind = term[0]
    if kind == "bound":
        return ("bound", term[1] + by) if term[1] >= above else term
    if kind == "lam":
        return ("lam", shifted(term[1], by, above + 1))
    if kind == "app":
        return ("app", shifted(term[1], by, above), shifted(term[2], by, above))
    return term


def put(term: Term, value: Term, level: int = 0) -> Term:
    """The body of an abstraction with its variable replaced, and the abstraction gone."""
    kind = term[0]
    if kind == "bound":
        if term[1] == level:
            return shifted(value, level)
        return ("bound", term[1] - 1) if term[1] > level else term
    if kind == "lam":
        return ("lam", put(term[1], value, level + 1))
    if kind == "app":
        return ("app", put(term[1], value, level), put(term[2], value, level))
    return term


def replaced(term: Term, values: dict[str, Term], level: int = 0) -> Term:
    """The term with free variables replaced simultaneously by terms."""
    kind = term[0]
    if kind == "var" and term[1] in values:
        return shifted(values[term[1]], level)
    if kind == "lam":
        return ("lam", replaced(term[1], values, level + 1))
    if kind == "app":
        return ("app", replaced(term[1], values, level), replaced(term[2], values, level))
    return term


def step(term: Term) -> Term | None:
    """The leftmost outermost redex contracted; None in normal form."""
    if term[0] == "lam":
        body = step(term[1])
        return None if body is None else ("lam", body)
    if term[0] == "app":
        function, argument = term[1:]
        if function[0] == "lam":
            return put(function[1], argument)
        for at in (1, 2):
            part = step(term[at])
            if part is not None:
                return (*term[:at], part, *term[at + 1 :])
    return None


def steps(term: Term, most: int) -> list[Term]:
    """The term and its reductions, at most n steps."""
    found = [term]
    while len(found) <= most and (after := step(found[-1])) is not None:
        found.append(after)
    return found
