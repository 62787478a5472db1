r"""Grammars from treebanks: rules of the trees, weighted by relative frequency.

.. math::  w(A \to \beta) = \frac{c(A \to \beta)}{\sum_\gamma c(A \to \gamma)}

The trees may be changed first: functional tags and traces taken off, chains of single phrases made one, symbols told
apart by what is above them (vertical markovization, Johnson 1998) and long rules cut into steps that remember a few
sisters only (horizontal markovization, Klein and Manning 2003). Parses are mapped back to plain trees.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from catena.data.examples import Tree
from catena.errors import DataError
from catena.grammar.cfg import Grammar, Nonterminal, Rule, Symbol
from catena.grammar.derivation import NOWHERE, Derivation
from catena.grammar.parse import CFGParser
from catena.grammar.smoothing import CountContext, add_backoff, with_likely_tags
from catena.grammar.words import UNKNOWN, word_classes

ROOT = "ROOT"
TRACE = "-NONE-"
_TOP = Nonterminal(ROOT)
LEAST = 1e-2
"""Rules that smoothing adds have at least this probability: without a limit there are many times as many."""


@dataclass(frozen=True)
class Induction:
    """How trees become rules.

    Args:
        strip_functions: ``NP-SBJ-1`` and ``NP=2`` become ``NP``. Labels that begin with a dash, as ``-LRB-``, stay.
        drop_traces: leaves with the tag ``-NONE-``, and phrases with nothing else below, are taken out.
        collapse_unary: chains of single phrases become one symbol: ``(S (VP …))`` below the top becomes ``(S+VP …)``.
        vertical: how many levels a phrase remembers, itself included: 1 remembers no more, 2 makes ``NP^S`` of an NP
            below S.
        horizontal: how many sisters a step of a rule remembers, when rules are cut into steps of two symbols;
            None keeps rules whole.
        rare: words that occur so often or less are replaced by a class of words that look alike, so that unknown
            words can be parsed; 0 replaces none.
        smoothing: how many occurrences what is seen in coarser contexts counts for: rules of the same phrase below
            other phrases and after other sisters; tags of words that look alike. 0 for relative frequency alone.
    """

    strip_functions: bool = True
    drop_traces: bool = True
    collapse_unary: bool = False
    vertical: int = 1
    horizontal: int | None = None
    rare: int = 0
    smoothing: float = 0.0

    def __post_init__(self) -> None:
        if self.vertical < 1 or self.rare < 0 or (self.horizontal is not None and self.horizontal < 0):
            raise DataError(
                "vertical must be 1 or more, horizontal and rare 0 or more, but they are "
                f"{self.vertical}, {self.horizontal} and {self.rare}"
            )
        if not (math.isfinite(self.smoothing) and self.smoothing >= 0):
            raise DataError(f"smoothing must be a number of occurrences from 0 on, but is {self.smoothing}")


_Key = CountContext
"""What tells a symbol from others: its labels and those above it; or, for a step in a rule, also the sisters it
remembers.
"""

_Part = tuple[tuple[str, ...], bool] | None
"""A part of a phrase apart from where it stands: its labels and whether it is a tag; None for the rest of a rule."""


@dataclass(frozen=True, eq=False)
class InducedGrammar:
    """A grammar from a treebank.

    Args:
        grammar: probabilistic: the weights of the rules of each symbol sum to 1.
        options: how the trees became rules.
        labels: for each symbol the labels it stands for, the upper first; none for a step inside a rule.
        trees: how many trees were counted.
        empty: how many trees had no word left, and were not.
    """

    grammar: Grammar
    options: Induction
    labels: Mapping[Nonterminal, tuple[str, ...]]
    trees: int
    empty: int
    _names: _Names = field(repr=False)

    def parser(self) -> CFGParser:
        """A parser that knows the classes of unknown words."""
        return CFGParser(self.grammar, unknown=word_classes if self.options.rare else None)

    def restore(self, parse: Derivation) -> Tree:
        """The plain tree of a parse: no steps inside rules, nothing remembered, chains whole again."""
        return restore_tree(parse, self.labels)

    def derivation(self, tree: Tree) -> Derivation:
        """The parse that a tree is, prepared as the treebank was; :class:`DataError` where it uses an unknown rule."""
        top = _cleaned(tree, self.options)
        if top is None:
            raise DataError(f"the tree at {tree.place} has no word left when its traces are dropped")
        _name(top, self.options, self._names)
        rules = {(rule.left, rule.right): rule for rule in self.grammar.rules}
        results: list[Derivation] = []
        for node in reversed(list(_nodes(top))):  # parts before what is above them, the last first
            word = None if node.word is None else self._known(node.word)
            right = _right(node, word)
            rule = rules.get((node.name, right))
            if rule is None:
                wanted = Rule(node.name, right)
                raise DataError(f"the tree at {tree.place} uses {wanted}, which is no rule of this grammar")
            n = len(node.children)
            below: Sequence[Derivation | str] = results[len(results) - n :][::-1] if node.word is None else [node.word]
            del results[len(results) - n :]
            results.append(Derivation(rule, tuple(below)))
        return results[0]

    def _known(self, word: str) -> str:
        """The word, or the class that stands for it."""
        if word in self.grammar.terminals or not self.options.rare:
            return word
        return next((name for name in word_classes(word) if name in self.grammar.terminals), word)


def restore_tree(parse: Derivation, labels: Mapping[Nonterminal, tuple[str, ...]]) -> Tree:
    """The plain tree of a parse, given the labels that each symbol stands for; none for a step inside a rule."""

    def node(here: Derivation, parts: list[tuple[Tree | str, ...] | str]) -> tuple[Tree | str, ...]:
        below = tuple(part for group in parts for part in ((group,) if isinstance(group, str) else group))
        for label in reversed(labels[here.rule.left]):
            below = (_tree(label, below),)
        return below

    (tree,) = parse.fold(node)
    assert isinstance(tree, Tree)
    return tree


def induce(trees: Iterable[Tree], options: Induction | None = None) -> InducedGrammar:
    """The probabilistic grammar of a treebank, by relative frequency."""
    options = options or Induction()
    names = _Names()
    phrases: dict[_Key, Counter[tuple[_Part, ...]]] = {}
    lexicon: Counter[tuple[Nonterminal, str]] = Counter()
    used = empty = 0
    for tree in trees:
        top = _cleaned(tree, options)
        if top is None:
            empty += 1
            continue
        used += 1
        _name(top, options, names)
        for node in _nodes(top):
            if node.word is None:
                phrases.setdefault(node.key, Counter())[_event(node)] += 1
            else:
                lexicon[node.name, node.word] += 1
    if not used:
        raise DataError(f"a grammar cannot be induced from no trees: of {empty} trees none has a word")
    rules = [*_phrase_rules(phrases, options, names), *_word_rules(lexicon, options)]
    return InducedGrammar(Grammar(tuple(rules), _TOP).normalized(), options, names.labels(), used, empty, names)


def _phrase_rules(
    phrases: Mapping[_Key, Counter[tuple[_Part, ...]]], options: Induction, names: _Names
) -> Iterator[Rule]:
    for key, event, weight in add_backoff(phrases, options.smoothing, LEAST):
        right = _instantiated(key, event, options, names)
        if right is not None:
            yield Rule(names.symbol(key), right, weight)


def _instantiated(key: _Key, event: tuple[_Part, ...], options: Induction, names: _Names) -> tuple[Symbol, ...] | None:
    """The symbols of parts in a place; None where one of them was never seen there, and so has no rules."""
    labels, remembered, *sisters = key
    above = ("+".join(labels), *remembered)[: options.vertical - 1]
    right: list[Symbol] = []
    for part in event:
        if part is None:
            before = (*(sisters[0] if sisters else ()), *("+".join(below[0]) for below in event[:1] if below))
            horizontal = options.horizontal or 0
            wanted: _Key = (labels, remembered, before[len(before) - horizontal :] if horizontal else ())
        else:
            wanted = (part[0], () if part[1] else above)
        if wanted not in names.symbols:
            return None
        right.append(names.symbols[wanted])
    return tuple(right)


def _word_rules(lexicon: Counter[tuple[Nonterminal, str]], options: Induction) -> Iterator[Rule]:
    weights: Mapping[tuple[Nonterminal, str], float | int] = _with_classes(lexicon, options.rare)
    if options.smoothing and options.rare:
        weights = with_likely_tags(weights, _tags_of_classes(lexicon, options.rare), word_classes, options.smoothing)
    for (tag, word), n in weights.items():
        yield Rule(tag, (word,), float(n))


def _tags_of_classes(lexicon: Counter[tuple[Nonterminal, str]], rare: int) -> dict[str, Counter[Nonterminal]]:
    """The tags of rare words by all their classes."""
    totals = _totals(lexicon)
    found: dict[str, Counter[Nonterminal]] = {}
    for (tag, word), n in lexicon.items():
        for name in word_classes(word) if totals[word] <= rare else ():
            found.setdefault(name, Counter())[tag] += n
    return found


def _totals(lexicon: Counter[tuple[Nonterminal, str]]) -> Counter[str]:
    totals: Counter[str] = Counter()
    for (_, word), n in lexicon.items():
        totals[word] += n
    return totals


def _with_classes(lexicon: Counter[tuple[Nonterminal, str]], rare: int) -> Counter[tuple[Nonterminal, str]]:
    """The lexicon with rare words replaced by the finest of their classes that is not rare itself."""
    if not rare:
        return lexicon
    totals = _totals(lexicon)
    sizes: Counter[str] = Counter()
    for word, n in totals.items():
        if n <= rare:
            sizes.update(dict.fromkeys(word_classes(word), n))
    result: Counter[tuple[Nonterminal, str]] = Counter()
    for (tag, word), n in lexicon.items():
        if totals[word] <= rare:
            word = next((name for name in word_classes(word) if sizes[name] > rare), UNKNOWN)
        result[tag, word] += n
    return result


# --- trees on their way to rules ----------------------------------------------------------------------------


class _Node:
    """A node that can be changed: its labels (several for a collapsed chain), its parts or its word, and its symbol."""

    __slots__ = ("children", "key", "labels", "name", "word")

    def __init__(self, labels: tuple[str, ...], children: list[_Node], word: str | None) -> None:
        self.labels, self.children, self.word = labels, children, word
        self.name = _TOP
        self.key: _Key = ()


class _Names:
    """One symbol for each key, whatever characters the labels hold."""

    def __init__(self) -> None:
        self.symbols: dict[_Key, Nonterminal] = {}
        self.taken: set[str] = set()

    def symbol(self, key: _Key) -> Nonterminal:
        if key not in self.symbols:
            labels, above, *sisters = key
            name = "+".join(labels) + "".join(f"^{label}" for label in above)
            name += f"|<{'-'.join(sisters[0])}>" if sisters else ""
            while name in self.taken:
                name += "'"
            self.taken.add(name)
            self.symbols[key] = Nonterminal(name)
        return self.symbols[key]

    def labels(self) -> dict[Nonterminal, tuple[str, ...]]:
        """The labels that each symbol stands for; none for a step inside a rule."""
        return {symbol: key[0] if len(key) == 2 else () for key, symbol in self.symbols.items()}


def plain_label(label: str) -> str:
    """The label without functional tags and indices: ``NP-SBJ-1`` and ``NP=2`` are ``NP``; ``-LRB-`` stays."""
    if label.startswith("-"):
        return label
    return label.split("-", 1)[0].split("=", 1)[0] or label


def _cleaned(tree: Tree, options: Induction) -> _Node | None:
    """A tree below :data:`ROOT` as its options ask for; None where no word is left."""
    results: list[_Node | None] = []
    waiting = [(tree, False)]
    while waiting:
        here, done = waiting.pop()
        label = plain_label(here.label) if options.strip_functions else here.label
        if here.word is not None:
            trace = options.drop_traces and here.label == TRACE
            results.append(None if trace else _Node((label,), [], here.word))
        elif not done:
            waiting.append((here, True))
            waiting.extend((child, False) for child in reversed(here.children))
        else:
            n = len(here.children)
            below = [node for node in results[len(results) - n :] if node is not None]
            del results[len(results) - n :]
            results.append(_joined(label, below, options) if below else None)
    top = results[0]
    if top is None or top.labels == ("",):
        return _renamed(top)
    return top if top.labels == (ROOT,) else _Node((ROOT,), [top], None)


def _renamed(top: _Node | None) -> _Node | None:
    if top is not None:
        top.labels = (ROOT,)
    return top


def _joined(label: str, below: list[_Node], options: Induction) -> _Node:
    only = below[0] if len(below) == 1 else None
    chain = options.collapse_unary and only is not None and only.word is None and label not in ("", ROOT)
    if chain and only is not None:
        return _Node((label, *only.labels), only.children, None)
    return _Node((label,), below, None)


def _name(top: _Node, options: Induction, names: _Names) -> None:
    """Give every node its symbol, and cut long rules into steps, if asked for."""
    waiting: list[tuple[_Node, tuple[str, ...]]] = [(top, ())]
    while waiting:
        node, above = waiting.pop()
        remembered = () if node.word is not None else above[: options.vertical - 1]
        node.key = (node.labels, remembered)
        node.name = names.symbol(node.key)
        around = ("+".join(node.labels), *above)[: options.vertical]
        waiting.extend((child, around) for child in node.children)
        if options.horizontal is not None and len(node.children) > 2:
            _cut(node, remembered, options.horizontal, names)


def _cut(node: _Node, remembered: tuple[str, ...], horizontal: int, names: _Names) -> None:
    sisters = node.children
    labels = ["+".join(sister.labels) for sister in sisters]
    here = node
    for at in range(1, len(sisters) - 1):
        step = _Node((), sisters[at:], None)
        step.key = (node.labels, remembered, tuple(labels[max(0, at - horizontal) : at]))
        step.name = names.symbol(step.key)
        here.children = [sisters[at - 1], step]
        here = step


def _nodes(top: _Node) -> Iterator[_Node]:
    waiting = [top]
    while waiting:
        node = waiting.pop()
        yield node
        waiting.extend(reversed(node.children))


def _event(node: _Node) -> tuple[_Part, ...]:
    return tuple((child.labels, child.word is not None) if child.labels else None for child in node.children)


def _right(node: _Node, word: str | None) -> tuple[Symbol, ...]:
    return tuple(child.name for child in node.children) if word is None else (word,)


def _tree(label: str, below: tuple[Tree | str, ...]) -> Tree:
    if len(below) == 1 and isinstance(below[0], str):
        return Tree(label, (), below[0], NOWHERE)
    return Tree(label, tuple(part for part in below if isinstance(part, Tree)), None, NOWHERE)
