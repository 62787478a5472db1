"""The parts of a task: what is trained, what it predicts, and how predictions are evaluated.

A :class:`BaseTask` is a model with its config and its encoding. Tasks derive from
:class:`~catena.tasks.neural.NeuralTask`, which says how examples are encoded, collated and scored, or from
:class:`~catena.tasks.fitted.FittedTask`, whose model is fitted without gradient steps. Everything else is the same for
all: splitting, epochs, checkpoints, streaming, the command line and the estimators. Imports no torch. Tested in
tests/tasks/test_base.py.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar

import numpy as np

from catena.config import Config, to_toml
from catena.data.reading import ReadCounter
from catena.errors import CheckpointError, ConfigError, DataError, TooLongError
from catena.metrics.intervals import Interval, bootstrap_score_interval, wilson_interval
from catena.metrics.measure import Metric, MetricValue
from catena.randomness import Randomness
from catena.tasks.options import PredictOptions
from catena.tasks.sources import DataParts as DataParts

if TYPE_CHECKING:
    from torch import Tensor, nn

    from catena.checkpoint import Checkpoint
    from catena.draw.picture import Picture
    from catena.tasks.pretrained import Pretrained
    from catena.tasks.sources import Sources
    from catena.training.report import Reporter
    from catena.training.run import RunFolder

C = TypeVar("C", bound=Config)
E = TypeVar("E")
P = TypeVar("P", bound="Prediction")
O = TypeVar("O", bound="PredictOptions")  # noqa: E741
V = TypeVar("V")


class Prediction(ABC):
    """The output of a task for one input. ``str()`` gives one readable line."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """The fields as JSON values, with the same names in every task."""

    def to_rows(self) -> list[dict[str, Any]]:
        """The rows of a table: one for each of the n best outputs, or one."""
        return [self.to_dict()]

    def to_text(self, format: str) -> str:
        """The prediction as ``text``, or in a format of its own task."""
        return str(self)


class RankedPrediction(Prediction):
    """A prediction of a task that can return the n best or several sampled outputs."""

    n_best: tuple[Self, ...]
    """The n best or sampled predictions, if several were requested."""

    @property
    def ranked(self) -> tuple[Self, ...]:
        """The n best predictions, or this one."""
        return self.n_best or (self,)

    def input_fields(self) -> dict[str, Any]:
        """The input, and what is known about it, as JSON values."""
        return {}

    @abstractmethod
    def output_fields(self) -> dict[str, Any]:
        """One output as JSON values."""

    def to_dict(self) -> dict[str, Any]:
        row = {**self.input_fields(), **self.output_fields()}
        return {**row, "n_best": [one.output_fields() for one in self.n_best]} if self.n_best else row

    def row_fields(self) -> dict[str, Any]:
        """The row of a table for the input and one output."""
        return {**self.input_fields(), **self.output_fields()}

    def to_rows(self) -> list[dict[str, Any]]:
        return [one.row_fields() for one in self.ranked]

    def to_text(self, format: str) -> str:
        return "\n".join(map(str, self.ranked))


R = TypeVar("R", bound=RankedPrediction)


def first_ranked(ranked: Sequence[R], several: bool) -> R:
    """The first of some predictions for an input, with all of them as its n best if ``several``."""
    first: Any = ranked[0]
    return replace(first, n_best=tuple(ranked)) if several else first


def _find_metric(name: str, known: Mapping[str, Metric]) -> Metric:
    if name not in known:
        raise ConfigError(f"metric must be one of {', '.join(known)}, got {name!r}. Choose one of these.")
    return known[name]


@dataclass(frozen=True)
class PairedPredictions:
    """References and predictions, example by example, with the metric that compares them."""

    metric: Metric
    references: Sequence[Any] | np.ndarray
    predictions: Sequence[Any] | np.ndarray
    conditions: Mapping[str, object] = field(default_factory=dict)
    """Config options that determine the inputs if a file does not: both models must have the same values."""
    unknown: float = 0.0
    """For likelihoods: the fraction of tokens unknown to the model and scored as one symbol."""


class EvaluationResult(ABC):
    """References and predictions of some examples, from which scores and a report are computed.

    Subclasses are dataclasses; results of consecutive examples are joined by :meth:`join`.
    """

    counts: str = ""
    """A line about the examples that were read and dropped."""

    @abstractmethod
    def metrics(self) -> Mapping[str, Metric]:
        """The metrics that apply, by the names of their scores."""

    @abstractmethod
    def pairs(self, name: str) -> tuple[Sequence[Any] | np.ndarray, Sequence[Any] | np.ndarray]:
        """The references and the predictions that a metric compares."""

    def details(self) -> list[str]:
        """Further lines of the report, such as a table of classes."""
        return []

    def details_dict(self) -> dict[str, Any]:
        """The details as JSON values."""
        return {}

    def notes(self) -> list[str]:
        """Lines at the top of the report, such as labels that do not occur in training."""
        return []

    def scores(self) -> dict[str, float]:
        """The score of every metric, by name."""
        return {name: float(value) for name, value in self._values().items()}

    def signatures(self) -> dict[str, str]:
        """How each score was computed."""
        return {name: value.signature for name, value in self._values().items()}

    def _values(self) -> dict[str, MetricValue]:
        return {name: metric.value(self._statistics(name, metric)) for name, metric in self.metrics().items()}

    def _statistics(self, name: str, metric: Metric) -> np.ndarray:
        """The statistics of each example, computed once for all metrics that need them."""
        pair = self.pairs(name)
        known, rows = self._computed.get(metric.statistics, ((None, None), None))
        if rows is None or known[0] is not pair[0] or known[1] is not pair[1]:
            rows = metric.statistics(*pair)
            self._computed[metric.statistics] = pair, rows
        return rows

    @cached_property
    def _computed(self) -> dict[Any, Any]:
        return {}

    def interval(self, name: str) -> Interval | None:
        """The 95 % interval of a score, None for a single example.

        It is Wilson's interval for a fraction of examples; otherwise the examples are resampled.
        """
        metric = self.metrics()[name]
        rows = self._statistics(name, metric)
        if len(rows) < 2:
            return None
        if rows.shape[1] == 2 and (rows[:, 1] == 1).all() and np.isin(rows[:, 0], (0, 1)).all():
            return wilson_interval(int(rows[:, 0].sum()), len(rows))
        return bootstrap_score_interval(rows, metric.score, np.random.default_rng(0))

    def paired(self, name: str) -> PairedPredictions:
        """The examples for a paired test between two models."""
        return PairedPredictions(_find_metric(name, self.metrics()), *self.pairs(name))

    def lines(self) -> list[str]:
        """The lines of a readable report."""
        lines = [*([self.counts] if self.counts else []), *self.notes()]
        for name, value in self._values().items():
            interval = self.interval(name)
            between = f" (95 % interval {interval.low:.4f} to {interval.high:.4f})" if interval else ""
            lines.append(f"{name} {float(value):.4f}{between}   {value.signature}")
        details = self.details()
        return [*lines, "", *details] if details else lines

    def to_dict(self) -> dict[str, Any]:
        """The report as JSON values: scores, intervals, signatures, counts and details."""
        intervals = {name: self.interval(name) for name in self.metrics()}
        return {
            "scores": self.scores(),
            "intervals": {name: None if i is None else [i.low, i.high] for name, i in intervals.items()},
            "signatures": self.signatures(),
            "counts": self.counts,
            **self.details_dict(),
        }

    @classmethod
    def join(cls, results: Sequence[Self]) -> Self:
        """One result for the examples of all ``results``: lists and arrays are concatenated."""
        first = results[0]
        joined: dict[str, Any] = {}
        for part in fields(first):  # type: ignore[arg-type]
            values = [getattr(result, part.name) for result in results]
            if isinstance(values[0], np.ndarray):
                joined[part.name] = np.concatenate(values)
            elif isinstance(values[0], list):
                joined[part.name] = [item for value in values for item in value]
        return replace(first, **joined)  # type: ignore[type-var]


@dataclass(frozen=True)
class Origin:
    """Where a new model comes from: a seed, and possibly an older run or a pretrained language model.

    Args:
        randomness: the generators of the run.
        folder: the checkpoint of an older run whose encoding and weights are used.
        pretrained: a language model whose vocabulary and encoder are used.
    """

    randomness: Randomness
    folder: Path | None = None
    pretrained: Pretrained | None = None


@dataclass(frozen=True)
class TrainResult:
    """Result of a training run: its folder and the best checkpoint's scores on dev and, if given, on test."""

    folder: Path
    metric: str
    scores: dict[str, float]
    test_scores: dict[str, float] = field(default_factory=dict)
    interrupted: bool = False
    notes: tuple[str, ...] = ()
    """Further lines of the result, such as a table of baselines."""


