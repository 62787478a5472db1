r"""Terms of the lambda calculus and their printing.

.. math::  t ::= x \mid c \mid \lambda x.\, t \mid t\; t

Logic uses the same terms (Church 1940): a connective is a constant applied to its two sides, a quantifier a constant
applied to an abstraction. ``exists x.(dog(x) & bark(x))`` is the constant ``exists`` applied to ``\x. & (dog x)
(bark x)``. So all functions on terms only handle four kinds.

Terms may be deeper than Python's stack, so the functions here are not recursive.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from catena.errors import DataError

QUANTIFIERS = ("exists", "all")
CONNECTIVES = {"<->": 1, "->": 2, "|": 3, "&": 4}
"""Connectives with their precedence."""
RELATIONS = ("=", "!=")
NOT = "not"
KEYWORDS = frozenset((*QUANTIFIERS, NOT, "some", "forall", "and", "or", "implies", "iff"))

_WORD = re.compile(r"(?!λ)[^\W\d]\w*'*")
_LETTER = re.compile(r"(?!λ)[^\W\d_]\d*'*")


class Term:
    """A variable, a constant, an abstraction or an application. Immutable; equality includes variable names.

    ``free`` is the set of names of free variables, ``size`` the number of nodes. Both are computed once, by the
    constructor.
    """

    __slots__ = ("_hash", "free", "size")

    free: frozenset[str]
    size: int
    _hash: int

    def _fill(self, free: frozenset[str], size: int, key: tuple[object, ...]) -> None:
        object.__setattr__(self, "free", free)
        object.__setattr__(self, "size", size)
        object.__setattr__(self, "_hash", hash(key))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{name!r} of {type(self).__name__} cannot be set. Create a new term.")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{name!r} of {type(self).__name__} cannot be deleted. Create a new term.")

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Term) and _same(self, other)

    def __call__(self, *arguments: Term) -> Term:
        """Return this term applied to the arguments, from left to right."""
        return apply_to(self, arguments)

    def __str__(self) -> str:
        return format_term(self)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"


class Variable(Term):
    """A variable, free or bound by an enclosing abstraction of the same name."""

    __slots__ = ("name",)
    name: str

    def __init__(self, name: str) -> None:
        check_variable(name)
        object.__setattr__(self, "name", name)
        self._fill(frozenset((name,)), 1, (Variable, name))


class Constant(Term):
    """A name with a fixed meaning, such as ``dog``, a number, or a connective."""

    __slots__ = ("name",)
    name: str

    def __init__(self, name: str) -> None:
        if not name:
            raise DataError("A constant has an empty name. Give it a name.")
        object.__setattr__(self, "name", name)
        self._fill(frozenset(), 1, (Constant, name))


class Abstraction(Term):
    """The function from ``variable`` to ``body``."""

    __slots__ = ("body", "variable")
    variable: str
    body: Term

    def __init__(self, variable: str, body: Term) -> None:
        check_variable(variable)
        object.__setattr__(self, "variable", variable)
        object.__setattr__(self, "body", body)
        free = body.free - {variable} if variable in body.free else body.free
        self._fill(free, body.size + 1, (Abstraction, variable, body._hash))


class Application(Term):
    """A function applied to one argument."""

    __slots__ = ("argument", "function")
    function: Term
    argument: Term

    def __init__(self, function: Term, argument: Term) -> None:
        object.__setattr__(self, "function", function)
        object.__setattr__(self, "argument", argument)
        free = function.free | argument.free if argument.free else function.free
        self._fill(free, function.size + argument.size + 1, (Application, function._hash, argument._hash))


def check_variable(name: str) -> None:
    """Raise DataError if a name is not a valid variable name."""
    if not _WORD.fullmatch(name) or name in KEYWORDS:
        raise DataError(f"A variable must be a word with optional primes, got {name!r}. Use a name like x, x1 or x'.")


def apply_to(function: Term, arguments: Iterable[Term]) -> Term:
    """Return the function applied to the arguments, from left to right."""
    for argument in arguments:
        function = Application(function, argument)
    return function


def abstract_over(variables: Iterable[str], body: Term) -> Term:
    r"""Return ``\x y z. body``."""
    for variable in reversed(list(variables)):
        body = Abstraction(variable, body)
    return body


def head_and_arguments(term: Term) -> tuple[Term, list[Term]]:
    """Return the head and the arguments of an application: ``f`` and ``[x, y]`` for ``f x y``."""
    arguments: list[Term] = []
    while isinstance(term, Application):
        arguments.append(term.argument)
        term = term.function
    return term, arguments[::-1]


def _same(one: Term, two: Term) -> bool:
    waiting = [(one, two)]
    while waiting:
        a, b = waiting.pop()
        if a is b:
            continue
        if a._hash != b._hash or a.size != b.size or type(a) is not type(b):
            return False
        if isinstance(a, Application) and isinstance(b, Application):
            waiting += [(a.argument, b.argument), (a.function, b.function)]
        elif isinstance(a, Abstraction) and isinstance(b, Abstraction):
            if a.variable != b.variable:
                return False
            waiting.append((a.body, b.body))
        elif isinstance(a, (Variable, Constant)) and isinstance(b, (Variable, Constant)) and a.name != b.name:
            return False
    return True


# --- printing -----------------------------------------------------------------------------------------------

_BINDERS = {
    "nltk": {"lambda": "\\", "exists": "exists ", "all": "all "},
    "math": {"lambda": "λ", "exists": "∃", "all": "∀"},
}
_SIGNS = {
    "nltk": {sign: sign for sign in (*CONNECTIVES, *RELATIONS)} | {NOT: "-"},
    "math": {"<->": "↔", "->": "→", "|": "∨", "&": "∧", "=": "=", "!=": "≠", NOT: "¬"},
}
_NOT, _RELATION, _APPLY, _ATOM = 5, 6, 7, 8
_Item = str | tuple[Term, int, bool] | tuple[int, str]
"""A piece of text; or a term with the precedence of its context, and whether nothing follows before the next closing
bracket; or +1 and -1 with a variable, at the start and end of its scope.
"""


def looks_like_variable(name: str) -> bool:
    """Return whether an unbound name is a variable: one letter, optionally followed by digits and primes."""
    return bool(_LETTER.fullmatch(name))


def looks_like_constant(name: str) -> bool:
    """Return whether an unbound name is a constant without quotes."""
    return name.isdecimal() or (bool(_WORD.fullmatch(name)) and name not in KEYWORDS and not looks_like_variable(name))


def format_term(term: Term, style: str = "nltk") -> str:
    r"""Return the term as text: ``\x.chase(x,y)``, or ``λx. chase x y`` in mathematical style.

    Parsing it gives an equal term.
    """
    printer = _Printer(style)
    parts: list[str] = []
    waiting: list[_Item] = [(term, 0, True)]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            parts.append(item)
        elif isinstance(item[0], int):
            printer.bound[str(item[1])] += item[0]
        else:
            waiting.extend(reversed(printer.pieces(*item)))
    return "".join(parts)


class _Printer:
    def __init__(self, style: str) -> None:
        if style not in _SIGNS:
            raise DataError(f"style must be 'nltk' or 'math', got {style!r}. Use one of the two.")
        self.math, self.binders, self.signs = style == "math", _BINDERS[style], _SIGNS[style]
        self.bound: Counter[str] = Counter()

    def pieces(self, term: Term, level: int, last: bool) -> list[_Item]:
        """Return the pieces of a term, in brackets if its context binds more tightly."""
        if isinstance(term, (Variable, Constant)):
            return [self._name(term)]
        own, parts = self._binder(term, last) or self._logic(term, last) or self._application(term, last)
        if own >= level and (own > 0 or last):
            return parts
        _, parts = self._binder(term, True) or self._logic(term, True) or self._application(term, True)
        return ["(", *parts, ")"]

    def _name(self, term: Variable | Constant) -> str:
        if isinstance(term, Variable):
            return term.name if self.bound[term.name] or looks_like_variable(term.name) else f"?{term.name}"
        if looks_like_constant(term.name) and not self.bound[term.name]:
            return term.name
        escaped = term.name.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'

    def _binder(self, term: Term, last: bool) -> tuple[int, list[_Item]] | None:
        sign, function = "lambda", term
        if isinstance(term, Application) and isinstance(term.function, Constant) and term.function.name in QUANTIFIERS:
            sign, function = term.function.name, term.argument
        if not isinstance(function, Abstraction):
            return None
        variables, body = [function.variable], function.body
        while sign == "lambda" and isinstance(body, Abstraction) and body.variable not in variables:
            variables.append(body.variable)
            body = body.body
        opened: list[_Item] = [(1, variable) for variable in variables]
        closed: list[_Item] = [(-1, variable) for variable in variables]
        level = 0 if _is_binder(body) else _NOT if _is_negation(body) else _APPLY
        dot = ". " if self.math else "."
        return 0, [self.binders[sign], " ".join(variables), dot, *opened, (body, level, last), *closed]

    def _logic(self, term: Term, last: bool) -> tuple[int, list[_Item]] | None:
        head, arguments = _spine(term, 2)
        if not isinstance(head, Constant):
            return None
        if head.name == NOT and len(arguments) == 1:
            level = _NOT if _is_negation(arguments[0]) else _APPLY
            return _NOT, [self.signs[NOT], (arguments[0], level, last)]
        if len(arguments) != 2 or head.name not in self.signs or head.name == NOT:
            return None
        own = CONNECTIVES.get(head.name, _RELATION)
        # A connective needs no brackets next to itself if it associates; next to others it gets them.
        left = own if head.name in ("&", "|") and _is_connective(arguments[0], head.name) else _NOT
        right = own if head.name == "->" and _is_connective(arguments[1], "->") else _NOT
        if own == _RELATION:
            left = right = _APPLY
        elif _is_binder(arguments[1]):
            right = 0
        return own, [(arguments[0], left, False), f" {self.signs[head.name]} ", (arguments[1], right, last)]

    def _application(self, term: Term, last: bool) -> tuple[int, list[_Item]]:
        assert isinstance(term, Application)
        if self.math:
            return _APPLY, [(term.function, _APPLY, False), " ", (term.argument, _ATOM, last)]
        function, arguments = self._predicate(term)
        inside: list[_Item] = [piece for argument in arguments for piece in (",", (argument, 0, True))]
        return _APPLY, [(function, _APPLY, False), "(", *inside[1:], ")"]

    def _predicate(self, term: Term) -> tuple[Term, list[Term]]:
        """Return head and arguments of an application whose head is not itself printed as logic."""
        arguments: list[Term] = []
        while isinstance(term, Application) and not (arguments and (_is_binder(term) or _is_logic(term))):
            arguments.append(term.argument)
            term = term.function
        return term, arguments[::-1]


def _spine(term: Term, most: int) -> tuple[Term, list[Term]]:
    """Return the head and its arguments, at most ``most`` of them."""
    arguments: list[Term] = []
    while isinstance(term, Application) and len(arguments) <= most:
        arguments.append(term.argument)
        term = term.function
    return term, arguments[::-1]


def _is_connective(term: Term, name: str) -> bool:
    head, arguments = _spine(term, 2)
    return isinstance(head, Constant) and head.name == name and len(arguments) == 2


def _is_logic(term: Term) -> bool:
    return _is_negation(term) or any(_is_connective(term, sign) for sign in (*CONNECTIVES, *RELATIONS))


def _is_negation(term: Term) -> bool:
    return isinstance(term, Application) and isinstance(term.function, Constant) and term.function.name == NOT


def _is_binder(term: Term) -> bool:
    if isinstance(term, Abstraction):
        return True
    if not (isinstance(term, Application) and isinstance(term.argument, Abstraction)):
        return False
    return isinstance(term.function, Constant) and term.function.name in QUANTIFIERS
