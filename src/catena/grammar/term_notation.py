r"""Parser of lambda terms in programmers' and mathematical notation, which may be mixed.

===================  ==========================================================================================
abstraction          ``\x.t``, ``λx. t``, ``\x y.t`` for several variables
application          ``f(x, y)`` or ``f x y``, both the same
quantifiers          ``exists x.t``, ``some``, ``∃``; ``all x.t``, ``forall``, ``∀``
and, or              ``&`` ``and`` ``∧``; ``|`` ``or`` ``∨``
implication          ``->`` ``=>`` ``implies`` ``→``; ``<->`` ``<=>`` ``iff`` ``↔``
negation             ``-`` ``~`` ``!`` ``not`` ``¬``
equality             ``=``; ``!=`` ``≠``
===================  ==========================================================================================

A binder extends as far to the right as possible. ``&`` binds more tightly than ``|``, then ``->`` (which associates to
the right), then ``<->``. A name bound by an enclosing binder is a variable. Otherwise, one letter followed by digits or
primes (``x``, ``P1``, ``y'``) is a free variable, and a longer name or a number is a constant. ``"any text"`` is
always a constant, ``?name`` always a variable.

The parser uses its own stacks, so brackets may be nested to any depth.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple, NoReturn

from catena.data.files import shorten
from catena.errors import FormatError
from catena.grammar.terms import (
    CONNECTIVES,
    KEYWORDS,
    NOT,
    Application,
    Constant,
    Term,
    Variable,
    abstract_over,
    apply_to,
    looks_like_variable,
)

_Part = Callable[[str, int | None], Term]
"""Returns the term for ``NP.sem`` or ``NP[2].sem``, given the name and the index."""

_BINDERS = {"\\": "lambda", "λ": "lambda"}
_BINDERS |= {"exists": "exists", "some": "exists", "∃": "exists", "all": "all", "forall": "all", "∀": "all"}
_NEGATIONS = {"-", "~", "!", "¬", NOT}
_INFIX = {"<->": "<->", "<=>": "<->", "↔": "<->", "iff": "<->", "->": "->", "=>": "->", "→": "->", "implies": "->"}
_INFIX |= {"|": "|", "∨": "|", "or": "|", "&": "&", "∧": "&", "and": "&", "=": "=", "!=": "!=", "≠": "!="}

_NAME = r"(?!λ)[^\W\d]\w*'*"
_TOKEN = re.compile(
    rf"""(?P<sign><->|<=>|->|=>|!=|[&|=~!¬∧∨→↔≠∃∀λ\\.,()-])
    |(?P<name>{_NAME})
    |(?P<number>\d+)
    |(?P<free>\?{_NAME})
    |(?P<quoted>"(?:\\.|[^"\\])+")""",
    re.VERBOSE | re.DOTALL,
)
_PART = re.compile(rf"(?:<(?P<any>(?:\\.|[^>\\])+)>|(?P<name>{_NAME}))(?:\[(?P<number>\d+)\])?\.sem\b")
_BLANKS = re.compile(r"\s*")

_NOT_LEVEL, _RELATION_LEVEL, _APPLY_LEVEL = 5, 6, 7


class _Operator(NamedTuple):
    """An operator that waits for operands; ``level`` is its precedence, -1 for an open bracket."""

    kind: str
    level: int
    sign: str = ""
    variables: tuple[str, ...] = ()


def parse_term(text: str, *, part: _Part | None = None) -> Term:
    r"""Return the term of a text such as ``\x.chase(x,y)`` or ``λx. chase x y``.

    Args:
        text: the term.
        part: if given, ``NP.sem`` and ``NP[2].sem`` are parsed as the result of this function of name and index.
    """
    return _Reader(text, part).read()


