"""A parse as a tree with a rule at each node and words at the leaves.

Trees may be deeper than Python's stack, so the functions here are not recursive.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from catena.data.examples import SourceLocation, Tree
from catena.errors import DataError
from catena.grammar.cfg import Nonterminal, Rule
from catena.grammar.reduce import STEPS, normal_form
from catena.grammar.semantics import rule_meaning
from catena.grammar.terms import Term, apply_to

T = TypeVar("T")

NOWHERE = SourceLocation("parse", 1)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Derivation:
    """A node of a parse: a rule, and for each symbol on its right side a node or a word.

    Words are taken from the sentence; for a word that belongs to a class of rare words, the rule has the class.

    Args:
        rule: the rule of the node.
        children: a node or a word for each symbol on the right side of the rule.
    """

    rule: Rule
    children: tuple[Derivation | str, ...]

    def __post_init__(self) -> None:
        right = self.rule.right
        fits = len(right) == len(self.children) and all(
            child.rule.left == symbol if isinstance(child, Derivation) else isinstance(symbol, str)
            for symbol, child in zip(right, self.children, strict=True)
        )
        if not fits:
            raise DataError(
                f"children must match the right side of {self.rule}, got {self.children!r:.200}. Pass one node or word "
                "for each symbol."
            )

    @property
    def label(self) -> str:
        """The name of the symbol on the left side of the rule."""
        return self.rule.left.name

    def nodes(self) -> Iterator[Derivation]:
        """Yield every node in preorder."""
        waiting = [self]
        while waiting:
            node = waiting.pop()
            yield node
            waiting.extend(child for child in reversed(node.children) if isinstance(child, Derivation))

    def words(self) -> tuple[str, ...]:
        """Return the words from left to right."""
        found: list[str] = []
        waiting: list[Derivation | str] = [self]
        while waiting:
            item = waiting.pop()
            if isinstance(item, str):
                found.append(item)
            else:
                waiting.extend(reversed(item.children))
        return tuple(found)

    def rules(self) -> tuple[Rule, ...]:
        """Return the rules in the order of the leftmost derivation, which determine the tree."""
        return tuple(node.rule for node in self.nodes())

    @property
    def log_weight(self) -> float:
        """Return the log of the product of the weights of its rules, in nats."""
        if any(node.rule.weight == 0 for node in self.nodes()):
            return -math.inf
        return math.fsum(math.log(node.rule.weight) for node in self.nodes())

    def fold(self, combine: Callable[[Derivation, list[T | str]], T]) -> T:
        """Combine the results of the children of each node bottom-up; the result of a word is the word."""
        results: list[T | str] = []
        waiting: list[tuple[Derivation | str, bool]] = [(self, False)]
        while waiting:
            item, done = waiting.pop()
            if isinstance(item, str):
                results.append(item)
            elif not done:
                waiting.append((item, True))
                waiting.extend((child, False) for child in reversed(item.children))
            else:
                n = len(item.children)
                parts = results[len(results) - n :]
                del results[len(results) - n :]
                results.append(combine(item, parts))
        return results[0]  # type: ignore[return-value]

    def logical_form(self, *, steps: int = STEPS) -> Term:
        """Return the meaning of the parse: the beta-normal form of the combined meanings of its rules.

        ``steps`` limits the reduction at each node. See :mod:`catena.grammar.semantics`.
        """

        def combine(node: Derivation, parts: list[Term | str]) -> Term:
            meanings = [part for part in parts if isinstance(part, Term)]
            return normal_form(apply_to(rule_meaning(node.rule), meanings), steps=steps)

        return self.fold(combine)

    def tree(self) -> Tree:
        """Return the parse as a treebank tree.

        A word with siblings gets a tag equal to the word; an empty phrase holds ``(-NONE- *)``, as in the Penn
        Treebank.
        """

        def node(here: Derivation, parts: list[Tree | str]) -> Tree:
            if len(parts) == 1 and isinstance(parts[0], str):
                return Tree(here.label, (), parts[0], NOWHERE)
            children = [Tree(part, (), part, NOWHERE) if isinstance(part, str) else part for part in parts]
            return Tree(here.label, tuple(children or [Tree("-NONE-", (), "*", NOWHERE)]), None, NOWHERE)

        return self.fold(node)

    def __str__(self) -> str:
        """Return the tree in brackets, in one line."""
        parts: list[str] = []
        waiting: list[Derivation | str] = [self]
        while waiting:
            item = waiting.pop()
            if isinstance(item, str):
                parts.append(item)
            else:
                parts.append(f" ({item.label}")
                waiting.append(")")
                waiting.extend(f" {child}" if isinstance(child, str) else child for child in reversed(item.children))
        return "".join(parts).strip()

    def __repr__(self) -> str:
        return f"Derivation({self})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Derivation) and self.words() == other.words() and self.rules() == other.rules()

    def __hash__(self) -> int:
        return hash((self.words(), self.rules()))


def build_derivation(rules: Iterator[Rule]) -> Derivation:
    """Return the tree whose leftmost derivation uses these rules, in this order."""
    open_nodes: list[tuple[Rule, list[Derivation | str]]] = []
    for rule in rules:
        if open_nodes:
            above, parts = open_nodes[-1]
            if above.right[len(parts)] != rule.left:
                raise DataError(f"The rule {rule} cannot be next. Pass a rule for {above.right[len(parts)]}.")
        open_nodes.append((rule, []))
        while open_nodes:
            above, parts = open_nodes[-1]
            while len(parts) < len(above.right) and isinstance(word := above.right[len(parts)], str):
                parts.append(word)
            if len(parts) < len(above.right):
                break
            open_nodes.pop()
            node = Derivation(above, tuple(parts))
            if not open_nodes:
                return node
            open_nodes[-1][1].append(node)
    left = [above.right[len(parts)] for above, parts in open_nodes]
    wanted = left[-1].name if left and isinstance(left[-1], Nonterminal) else "start"
    raise DataError(f"The rules end before the tree is complete. Add a rule for {wanted!r}.")
