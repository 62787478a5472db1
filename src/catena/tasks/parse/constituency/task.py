"""What all phrase-structure parsers have in common."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from catena.data.examples import Tree, get_text
from catena.data.reading import Dropped
from catena.draw.picture import Picture
from catena.draw.tree import draw_tree
from catena.errors import ConfigError
from catena.tasks.base import DataParts
from catena.tasks.config import model_section
from catena.tasks.parse.config import ParseConfig
from catena.tasks.parse.constituency.config import ConstituencyParserConfig
from catena.tasks.parse.constituency.trees import (
    BracketConstraint,
    bracketing,
    clean_tree,
    flat,
    phrase_labels,
    read_given,
)
from catena.tasks.parse.data import ParseExample, TreeExample
from catena.tasks.parse.predict import ConstituencyEvaluation, ConstituencyPrediction
from catena.tasks.parse.task import O, ParseTask, describe_sizes
from catena.tasks.sources import unseen_line

if TYPE_CHECKING:
    from catena.tasks.pretrained import Pretrained


_ESCAPES = {"(": "-LRB-", ")": "-RRB-", "[": "-LSB-", "]": "-RSB-", "{": "-LCB-", "}": "-RCB-"}
"""How brackets are written in files of brackets."""


class ConstituencyTask(ParseTask[Tree, ConstituencyPrediction, O]):
    """A phrase-structure parser."""

    formats = ("brackets", "tree", "tsv", "csv", "jsonl")
    tree_format = "brackets"
    cures: ClassVar[Mapping[str, str]] = {
        "conllu": "For dependency trees, use --model biaffine.",
        "text": "For the rules of a grammar, use --model grammar.",
    }
    evaluation = ConstituencyEvaluation

    @classmethod
    def from_tree(cls, config: ParseConfig, tree: Tree) -> TreeExample | Dropped:
        clean = clean_tree(tree, model_section(config, ConstituencyParserConfig).functions)
        if clean is None or clean.word is not None:
            return Dropped(tree.location, "without a word" if clean is None else "with only a word", get_text(tree))
        return ParseExample(clean.words(), clean, tree.location)

    @classmethod
    def from_input(cls, config: ParseConfig, example: ParseExample[Any], item: Any) -> TreeExample:
        if isinstance(item, Tree):
            tree = clean_tree(item)
            words = () if tree is None else tree.words()
        else:
            words = tuple(_ESCAPES.get(word, word) for word in example.words)
        return replace(example, words=words, tree=flat(words, words))

    @classmethod
    def read_constraints(cls, path: Path) -> Iterator[tuple[BracketConstraint, ...]]:
        return read_given(path)

    @classmethod
    def adopt(cls, config: ParseConfig, pretrained: Pretrained) -> ParseConfig:
        raise ConfigError(
            f"pretrained needs model.kind = 'span' or 'biaffine', got {config.model.kind!r}. Remove pretrained, or use "
            f"--model span."
        )

    def predict_empty(self, example: TreeExample, options: O) -> ConstituencyPrediction:
        return ConstituencyPrediction.without_parse(example, (), options, "the sentence has no words")

    def compare(
        self, examples: Sequence[TreeExample], predictions: Sequence[ConstituencyPrediction]
    ) -> ConstituencyEvaluation:
        gold = [bracketing(example.tree) for example in examples]
        failures = [one.note for one in predictions if one.note]
        words = [example.words for example in examples]
        return ConstituencyEvaluation(words, gold, [bracketing(one.tree) for one in predictions], failures)

    def draw(self, example: TreeExample, options: O) -> Picture:
        one = self.predict_to_draw(example, options)
        return draw_tree(one.labeled_tree(one.tree, " "), title=one.note or "")


def describe_trees(parts: DataParts[TreeExample], unknown: Mapping[str, float] | None = None) -> list[str]:
    """Lines about the sizes of the parts, and about phrase labels of dev and test that do not occur in train."""
    seen = {label for example in parts.train for label in phrase_labels(example.tree)}
    labels = (label for example in (*parts.dev, *parts.test) for label in phrase_labels(example.tree))
    line = unseen_line(Counter(label for label in labels if label not in seen), "dev and test", "phrases have a label")
    return [*describe_sizes(parts, unknown), *([line] if line else [])]


def reason_to_drop(config: ParseConfig, example: TreeExample) -> str | None:
    """Why a tree is not trained on; None if it is."""
    limit = config.data.max_length
    return f"longer than max_length={limit}" if len(example.words) > limit else None