def store_test_scores(run: RunFolder, step: int, scores: dict[str, float]) -> dict[str, float]:
    """The scores of a checkpoint on test, which are stored in its run once."""
    from catena.training.state import finite

    row = {"step": step, "part": "test", **finite(scores)}
    if row not in run.metrics():  # it is there if a finished run is resumed
        run.append_metrics(row)
    return scores


class Training(ABC):
    """A model and its data, ready to be trained."""

    @abstractmethod
    def load_weights(self, checkpoint: Checkpoint) -> None:
        """Use the weights of an older run as initial weights."""

    @abstractmethod
    def train(self, run: RunFolder, reporter: Reporter, *, saves_start: bool = False) -> TrainResult:
        """Train into a new run; ``saves_start`` stores the initial weights, if the seed does not reproduce them."""

    @abstractmethod
    def resume(self, run: RunFolder, reporter: Reporter) -> TrainResult:
        """Resume a run from its last complete checkpoint."""


class Runner(ABC):
    """Trains, resumes and loads models that do not learn from examples, such as agents."""

    @abstractmethod
    def train(
        self,
        config: Any,
        folder: Path,
        reporter: Reporter,
        *,
        init_from: Path | None = None,
        overwrite: bool = False,
        command: Sequence[str] = (),
    ) -> TrainResult:
        """Train into a new run folder. Arguments as in :func:`catena.tasks.runs.train_run`."""

    @abstractmethod
    def resume(self, folder: Path, reporter: Reporter, limits: Mapping[str, object]) -> TrainResult:
        """Resume a run. Arguments as in :func:`catena.tasks.runs.resume_run`."""

    @abstractmethod
    def load(self, folder: Path, device: str) -> Any:
        """The trained model of a run or checkpoint folder."""


