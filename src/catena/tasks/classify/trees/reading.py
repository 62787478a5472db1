"""Labeled trees from files: in brackets, or made of texts that come without trees if the config says how."""

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
from catena.tasks.classify.dataset import read_labeled_texts
from catena.tasks.classify.tree_config import TreeClassifierConfig, TreeLSTMClassifierConfig
from catena.tasks.classify.trees.shape import TreeLimits, TreeShape, branching_tree, build_shape

NEEDS_TREES = (
    "this model reads trees in brackets, such as (3 (2 a) (3 (4 good) (2 film))): give trees, or set "
    "model.without_tree = 'right' to read a text as a right-branching tree"
)


def tree_limits(model: TreeClassifierConfig) -> TreeLimits:
    """Which trees the network of a config takes."""
    right = model.branching == "right"
    if isinstance(model, TreeLSTMClassifierConfig):
        return TreeLimits(None if model.encoder.children == "summed" else model.encoder.most, chains=True, right=right)
    return TreeLimits(2, chains=False, right=right)


@dataclass(frozen=True)
class TreeReader:
    """Turns what files and people give into labeled shapes. Words are kept as they stand; ``tokens`` are theirs."""

    model: TreeClassifierConfig
    data: ClassifyDataConfig
    tokenizer: Tokenizer

    @property
    def fit(self) -> TreeLimits:
        return tree_limits(self.model)

    def trees(self, path: str | Path, tally: ReadCounter) -> Iterator[Tree]:
        """The trees of a file, each counted."""
        if self._is_brackets(path):
            yield from tally.seen(read_brackets(path, encoding=self.data.encoding))
        elif self.model.without_tree == "refuse":
            found = detect_format(path, self.data.encoding)
            raise DataError(f"{path} holds no trees (it looks like {found.format}: {found.why}); {NEEDS_TREES}")
        else:
            yield from (self.tree_of(example) for example in read_labeled_texts(self.data, path, tally))

    def tree_of(self, example: LabeledText) -> Tree:
        """A tree over the tokens of a text, with its label at the root."""
        if len(example.labels) > 1:
            raise DataError(f"{example.place} has {len(example.labels)} labels, and a classifier of trees gives one")
        return self.tree_of_text(example.text, example.labels[0] if example.labels else "", example.place)

    def tree_of_text(self, text: str, label: str, place: SourceLocation) -> Tree:
        return branching_tree(self.tokenizer.tokens(text), label, place, self.model.without_tree == "right")

    def tree_of_item(self, item: str | Tree, place: SourceLocation) -> Tree:
        """What a person gives: a tree, a tree in brackets, or a text."""
        if isinstance(item, Tree):
            return item
        if item.lstrip().startswith("("):
            return parse(item, str(place))
        if self.model.without_tree == "refuse":
            shown = item if len(item) <= 40 else item[:39] + "…"
            raise DataError(f"{place} has no tree: {shown!r}; {NEEDS_TREES}")
        return self.tree_of_text(item, "", place)

    def shape(self, tree: Tree) -> TreeShape:
        """The tree as the network takes it, with its labels renamed and those that do not count left out."""
        shape = build_shape(tree, self.fit)
        names = dict(pair.split("=", 1) for pair in self.data.relabel)
        shape.labels = [names.get(label, label) for label in shape.labels]
        if self.model.nodes == "root":
            shape.labels[1:] = [""] * (len(shape.labels) - 1)
        return shape

    def tokens(self, shapes: Iterable[TreeShape]) -> dict[str, str]:
        """The token of each word. A leaf is one token; where the tokenizer would cut it, its pieces stay together."""
        words = {word for shape in shapes for word in shape.words if word is not None}
        return {word: "".join(self.tokenizer.tokens(word)) for word in words}

    def _is_brackets(self, path: str | Path) -> bool:
        if self.data.format != "auto":
            return self.data.format == "brackets"
        return detect_format(path, self.data.encoding).format == "brackets"