class _Reader:
    def __init__(self, text: str, part: _Part | None) -> None:
        self.text, self.part, self.at = text, part, 0
        self.operands: list[Term] = []
        self.operators: list[_Operator] = []
        self.bound: Counter[str] = Counter()
        self.wants_operand = True

    def read(self) -> Term:
        while self._skip_blanks():
            if self.wants_operand:
                self._operand()
            else:
                self._operator()
        if self.wants_operand:
            self._fail("ends before a term" if self.text.strip() else "is empty")
        self._reduce(0)
        if self.operators:
            self._fail("has a bracket that is not closed")
        return self.operands[0]

    # --- a term is expected ---------------------------------------------------------------------------------

    def _operand(self) -> None:
        if self.part is not None and (found := _PART.match(self.text, self.at)):
            self.at = found.end()
            self._push(self.part(found["name"] or found["any"], int(found["number"]) if found["number"] else None))
            return
        kind, token = self._next()
        if token in _BINDERS:
            self._binder(_BINDERS[token])
        elif token in _NEGATIONS:
            self.operators.append(_Operator("not", _NOT_LEVEL))
        elif token == "(":
            self.operators.append(_Operator("group", -1))
        elif kind == "sign" or token in KEYWORDS:
            self._fail(f"has {token!r} instead of a term", len(token))
        else:
            self._push(self._atom(kind, token))

    def _push(self, term: Term) -> None:
        self.operands.append(term)
        self.wants_operand = False

    def _atom(self, kind: str, token: str) -> Term:
        if kind == "quoted":
            return Constant(re.sub(r"\\(.)", r"\1", token[1:-1], flags=re.DOTALL))
        if kind == "free":
            if token[1:] in KEYWORDS:
                self._fail(f"has {token!r}, which is not a valid variable name", len(token))
            return Variable(token[1:])
        if kind == "name" and (self.bound[token] or looks_like_variable(token)):
            return Variable(token)
        return Constant(token)

    def _binder(self, sign: str) -> None:
        variables: list[str] = []
        while self._skip_blanks():
            kind, token = self._next()
            if token == "." and variables:
                self.bound.update(variables)
                self.operators.append(_Operator("binder", 0, sign, tuple(variables)))
                return
            if kind != "name" or token in KEYWORDS:
                self._fail(f"has {token!r} instead of a variable or the dot of a binder", len(token))
            variables.append(token)
        self._fail("ends before the dot of a binder")

    # --- after a term ---------------------------------------------------------------------------------------

    def _operator(self) -> None:
        start = self.at
        _, token = self._next()
        if token in _INFIX:
            sign = _INFIX[token]
            level = CONNECTIVES.get(sign, _RELATION_LEVEL)
            self._reduce(level + 1 if sign == "->" else level)
            self.operators.append(_Operator("infix", level, sign))
            self.wants_operand = True
        elif token == ")":
            self._close()
        elif token == ",":
            self._reduce(0)
            if not self.operators or self.operators[-1].kind != "arguments":
                self._fail("has a comma that is not between arguments", 1)
            self._apply()
            self.wants_operand = True
        elif token == "(":
            self._reduce(_APPLY_LEVEL)
            self.operators.append(_Operator("arguments", -1))
            self.wants_operand = True
        elif token == "." or token in _NEGATIONS:
            self._fail(f"has {token!r} out of place", len(token))
        else:  # a term after a term is its argument
            self._reduce(_APPLY_LEVEL)
            self.operators.append(_Operator("apply", _APPLY_LEVEL))
            self.wants_operand, self.at = True, start

    def _close(self) -> None:
        self._reduce(0)
        if not self.operators:
            self._fail("closes a bracket that is not open", 1)
        if self.operators.pop().kind == "arguments":
            self._apply()

    def _reduce(self, level: int) -> None:
        """Build the operators that bind at least this tightly, back to the last open bracket."""
        while self.operators and self.operators[-1].level >= level:
            operator = self.operators.pop()
            if operator.kind == "apply":
                self._apply()
            elif operator.kind == "not":
                self.operands.append(Application(Constant(NOT), self.operands.pop()))
            elif operator.kind == "infix":
                right, left = self.operands.pop(), self.operands.pop()
                self.operands.append(apply_to(Constant(operator.sign), (left, right)))
            else:
                self.bound.subtract(operator.variables)
                self.operands.append(_bound(operator, self.operands.pop()))

    def _apply(self) -> None:
        argument = self.operands.pop()
        self.operands.append(Application(self.operands.pop(), argument))

    # --- text -----------------------------------------------------------------------------------------------

    def _skip_blanks(self) -> bool:
        blanks = _BLANKS.match(self.text, self.at)
        self.at = blanks.end() if blanks else self.at
        return self.at < len(self.text)

    def _next(self) -> tuple[str, str]:
        found = _TOKEN.match(self.text, self.at)
        if found is None:
            what = "a quote that is not closed" if self.text[self.at] == '"' else repr(self.text[self.at])
            self._fail(f"has {what} instead of a term or an operator")
        self.at = found.end()
        return str(found.lastgroup), found[0]

    def _fail(self, problem: str, back: int = 0) -> NoReturn:
        raise FormatError(
            f"The term {shorten(self.text)} {problem}, at character {self.at - back + 1}. "
            r"Write a term as \x.chase(x,y), exists x.(dog(x) & bark(x)) or λx y. f y x."
        )


def _bound(operator: _Operator, body: Term) -> Term:
    if operator.sign == "lambda":
        return abstract_over(operator.variables, body)
    for variable in reversed(operator.variables):
        body = Application(Constant(operator.sign), abstract_over((variable,), body))
    return body
