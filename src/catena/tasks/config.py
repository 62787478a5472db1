"""Config of data and machine, common to all tasks. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

from catena.config import Config


class MachineConfig(Config):
    """The device and threads of a run."""

    device: str = "auto"
    """auto, cpu, cuda, cuda:1 or mps; auto takes a GPU if there is one."""
    threads: int | None = Field(None, gt=0)
    """CPU threads; default: all cores. Results are bit-identical only for the same number of threads."""


class DataConfig(Config):
    """The data files, how they are read, and how they are split."""

    PATHS: ClassVar[tuple[str, ...]] = ("train", "dev", "test")
    """The options that name one or more files."""

    train: tuple[str, ...] = ()
    """Training files, all in the same format; plain, gzip or xz."""
    dev: str | None = None
    """Dev file for early stopping and checkpoint selection. If not set, part of train is used (see dev_fraction)."""
    test: str | None = None
    """Test file, scored once at the end with the best checkpoint."""
    dev_fraction: float = Field(0.1, gt=0, lt=1)
    """Fraction of the training data used as dev set if no dev file is given. Chosen with the seed."""
    folds: int | None = Field(None, ge=2)
    """Cross-validation: split train into N parts with the seed; each part is the test set of its own run."""
    fold: int | None = Field(None, ge=0)
    """With folds: run only this fold (the first is 0)."""
    format: str = "auto"
    """Format of the files; auto detects it for each file and prints the result."""
    text_column: str | None = None
    """Column or key of the text, in files with named columns; found by its name if not set."""
    label_column: str | None = None
    """Column or key of the label; found by its name if not set."""
    encoding: str | None = None
    """Encoding of the files if they are not UTF-8, such as latin-1."""
    max_length: int = Field(1000, gt=0)
    """Maximum length of a text in tokens. In training, longer texts are dropped and listed in dropped.tsv (see
    too_long); in prediction, they are truncated."""
    too_long: Literal["drop", "cut"] = "drop"
    """Drop or cut training texts that are longer than max_length."""

    @model_validator(mode="after")
    def _folds_fit(self) -> DataConfig:
        if self.fold is not None and self.folds is None:
            raise ValueError(f"data.fold = {self.fold} needs data.folds. Set data.folds to the number of folds.")
        if self.folds is not None and self.fold is not None and self.fold >= self.folds:
            raise ValueError(
                f"data.fold must be less than data.folds = {self.folds}, got {self.fold}. Use 0 for the first fold."
            )
        if self.folds is not None and self.test is not None:
            raise ValueError("data.folds creates its own test sets. Remove data.test.")
        return self

    def files(self) -> dict[str, Path]:
        """The data files by their role; multiple training files are numbered."""
        named = {f"train-{i + 1}" if i else "train": Path(path) for i, path in enumerate(self.train)}
        if self.dev is not None:
            named["dev"] = Path(self.dev)
        if self.test is not None:
            named["test"] = Path(self.test)
        return named


def check_shares(data: DataConfig, test_fraction: float, no_folds: str) -> None:
    """Raise ValueError for fractions that leave no training data, a second test set, or folds.

    Args:
        test_fraction: the fraction of train that is used as test set.
        no_folds: why folds are not supported, such as "is not known for pairs of strings".
    """
    held = (data.dev_fraction if data.dev is None else 0) + (test_fraction if data.test is None else 0)
    if held >= 1:
        raise ValueError(
            f"data.dev_fraction + data.test_fraction must be less than 1, got {data.dev_fraction} + {test_fraction}. "
            f"Lower one of them, so that some training data is left."
        )
    if data.test is not None and test_fraction:
        raise ValueError("data.test and data.test_fraction both define a test set. Remove one of them.")
    if data.folds is not None:
        raise ValueError(f"data.folds {no_folds}. Remove it.")


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
