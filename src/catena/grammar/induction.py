r"""Grammars from treebanks: rules of the trees, weighted by relative frequency.

.. math::  w(A \to \beta) = \frac{c(A \to \beta)}{\sum_\gamma c(A \to \gamma)}

The trees may be transformed first: functional tags and traces removed, unary chains collapsed, symbols annotated with
their ancestors (vertical markovization, Johnson 1998), and long rules split into steps that remember only a few
siblings (horizontal markovization, Klein and Manning 2003). Parses are mapped back to the original kind of tree.
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
from catena.grammar.word_classes import UNKNOWN, word_classes

ROOT = "ROOT"
TRACE = "-NONE-"
_TOP = Nonterminal(ROOT)
LEAST = 1e-2
"""Rules added by smoothing have at least this probability; without a limit there are many times as many."""


@dataclass(frozen=True)
class Induction:
    """Options of grammar induction.

    Args:
        strip_functions: ``NP-SBJ-1`` and ``NP=2`` become ``NP``. Labels that begin with a dash, such as ``-LRB-``,
            are kept.
        drop_traces: leaves with the tag ``-NONE-``, and phrases that only contain such leaves, are removed.
        collapse_unary: unary chains become one symbol: ``(S (VP …))`` below the root becomes ``(S+VP …)``.
        vertical: number of levels in a symbol, itself included: 1 adds none, 2 turns an NP below S into ``NP^S``.
        horizontal: number of siblings that a symbol inside a binarized rule remembers; None keeps rules unsplit.
        rare: words with at most this many occurrences are replaced by a word class, so that unknown words can be
            parsed; 0 replaces none.
        smoothing: pseudo-count of the coarser contexts: rules of the same phrase below other phrases and after other
            siblings, and tags of similar words. 0 uses relative frequencies only.
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
                "vertical must be at least 1, horizontal and rare at least 0, got "
                f"{self.vertical}, {self.horizontal} and {self.rare}. Use vertical=2, horizontal=1 and rare=1, say."
            )
        if not (math.isfinite(self.smoothing) and self.smoothing >= 0):
            raise DataError(f"smoothing must be at least 0 and finite, got {self.smoothing}. Use 0 to disable it.")


_Key = CountContext
"""The identity of a symbol: its labels and those of its ancestors; for a step inside a rule also the siblings that it
remembers.
"""

_Part = tuple[tuple[str, ...], bool] | None
"""A child without its context: its labels and whether it is a tag; None for the rest of a rule."""


@dataclass(frozen=True, eq=False)
class InducedGrammar:
    """A grammar from a treebank.

    Args:
        grammar: a probabilistic grammar: the weights of the rules of each symbol sum to 1.
        options: the options of the induction.
        labels: for each symbol the labels it represents, from the top; none for a step inside a rule.
        trees: number of trees counted.
        empty: number of trees skipped because they had no word left.
    """

    grammar: Grammar
    options: Induction
    labels: Mapping[Nonterminal, tuple[str, ...]]
    trees: int
    empty: int
    _names: _Names = field(repr=False)

    def parser(self) -> CFGParser:
        """Return a parser that uses the classes of unknown words."""
        return CFGParser(self.grammar, unknown=word_classes if self.options.rare else None)

    def restore(self, parse: Derivation) -> Tree:
        """Return the original tree of a parse, without rule steps and annotations, with unary chains expanded."""
        return restore_tree(parse, self.labels)

    def derivation(self, tree: Tree) -> Derivation:
        """Return the parse of a tree, transformed as the treebank was. Raise DataError if it uses an unknown rule."""
        top = _cleaned(tree, self.options)
        if top is None:
            raise DataError(f"The tree at {tree.location} has no word left after dropping traces. Remove it.")
        _name(top, self.options, self._names)
        rules = {(rule.left, rule.right): rule for rule in self.grammar.rules}
        results: list[Derivation] = []
        for node in reversed(list(_nodes(top))):  # children before parents, the last first
            word = None if node.word is None else self._known(node.word)
            right = _right(node, word)
            rule = rules.get((node.name, right))
            if rule is None:
                wanted = Rule(node.name, right)
                raise DataError(
                    f"The tree at {tree.location} uses {wanted}, which is not in the grammar. Use smoothing."
                )
            n = len(node.children)
            below: Sequence[Derivation | str] = results[len(results) - n :][::-1] if node.word is None else [node.word]
            del results[len(results) - n :]
            results.append(Derivation(rule, tuple(below)))
        return results[0]

    def _known(self, word: str) -> str:
        """Return the word, or the class that represents it."""
        if word in self.grammar.terminals or not self.options.rare:
            return word
        return next((name for name in word_classes(word) if name in self.grammar.terminals), word)


def restore_tree(parse: Derivation, labels: Mapping[Nonterminal, tuple[str, ...]]) -> Tree:
    """Return the original tree of a parse, given the labels of each symbol, none for a step inside a rule."""

    def node(here: Derivation, parts: list[tuple[Tree | str, ...] | str]) -> tuple[Tree | str, ...]:
        below = tuple(part for group in parts for part in ((group,) if isinstance(group, str) else group))
        for label in reversed(labels[here.rule.left]):
            below = (_tree(label, below),)
        return below

    (tree,) = parse.fold(node)
    assert isinstance(tree, Tree)
    return tree


def induce(trees: Iterable[Tree], options: Induction | None = None) -> InducedGrammar:
    """Return the probabilistic grammar of a treebank, by relative frequency.

    Args:
        trees: the treebank.
        options: annotation of parents, Markov order, classes of rare words; the defaults if None.
    """
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
        raise DataError(f"A grammar cannot be induced: none of {empty} trees has a word. Check the treebank.")
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
    """Return the symbols of the children in a context; None if one was never seen there and so has no rules."""
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
    """Return the tags of rare words by word class."""
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
    """Return the lexicon with rare words replaced by their finest class that is not itself rare."""
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


# --- from trees to rules ------------------------------------------------------------------------------------


class _Node:
    """A mutable node: its labels (several for a collapsed chain), its children or its word, and its symbol."""

    __slots__ = ("children", "key", "labels", "name", "word")

    def __init__(self, labels: tuple[str, ...], children: list[_Node], word: str | None) -> None:
        self.labels, self.children, self.word = labels, children, word
        self.name = _TOP
        self.key: _Key = ()


class _Names:
    """Assigns one unique symbol to each key, for any characters in labels."""

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
        """Return the labels that each symbol represents, none for a step inside a rule."""
        return {symbol: key[0] if len(key) == 2 else () for key, symbol in self.symbols.items()}


def plain_label(label: str) -> str:
    """Return the label without functional tags and indices: ``NP-SBJ-1`` and ``NP=2`` are ``NP``; ``-LRB-`` is kept."""
    if label.startswith("-"):
        return label
    return label.split("-", 1)[0].split("=", 1)[0] or label


def _cleaned(tree: Tree, options: Induction) -> _Node | None:
    """Return a transformed tree below :data:`ROOT`, or None if no word is left."""
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
    """Give every node its symbol, and split long rules if the options say so."""
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
