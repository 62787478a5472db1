"""Settings that all tasks share: where the data is and how it is split. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

from catena.config import Config


class MachineConfig(Config):
    """Where a run computes."""

    device: str = "auto"
    """auto, cpu, cuda, cuda:1 or mps; auto takes a GPU if there is one."""
    threads: int | None = Field(None, gt=0)
    """CPU threads; all cores if not set. Results are equal bit for bit only at the same number."""


class DataConfig(Config):
    """The files, how they are read, and which part of them is held out."""

    PATHS: ClassVar[tuple[str, ...]] = ("train", "dev", "test")
    """The keys that name files, one or several."""

    train: tuple[str, ...] = ()
    """Files to train on, all of one format; plain, gzip or xz."""
    dev: str | None = None
    """File that decides when to stop and which checkpoint is best; a part of train is held out if it is not set."""
    test: str | None = None
    """File that is scored once, with the best checkpoint, at the end."""
    dev_fraction: float = Field(0.1, gt=0, lt=1)
    """Share of train that is held out when there is no dev file, drawn by the seed."""
    folds: int | None = Field(None, ge=2)
    """Cross-validation: cut train into so many parts by the seed; each in turn is the test set of a run of its own."""
    fold: int | None = Field(None, ge=0)
    """With folds: run this one alone (the first is 0)."""
    format: str = "auto"
    """Format of the files; auto looks at each file and says what it took it for."""
    text_column: str | None = None
    """Column or key that holds the text, in files that name their columns; found by its name if not set."""
    label_column: str | None = None
    """Column or key that holds the label; found by its name if not set."""
    encoding: str | None = None
    """Encoding of the files if they are not UTF-8, such as latin-1."""
    max_length: int = Field(1000, gt=0)
    """Longest text in tokens. Longer ones are left out of training and listed in dropped.tsv (see too_long); what is
    predicted is cut to it."""
    too_long: Literal["drop", "cut"] = "drop"
    """What happens in training to a text that is longer than max_length."""

    @model_validator(mode="after")
    def _folds_fit(self) -> DataConfig:
        if self.fold is not None and self.folds is None:
            raise ValueError(f"data.fold = {self.fold} needs data.folds: say how many folds there are")
        if self.folds is not None and self.fold is not None and self.fold >= self.folds:
            raise ValueError(f"data.fold = {self.fold} must be below data.folds = {self.folds}: the first fold is 0")
        if self.folds is not None and self.test is not None:
            raise ValueError("data.folds makes its own test sets: leave data.test out")
        return self

    def files(self) -> dict[str, Path]:
        """The data files by what they are for; several training files are numbered."""
        named = {f"train-{i + 1}" if i else "train": Path(path) for i, path in enumerate(self.train)}
        if self.dev is not None:
            named["dev"] = Path(self.dev)
        if self.test is not None:
            named["test"] = Path(self.test)
        return named


def check_shares(data: DataConfig, test_fraction: float, no_folds: str) -> None:
    """Refuse shares of train for dev and test that leave nothing to train on, a second test set, and folds.

    Args:
        test_fraction: the share of train that is held out as test.
        no_folds: why there are no folds, as in "is not known for pairs of strings".
    """
    held = (data.dev_fraction if data.dev is None else 0) + (test_fraction if data.test is None else 0)
    if held >= 1:
        raise ValueError(
            f"data.dev_fraction = {data.dev_fraction} and data.test_fraction = {test_fraction} leave nothing to train "
            f"on: make "
            f"their sum less than 1"
        )
    if data.test is not None and test_fraction:
        raise ValueError("data.test names a file and data.test_fraction takes a part of train: leave one of them out")
    if data.folds is not None:
        raise ValueError(f"data.folds {no_folds}: leave it out")


def with_suggestions(data: Any, suggested: Mapping[str, Mapping[str, Any]], default: str) -> Any:
    """The values of a config, its model trained as models of its kind like to be trained, unless it says how.

    Args:
        data: the values before they are checked; what is no mapping is left as it is.
        suggested: the training section by the kind of the model.
        default: the kind if none is named.

    Steps that a person asks for are taken: no epochs are suggested beside them, and a suggested warm-up fits into them.
    What a person sets is left as it is.
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
    """The suggestions; where a person asks for steps without the epochs, and with a warm-up of a tenth of them if there
    are fewer than it has."""
    steps = training.get("max_steps")
    if not isinstance(steps, int):
        return dict(suggested)
    fitted = {name: value for name, value in suggested.items() if name != "max_epochs"}
    if steps < fitted.get("warmup_steps", 0):
        fitted["warmup_steps"] = max(steps, 0) // 10
    return fitted