class BaseTask(ABC, Generic[C, E, P, O]):
    """A model with its config: reads, predicts, evaluates, describes and saves itself."""

    name: ClassVar[str]
    """The name of the task, such as ``tag``."""
    options_class: ClassVar[type[PredictOptions]] = PredictOptions
    formats: ClassVar[tuple[str, ...]] = ("text", "tsv", "csv", "jsonl")
    """The output formats; the first is the default."""
    not_in_text: ClassVar[tuple[str, ...]] = ()
    """Options of ``predict`` whose results the format ``text`` does not show."""
    next_commands: ClassVar[tuple[str, ...]] = ("evaluate RUN FILE", "predict RUN FILE")
    """Commands to suggest when training ends."""
    stream_block: ClassVar[int] = 1024
    """Number of examples of a stream that are predicted together."""
    detects_inputs: ClassVar[bool] = False
    """Whether a file to predict may have another format than the training files, so that it is always detected."""
    quantizable: ClassVar[bool] = False
    """Whether the matrices of its networks can be stored in 8 bits."""
    uses_torch: ClassVar[bool] = True
    """Whether training needs torch."""
    reads_split_columns: ClassVar[bool] = True
    """Whether a column of a table may assign its records to train, dev and test."""

    config: C

    # --- defined by each task -----------------------------------------------------------------------------------------

    @classmethod
    @abstractmethod
    def prepare(cls, config: C, sources: Sources[E], origin: Origin) -> Training:
        """Read the data and build a model that is ready to be trained."""

    @classmethod
    @abstractmethod
    def load(cls, config: C, checkpoint: Checkpoint, device: str) -> Self:
        """The model of a checkpoint."""

    @abstractmethod
    def save(self, folder: Path) -> None:
        """Write everything except config and weights into a checkpoint folder."""

    def tensors(self) -> Mapping[str, Tensor | np.ndarray]:
        """The weights to store, as arrays if the model does not use torch."""
        return {}

    @classmethod
    @abstractmethod
    def read(cls, config: C, path: Path, counter: ReadCounter, *, gold: bool = True) -> Iterator[E]:
        """The examples of a file. With ``gold=False`` labels and references may be missing."""

    def read_inputs(self, path: Path, counter: ReadCounter) -> Iterator[E]:
        """Yield the examples of a file to predict, whose gold answers are not read and may be missing."""
        return self.read(self.config, path, counter, gold=False)

    @abstractmethod
    def to_example(self, item: Any) -> E:
        """The example of an input that a user passes to ``predict``. Raise DataError if it is of another type."""

    @abstractmethod
    def predict_examples(self, examples: Sequence[E], options: O) -> list[P]:
        """The predictions of some examples."""

    @abstractmethod
    def evaluate_examples(self, examples: Sequence[E]) -> EvaluationResult:
        """Predict examples that have gold labels or references, and compare."""

    @abstractmethod
    def describe(self, top: int) -> list[str]:
        """Lines about the parameters of the model, with the ``top`` most important ones."""

    # --- optional -----------------------------------------------------------------------------------------------------

    def all_metrics(self) -> Mapping[str, Metric]:
        """The metrics by the names of their scores. Define this, or ``metric`` and ``find_metric``."""
        raise NotImplementedError

    @property
    def metric(self) -> str:
        """The name of the score that selects checkpoints if the config names none: the first."""
        return next(iter(self.all_metrics()))

    def find_metric(self, name: str) -> Metric:
        """The metric of a score. Raise ConfigError for an unknown name."""
        return _find_metric(name, self.all_metrics())

    @classmethod
    def describe_file(cls, config: C, path: Path) -> str:
        """The format of a file and how it was recognized."""
        from catena.data.detect import detect_format

        data: Any = config.data  # type: ignore[attr-defined]
        if data.input_format != "auto":
            return f"{path.name} is read as {data.input_format}"
        found = detect_format(path, data.encoding)
        return f"{path.name} is {found.format}: {found.why}"

    @classmethod
    def split_key(cls, example: E) -> str:
        """The text by whose hash an example is assigned to train, dev or test."""
        return str(example)

    @classmethod
    def split_group(cls, example: E) -> Hashable:
        """The group of an example for a stratified split."""
        return None

    @classmethod
    def why_unscorable(cls, example: E) -> str | None:
        """Why an example of dev or test cannot be scored, to complete "1 …"; None if it can."""
        return None

    @classmethod
    def complete(cls, config: C, note: Callable[[str], None]) -> C:
        """The config with what depends on this machine, such as installed packages, filled in before training."""
        return config

    @classmethod
    def adopt(cls, config: C, pretrained: Pretrained) -> C:
        """The config with all options that a pretrained language model determines filled in."""
        raise ConfigError(f"pretrained is not supported by the task {cls.name}. Remove it.")

    @classmethod
    def check_start(cls, theirs: C, config: C, folder: Path) -> None:
        """Raise CheckpointError if an older run with the same model options cannot be the start of a new one."""

    @classmethod
    def check_model(cls, theirs: Any, config: Any, folder: Path) -> None:
        """Raise CheckpointError if the model options of an older run do not allow it to be the start of a new one."""
        if theirs.model != config.model:
            raise CheckpointError(
                f"the model must have the options of the one in {folder} (kind {theirs.model.kind!r}), got kind "
                f"{config.model.kind!r} or other options. Remove the options of the model, or train without "
                f"--init-from."
            )

    @classmethod
    def check_limits(cls, config: Any, limits: Mapping[str, object], folder: Path) -> None:
        """Raise CheckpointError if a run of this model cannot be resumed with new limits. By default it can."""

    def draw(self, example: E, options: O) -> Picture:
        """A picture of the prediction for an example."""
        raise DataError(f"A model of the task {self.name} cannot draw its predictions. Use 'catena predict' instead.")

    def draw_text(self, example: E, options: O) -> str:
        """The picture of :meth:`draw` as text for a terminal."""
        raise DataError(f"A model of the task {self.name} cannot draw its predictions. Use 'catena predict' instead.")

    def training_parts(self, sources: Sources[E]) -> DataParts[E]:
        """The examples of train, dev and test, as this model was trained on them."""
        return sources.split()

    def baselines(self) -> Any:
        """The :class:`~catena.tasks.baselines.fitting.BaselineSuite` of this model, to compare it with scikit-learn."""
        raise DataError(
            f"A model of the task {self.name} has no baselines. Remove --baseline, or use the task classify or regress."
        )

    def warnings(self, prediction: P, options: O) -> Sequence[str]:
        """Warnings about a prediction that the output does not show.

        Each is printed once for all predictions, with ``{n}`` replaced by its number of occurrences, and ``{s}`` and
        ``{was}`` by the forms that agree with this number.
        """
        return ()

    def format_for(self, options: O) -> str:
        """The output format if none is given."""
        return self.formats[0]

    def search_options(self, options: O) -> Self:
        """This model with the search of ``options`` as its default, for tasks that search."""
        raise DataError(f"A model of the task {self.name} does not search for its outputs. Remove the search options.")

    def ensemble(self, others: Sequence[BaseTask[Any, Any, Any, Any]]) -> Self:
        """An ensemble of this model and others."""
        raise DataError(f"A model of the task {self.name} cannot be part of an ensemble. Remove --ensemble.")

    def export(self, to: str, folder: Path, quantization: str | None = None) -> None:
        """Write the model in the format of another program."""
        raise DataError(
            f"A model of the task {self.name} cannot be exported. Export a model of the task translate or an n-gram "
            f"language model."
        )

    @property
    def networks(self) -> Sequence[nn.Module]:
        """The networks of the model; empty if it was counted or fitted."""
        return ()

    # --- derived ------------------------------------------------------------------------------------------------------

    @property
    def network(self) -> nn.Module:
        """The trained network, to inspect it or to train it further in your own loop.

        Predictions always use its current weights. For an ensemble this is the network of the first model.
        """
        if not self.networks:
            raise DataError(f"A model of kind {self._kind!r} has no network: it is fitted. Load a neural model.")
        return self.networks[0]

    def save_all(self, folder: Path) -> None:
        """Write everything except the weights into a checkpoint folder."""
        from catena.checkpoint import CONFIG

        (folder / CONFIG).write_text(to_toml(self.config), encoding="utf-8")
        self.save(folder)

    @property
    def _kind(self) -> str:
        return str(getattr(getattr(self.config, "model", None), "kind", self.name))

    def predict(self, items: Sequence[Any], options: O | None = None) -> list[P]:
        """A prediction for each item."""
        return list(self.predict_stream(items, options))

    def predict_stream(self, items: Iterable[Any], options: O | None = None) -> Iterator[P]:
        """Predictions for any number of items, in order, with constant memory."""
        if isinstance(items, str):
            raise DataError(f"predict must get a list, got one text: {items!r:.60}. Put it in a list: predict([text]).")
        chosen: Any = self.options_class() if options is None else options
        self.check_options(chosen)
        read = 0
        for block in blocks(map(self.to_example, items), self.stream_block):
            yield from name_too_long(block, partial(self.predict_examples, options=chosen.continued(read)))
            read += len(block)

    def check_options(self, options: O) -> None:
        """Raise an error for options that this model does not support. By default all are supported."""

    def evaluate(self, examples: Iterable[E]) -> EvaluationResult:
        """Compare the predictions of examples with their gold labels or references, with constant memory."""
        found = [name_too_long(block, self.evaluate_examples) for block in blocks(examples, self.stream_block)]
        if not found:
            raise DataError("There is no example to score. Give a file with gold labels or references.")
        return found[0].join(found)


