"""The task interface used by the command line: train, resume, load, predict, evaluate.

The commands use tasks only through this interface, so every command works the same way for all tasks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from catena.config import Config
from catena.errors import ConfigError, DataError
from catena.metrics.measure import Metric
from catena.randomness import Randomness
from catena.training.report import Reporter

if TYPE_CHECKING:
    from torch import nn

    from catena.draw.picture import Picture


@dataclass(frozen=True)
class TrainResult:
    """Result of a training run: its folder and the best checkpoint's scores on dev and, if given, on test."""

    folder: Path
    metric: str
    scores: dict[str, float]
    test_scores: dict[str, float] = field(default_factory=dict)
    interrupted: bool = False


@dataclass(frozen=True)
class EvaluationReport:
    """Scores of a model on a data file, with their signatures and the lines of a printed report."""

    scores: dict[str, float]
    signatures: dict[str, str]
    lines: tuple[str, ...]


@dataclass(frozen=True)
class PairedPredictions:
    """Gold labels and predictions, example by example, with the metric that compares them."""

    measure: Metric
    right: list[Any]
    given: list[Any]
    asked_by: Mapping[str, object] = field(default_factory=dict)
    """Config options that determine the inputs if a file does not: both models must have the same values."""
    unknown: float = 0.0
    """For likelihoods: the fraction of tokens unknown to the model and scored as one symbol."""


@dataclass(frozen=True)
class ReadOptions:
    """How to read a file that differs from the training files."""

    format: str | None = None
    encoding: str | None = None
    text_column: str | None = None
    label_column: str | None = None
    source_column: str | None = None
    target_column: str | None = None
    target: Path | None = None
    """The file of references, line by line, if they are not in the input file."""


DEFAULT_READ_OPTIONS = ReadOptions()


@dataclass(frozen=True)
class PredictOptions:
    """Prediction options. Each task supports some of them."""

    n_best: int = 1
    """Return the N best predictions for each input, best first."""
    samples: int = 0
    """Sample N predictions from the model's distribution instead of returning the best ones."""
    confidence: bool = False
    """Add the probability of every part of a prediction."""
    scores: bool = False
    """Add the log-probability of every prediction."""
    alignment: bool = False
    """Show which part of a prediction comes from which part of the input."""
    constraint: Path | None = None
    """A file that fixes or forbids parts of the predictions, input by input."""
    seed: int = 0
    """The random seed for sampling."""
    beam_size: int | None = None
    """Beam size. 1 is greedy search."""
    length_penalty: float | None = None
    """Scores are divided by length ** length_penalty: 0 prefers short outputs, 1 divides by the length."""
    max_length: int | None = None
    """Maximum number of tokens in the output, including the end token, for models that generate text."""
    layer: int | None = None
    """In a picture: show only this layer, counted from 1."""
    head: int | None = None
    """In a picture: show only this head, counted from 1."""
    word: str | None = None
    """In a picture: show the attention of this word in every layer and head."""
    within: Literal["source", "target"] | None = None
    """In a picture: show self-attention of the source or the target instead of cross-attention."""

    def __post_init__(self) -> None:
        for name, least in (("n_best", 1), ("samples", 0), ("beam_size", 1), ("length_penalty", 0), ("max_length", 1)):
            value = getattr(self, name)
            if value is not None and not value >= least:
                raise ConfigError(f"{name} must be {least} or more, got {value!r}. Pass {least} or more.")
        search_options = ("n_best", "beam_size", "length_penalty")
        if self.samples and (over := sorted(self.beyond() & set(search_options), key=search_options.index)):
            raise ConfigError(
                f"samples = {self.samples} cannot be combined with {over[0]}, which is for the best predictions. "
                f"Remove one of them."
            )

    def beyond(self) -> set[str]:
        """The names of the options that differ from their defaults."""
        return {part.name for part in fields(self) if part.name != "seed" and getattr(self, part.name) != part.default}

    def after(self, n: int) -> PredictOptions:
        """The options for the inputs of a stream after its first ``n``, with a new seed for sampling."""
        return self if n == 0 else replace(self, seed=Randomness(self.seed).number("after", n))


