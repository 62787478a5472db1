"""Config of data and machine and names of files, common to all tasks. Imports no torch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, TypeVar

from pydantic import BeforeValidator, Field, PrivateAttr, model_validator

from catena.config import Config, get_kind, parse
from catena.config.schema import get_default
from catena.registry import did_you_mean
from catena.training.config import MachineConfig as MachineConfig

if TYPE_CHECKING:
    from catena.data.splits import SplitMethod, Splits

TOKENIZER = "tokenizer"
"""The folder of the tokenizer, next to the weights of a model."""
VOCABULARY = "vocabulary.json"
"""The file of the vocabulary."""
LABELS = "labels.json"
"""The file of class names or tags."""


class BaseFilesConfig(Config):
    """Base of the sections that name data files."""

    PATHS: ClassVar[tuple[str, ...]] = ()
    """The options that name one or more files."""

    def files(self) -> dict[str, Path]:
        """The data files by their role, which begins with train, dev or test."""
        raise NotImplementedError

    def example_files(self) -> dict[str, Path]:
        """The files to read examples from. A file that belongs to another one, such as targets, is not among them."""
        return self.files()

    def for_reading(self, values: Mapping[str, object]) -> Self:
        """This section with other values, to read a file after training."""
        return parse(type(self), {**self.model_dump(), **values}, source="the options")


class FilesConfig(BaseFilesConfig):
    """The data files and how they are read."""

    PATHS: ClassVar[tuple[str, ...]] = ("train", "dev", "test")
    """The options that name one or more files."""

    train: tuple[str, ...] = ()
    """Training files, all in the same format; plain, gzip or xz."""
    dev: str | None = None
    """Dev file for early stopping and checkpoint selection. If not set, part of train is used (see dev_fraction)."""
    test: str | None = None
    """Test file, scored once at the end with the best checkpoint."""
    input_format: str = "auto"
    """Format of the files; auto detects it for each file and prints the result."""
    encoding: str | None = None
    """Encoding of the files if they are not UTF-8, such as cp1252."""

    def files(self) -> dict[str, Path]:
        """The data files by their role; multiple training files are numbered."""
        named = {f"train-{i + 1}" if i else "train": Path(path) for i, path in enumerate(self.train)}
        if self.dev is not None:
            named["dev"] = Path(self.dev)
        if self.test is not None:
            named["test"] = Path(self.test)
        return named


class SplitConfig(Config):
    """How the data is split."""

    dev_fraction: float = Field(0.1, gt=0, lt=1)
    """Fraction of the training data used as dev set if no dev file is given. It does not depend on the seed."""
    dev_part: int = Field(0, ge=0)
    """Which examples become the dev set if no dev file is given: 0 for the first dev_fraction of them, 1 for the next,
    as in cross-validation."""
    train_on_dev: bool = False
    """Also train on the examples that are split off as dev set, whose scores are then too high. Set the number of steps
    that a run without this option found best."""

    def split_method(self) -> SplitMethod:
        """How examples are assigned to dev."""
        return "hash"

    def splits(self, *, has_dev: bool, has_test: bool, seed: int) -> Splits:
        """The split for this config, given which files there are."""
        from catena.data.splits import Splits

        fraction = 0.0 if has_dev else self.dev_fraction
        return Splits(
            fraction, by=self.split_method(), seed=seed, train_on_dev=self.train_on_dev, dev_part=self.dev_part
        )


def _no_folds(value: Any) -> Any:
    """None for 0 folds, and any other value as it is."""
    if value in (1, "1") and value is not True:
        raise ValueError("data.folds must be at least 2, or none, got 1. Pass none for no cross-validation.")
    return None if value in (0, "0") and value is not False else value


class FoldsConfig(SplitConfig):
    """How the data is split, with cross-validation."""

    folds: Annotated[int | None, BeforeValidator(_no_folds)] = Field(None, ge=2)
    """Cross-validation: split train into N parts; each part is the test set of its own run. none or 0 switches it
    off."""
    fold: int | None = Field(None, ge=0)
    """With folds: run only this fold (the first is 0)."""

    def splits(self, *, has_dev: bool, has_test: bool, seed: int) -> Splits:
        plain = super().splits(has_dev=has_dev, has_test=has_test, seed=seed)
        return replace(plain, folds=self.folds)

    @model_validator(mode="after")
    def _folds_fit(self) -> FoldsConfig:
        if self.fold is not None and self.folds is None:
            raise ValueError(f"data.fold = {self.fold} needs data.folds. Set data.folds to the number of folds.")
        if self.folds is not None and self.fold is not None and self.fold >= self.folds:
            raise ValueError(
                f"data.fold must be less than data.folds = {self.folds}, got {self.fold}. Use 0 for the first fold."
            )
        if self.folds is not None and getattr(self, "test", None) is not None:
            raise ValueError("data.folds creates its own test sets. Remove data.test.")
        return self


class FractionsConfig(SplitConfig):
    """How the data is split, with a test set split off train."""

    test_fraction: float = Field(0.0, ge=0, lt=1)
    """Fraction of the training data used as test set if no test file is given."""

    def splits(self, *, has_dev: bool, has_test: bool, seed: int) -> Splits:
        plain = super().splits(has_dev=has_dev, has_test=has_test, seed=seed)
        return replace(plain, test_fraction=0.0 if has_test else self.test_fraction)

    @model_validator(mode="after")
    def _fractions_fit(self) -> FractionsConfig:
        if self.dev_fraction + self.test_fraction >= 1:
            raise ValueError(
                f"data.dev_fraction + data.test_fraction must be less than 1, got {self.dev_fraction} + "
                f"{self.test_fraction}. Lower one of them, so that some training data is left."
            )
        if getattr(self, "test", None) is not None and self.test_fraction:
            raise ValueError("data.test and data.test_fraction both define a test set. Remove one of them.")
        return self


class LengthConfig(Config):
    """What happens to long examples."""

    max_length: int = Field(1000, gt=0)
    """Maximum length of a text in tokens. In training, longer texts are dropped and listed in dropped.tsv (see
    too_long); in prediction, they are truncated."""
    too_long: Literal["drop", "cut"] = "drop"
    """Drop or cut training texts that are longer than max_length."""


class PairFilesConfig(FilesConfig):
    """Files of pairs of texts, and where the pairs are in them."""

    source_column: str | None = None
    """Column or key of the source in tables and JSON lines: a name, or a number from 1 if the columns have no names.
    Detected by name if not set."""
    target_column: str | None = None
    """Column or key of the target, given like source_column."""
    swap: bool = False
    """Read sources as targets and targets as sources, for the other direction."""
    _sets_columns: bool = PrivateAttr(False)

    @property
    def sets_columns(self) -> bool:
        """Whether the columns were set for the file to read; those of the training files need not exist in it."""
        return self._sets_columns

    def for_reading(self, values: Mapping[str, object]) -> Self:
        section = super().for_reading(values)
        section._sets_columns = "source_column" in values or "target_column" in values
        return section

    @property
    def columns(self) -> dict[str, str]:
        """The columns of source and target that are set."""
        named = {"source": self.source_column, "target": self.target_column}
        return {role: column for role, column in named.items() if column is not None}


M = TypeVar("M", bound=Config)


def model_section(config: Any, section: type[M]) -> M:
    """The section ``model`` of a config of the kind that a task is for."""
    assert isinstance(config.model, section), f"{type(config.model).__name__} is not for this task"
    return config.model


class TaskConfig(Config):
    """Base of the configs of tasks, which have the sections ``model`` and ``training``."""

    SUGGESTED: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    """Default training options of each kind of model."""

    task: str
    """The task this config is for."""
    seed: int = Field(0, ge=0)
    """Seed of all random numbers."""

    @classmethod
    def suggested(cls, model: Any) -> Mapping[str, Mapping[str, Any]]:
        """Default training options of each kind of model, given the values of the section ``model``."""
        return cls.SUGGESTED

    def known_metrics(self) -> Sequence[str]:
        """The scores that ``training.metric`` may name; empty if the data decides."""
        return ()

    def problems(self) -> Iterator[str]:
        """What is wrong with options that do not fit together."""
        yield from ()

    @model_validator(mode="before")
    @classmethod
    def _suggest(cls, data: Any) -> Any:
        """Fill in the default training options of the model where the config has none."""
        suggested = cls.suggested(data.get("model", {}) if isinstance(data, dict) else {})
        if not suggested:
            return data
        return with_suggestions(data, suggested, get_kind(type(get_default(cls.model_fields["model"]))))

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        config: Any = self
        metric, known = config.training.metric, self.known_metrics()
        problems = list(self.problems())
        if known and metric not in (None, *known):
            problems.insert(0, f"Unknown training.metric {metric!r} of this model: {did_you_mean(metric, known)}")
        if problems:
            raise ValueError(" ".join(problems))
        return self


def with_suggestions(data: Any, suggested: Mapping[str, Mapping[str, Any]], default: str) -> Any:
    """The values of a config with the suggested training options of its kind of model filled in.

    Args:
        data: the values before validation; anything but a mapping is returned unchanged.
        suggested: the training section for each kind of model.
        default: the kind if the config names none.

    Values set by the user always win. If the user sets max_steps, no number of epochs is suggested and a suggested
    warm-up is shortened to fit.
    """
    if not isinstance(data, dict):
        return data
    model = data.get("model", {})
    kind = model.get("kind", default) if isinstance(model, dict) else getattr(model, "kind", default)
    training = data.get("training", {})
    if isinstance(training, dict) and "optimizer" not in training:
        return {**data, "training": {**_fitted(suggested.get(str(kind), {}), training), **training}}
    return data


def _fitted(suggested: Mapping[str, Any], training: Mapping[str, Any]) -> dict[str, Any]:
    """The suggestions; if only max_steps is set, without epochs and with at most a tenth of the steps as warm-up."""
    steps = training.get("max_steps")
    if not isinstance(steps, int):
        return dict(suggested)
    fitted = {name: value for name, value in suggested.items() if name != "max_epochs"}
    if steps < fitted.get("warmup_steps", 0):
        fitted["warmup_steps"] = max(steps, 0) // 10
    return fitted
