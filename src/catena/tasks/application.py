"""What every task offers to a person: train it, go on with it, load it, ask it, score it.

The verbs of the command line know tasks by this interface alone, so they have the same shape for all of them.
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
    """How a training ended: the run folder and the best checkpoint's scores on dev and, if there is one, on test."""

    folder: Path
    metric: str
    scores: dict[str, float]
    test_scores: dict[str, float] = field(default_factory=dict)
    interrupted: bool = False


@dataclass(frozen=True)
class EvaluationReport:
    """The scores of a model on a data file, with their signatures and lines for a person to read."""

    scores: dict[str, float]
    signatures: dict[str, str]
    lines: tuple[str, ...]


@dataclass(frozen=True)
class PairedPredictions:
    """The right answers and a model's own, example by example, and the metric that compares them."""

    measure: Metric
    right: list[Any]
    given: list[Any]
    asked_by: Mapping[str, object] = field(default_factory=dict)
    """The settings of the model that decide what is asked, where a file does not: two models must have the same."""
    unknown: float = 0.0
    """Of likelihoods: the fraction of the tokens that are unknown to the model and scored as one symbol."""


@dataclass(frozen=True)
class ReadOptions:
    """How a file is to be read, where that is not as the training files were."""

    format: str | None = None
    encoding: str | None = None
    text_column: str | None = None
    label_column: str | None = None
    source_column: str | None = None
    target_column: str | None = None
    target: Path | None = None
    """The file of the right answers, line by line, where they are not in the same file."""


DEFAULT_READ_OPTIONS = ReadOptions()


@dataclass(frozen=True)
class PredictOptions:
    """What is asked of a model beyond its one best answer. Each task says which of these it knows."""

    n_best: int = 1
    """So many answers for each item, the best first."""
    samples: int = 0
    """So many answers drawn from the model's distribution instead of the best ones."""
    confidence: bool = False
    """The probability of every part of an answer."""
    scores: bool = False
    """The log-probability of every answer."""
    alignment: bool = False
    """Which part of an answer comes from which part of the item."""
    constraint: Path | None = None
    """A file that fixes or forbids parts of the answers, item by item."""
    seed: int = 0
    """The seed of what is drawn."""
    beam_size: int | None = None
    """So many beginnings of an answer are kept while it is searched; 1 is greedy."""
    length_penalty: float | None = None
    """The power of the length that scores are divided by: 0 prefers short answers, 1 divides by the length."""
    max_length: int | None = None
    """The most tokens of an answer, the end among them, for models that write."""
    layer: int | None = None
    """Of a picture: this layer alone, the first is 1."""
    head: int | None = None
    """Of a picture: this head alone, the first is 1."""
    word: str | None = None
    """Of a picture: this word of what looks, in every layer and head."""
    within: Literal["source", "target"] | None = None
    """Of a picture: how what is read, or what is written, looks at itself, in place of one at the other."""

    def __post_init__(self) -> None:
        for name, least in (("n_best", 1), ("samples", 0), ("beam_size", 1), ("length_penalty", 0), ("max_length", 1)):
            value = getattr(self, name)
            if value is not None and not value >= least:
                raise ConfigError(f"{name} must be {least} or more, and is {value!r}")
        told = ("n_best", "beam_size", "length_penalty")
        if self.samples and (over := sorted(self.beyond() & set(told), key=told.index)):
            raise ConfigError(
                f"samples = {self.samples} draws answers, and {over[0]} tells how to find the best: leave out one"
            )

    def beyond(self) -> set[str]:
        """The names of what is asked for."""
        return {part.name for part in fields(self) if part.name != "seed" and getattr(self, part.name) != part.default}

    def after(self, n: int) -> PredictOptions:
        """The same of items of a stream after its first ``n``: they are drawn anew, not as the first ones were."""
        return self if n == 0 else replace(self, seed=Randomness(self.seed).number("after", n))


DEFAULT_PREDICT_OPTIONS = PredictOptions()
_PLOT_OPTIONS = {"layer", "head", "word", "within"}
"""What is asked of drawings alone."""


_PATH_METHODS = {"read_inputs", "about_inputs", "evaluate", "answers"}
"""What a predictor does with a file."""


def _taking_names(method: Callable[..., Any]) -> Callable[..., Any]:
    """The method of a predictor, whose file may be given by its name."""

    @wraps(method)
    def named(self: Predictor, path: Path | str, *args: Any, **options: Any) -> Any:
        return method(self, Path(path), *args, **options)

    return named


