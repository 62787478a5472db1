"""The tokens of grammar files: symbols, weights and meanings.

In the **nltk** style ``S -> NP VP [0.8] | 'yes' [0.2]`` words are quoted, and names with special characters are in
angle brackets: ``<,> -> ','``. In the **bnf** style ``<s> ::= <np> <vp> | yes`` nonterminals are in angle brackets,
and words need no quotes. Both have weights in ``[…]`` and meanings in ``{…}`` after each alternative. A backslash in
quotes or angle brackets escapes the next character, as in Python.

Tested in tests/grammar/test_semantics.py and tests/grammar/test_files.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from catena.errors import FormatError
from catena.grammar.cfg import Nonterminal, Rule, Symbol

_ARROWS = {"nltk": "->", "bnf": "::="}

_ARROW = r"->|→|::="
# A prime ends a name (N', as in X-bar theory) if it cannot open a quotation.
_NAME = rf"(?!{_ARROW})[^\s'\"|\[\]{{}}<>](?:(?!{_ARROW})[^\s'\"|\[\]{{}}]|'(?=['\s|\[{{]|$|{_ARROW}))*"
_TOKEN = re.compile(
    rf"""(?P<space>\s+)
    |(?P<comment>\#.*)
    |(?P<arrow>{_ARROW})
    |(?P<bar>\|)
    |(?P<weight>\[[^\]]*\])
    |(?P<meaning>\{{[^}}]*\}})
    |(?P<word>'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*")
    |(?P<angle><(?:\\.|[^>\\])*>)
    |(?P<name>{_NAME})""",
    re.VERBOSE,
)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)", re.DOTALL)
_PLAIN = {"n": "\n", "t": "\t", "r": "\r"}
_UNOPENED = {"'": "a quote that is not closed", '"': "a quote that is not closed", "[": "a [ that is not closed"}
_UNOPENED |= {"{": "a { that is not closed", "<": "a < that is not closed"}


class Token(NamedTuple):
    """A piece of a line: its kind and its text. Words and names in angle brackets are without them and unescaped."""

    kind: str
    text: str


class Alternative(NamedTuple):
    """The parsed right side of a rule."""

    right: tuple[Symbol, ...]
    weight: float | None
    meaning: str | None


def tokens(line: str) -> Iterator[Token]:
    """Yield the tokens of a line without blanks and comments. Errors describe only the problem, not the location."""
    at = 0
    while at < len(line):
        match = _TOKEN.match(line, at)
        if match is None:
            raise FormatError(f"has {_UNOPENED.get(line[at], repr(line[at]) + ' out of place')} at character {at + 1}")
        at, kind = match.end(), str(match.lastgroup)
        if kind in ("word", "angle"):
            yield Token(kind, unescape(match[0][1:-1]))
        elif kind in ("weight", "meaning"):
            yield Token(kind, match[0][1:-1].strip())
        elif kind not in ("space", "comment"):
            yield Token(kind, match[0])


def alternatives(found: list[Token], style: str) -> list[Alternative]:
    """Return the right sides among the tokens after an arrow."""
    sides: list[list[Token]] = [[]]
    for token in found:
        if token.kind == "bar":
            sides.append([])
        elif token.kind == "arrow":
            raise FormatError(f"has a second arrow {token.text!r}")
        else:
            sides[-1].append(token)
    return [_alternative(side, style) for side in sides]


def _alternative(side: list[Token], style: str) -> Alternative:
    right: list[Symbol] = []
    weight, meaning = None, None
    for token in side:
        if token.kind == "weight":
            if weight is not None:
                raise FormatError(f"has a second weight [{token.text}]")
            weight = number(token.text)
        elif token.kind == "meaning":
            if meaning is not None:
                raise FormatError(f"has a second meaning {{{token.text}}}")
            meaning = re.sub(r"^sem\s*:\s*", "", token.text)
            if not meaning:
                raise FormatError("has a meaning {} without a term")
        elif weight is not None or meaning is not None:
            raise FormatError(f"has {token.text!r} after the weight or meaning; write these last")
        elif token.kind == "angle" or (token.kind == "name" and style == "nltk" and token.text != "ε"):
            right.append(nonterminal(token.text))
        elif token.text and (token.kind == "word" or token.text != "ε"):  # '' and a bare ε are the empty string
            right.append(token.text)
    return Alternative(tuple(right), weight, meaning)


def nonterminal(name: str) -> Nonterminal:
    """Return the nonterminal of this name."""
    if not name:
        raise FormatError("has a nonterminal <> without a name")
    return Nonterminal(name)


def number(text: str) -> float:
    """Return the weight in a text."""
    try:
        value = float(text)
    except ValueError:
        raise FormatError(f"has {text[:40]!r} instead of a weight such as 0.25") from None
    if not 0 <= value < float("inf"):
        raise FormatError(f"has the weight {text[:40]}, which is negative or not finite")
    return value


# --- writing ------------------------------------------------------------------------------------------------


def unescape(text: str) -> str:
    """Return the text with its escapes replaced; unknown escapes are kept."""
    return _ESCAPE.sub(_unescaped, text) if "\\" in text else text


def _unescaped(match: re.Match[str]) -> str:
    code = match[1]
    if len(code) > 1:
        return chr(int(code[1:], 16)) if int(code[1:], 16) < 0x110000 else match[0]
    return _PLAIN.get(code) or (code if code in "\\'\"<>" else match[0])


def escape(text: str, close: str) -> str:
    """Return the text with escapes for backslashes, the closing quote, and unprintable characters."""
    return "".join("\\" + c if c in ("\\", close) else c if c.isprintable() else _code(c) for c in text)


def _code(c: str) -> str:
    short = next((code for code, plain in _PLAIN.items() if plain == c), None)
    return f"\\{short}" if short else f"\\u{ord(c):04x}" if ord(c) < 0x10000 else f"\\U{ord(c):08x}"


def symbol_text(symbol: Symbol, style: str) -> str:
    """Return a symbol as written in a file."""
    if isinstance(symbol, str):
        quote = '"' if "'" in symbol and '"' not in symbol else "'"
        return quote + escape(symbol, quote) + quote
    plain = re.fullmatch(_NAME, symbol.name) and symbol.name.isprintable() and "\\" not in symbol.name
    if style == "nltk" and plain and symbol.name[0] not in "#%" and symbol.name != "ε":
        return symbol.name
    return f"<{escape(symbol.name, '>')}>"


def rule_text(rule: Rule, style: str, weighted: bool) -> str:
    """Return a rule as a line of a file."""
    parts = [symbol_text(rule.left, style), _ARROWS[style], *(symbol_text(symbol, style) for symbol in rule.right)]
    if not rule.right:
        parts.append("''")
    if rule.meaning is not None:
        parts.append(f"{{sem: {rule.meaning}}}")
    if weighted:
        parts.append(f"[{rule.weight!r}]")
    return " ".join(parts)
