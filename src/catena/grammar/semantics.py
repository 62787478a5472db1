r"""Meanings attached to rules, so that a parse gives a logical form.

A rule such as ``S -> NP VP {sem: VP.sem(NP.sem)}`` gives the meaning of the phrase from the meanings of its parts:
``NP.sem`` is the meaning of the part NP, ``NP[2].sem`` that of the second part of this name, and ``<PRP$>.sem`` that
of a part whose name has special characters. A rule over one nonterminal without a meaning has that of its part. The
logical form of a parse is the beta-normal form of the meaning of its top (Montague 1973; Jurafsky and Martin 2009,
chapter 18).
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from catena.errors import DataError, FormatError
from catena.grammar.cfg import Nonterminal, Rule
from catena.grammar.lambda_calculus import alpha_equal
from catena.grammar.notation import unescape
from catena.grammar.term_notation import parse_term
from catena.grammar.terms import Term, Variable, abstract_over
from catena.registry import did_you_mean

_PART = "part_{}"


@lru_cache(maxsize=10_000)
def rule_meaning(rule: Rule) -> Term:
    r"""Return the meaning of a rule as a function of the meanings of its nonterminal parts, from left to right.

    >>> str(rule_meaning(Rule(Nonterminal("S"), (Nonterminal("NP"), Nonterminal("VP")), 1.0, "VP.sem(NP.sem)")))
    '\\part_1 part_2.part_2(part_1)'
    """
    names = [symbol.name for symbol in rule.right if isinstance(symbol, Nonterminal)]
    variables = [_PART.format(number) for number in range(1, len(names) + 1)]
    if rule.meaning is None:
        if len(rule.right) == 1 and names:
            return abstract_over(variables, Variable(variables[0]))
        raise DataError(
            f"The rule {rule} has no meaning, so its parses have no logical form. Add one, such as "
            "S -> NP VP {sem: VP.sem(NP.sem)}."
        )

    def part(name: str, number: int | None) -> Term:
        matches = [at for at, other in enumerate(names) if other == unescape(name)]
        if not matches:
            raise FormatError(f"means {name}.sem, but {rule} has no part {name!r}: {did_you_mean(name, names)}")
        if number is None and len(matches) > 1:
            raise FormatError(f"means {name}.sem, but {rule} has {len(matches)} parts {name!r}: write {name}[1].sem")
        if number is not None and not 1 <= number <= len(matches):
            raise FormatError(f"means {name}[{number}].sem, but {rule} has {len(matches)} parts {name!r}")
        return Variable(variables[matches[(number or 1) - 1]])

    return abstract_over(variables, parse_term(rule.meaning, part=part))


def check_meaning(rule: Rule) -> None:
    """Raise :class:`FormatError` if the meaning of a rule cannot be parsed."""
    try:
        rule_meaning(rule)
    except FormatError as error:
        text = str(error)
        raise FormatError(text if text.startswith("means ") else f"has an invalid meaning: {text}") from None


def distinct(terms: Iterable[Term]) -> list[Term]:
    """Return the terms without those that differ from an earlier one only in the names of bound variables."""
    kept: list[Term] = []
    for term in terms:
        if not any(term.size == other.size and alpha_equal(term, other) for other in kept):
            kept.append(term)
    return kept
