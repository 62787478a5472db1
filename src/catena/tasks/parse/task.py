"""What all parsers have in common: reading, constraints, sentences without words, evaluation, encoded sentences."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np

from catena.data.formats import FORMATS
from catena.data.reading import Dropped, ReadCounter
from catena.errors import DataError
from catena.metrics.measure import Metric
from catena.tasks.base import BaseTask, EvaluationResult
from catena.tasks.neural import NeuralTask
from catena.tasks.options import RankedOptions
from catena.tasks.parse.config import ParseConfig
from catena.tasks.parse.data import ParseExample, T, input_example, read_inputs, tree_format
from catena.tasks.parse.predict import P, ParseEvaluation

O = TypeVar("O", bound=RankedOptions)  # noqa: E741


class ParseTask(BaseTask[ParseConfig, ParseExample[T], P, O]):
    """A parser of any kind."""

    name = "parse"
    detects_inputs = True
    next_commands = ("predict RUN FILE", "evaluate RUN FILE", "draw RUN TEXT")
    tree_format: ClassVar[str]
    """The format of files of trees."""
    cures: ClassVar[Mapping[str, str]]
    """What to do with files of other formats."""
    evaluation: ClassVar[type[ParseEvaluation]]

    @classmethod
    @abstractmethod
    def from_tree(cls, config: ParseConfig, tree: Any) -> ParseExample[T] | Dropped:
        """The example of a tree of a file, or where and why it is dropped."""

    @classmethod
    @abstractmethod
    def from_input(cls, config: ParseConfig, example: ParseExample[Any], item: Any) -> ParseExample[T]:
        """The example of an input: its words, and more that the parser reads of it."""

    @classmethod
    @abstractmethod
    def read_constraints(cls, path: Path) -> Iterator[Any]:
        """The constraints of a file, one for each sentence."""

    @abstractmethod
    def parse(self, examples: Sequence[ParseExample[T]], options: O) -> list[P]:
        """The predictions of sentences that have words."""

    @abstractmethod
    def predict_empty(self, example: ParseExample[T], options: O) -> P:
        """The prediction of a sentence without words."""

    @abstractmethod
    def compare(self, examples: Sequence[ParseExample[T]], predictions: Sequence[P]) -> ParseEvaluation:
        """Compare predictions with the gold trees."""

    # --- reading ------------------------------------------------------------------------------------------------------

    @classmethod
    def read(
        cls, config: ParseConfig, path: Path, counter: ReadCounter, *, gold: bool = True
    ) -> Iterator[ParseExample[T]]:
        if not gold:
            for item in read_inputs(config.data, path, counter):
                yield cls.from_input(config, input_example(config, item), item)
            return
        found = tree_format(cls.tree_format, config.data, path, cls.cures)
        for tree in FORMATS[found.format].read(path, encoding=config.data.encoding, counter=counter, **found.options):
            example = cls.from_tree(config, tree)
            if isinstance(example, Dropped):
                counter.drop(example.reason, example.location, example.text)
            else:
                yield example

    @classmethod
    def describe_file(cls, config: ParseConfig, path: Path) -> str:
        found = tree_format(cls.tree_format, config.data, path, cls.cures)
        return f"{path.name} is {found.format}: {found.why}"

    def to_example(self, item: Any) -> ParseExample[T]:
        if isinstance(item, ParseExample):
            return item
        return self.from_input(self.config, input_example(self.config, item), item)

    @classmethod
    def split_key(cls, example: ParseExample[T]) -> str:
        return " ".join(example.words)

    # --- prediction ---------------------------------------------------------------------------------------------------

    def predict_stream(self, items: Iterable[Any], options: O | None = None) -> Iterator[P]:
        path = getattr(options, "constraint", None)
        return super().predict_stream(items if path is None else self._constrained(items, path), options)

    def _constrained(self, items: Iterable[Any], path: Path) -> Iterator[ParseExample[T]]:
        """The examples with their constraints."""
        constraints, n = self.read_constraints(path), 0
        for n, item in enumerate(items, start=1):
            constraint = next(constraints, None)
            if constraint is None:
                raise DataError(
                    f"{path} must have a constraint for each sentence, got only {n - 1}. Add the others in the same "
                    f"order, with _ if nothing is fixed."
                )
            yield replace(self.to_example(item), constraint=constraint)
        if next(constraints, None) is not None:
            raise DataError(
                f"{path} must have a constraint for each of the {n} sentences, got more. Remove the others."
            )

    def predict_examples(self, examples: Sequence[ParseExample[T]], options: O) -> list[P]:
        parsed = iter(self.parse([example for example in examples if example.words], options))
        return [next(parsed) if example.words else self.predict_empty(example, options) for example in examples]

    def predict_to_draw(self, example: ParseExample[T], options: O) -> P:
        """The prediction of a sentence, which must have words."""
        if not example.words:
            raise DataError("A text without words has no tree to draw. Give at least one word.")
        return self.predict([example], options)[0]

    def draw_text(self, example: ParseExample[T], options: O) -> str:
        return self.predict_to_draw(example, options).to_text("tree").rstrip("\n")

    # --- evaluation ---------------------------------------------------------------------------------------------------

    def all_metrics(self) -> Mapping[str, Metric]:
        return self.evaluation.METRICS

    def evaluate_examples(self, examples: Sequence[ParseExample[T]]) -> EvaluationResult:
        options: Any = self.options_class()
        return self.compare(examples, self.predict_examples(examples, options))


@dataclass(frozen=True, eq=False)
class ParseRows:
    """Encoded sentences.

    Args:
        examples: the sentences.
        words: their words as ids.
        lengths: the length of each sentence.
        trees: their gold trees as ids, filled when they are trained on; labels of dev and test may be unknown.
    """

    examples: Sequence[ParseExample[Any]]
    words: Any
    lengths: np.ndarray
    trees: list[Any] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.examples)


class NeuralParseTask(NeuralTask[ParseConfig, ParseExample[T], P, O], ParseTask[T, P, O]):
    """A neural parser."""

    @abstractmethod
    def encode_tree(self, example: ParseExample[T]) -> Any:
        """The gold tree of a training sentence as ids."""

    @abstractmethod
    def parse_rows(self, rows: ParseRows, options: O) -> list[P]:
        """The predictions of encoded sentences that have words."""

    def encoded_trees(self, rows: ParseRows, index: np.ndarray) -> list[Any]:
        """The gold trees of the rows at ``index``."""
        if not rows.trees:
            rows.trees.extend(map(self.encode_tree, rows.examples))
        return [rows.trees[i] for i in index]

    def parse(self, examples: Sequence[ParseExample[T]], options: O) -> list[P]:
        return self.parse_rows(self.encode(examples, gold=False), options) if examples else []

    def evaluate_rows(self, rows: ParseRows) -> ParseEvaluation:
        options: Any = self.options_class()
        return self.compare(rows.examples, self.parse_rows(rows, options))

    def show(self, rows: ParseRows, result: ParseEvaluation) -> list[str]:
        return result.show()


def describe_sizes(parts: Any, unknown: Mapping[str, float] | None = None) -> list[str]:
    """Lines about train, dev and test: their sizes, and the fraction of ``unknown`` words if it is given."""
    lines = []
    for part in ("train", "dev", "test"):
        if lengths := [len(example.words) for example in getattr(parts, part)]:
            line = f"{part}: {len(lengths):,} sentences, {sum(lengths):,} words, {max(lengths):,} at most"
            lines.append(line + (f", {100 * unknown[part]:.1f} % unknown" if unknown and part in unknown else ""))
    return lines
