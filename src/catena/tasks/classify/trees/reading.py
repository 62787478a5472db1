"""Labelled trees from files: in brackets, or made of texts that come without trees if the config says how."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from catena.data.examples import LabelledText, Place, Tree
from catena.data.readers.brackets import parse
from catena.data.readers.brackets import read as read_brackets
from catena.data.reading import Tally
from catena.data.recognise import recognise
from catena.data.tokenise import Tokeniser
from catena.errors import DataError
from catena.tasks.classify.dataset import read_labelled
from catena.tasks.classify.settings import ClassifyData
from catena.tasks.classify.tree_settings import TreeLstmModel, TreeModel
from catena.tasks.classify.trees.shape import Fit, Shape, branching_tree, shape_of

NEEDS_TREES = (
    "this model reads trees in brackets, such as (3 (2 a) (3 (4 good) (2 film))): give trees, or set "
    "model.without_tree = 'right' to read a text as a right-branching tree"
)


def fit_of(model: TreeModel) -> Fit:
    """Which trees the network of a config takes."""
    right = model.branching == "right"
    if isinstance(model, TreeLstmModel):
        return Fit(None if model.encoder.children == "summed" else model.encoder.most, chains=True, right=right)
    return Fit(2, chains=False, right=right)


@dataclass(frozen=True)
class TreeReader:
    """Turns what files and people give into labelled shapes. Words are kept as they stand; ``tokens`` are theirs."""

    model: TreeModel
    data: ClassifyData
    tokeniser: Tokeniser

    @property
    def fit(self) -> Fit:
        return fit_of(self.model)

    def trees(self, path: str | Path, tally: Tally) -> Iterator[Tree]:
        """The trees of a file, each counted."""
        if self._is_brackets(path):
            yield from tally.seen(read_brackets(path, encoding=self.data.encoding))
        elif self.model.without_tree == "refuse":
            found = recognise(path, self.data.encoding)
            raise DataError(f"{path} holds no trees (it looks like {found.format}: {found.why}); {NEEDS_TREES}")
        else:
            yield from (self.tree_of(example) for example in read_labelled(self.data, path, tally))

    def tree_of(self, example: LabelledText) -> Tree:
        """A tree over the tokens of a text, with its label at the root."""
        if len(example.labels) > 1:
            raise DataError(f"{example.place} has {len(example.labels)} labels, and a classifier of trees gives one")
        return self.tree_of_text(example.text, example.labels[0] if example.labels else "", example.place)

    def tree_of_text(self, text: str, label: str, place: Place) -> Tree:
        return branching_tree(self.tokeniser.tokens(text), label, place, self.model.without_tree == "right")

    def tree_of_item(self, item: str | Tree, place: Place) -> Tree:
        """What a person gives: a tree, a tree in brackets, or a text."""
        if isinstance(item, Tree):
            return item
        if item.lstrip().startswith("("):
            return parse(item, str(place))
        if self.model.without_tree == "refuse":
            shown = item if len(item) <= 40 else item[:39] + "…"
            raise DataError(f"{place} has no tree: {shown!r}; {NEEDS_TREES}")
        return self.tree_of_text(item, "", place)

    def shape(self, tree: Tree) -> Shape:
        """The tree as the network takes it, with its labels renamed and those that do not count left out."""
        shape = shape_of(tree, self.fit)
        names = dict(pair.split("=", 1) for pair in self.data.relabel)
        shape.labels = [names.get(label, label) for label in shape.labels]
        if self.model.nodes == "root":
            shape.labels[1:] = [""] * (len(shape.labels) - 1)
        return shape

    def tokens(self, shapes: Iterable[Shape]) -> dict[str, str]:
        """The token of each word. A leaf is one token; where the tokeniser would cut it, its pieces stay together."""
        words = {word for shape in shapes for word in shape.words if word is not None}
        return {word: "".join(self.tokeniser.tokens(word)) for word in words}

    def _is_brackets(self, path: str | Path) -> bool:
        if self.data.format != "auto":
            return self.data.format == "brackets"
        return recognise(path, self.data.encoding).format == "brackets"
