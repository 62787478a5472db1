r"""Grammar files in three styles. Errors name the file and the line.

``nltk``
    ``S -> NP VP [0.8] | 'yes' [0.2]``, words quoted, ``%start S``.
``bnf``
    ``<s> ::= <np> <vp> | yes``, nonterminals in angle brackets.
``weighted``
    ``0.8<TAB>S<TAB>NP VP``, one rule per line. A symbol without a rule is a word. The start symbol is ``START`` or
    ``ROOT`` if there is such a symbol.

Lines that begin with ``#`` are comments, and so is the rest of a line after a blank and ``#``. In the first two styles
a rule may continue in the next line: after a backslash at the end of a line, or with ``|`` at the beginning of the
next. The symbols may be followed by ``{sem: TERM}``, the meaning of the phrase, and ``[WEIGHT]``. Without ``%start``
the first left side is the start symbol. Equal rules are merged by adding their weights.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from catena.data.files import LINE_END, bad_line, check_line, open_text
from catena.errors import DataError, FormatError
from catena.grammar.cfg import Grammar, Nonterminal, Rule, Symbol, check_choice
from catena.grammar.notation import Alternative, alternatives, nonterminal, number, rule_text, symbol_text, tokens
from catena.grammar.semantics import check_meaning
from catena.registry import did_you_mean

_CURES = {
    "nltk": "Write a rule as S -> NP VP [0.8] | 'word' [0.2]",
    "bnf": "Write a rule as <s> ::= <np> <vp> | word",
    "weighted": "Write a rule as weight, left side and right side, such as 0.8 S NP VP",
}


@dataclass(frozen=True)
class _Line:
    """The text of a rule and its location."""

    path: str
    number: int
    text: str

    def bad(self, problem: str, cure: str) -> FormatError:
        return bad_line(self.path, self.number, self.text, problem, cure)


# --- reading ------------------------------------------------------------------------------------------------


def read_grammar(
    path: Path | str | Sequence[Path | str],
    *,
    style: str | None = None,
    start: str | None = None,
    encoding: str | None = None,
) -> Grammar:
    """Return the grammar of a file, or of several files read as one.

    Args:
        path: the file or files; compressed files are detected by their content.
        style: ``nltk``, ``bnf`` or ``weighted``; detected from the first rule if omitted.
        start: the start symbol, overriding that of the file.
        encoding: the text encoding; by default that of the byte-order mark, or UTF-8.
    """
    paths = [path] if isinstance(path, (str, Path)) else list(path)
    lines: list[_Line] = []
    for one in paths:
        with open_text(one, encoding) as numbered:
            lines.extend(_Line(str(one), number, text) for number, text in numbered)
    return _grammar(lines, style, start, " and ".join(map(str, paths)) or "the list of files")


def parse_grammar(text: str, *, style: str | None = None, start: str | None = None, name: str = "grammar") -> Grammar:
    """Return the grammar in a text.

    Args:
        text: the rules.
        style: ``nltk``, ``bnf`` or ``weighted``; detected from the first rule if omitted.
        start: the start symbol, overriding that of the text.
        name: name of the text in errors.
    """
    lines = [_Line(name, number, line) for number, line in enumerate(LINE_END.split(text), start=1)]
    for line in lines:
        check_line(line.path, line.number, line.text, None)
    return _grammar(lines, style, start, name)


def _grammar(lines: list[_Line], style: str | None, start: str | None, source: str) -> Grammar:
    style = style or _recognize(lines, source)
    check_choice("style", style, _CURES)
    if style == "weighted":
        found, declared = _weighted(lines)
    else:
        found, declared = _with_arrows(_joined(lines), style)
    if not found:
        raise FormatError(f"{source} contains no rule. {_CURES[style]}.")
    for line, rule in found:
        _check_meaning(line, rule)
    rules, first = _merged(found), declared or found[0][1].left
    _check_defined(found)
    try:
        return Grammar.of(rules, start or first)
    except DataError as error:
        raise FormatError(f"{source}: {error}") from None


def _recognize(lines: list[_Line], source: str) -> str:
    for line in lines:
        text = line.text.strip()
        if not text or text[0] in "#%":
            continue
        # The first arrow decides: further ones are symbols. A nonterminal may itself be named "::=".
        if arrow := re.search(r"(?<=[\s>])::=|->|→", text):
            return "bnf" if arrow.group() == "::=" else "nltk"
        if re.match(r"[-+.\d]+(?:e[-+]?\d+)?\s+\S", text):
            return "weighted"
        raise line.bad("is not a rule of any style", " ".join(f"{cure}." for cure in _CURES.values()))
    raise FormatError(f"{source} contains no rule: it is empty or has only comments. Add a rule.")


def _joined(lines: Iterable[_Line]) -> Iterator[_Line]:
    """Yield complete rules: lines joined with their continuation lines."""
    held: _Line | None = None
    open_end = False
    for line in lines:
        text = line.text.strip()
        if not open_end and (not text or text.startswith("#")):
            continue
        if held is not None and (open_end or text.startswith("|")):
            held = _Line(held.path, held.number, f"{held.text} {text}")
        else:
            if held is not None:
                yield held
            held = _Line(line.path, line.number, text)
        open_end = held.text.endswith("\\")
        if open_end:
            held = _Line(held.path, held.number, held.text[:-1])
    if held is not None:
        yield held


def _with_arrows(lines: Iterable[_Line], style: str) -> tuple[list[tuple[_Line, Rule]], Nonterminal | None]:
    found: list[tuple[_Line, Rule]] = []
    start: Nonterminal | None = None
    with_weight: bool | None = None
    for line in lines:
        try:
            if line.text.startswith("%"):
                start = _declared(line)
                continue
            for left, side in _sides(line, style):
                if with_weight is None:
                    with_weight = side.weight is not None
                elif with_weight != (side.weight is not None):
                    has, had = ("no weight", "a weight") if with_weight else ("a weight", "no weight")
                    raise FormatError(f"has {has} at an alternative, but the previous ones have {had}")
                weight = 1.0 if side.weight is None else side.weight
                found.append((line, Rule(left, side.right, weight, side.meaning)))
        except FormatError as error:
            raise line.bad(str(error), _CURES[style]) from None
    return found, start


def _sides(line: _Line, style: str) -> Iterator[tuple[Nonterminal, Alternative]]:
    found = list(tokens(line.text))
    if len(found) < 2 or found[1].kind != "arrow":
        raise FormatError("has no arrow after its first symbol")
    if found[0].kind != "angle" and (style == "bnf" or found[0].kind != "name"):
        raise FormatError(f"has {found[0].text!r} before its arrow instead of a nonterminal")
    left = nonterminal(found[0].text)
    for side in alternatives(found[2:], style):
        yield left, side


def _declared(line: _Line) -> Nonterminal:
    command, *rest = line.text[1:].split(maxsplit=1)
    if command != "start":
        raise FormatError(f"has the unknown command %{command[:20]}; the only command is %start")
    found = list(tokens(rest[0] if rest else ""))
    if len(found) != 1 or found[0].kind not in ("name", "angle"):
        raise FormatError("does not name one nonterminal after %start")
    return nonterminal(found[0].text)


def _weighted(lines: Iterable[_Line]) -> tuple[list[tuple[_Line, Rule]], Nonterminal | None]:
    found: list[tuple[_Line, list[str], float]] = []
    for line in lines:
        fields = line.text.split()
        comment = next((at for at, field in enumerate(fields) if field.startswith("#")), len(fields))
        fields = fields[:comment]
        if not fields:
            continue
        try:
            if len(fields) < 2:
                raise FormatError("has no left side after its weight")
            found.append((line, fields[1:], number(fields[0])))
        except FormatError as error:
            raise line.bad(str(error), _CURES["weighted"]) from None
    lefts = {fields[0] for _, fields, _ in found}
    rules = []
    for line, (left, *right), weight in found:
        symbols: list[Symbol] = [Nonterminal(name) if name in lefts else name for name in right]
        rules.append((line, Rule(Nonterminal(left), tuple(symbols), weight)))
    start = next((Nonterminal(name) for name in ("START", "ROOT") if name in lefts), None)
    return rules, start


def _merged(found: list[tuple[_Line, Rule]]) -> list[Rule]:
    weighted = any(rule.weight != 1.0 for _, rule in found)
    rules: dict[tuple[object, ...], Rule] = {}
    for _, rule in found:
        key = (rule.left, rule.right, rule.meaning)
        if key in rules and weighted:
            rule = Rule(rule.left, rule.right, rules[key].weight + rule.weight, rule.meaning)
        rules[key] = rule
    return list(rules.values())


def _check_defined(found: list[tuple[_Line, Rule]]) -> None:
    known = {rule.left for _, rule in found}
    for line, rule in found:
        for symbol in rule.right:
            if isinstance(symbol, Nonterminal) and symbol not in known:
                near = did_you_mean(symbol.name, [left.name for left in known])
                raise line.bad(
                    f"uses the nonterminal {symbol.name!r}, which has no rule ({near})",
                    f"Add a rule for it, or write '{symbol.name}' in quotes if it is a word",
                )


def _check_meaning(line: _Line, rule: Rule) -> None:
    if rule.meaning is not None:
        try:
            check_meaning(rule)
        except FormatError as error:
            raise line.bad(str(error), "") from None


# --- writing ------------------------------------------------------------------------------------------------


def format_grammar(grammar: Grammar, *, style: str = "nltk") -> str:
    """Return the text of a grammar file. Reading it gives an equal grammar."""
    check_choice("style", style, _CURES)
    if style == "weighted":
        text = "".join(_weighted_line(rule) for rule in grammar.rules)
    else:
        weighted = grammar.is_weighted
        lines = [f"%start {symbol_text(grammar.start, style)}"]
        text = "\n".join([*lines, *(rule_text(rule, style, weighted) for rule in grammar.rules)]) + "\n"
    _check_reads_back(grammar, text, style)
    return text


def write_grammar(grammar: Grammar, path: Path | str, *, style: str = "nltk") -> None:
    """Write the grammar to a file, in UTF-8.

    Args:
        grammar: the grammar.
        path: the file to write.
        style: one of the styles that :func:`read_grammar` detects.
    """
    text = format_grammar(grammar, style=style)
    try:
        Path(path).write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        raise DataError(f"The grammar could not be written to {path}: {error.strerror or error}. Check it.") from None


def _weighted_line(rule: Rule) -> str:
    weight = int(rule.weight) if rule.weight == int(rule.weight) and rule.weight < 1e15 else rule.weight
    return f"{weight!r}\t{rule.left}\t{' '.join(map(str, rule.right))}\n"


def _check_reads_back(grammar: Grammar, text: str, style: str) -> None:
    """Raise DataError if the text does not read back, as with blanks in names, equal words and names, missing rules."""
    try:
        again = parse_grammar(text, style=style, start=grammar.start.name, name="the text")
    except FormatError as error:
        raise DataError(f"The grammar cannot be written in the style {style!r}: {error}") from None
    if again == grammar:
        return
    pairs = zip(grammar.rules, again.rules, strict=False)
    rule = next((one for one, two in pairs if one != two), grammar.rules[0])
    cure = "Use style='nltk'" if style != "nltk" else "Change its names"
    raise DataError(
        f"The grammar cannot be written in the style {style!r}, because {rule} would read differently. {cure}."
    )
