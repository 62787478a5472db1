"""A tree in the form that a network accepts: the parent, the word and the label of each node.

The tree is changed if the network cannot accept it; :attr:`TreeShape.origins` maps it back:

* A node with more than ``most`` children keeps the first ones; the others move under a new node without a label, on the
  right or on the left, recursively: with ``most = 2``, (A b c d) becomes (A b (c d)) or (A (b c) d).
* If each inner node needs two children, a chain of nodes with one child each becomes one node with the topmost label of
  the chain; all nodes of the chain get its prediction. An outer bracket without a label, as in the Penn Treebank, is
  always merged with its child.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from catena.data.examples import SourceLocation, Tree

_TreeOrForest = Tree | tuple[Tree, ...]
"""A node of the tree, or children that move under a new node."""


@dataclass(frozen=True)
class TreeLimits:
    """The trees a network accepts: maximum number of children (None for no limit), and whether chains are allowed."""

    most: int | None
    chains: bool
    right: bool = True


@dataclass
class TreeShape:
    """A tree as lists over its nodes; node 0 is the root, and children follow their parent from left to right.

    ``origins[i]`` is the node of this shape for node ``i`` of the original tree, in the order of the opening brackets.
    """

    parents: list[int] = field(default_factory=list)
    words: list[str | None] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    origins: list[int] = field(default_factory=list)


def build_shape(tree: Tree, fit: TreeLimits) -> TreeShape:
    """The shape of a tree. Not recursive, since trees may be deeper than Python's stack."""
    shape = TreeShape()
    waiting: list[tuple[_TreeOrForest, int]] = [(tree, -1)]
    while waiting:
        item, parent = waiting.pop()
        node = len(shape.parents)
        label, word, children = "", None, item if isinstance(item, tuple) else ()
        if isinstance(item, Tree):
            shape.origins.append(node)
            label = item.label
            while len(item.children) == 1 and (not fit.chains or item.label == ""):
                item = item.children[0]
                shape.origins.append(node)
                label = label or item.label
            word, children = item.word, item.children
        shape.parents.append(parent)
        shape.words.append(word)
        shape.labels.append(label)
        waiting += [(below, node) for below in reversed(_parted(children, fit))]
    return shape


def _parted(children: Sequence[Tree], fit: TreeLimits) -> list[_TreeOrForest]:
    """The children of a node, some of them grouped if there are too many."""
    if fit.most is None or len(children) <= fit.most:
        return list(children)
    alone = fit.most - 1
    if fit.right:
        return [*children[:alone], tuple(children[alone:])]
    cut = len(children) - alone
    return [tuple(children[:cut]), *children[cut:]]


def relabel_tree(tree: Tree, labels: Sequence[str]) -> Tree:
    """The same tree with other labels, given in the order of the opening brackets."""
    numbered: list[tuple[Tree, str, int]] = []  # node, label, number of children
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        numbered.append((node, labels[len(numbered)], len(node.children)))
        waiting += reversed(node.children)
    done: list[Tree] = []
    for node, label, n in reversed(numbered):  # children are done before their parent, the leftmost last
        own = tuple(done.pop() for _ in range(n))
        done.append(Tree(label, own, node.word, node.location))
    return done[0]


def branching_tree(words: Sequence[str], label: str, location: SourceLocation, right: bool) -> Tree:
    """A right- or left-branching binary tree over words; only the root has the label."""
    leaves = [Tree("", (), word, location) for word in words]
    if not leaves:
        return Tree(label, (), "", location)
    if len(leaves) == 1:
        return Tree(label, (), leaves[0].word, location)
    if right:
        tree = leaves[-1]
        for leaf in reversed(leaves[:-1]):
            tree = Tree("", (leaf, tree), None, location)
    else:
        tree = leaves[0]
        for leaf in leaves[1:]:
            tree = Tree("", (tree, leaf), None, location)
    return Tree(label, tree.children, None, location)
