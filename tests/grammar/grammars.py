"""Random grammars for the tests of this subpackage, and grammars in the form of the oracle."""

from __future__ import annotations

import itertools

from hypothesis import strategies as st

from catena.grammar.cfg import Grammar, Nonterminal, Rule, Symbol
from tests.oracle.grammars import OracleRule

NAMES = ("S", "A", "B")
WORDS = ("a", "b")
TOY = """
S -> NP VP [1.0]
NP -> Det N [0.5] | NP PP [0.3] | 'I' [0.2]
VP -> V NP [0.6] | VP PP [0.4]
PP -> 'with' NP [1.0]
Det -> 'the' [0.6] | 'a' [0.4]
N -> 'man' [0.4] | 'telescope' [0.6]
V -> 'saw' [1.0]
"""


def N(name: str) -> Nonterminal:
    return Nonterminal(name)


def plain(grammar: Grammar) -> list[OracleRule]:
    """Return the rules in the form of the oracle."""
    return [(rule.left.name, tuple(map(plain_symbol, rule.right)), rule.weight) for rule in grammar.rules]


def plain_symbol(symbol: Symbol) -> tuple[str] | str:
    return symbol if isinstance(symbol, str) else (symbol.name,)


def strings(longest: int) -> list[tuple[str, ...]]:
    """Return all strings over the words, up to a length."""
    return [(), *(words for n in range(1, longest + 1) for words in itertools.product(WORDS, repeat=n))]


def built(rules: list[OracleRule]) -> Grammar:
    """Return the grammar of the oracle's rules, with start symbol S."""
    made = []
    for left, right, weight in rules:
        made.append(Rule(N(left), tuple(s if isinstance(s, str) else N(s[0]) for s in right), weight))
    return Grammar.of(made, "S")


@st.composite
def rule_lists(draw: st.DrawFn, mass: float = 0.6, most_rules: int = 4) -> list[OracleRule]:
    """Return any rules over three symbols and two words: empty, unit, cyclic and long ones, undefined symbols.

    The weights of each symbol sum to ``mass``: small enough that sums over cycles are finite and converge quickly when
    added up by depth.
    """
    symbols = st.sampled_from((*((name,) for name in NAMES), *WORDS))
    rights = st.lists(st.lists(symbols, max_size=3).map(tuple), min_size=1, max_size=most_rules, unique=True)
    rules: list[OracleRule] = []
    for left in ("S", *draw(st.lists(st.sampled_from(NAMES[1:]), unique=True))):
        sides = draw(rights)
        shares = [draw(st.integers(1, 5)) for _ in sides]
        rules += [(left, side, mass * share / sum(shares)) for side, share in zip(sides, shares, strict=True)]
    return rules
