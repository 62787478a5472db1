"""How classifiers of texts read their inputs and training files. Imports no torch."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from catena.data.detect import detect_format
from catena.data.examples import LabeledText, SourceLocation
from catena.data.reading import ReadCounter
from catena.errors import CheckpointError, ConfigError, DataError
from catena.tasks.base import check_text
from catena.tasks.classify.config import ClassifyConfig
from catena.tasks.classify.data import has_foreign_labels, is_table, read_labeled_texts, read_parts
from catena.tasks.classify.labels import LabelOutputs
from catena.tasks.sources import DataParts, Sources

if TYPE_CHECKING:
    from catena.tasks.baselines.fitting import BaselineSuite


class TextInputs(LabelOutputs):
    """What all classifiers of texts have in common. Mixed into a task, whose ``encoding.texts`` has a tokenizer."""

    encoding: Any

    @classmethod
    def read(
        cls, config: ClassifyConfig, path: Path, counter: ReadCounter, *, gold: bool = True
    ) -> Iterator[LabeledText]:
        is_train = str(path) in config.data.train
        for example in read_labeled_texts(
            config.data, path, counter, gold=gold, phrases=config.data.phrases and is_train
        ):
            if gold and len(example.labels) != 1 and not config.data.multilabel and example.labels:
                raise DataError(
                    f"{example.location} must have one label, got {len(example.labels)} ({', '.join(example.labels)}). "
                    f"Use --multilabel if texts may have several."
                )
            yield example

    def read_inputs(self, path: Path, counter: ReadCounter) -> Iterator[LabeledText]:
        data = self.config.data
        if data.input_format == "auto" and has_foreign_labels(data, path, self.labels):
            data = data.model_copy(update={"input_format": "text"})
        elif data.text_column is not None and not is_table(data, path):
            data = data.model_copy(update={"text_column": None})
        return read_labeled_texts(data, path, counter, gold=False)

    @classmethod
    def describe_file(cls, config: ClassifyConfig, path: Path) -> str:
        shown = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
        if config.data.input_format != "auto":
            return f"{shown} is read as {config.data.input_format}"
        found = detect_format(path, config.data.encoding)
        roles = {"text": config.data.text_column, "label": config.data.label_column}
        columns = ", ".join(f"{role} = {column!r}" for role, column in roles.items() if column is not None)
        return f"{shown} is {found.format}: {columns or found.why}"

    def to_example(self, item: Any) -> LabeledText:
        if isinstance(item, LabeledText):
            return item
        return LabeledText(check_text(item), (), SourceLocation("input", 0))

    @classmethod
    def split_key(cls, example: LabeledText) -> str:
        return example.text

    @classmethod
    def split_group(cls, example: LabeledText) -> Hashable:
        return example.labels

    def training_parts(self, sources: Sources[LabeledText]) -> DataParts[LabeledText]:
        return read_parts(self.config, sources, self.encoding.texts.tokenizer)

    def baselines(self) -> BaselineSuite:
        from catena.tasks.classify.baselines import TextSuite

        return TextSuite(self)

    @classmethod
    def check_start(cls, theirs: ClassifyConfig, config: ClassifyConfig, folder: Path) -> None:
        if theirs.bagging != config.bagging:
            raise CheckpointError(
                f"bagging.members must be {theirs.bagging.members} "  # style: option name
                f"as in {folder}, got {config.bagging.members}. Remove the option, or train without --init-from."
            )

    def top_features(self, most: int = 20) -> dict[str, list[tuple[str, float]]]:
        """The features with the largest weights for each class, if the model is linear."""
        raise ConfigError(
            f"top features need a linear model, but this model is of kind {self.config.model.kind!r}. Train with "
            f"--model loglinear."
        )
