"""Regression as a task: a Gaussian for each text, row of numbers, or both.

:class:`RegressTask` is common to the models that are solved for (:mod:`~catena.tasks.regress.fitted`) and those that
are trained in steps (:mod:`~catena.tasks.regress.neural`). Tested in tests/tasks/regress/test_task.py.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from catena.data.examples import SourceLocation
from catena.data.reading import ReadCounter
from catena.errors import DataError
from catena.metrics.measure import Metric
from catena.tasks.base import BaseTask, DataParts, EvaluationResult
from catena.tasks.regress.config import RegressConfig, RegressOptions
from catena.tasks.regress.data import RegressExample, is_table, open_values, read_values
from catena.tasks.regress.encoding import RegressEncoding, fit_tokenizer
from catena.tasks.regress.predict import ALL_METRICS, RegressEvaluation, ValuePrediction

if TYPE_CHECKING:
    from catena.data.tokenize import Tokenizer
    from catena.tasks.baselines.fitting import BaselineSuite
    from catena.tasks.sources import Sources

Gaussians = tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]
"""The mean and the standard deviation of each example."""


class RegressTask(BaseTask[RegressConfig, RegressExample, ValuePrediction, RegressOptions]):
    """A model of numbers."""

    name = "regress"
    options_class = RegressOptions
    formats = ("tsv", "text", "csv", "jsonl")
    encoding: RegressEncoding

    @abstractmethod
    def gaussians(self, examples: Sequence[RegressExample]) -> Gaussians:
        """The predicted Gaussian of each example."""

    @property
    def reads_texts(self) -> bool:
        """Whether examples have a text, or the path of a file."""
        return self.encoding.texts is not None

    # --- reading ------------------------------------------------------------------------------------------------------

    @classmethod
    def complete(cls, config: RegressConfig, note: Callable[[str], None]) -> RegressConfig:
        """The config with the columns of the first training file, so that all other files are read in the same way."""
        if not config.data.train:
            return config
        file, columns = open_values(config.data, Path(config.data.train[0]))
        names = {"text_column": columns.text, "value_column": columns.value, "number_columns": columns.numbers}
        if not is_table(file):
            names = {"number_columns": columns.numbers}
        note(f"columns: {columns}")
        return config.model_copy(update={"data": config.data.model_copy(update=names)})

    @classmethod
    def read(
        cls, config: RegressConfig, path: Path, counter: ReadCounter, *, gold: bool = True
    ) -> Iterator[RegressExample]:
        return read_values(config.data, path, counter, gold=gold)

    def read_inputs(self, path: Path, counter: ReadCounter) -> Iterator[RegressExample]:
        return read_values(self.config.data, path, counter, gold=False)

    @classmethod
    def describe_file(cls, config: RegressConfig, path: Path) -> str:
        file, _ = open_values(config.data, path)
        shown = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
        why = f": {file.detected.why}" if file.detected.columns.keys() >= {"text", "value"} else ""
        return f"{shown} is {file.detected.format}{why}"

    def to_example(self, item: Any) -> RegressExample:
        if isinstance(item, RegressExample):
            return item
        location = SourceLocation("input", 0)
        if isinstance(item, str) and not self.encoding.names:
            return RegressExample(item, (), math.nan, location)
        row = np.asarray(item, np.float64) if not isinstance(item, str) else np.zeros(0)
        if self.encoding.texts is not None or row.shape != (len(self.encoding.names),):
            need = "a text" if not self.encoding.names else f"{len(self.encoding.names)} numbers"
            raise DataError(f"an input of this model must be {need}, got {item!r:.60}. Pass a list of such inputs.")
        return RegressExample("", tuple(row.tolist()), math.nan, location)

    def training_parts(self, sources: Sources[RegressExample]) -> DataParts[RegressExample]:
        tokenizer = fit_tokenizer(self.config, ()) if self.encoding.texts is None else self.encoding.texts.tokenizer
        return keep_usable(self.config, sources, tokenizer)

    @classmethod
    def split_key(cls, example: RegressExample) -> str:
        return example.key

    def baselines(self) -> BaselineSuite:
        from catena.tasks.regress.baselines import RegressSuite

        return RegressSuite(self)

    # --- prediction ---------------------------------------------------------------------------------------------------

    def predict_examples(self, examples: Sequence[RegressExample], options: RegressOptions) -> list[ValuePrediction]:
        half = NormalDist().inv_cdf((1 + options.level) / 2)
        found = []
        for example, mean, std in zip(examples, *(part.tolist() for part in self.gaussians(examples)), strict=True):
            text = example.text if self.reads_texts else None
            numbers = dict(zip(self.encoding.names, example.numbers, strict=True))
            found.append(ValuePrediction(mean, std, mean - half * std, mean + half * std, text, numbers))
        return found

    def warnings(self, prediction: ValuePrediction, options: RegressOptions) -> Sequence[str]:
        if not prediction.missing:
            return ()
        return ("{n} input{s} {was} without some number; the mean of the training data was used for it",)

    # --- evaluation ---------------------------------------------------------------------------------------------------

    def all_metrics(self) -> Mapping[str, Metric]:
        return ALL_METRICS

    def evaluate_examples(self, examples: Sequence[RegressExample]) -> EvaluationResult:
        return RegressEvaluation(np.array([example.value for example in examples]), *self.gaussians(examples))


def kept_deviation(config: RegressConfig) -> float | None:
    """The standard deviation of the config if dev is part of train and cannot show one."""
    return config.evaluation.deviation if config.data.train_on_dev and config.data.dev is None else None


def keep_usable(
    config: RegressConfig, sources: Sources[RegressExample], tokenizer: Tokenizer
) -> DataParts[RegressExample]:
    """The examples of train, dev and test; training examples that are too long or have no token are dropped."""
    limit = config.data.max_length

    def check(example: RegressExample) -> RegressExample | str:
        n = len(tokenizer.tokens(example.text)) if example.text else 0
        if n == 0 and not example.numbers:
            return "without a token"
        return f"longer than max_length={limit}" if n > limit and config.data.too_long == "drop" else example

    parts = sources.split()
    return DataParts(sources.keep_usable(parts.train, check), parts.dev, parts.test)


def describe_parts(parts: DataParts[RegressExample]) -> list[str]:
    """Lines about the values of train, dev and test."""
    lines = []
    for name, part in (("train", parts.train), ("dev", parts.dev), ("test", parts.test)):
        if len(part):
            values = np.array([example.value for example in part])
            spread = f"mean {values.mean():.4g}, standard deviation {values.std():.4g}"
            lines.append(f"{name}: {len(part):,} values, {spread}, from {values.min():.4g} to {values.max():.4g}")
    return lines