class Predictor(ABC):
    """A trained model that is ready to be asked. Needs nothing but its own folder.

    An item is what a prediction is made for: a text, or an example of the task's own, such as a sentence in words.
    Files are given as paths or by their names.
    """

    asks: ClassVar[frozenset[str]] = frozenset()
    """The parts of :class:`PredictOptions` that this task answers."""
    formats: ClassVar[tuple[str, ...]] = ("tsv", "text", "jsonl")
    """What :meth:`write` knows; the first is written if none is named."""
    reads_targets: ClassVar[bool] = False
    """Whether the right answers may be a file of their own."""
    reads_columns: ClassVar[tuple[str, ...]] = ("text_column", "label_column")
    """Which columns of its files can be named."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for name in _PATH_METHODS & vars(cls).keys():
            setattr(cls, name, _taking_names(vars(cls)[name]))

    @property
    def task_name(self) -> str:
        """This model in the words of a person, such as "a model of the task translate"."""
        return f"a model of the task {getattr(getattr(self, 'config', None), 'task', 'that it was made for')}"

    def check(self, asking: PredictOptions) -> None:
        """Refuse what this task cannot be asked."""
        unknown = sorted(asking.beyond() - self.asks)
        if unknown:
            named = self.asks if unknown[0] in _PLOT_OPTIONS else self.asks - _PLOT_OPTIONS
            known = ", ".join(f"--{name.replace('_', '-')}" for name in sorted(named)) or "none of these questions"
            raise DataError(f"this model cannot be asked for --{unknown[0].replace('_', '-')}; it answers {known}")

    def format_for(self, asking: PredictOptions) -> str:
        """The format that is written if none is named."""
        return self.formats[0]

    def searching(self, asking: PredictOptions) -> Predictor:
        """This model with the search that is asked for, where a task searches at all."""
        for name in sorted(asking.beyond()):
            flag = f"--{name.replace('_', '-')}"
            raise DataError(
                f"{flag} is for models that search for their answers, not for {self.task_name}: leave it out"
            )
        return self

    def together(self, others: Sequence[Predictor]) -> Predictor:
        """This model and others as one, where a task can join them."""
        raise DataError(f"{self.task_name} cannot be joined with other models: leave --ensemble out")

    @property
    def network(self) -> nn.Module:
        """The network that was trained, to go on with it in a loop of one's own or to look inside: this model answers
        by it, whatever becomes of its weights. Of several that answer together it is the first."""
        found = self.find_network()
        if found is None:
            raise DataError(f"there is no network in this one, {self.task_name}: it was counted, or fitted as a whole")
        return found

    def find_network(self) -> nn.Module | None:
        """The network, for those kinds that have one."""
        return next(iter(self.networks), None)

    @property
    def networks(self) -> Sequence[nn.Module]:
        """The networks whose matrices may be held in 8 bits; none where a task has not been tried so."""
        return ()

    def export(self, to: str, folder: Path, quantization: str | None = None) -> None:
        """Write this model in the form of another program into a folder, which must not be there."""
        raise DataError(f"{self.task_name} cannot be exported: translators and n-gram language models can")

    @abstractmethod
    def predict(self, items: Sequence[Any], asking: PredictOptions = DEFAULT_PREDICT_OPTIONS) -> list[Any]:
        """A prediction for each item."""

    @abstractmethod
    def predict_stream(self, items: Iterable[Any], asking: PredictOptions = DEFAULT_PREDICT_OPTIONS) -> Iterator[Any]:
        """Predictions for any number of items, in order, a block at a time: memory does not grow with the input."""

    @abstractmethod
    def read_inputs(self, path: Path, reading: ReadOptions = DEFAULT_READ_OPTIONS) -> Iterator[Any]:
        """The items of a file to predict for: lines of a plain text, or the examples of any format that has them."""

    def about_inputs(self, path: Path, reading: ReadOptions = DEFAULT_READ_OPTIONS) -> Sequence[str]:
        """What a person should hear of a file before its items are predicted: that a line of it is no item."""
        return ()

    def items_of_lines(self, lines: Iterator[str]) -> Iterator[Any]:
        """The items of standard input, of which each line is one unless a task says otherwise."""
        return lines

    @abstractmethod
    def evaluate(self, path: Path, reading: ReadOptions = DEFAULT_READ_OPTIONS) -> EvaluationReport:
        """Score the model on a file with the right answers."""

    @abstractmethod
    def answers(
        self, path: Path, metric: str | None = None, reading: ReadOptions = DEFAULT_READ_OPTIONS
    ) -> PairedPredictions:
        """For a paired test between two models: what is right and what this one says, by a metric; if none is named,
        by the one that chooses checkpoints."""

    @abstractmethod
    def describe(self, top: int) -> list[str]:
        """Lines about the model for a person who looks inside."""

    def remarks(self, prediction: Any) -> Sequence[str]:
        """What a person should hear of a prediction beyond what is written: sentences that are said once for all
        predictions, with ``{n}`` for how often each was remarked, and ``{s}`` and ``{was}`` after that number."""
        return ()

    @abstractmethod
    def write(self, prediction: Any, item: Any, format: str) -> str:
        """One prediction in one of :attr:`formats`: a line, or several, as a block of columns with its blank line."""

    def picture(self, item: Any, asking: PredictOptions = DEFAULT_PREDICT_OPTIONS) -> Picture:
        """A drawing of the prediction for an item."""
        raise DataError(f"{self.task_name} draws no picture of its predictions: ask it by 'catena predict'")

    def sketch(self, item: Any, asking: PredictOptions = DEFAULT_PREDICT_OPTIONS) -> str:
        """The same for a terminal."""
        raise DataError(f"{self.task_name} draws no picture of its predictions: ask it by 'catena predict'")


NO_LIMITS: Mapping[str, object] = {}
"""A run is resumed to the end that its config says."""


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
    ) -> TrainResult:
        """Train into a new run folder, from scratch or from the weights of an old run. ``command`` is kept with it."""

    @abstractmethod
    def fit_to_time(self, config: Any) -> tuple[Any, list[str]]:
        """Choose a model, and its size, that the data and the machine allow in the config's time; say what and why."""

    @abstractmethod
    def resume(self, folder: Path, reporter: Reporter, limits: Mapping[str, object] = NO_LIMITS) -> TrainResult:
        """Resume a run from its last whole checkpoint.

        ``limits`` are new values for :data:`catena.tasks.resuming._LIMITS`, which the run's config.toml keeps.
        """

    @abstractmethod
    def load(self, folder: Path, device: str = "auto") -> Predictor:
        """The trained model of a run folder or a checkpoint folder."""