def blocks(items: Iterable[E], size: int) -> Iterator[list[E]]:
    """Lists of ``size`` items, the last one shorter."""
    waiting = iter(items)
    while block := list(islice(waiting, size)):
        yield block


def name_too_long(block: Sequence[E], apply: Callable[[Sequence[E]], V]) -> V:
    """Apply a function to examples; raise a TooLongError that names the first example that the model cannot read.

    Args:
        block: the examples. Those with a ``location`` are named by it.
        apply: the function, which raises TooLongError if one of the examples is too long.
    """
    try:
        return apply(block)
    except TooLongError as error:
        if len(block) > 1:
            half = len(block) // 2
            for part in (block[:half], block[half:]):
                name_too_long(part, apply)
        elif (location := getattr(block[0], "location", None)) is not None:
            raise TooLongError(f"{location}: {error}") from None
        raise


def by_length(
    lengths: Sequence[int] | np.ndarray, tokens_at_once: int, predict: Callable[[np.ndarray], Sequence[Any]]
) -> list[Any]:
    """Apply ``predict`` to batches of examples of similar length and return its results in the original order.

    Args:
        lengths: the length of each example.
        tokens_at_once: the number of tokens in a batch, including padding.
        predict: maps the indices of a batch to one result for each.
    """
    from catena.data.batches import BatchPlan
    from catena.data.config import BatchConfig

    found: list[Any] = [None] * len(lengths)
    plan = BatchConfig(batch_size=tokens_at_once, batch_by="tokens")
    for index in BatchPlan.by_length(np.asarray(lengths, np.int64), plan):
        for i, one in zip(index.tolist(), predict(index), strict=True):
            found[i] = one
    return found


def check_text(item: Any) -> str:
    """An input that must be a text. Raise DataError if it is not a string."""
    if not isinstance(item, str):
        raise DataError(f"a text must be a string, got {type(item).__name__}: {item!r:.60}. Pass strings.")
    return item


T = TypeVar("T", bound=BaseTask[Any, Any, Any, Any])


def check_ensemble(family: type[T], others: Sequence[BaseTask[Any, Any, Any, Any]]) -> Iterator[tuple[int, T]]:
    """The further models of an ensemble with their numbers. Raise ConfigError if one is not of this family of tasks."""
    for number, other in enumerate(others, start=2):
        if not isinstance(other, family):
            raise ConfigError(
                f"The models of an ensemble must all be of task {family.name!r}, got {other.name!r} as model {number}. "
                f"Remove it."
            )
        yield number, other