DEFAULT_PREDICT_OPTIONS = PredictOptions()
_PLOT_OPTIONS = {"layer", "head", "word", "within"}
"""The options that only pictures use."""


_PATH_METHODS = {"read_inputs", "about_inputs", "evaluate", "answers"}
"""The methods of a predictor that take a file."""


def _taking_names(method: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a method of a predictor so that it accepts its file as a path or a string."""

    @wraps(method)
    def named(self: Predictor, path: Path | str, *args: Any, **options: Any) -> Any:
        return method(self, Path(path), *args, **options)

    return named


class Predictor(ABC):
    """A trained model that is ready to predict. Needs only its own folder.

    An item is one input of a prediction: a text, or an example in the task's own form, such as a list of words.
    Files are given as paths or strings.
    """

    supported_options: ClassVar[frozenset[str]] = frozenset()
    """The fields of :class:`PredictOptions` that this task supports."""
    formats: ClassVar[tuple[str, ...]] = ("tsv", "text", "jsonl")
    """The formats that :meth:`write` supports; the first is the default."""
    reads_targets: ClassVar[bool] = False
    """Whether the references may be in a separate file."""
    reads_columns: ClassVar[tuple[str, ...]] = ("text_column", "label_column")
    """The columns of its files that can be named."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for name in _PATH_METHODS & vars(cls).keys():
            setattr(cls, name, _taking_names(vars(cls)[name]))

    @property
    def task_name(self) -> str:
        """A description of this model for messages, such as "a model of the task translate"."""
        return f"a model of the task {getattr(getattr(self, 'config', None), 'task', 'that it was made for')}"

    def check(self, options: PredictOptions) -> None:
        """Raise DataError if an option is set that this task does not support."""
        unknown = sorted(options.beyond() - self.supported_options)
        if unknown:
            named = self.supported_options if unknown[0] in _PLOT_OPTIONS else self.supported_options - _PLOT_OPTIONS
            known = ", ".join(f"--{name.replace('_', '-')}" for name in sorted(named)) or "none"
            flag = f"--{unknown[0].replace('_', '-')}"
            raise DataError(f"{flag} is not an option of {self.task_name}. Remove it. Supported options: {known}.")

    def format_for(self, options: PredictOptions) -> str:
        """The format that is written if none is given."""
        return self.formats[0]

    def searching(self, options: PredictOptions) -> Predictor:
        """This model with the given search options, for tasks that search."""
        for name in sorted(options.beyond()):
            flag = f"--{name.replace('_', '-')}"
            raise DataError(
                f"{flag} is only for models that search for their outputs, not for {self.task_name}. Remove it."
            )
        return self

    def together(self, others: Sequence[Predictor]) -> Predictor:
        """An ensemble of this model and others, for tasks that support it."""
        raise DataError(f"{self.task_name} cannot be part of an ensemble. Remove --ensemble.")

    @property
    def network(self) -> nn.Module:
        """The trained network, to train it further in your own loop or to inspect it.

        Predictions always use its current weights. For an ensemble this is the network of the first model.
        """
        found = self.find_network()
        if found is None:
            raise DataError(f"{self.task_name} has no network here: it was counted or fitted. Load a neural model.")
        return found

    def find_network(self) -> nn.Module | None:
        """The network, or None if this kind of model has none."""
        return next(iter(self.networks), None)

    @property
    def networks(self) -> Sequence[nn.Module]:
        """The networks whose matrices can be stored in 8 bits; empty if the task does not support it."""
        return ()

    def export(self, to: str, folder: Path, quantization: str | None = None) -> None:
        """Write this model in the format of another program into a new folder."""
        raise DataError(
            f"{self.task_name} cannot be exported. Export a model of the task translate or an n-gram language model."
        )

    @abstractmethod
    def predict(self, items: Sequence[Any], options: PredictOptions = DEFAULT_PREDICT_OPTIONS) -> list[Any]:
        """A prediction for each item."""

    @abstractmethod
    def predict_stream(self, items: Iterable[Any], options: PredictOptions = DEFAULT_PREDICT_OPTIONS) -> Iterator[Any]:
        """Predictions for any number of items, in order and in blocks, with constant memory."""

    @abstractmethod
    def read_inputs(self, path: Path, reading: ReadOptions = DEFAULT_READ_OPTIONS) -> Iterator[Any]:
        """The items of a file to predict: lines of plain text, or examples in any format that has them."""

    def about_inputs(self, path: Path, reading: ReadOptions = DEFAULT_READ_OPTIONS) -> Sequence[str]:
        """Notes about a file to show before its items are predicted, such as lines that are not items."""
        return ()

    def items_of_lines(self, lines: Iterator[str]) -> Iterator[Any]:
        """The items of standard input. By default each line is an item."""
        return lines

    @abstractmethod
    def evaluate(self, path: Path, reading: ReadOptions = DEFAULT_READ_OPTIONS) -> EvaluationReport:
        """Evaluate the model on a file with gold labels or references."""

    @abstractmethod
    def answers(
        self, path: Path, metric: str | None = None, reading: ReadOptions = DEFAULT_READ_OPTIONS
    ) -> PairedPredictions:
        """Gold labels and this model's predictions, for a paired test between two models.

        The default metric is the one that selects checkpoints.
        """

    @abstractmethod
    def describe(self, top: int) -> list[str]:
        """Lines that describe the model's parameters."""

    def remarks(self, prediction: Any) -> Sequence[str]:
        """Warnings about a prediction that the written output does not show.

        Each is printed once for all predictions, with ``{n}`` replaced by its number of occurrences, and ``{s}`` and
        ``{was}`` by the forms that agree with this number.
        """
        return ()

    @abstractmethod
    def write(self, prediction: Any, item: Any, format: str) -> str:
        """One prediction in one of :attr:`formats`: one line, or a block of lines with its blank line."""

    def picture(self, item: Any, options: PredictOptions = DEFAULT_PREDICT_OPTIONS) -> Picture:
        """A picture of the prediction for an item."""
        raise DataError(f"{self.task_name} cannot draw its predictions. Use 'catena predict' instead.")

    def sketch(self, item: Any, options: PredictOptions = DEFAULT_PREDICT_OPTIONS) -> str:
        """The picture of :meth:`picture` as text for a terminal."""
        raise DataError(f"{self.task_name} cannot draw its predictions. Use 'catena predict' instead.")


NO_LIMITS: Mapping[str, object] = {}
"""No new limits: a resumed run ends where its config says."""


class TaskApplication(ABC):
    """A task: trains, resumes, loads."""

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
    ) -> TrainResult:
        """Train into a new run folder, from scratch or from the weights of an old run.

        Args:
            config: the config of this task.
            folder: the run folder to create.
            reporter: receives the progress.
            start_from: a run or checkpoint whose weights are the initial ones.
            overwrite: replace an existing folder.
            command: the command line, stored in the run.
        """

    @abstractmethod
    def fit_to_time(self, config: Any) -> tuple[Any, list[str]]:
        """Choose a model and its size that fit the data, the machine and the config's time limit.

        Returns:
            The new config and lines that explain the choice.
        """

    @abstractmethod
    def resume(self, folder: Path, reporter: Reporter, limits: Mapping[str, object] = NO_LIMITS) -> TrainResult:
        """Resume a run from its last complete checkpoint.

        ``limits`` are new values for :data:`catena.tasks.resuming._LIMITS`, stored in the run's config.toml.
        """

    @abstractmethod
    def load(self, folder: Path, device: str = "auto") -> Predictor:
        """The trained model of a run folder or a checkpoint folder."""
