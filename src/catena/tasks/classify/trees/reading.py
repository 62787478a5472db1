"""Labeled trees from files in brackets, or from texts without trees if the config allows it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
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
from catena.tasks.classify.trees.shape import TreeLimits, TreeShape, branching_tree, build_shape

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
