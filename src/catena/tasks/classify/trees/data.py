"""Labeled trees: reading, and the form that a network accepts, with the parent, word and label of each node.

The tree is changed if the network cannot accept it; :attr:`TreeShape.origins` maps it back:

* A node with more than ``most`` children keeps the first ones; the others move under a new node without a label, on the
  right or on the left, recursively: with ``most = 2``, (A b c d) becomes (A b (c d)) or (A (b c) d).
* If each inner node needs two children, a chain of nodes with one child each becomes one node with the topmost label of
  the chain; all nodes of the chain get its prediction. An outer bracket without a label, as in the Penn Treebank, is
  always merged with its child.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from catena.data.detect import detect_format
from catena.data.examples import LabeledText, SourceLocation, Tree
from catena.data.readers.brackets import parse
from catena.data.readers.brackets import read as read_brackets
from catena.data.reading import ReadCounter
from catena.data.tokenize import Tokenizer
from catena.errors import DataError
from catena.tasks.classify.config import ClassifyDataConfig
from catena.tasks.classify.data import read_labeled_texts
from catena.tasks.classify.tree_config import TreeClassifierConfig, TreeLSTMClassifierConfig

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


# --- reading ----------------------------------------------------------------------------------------------------------


NEEDS_TREES = (
    "this model reads trees in brackets, such as (3 (2 a) (3 (4 good) (2 film))). Give trees, or set "
    "model.without_tree = 'right' to read a text as a right-branching tree"
)


def tree_limits(model: TreeClassifierConfig) -> TreeLimits:
    """The trees that the network of a config accepts."""
    right = model.branching == "right"
    if isinstance(model, TreeLSTMClassifierConfig):
        return TreeLimits(None if model.encoder.children == "summed" else model.encoder.most, chains=True, right=right)
    return TreeLimits(2, chains=False, right=right)


@dataclass(frozen=True)
class TreeReader:
    """Turns trees from files and users into labeled shapes. Words stay unchanged; ``tokens`` maps them to tokens."""

    model: TreeClassifierConfig
    data: ClassifyDataConfig
    tokenizer: Tokenizer

    @property
    def fit(self) -> TreeLimits:
        return tree_limits(self.model)

    def trees(self, path: Path, counter: ReadCounter, *, gold: bool = True) -> Iterator[Tree]:
        """The trees of a file, each counted as read."""
        if self._is_brackets(path):
            yield from read_brackets(path, encoding=self.data.encoding, counter=counter)
        elif self.model.without_tree == "refuse":
            found = detect_format(path, self.data.encoding)
            raise DataError(f"{path} has no trees (it looks like {found.format}: {found.why}); {NEEDS_TREES}.")
        else:
            yield from (self.tree_of(example) for example in read_labeled_texts(self.data, path, counter, gold=gold))

    def tree_of(self, example: LabeledText) -> Tree:
        """A tree over the tokens of a text, with the text's label at the root."""
        if len(example.labels) > 1:
            raise DataError(f"{example.location} must have one label, got {len(example.labels)}. Keep one label.")
        return self.tree_of_text(example.text, example.labels[0] if example.labels else "", example.location)

    def tree_of_text(self, text: str, label: str, location: SourceLocation) -> Tree:
        return branching_tree(self.tokenizer.tokens(text), label, location, self.model.without_tree == "right")

    def tree_of_item(self, item: str | Tree, location: SourceLocation) -> Tree:
        """The tree of a user's input: a tree, a tree in brackets, or a text."""
        if isinstance(item, Tree):
            return item
        if item.lstrip().startswith("("):
            return parse(item, str(location))
        if self.model.without_tree == "refuse":
            shown = item if len(item) <= 40 else item[:39] + "…"
            raise DataError(f"{location} has no tree: {shown!r}; {NEEDS_TREES}.")
        return self.tree_of_text(item, "", location)

    def shape(self, tree: Tree) -> TreeShape:
        """The tree in the form that the network accepts, with renamed labels and without unused ones."""
        shape = build_shape(tree, self.fit)
        names = dict(pair.split("=", 1) for pair in self.data.relabel)
        shape.labels = [names.get(label, label) for label in shape.labels]
        if self.model.nodes == "root":
            shape.labels[1:] = [""] * (len(shape.labels) - 1)
        return shape

    def tokens(self, shapes: Iterable[TreeShape]) -> dict[str, str]:
        """The token of each word. A leaf is one token; if the tokenizer splits it, its pieces are joined."""
        words = {word for shape in shapes for word in shape.words if word is not None}
        return {word: "".join(self.tokenizer.tokens(word)) for word in words}

    def _is_brackets(self, path: str | Path) -> bool:
        if self.data.input_format != "auto":
            return self.data.input_format == "brackets"
        return detect_format(path, self.data.encoding).format == "brackets"
