"""What every task offers to a person: train it, go on with it, load it, ask it, score it.

The verbs of the command line know tasks by this interface alone, so they have the same shape for all of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from catena.config import Config
from catena.metrics.measure import Measure
from catena.training.report import Reporter


@dataclass(frozen=True)
class Trained:
    """How a training ended: the run folder and the best checkpoint's scores on dev and, if there is one, on test."""

    folder: Path
    metric: str
    scores: dict[str, float]
    test_scores: dict[str, float] = field(default_factory=dict)
    interrupted: bool = False


@dataclass(frozen=True)
class Report:
    """The scores of a model on a data file, with their signatures and lines for a person to read."""

    scores: dict[str, float]
    signatures: dict[str, str]
    lines: tuple[str, ...]


@dataclass(frozen=True)
class Answers:
    """The right answers and a model's own, example by example, and the metric that compares them."""

    measure: Measure
    right: list[Any]
    given: list[Any]


@dataclass(frozen=True)
class Reading:
    """How a file is to be read, where that is not as the training files were."""

    format: str | None = None
    encoding: str | None = None
    text_column: str | None = None
    label_column: str | None = None


AS_TRAINED = Reading()


class Predictor(ABC):
    """A trained model that is ready to be asked. Needs nothing but its own folder."""

    @abstractmethod
    def predict(self, texts: Sequence[str]) -> list[Any]:
        """A prediction for each text."""

    @abstractmethod
    def predict_stream(self, texts: Iterable[str]) -> Iterator[Any]:
        """Predictions for any number of texts, in order, a block at a time: memory does not grow with the input."""

    @abstractmethod
    def read_texts(self, path: Path, reading: Reading = AS_TRAINED) -> Iterator[str]:
        """The texts of a file to predict for: each line of a plain text, or the texts of any format that has them."""

    @abstractmethod
    def evaluate(self, path: Path, reading: Reading = AS_TRAINED) -> Report:
        """Score the model on a labelled file."""

    @abstractmethod
    def answers(self, path: Path, metric: str | None = None, reading: Reading = AS_TRAINED) -> Answers:
        """For a paired test between two models: what is right and what this one says, by a metric; if none is named,
        by the one that chooses checkpoints."""

    @abstractmethod
    def describe(self, top: int) -> list[str]:
        """Lines about the model for a person who looks inside."""

    @abstractmethod
    def write(self, prediction: Any, text: str, format: str) -> str:
        """One prediction as a line of ``text``, ``tsv`` or ``jsonl``."""


class Application(ABC):
    """A task as a whole."""

    @abstractmethod
    def train(
        self,
        config: Config,
        folder: Path,
        reporter: Reporter,
        *,
        start_from: Path | None = None,
        overwrite: bool = False,
        command: Sequence[str] = (),
    ) -> Trained:
        """Train into a new run folder, from scratch or from the weights of an old run. ``command`` is kept with it."""

    @abstractmethod
    def fit_to_time(self, config: Any) -> tuple[Any, list[str]]:
        """Choose a model, and its size, that the data and the machine allow in the config's time; say what and why."""

    @abstractmethod
    def resume(self, folder: Path, reporter: Reporter) -> Trained:
        """Go on with a run from its last whole checkpoint."""

    @abstractmethod
    def load(self, folder: Path, device: str = "auto") -> Predictor:
        """The trained model of a run folder or a checkpoint folder."""
