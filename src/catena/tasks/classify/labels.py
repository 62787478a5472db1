"""Classes as outputs: calibrated log-probabilities, evaluations and predictions of any classifier. Imports no torch.

Tested in tests/tasks/classify/test_task.py and tests/tasks/classify/linear/test_task.py.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, runtime_checkable

import numpy as np

from catena.data.detect import detect_format
from catena.data.examples import LabeledText, SourceLocation
from catena.data.reading import ReadCounter
from catena.data.vocabulary import Labels
from catena.errors import CheckpointError, ConfigError, DataError
from catena.metrics.calibration import fit_temperature
from catena.metrics.measure import Metric
from catena.tasks.base import check_text
from catena.tasks.classify.config import ClassifyConfig, ClassifyOptions
from catena.tasks.classify.data import encode_labels, has_foreign_labels, is_table, read_labeled_texts, read_parts
from catena.tasks.classify.predict import METRICS, ClassifyEvaluation, ClassPrediction, predicted_ids
from catena.tasks.options import PredictOptions
from catena.tasks.sources import DataParts, Sources

if TYPE_CHECKING:
    from catena.tasks.baselines.fitting import BaselineSuite


@runtime_checkable
class LabeledRows(Protocol):
    """Encoded inputs with their gold labels, and a few of them in words, by position."""

    @property
    def gold(self) -> list[tuple[str, ...]]: ...

    @property
    def shown(self) -> dict[int, str]: ...


def is_dev_trained_on(config: ClassifyConfig) -> bool:
    """Whether dev is part of train, so that it cannot fit a temperature."""
    return config.data.train_on_dev and config.data.dev is None


def describe_temperature(config: ClassifyConfig, temperature: float, *, is_bag: bool = False) -> str:
    """The temperature of a classifier and where it is from.

    Args:
        config: its config.
        temperature: divides the scores in prediction.
        is_bag: whether it is a bag of models, whose probabilities are averaged and not divided.
    """
    if not config.evaluation.calibrate or is_bag:
        return f"temperature: {temperature:.3f}, not fitted"
    if is_dev_trained_on(config):
        return f"temperature: {temperature:.3f}, of the config, because dev is part of train"
    return f"temperature fitted on dev: {temperature:.3f}"


class LabelOutputs:
    """What all tasks that assign labels to inputs have in common. Mixed into a task."""

    name: ClassVar[str] = "classify"
    options_class: ClassVar[type[PredictOptions]] = ClassifyOptions
    formats: ClassVar[tuple[str, ...]] = ("tsv", "text", "csv", "jsonl")

    config: ClassifyConfig
    names: Labels

    @property
    def labels(self) -> tuple[str, ...]:
        """The classes, in the order of the columns of log-probabilities."""
        return self.names.names

    @property
    def multilabel(self) -> bool:
        """Whether an input may have several labels."""
        return self.config.data.multilabel

    def all_metrics(self) -> Mapping[str, Metric]:
        return METRICS

    # --- evaluation ---------------------------------------------------------------------------------------------------

    def _fitted_temperature(self, logits: np.ndarray, gold: Sequence[tuple[str, ...]]) -> float:
        """The temperature with the highest likelihood. A binary decision is a choice between scores s and 0.

        Inputs with a label that does not occur in training are skipped: their likelihood is 0 at any temperature. If
        dev is part of train, its temperature would be too low, and the one of the config is used.
        """
        if is_dev_trained_on(self.config):
            return self.config.evaluation.temperature
        if not self.multilabel:
            known = {name: j for j, name in enumerate(self.labels)}
            seen = [i for i, labels in enumerate(gold) if labels[0] in known]
            ids = np.array([known[gold[i][0]] for i in seen], np.int64)
            return fit_temperature(logits[seen], ids) if seen else 1.0
        own = [[label for label in labels if label in self.names] for labels in gold]
        pairs = np.stack((np.zeros(logits.size), logits.reshape(-1)), axis=-1)
        return fit_temperature(pairs, encode_labels(own, self.labels, True).reshape(-1).astype(np.int64))

    def show(self, rows: LabeledRows, result: ClassifyEvaluation) -> list[str]:
        lines = []
        for i, text in rows.shown.items():
            guess = [self.labels[j] for j in predicted_ids(result.log_probs[i : i + 1], self.multilabel)[0]]
            mark = "✓" if set(guess) == set(rows.gold[i]) else f"✗ (is {', '.join(rows.gold[i]) or 'none'})"
            shown = text if len(text) <= 60 else text[:57] + "…"
            lines.append(f"{shown}  →  {', '.join(guess) or 'none'} {mark}")
        return lines

    # --- prediction ---------------------------------------------------------------------------------------------------

    def _predictions(
        self, inputs: Sequence[str], log_probs: np.ndarray, options: ClassifyOptions, key: str = "text"
    ) -> list[ClassPrediction]:
        """The predictions of inputs with these log-probabilities; ``key`` is the name of the input in JSON."""
        chosen = predicted_ids(log_probs, self.multilabel, options.threshold)
        order = np.argsort(-log_probs, axis=1, kind="stable")
        ranked = np.take_along_axis(np.exp(log_probs), order, axis=1).tolist()
        separator = self.config.data.label_separator or (", " if self.multilabel else "")
        names, several, shown = self.labels, self.multilabel, (options.n_best, options.scores, separator, key)
        made = []
        for text, ids, row, columns in zip(inputs, chosen, ranked, order.tolist(), strict=True):
            probabilities = {names[j]: p for j, p in zip(columns, row, strict=True)}
            made.append(ClassPrediction(text, tuple(names[j] for j in ids), probabilities, several, *shown))
        return made


# --- texts ------------------------------------------------------------------------------------------------------------


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
