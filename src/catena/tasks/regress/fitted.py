"""Linear, ridge and kernel ridge regression as tasks: solved for, with the candidates compared on dev.

Tested in tests/tasks/regress/test_fitted.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from jaxtyping import Float

from catena.checkpoint import Checkpoint
from catena.data.features import Features
from catena.tasks.base import DataParts, Origin
from catena.tasks.classify.encoding import EncodedBags
from catena.tasks.fitted import FitReporter, FittedTask
from catena.tasks.regress.config import (
    KernelRidgeConfig,
    LinearRegressionConfig,
    RegressConfig,
    RegressOptions,
    RidgeRegressionConfig,
)
from catena.tasks.regress.data import RegressExample
from catena.tasks.regress.encoding import RegressEncoding, fit_tokenizer, get_weights
from catena.tasks.regress.features import (
    LinearSolution,
    SparseRows,
    gaussian_kernel,
    inverse_document_frequency,
    solve_kernel,
    solve_linear,
    weigh,
)
from catena.tasks.regress.predict import RegressEvaluation, ValuePrediction
from catena.tasks.regress.task import Gaussians, RegressTask, describe_parts, keep_usable, kept_deviation
from catena.tasks.sources import Sources

if TYPE_CHECKING:
    from torch import Tensor


_ROWS_AT_ONCE = 1024
"""Number of examples whose similarities to all training examples are in memory."""


@dataclass(frozen=True, eq=False)
class KernelSolution:
    """Weights of training examples: f(x) = middle + Σ dual_i exp(-γ |x - x_i|²)."""

    support: SparseRows
    dual: Float[np.ndarray, " n"]
    gamma: float
    middle: float
    converged: bool = True

    def predict(self, rows: SparseRows) -> Float[np.ndarray, " n"]:
        """The predicted value of each row, in blocks of bounded memory."""
        blocks = np.array_split(np.arange(rows.shape[0]), max(1, -(-rows.shape[0] // _ROWS_AT_ONCE)))
        parts = [gaussian_kernel(rows.take(index), self.support, self.gamma) @ self.dual for index in blocks]
        return np.concatenate(parts) + self.middle


Solution = LinearSolution | KernelSolution


@dataclass(frozen=True, eq=False)
class FittedValues:
    """A solution and what it was chosen for.

    Args:
        solution: predicts means.
        idf: the weight of each feature of a text.
        deviation: the standard deviation of the values.
        chosen: the chosen options, such as alpha.
    """

    solution: Solution
    idf: Float[np.ndarray, " d"]
    deviation: float
    chosen: dict[str, float]


class FittedRegressTask(RegressTask, FittedTask[RegressConfig, RegressExample, ValuePrediction, RegressOptions]):
    """Linear or kernel regression.

    Args:
        config: the config.
        encoding: how examples become features.
        model: the solution.
    """

    stops_early = True

    def __init__(self, config: RegressConfig, encoding: RegressEncoding, model: FittedValues) -> None:
        self.config, self.encoding, self.model = config, encoding, model

    @classmethod
    def gather(
        cls, config: RegressConfig, sources: Sources[RegressExample], origin: Origin
    ) -> tuple[DataParts[RegressExample], list[str]]:
        lines = sources.describe()
        again = Sources(cls, config, sources.given)  # a trained tokenizer reads the texts first
        parts = keep_usable(config, sources, fit_tokenizer(config, again.read("train")))
        return parts, [*lines, sources.counts(parts), *describe_parts(parts)]

    # --- fitting ------------------------------------------------------------------------------------------------------

    @classmethod
    def fit(
        cls, config: RegressConfig, parts: DataParts[RegressExample], origin: Origin, progress: FitReporter
    ) -> Self:
        encoding = RegressEncoding.fit(config, parts.train)
        idf = _fit_idf(config, encoding, parts.train)
        rows, dev_rows = (to_rows(config, encoding, idf, part) for part in (parts.train, parts.dev))
        values, dev_values = (np.array([example.value for example in part]) for part in (parts.train, parts.dev))
        weights = get_weights(parts.train)
        metric = config.training.metric or "rmse"
        best: tuple[float, FittedValues] | None = None
        for chosen, solution in _candidates(config, rows, values, weights, origin, progress):
            residuals = {"train": values - solution.predict(rows), "dev": dev_values - solution.predict(dev_rows)}
            used = ("dev", np.ones(len(dev_values))) if config.evaluation.calibrate else ("train", weights)
            found = float(np.sqrt(np.average(residuals[used[0]] ** 2, weights=used[1])))
            deviation = kept_deviation(config) or found
            result = RegressEvaluation(dev_values, dev_values - residuals["dev"], np.full(len(dev_values), deviation))
            score = result.scores()[metric]
            _report(progress, chosen, solution, metric, score, residuals)
            gain = score if result.metrics()[metric].higher_is_better else -score
            if best is None or gain > best[0]:
                best = gain, FittedValues(solution, idf, deviation, chosen)
        assert best is not None
        return cls(config, encoding, best[1])

    # --- prediction ---------------------------------------------------------------------------------------------------

    def gaussians(self, examples: Sequence[RegressExample]) -> Gaussians:
        rows = to_rows(self.config, self.encoding, self.model.idf, examples)
        return self.model.solution.predict(rows), np.full(len(examples), self.model.deviation)

    # --- files --------------------------------------------------------------------------------------------------------

    def save(self, folder: Path) -> None:
        self.encoding.save(folder)

    def tensors(self) -> dict[str, Tensor]:
        model, solution = self.model, self.model.solution
        arrays: dict[str, Any] = {"idf": model.idf, "deviation": model.deviation}
        arrays |= {f"chosen.{name}": value for name, value in model.chosen.items()}
        if isinstance(solution, LinearSolution):
            arrays |= {"weights": solution.weights, "bias": solution.bias}
        else:
            support = solution.support
            arrays |= {"rows": support.rows, "ids": support.ids, "values": support.values, "shape": support.shape}
            arrays |= {"dual": solution.dual, "gamma": solution.gamma, "bias": solution.middle}
        return {name: torch.from_numpy(np.array(array)) for name, array in arrays.items()}

    @classmethod
    def load(cls, config: RegressConfig, checkpoint: Checkpoint, device: str) -> Self:
        held = {name: tensor.numpy() for name, tensor in checkpoint.weights().items()}
        solution: Solution
        if "dual" in held:
            support = SparseRows(held["rows"], held["ids"], held["values"], tuple(held["shape"].tolist()))
            solution = KernelSolution(support, held["dual"], float(held["gamma"]), float(held["bias"]))
        else:
            solution = LinearSolution(held["weights"], float(held["bias"]))
        chosen = {name.partition(".")[2]: float(held[name]) for name in held if name.startswith("chosen.")}
        encoding = RegressEncoding.load(config, checkpoint.folder)
        _check_fit(encoding, solution, held["idf"], float(held["deviation"]))
        return cls(config, encoding, FittedValues(solution, held["idf"], float(held["deviation"]), chosen))

    # --- description --------------------------------------------------------------------------------------------------

    def describe(self, top: int) -> list[str]:
        model, solution = self.model, self.model.solution
        options = "".join(f", {name} {value:g}" for name, value in model.chosen.items())
        lines = [f"regression of kind {self.config.model.kind}{options}", f"standard deviation: {model.deviation:.4g}"]
        if isinstance(solution, KernelSolution):
            return [*lines, f"{solution.support.shape[0]:,} training examples with a weight"]
        order = np.argsort(-np.abs(solution.weights), kind="stable")[:top].tolist()
        shown = ", ".join(f"{self._name(i)} {solution.weights[i]:+.3g}" for i in order)
        return [*lines, f"bias {solution.bias:.4g}", f"the {len(order)} features with the largest weights: {shown}"]

    def _name(self, column: int) -> str:
        n = len(self.model.idf)
        if column >= n:
            return self.encoding.names[column - n]
        assert self.encoding.texts is not None
        return self.encoding.texts.name(column)


# --- features ---------------------------------------------------------------------------------------------------------


def to_rows(
    config: RegressConfig, encoding: RegressEncoding, idf: Float[np.ndarray, " d"], examples: Sequence[RegressExample]
) -> SparseRows:
    """The features of examples: n-grams of the text, and then the numbers."""
    bags = _bags(encoding, examples)
    if bags is not None and config.model.tfidf:  # type: ignore[union-attr]
        bags = weigh(bags, idf)
    return SparseRows.of(bags, len(idf), encoding.numbers(examples))


def _bags(encoding: RegressEncoding, examples: Sequence[RegressExample]) -> Features | None:
    encoded = encoding.encode_texts(examples)
    assert encoded is None or isinstance(encoded, EncodedBags)
    return None if encoded is None else encoded.features


def _fit_idf(config: RegressConfig, encoding: RegressEncoding, train: Sequence[RegressExample]) -> np.ndarray:
    bags = _bags(encoding, train)
    if bags is None or encoding.texts is None:
        return np.zeros(0)
    return inverse_document_frequency(bags, encoding.texts.size, get_weights(train))


# --- candidates -------------------------------------------------------------------------------------------------------


def _candidates(
    config: RegressConfig,
    rows: SparseRows,
    values: Float[np.ndarray, " n"],
    weights: Float[np.ndarray, " n"],
    origin: Origin,
    progress: FitReporter,
) -> Iterator[tuple[dict[str, float], Solution]]:
    """The solutions to choose from, with their options, as many as the time limit allows."""
    model = config.model
    if isinstance(model, LinearRegressionConfig):
        yield {}, solve_linear(rows, values, 0.0, weights)
    elif isinstance(model, RidgeRegressionConfig):
        for i, alpha in enumerate(model.alpha):
            if i and progress.is_time_over():
                return
            yield {"alpha": alpha}, solve_linear(rows, values, alpha, weights)
    else:
        assert isinstance(model, KernelRidgeConfig)
        if len(values) > model.max_examples:
            index = np.sort(origin.randomness.numpy("kernel").choice(len(values), model.max_examples, replace=False))
            progress.note(f"{model.max_examples:,} of {len(values):,} training examples, by model.max_examples")
            rows, values, weights = rows.take(index), values[index], weights[index]
        spread = float(np.average(rows.squares, weights=weights) - (rows.means(weights) ** 2).sum())
        middle = float(np.average(values, weights=weights))
        for i, relative in enumerate(model.gamma):
            if i and progress.is_time_over():
                return
            gamma = relative / spread
            kernel = gaussian_kernel(rows, rows, gamma)
            for alpha in model.alpha:
                dual = solve_kernel(kernel, values, alpha, weights)
                chosen = {"alpha": alpha, "gamma": gamma, "relative_gamma": relative}
                yield chosen, KernelSolution(rows, dual, gamma, middle)


def _check_fit(encoding: RegressEncoding, solution: Solution, idf: np.ndarray, deviation: float) -> None:
    """Raise ValueError if a loaded solution does not fit the encoding."""
    n_bags = encoding.texts.size if encoding.texts is not None else 0
    n = n_bags + len(encoding.names)
    if isinstance(solution, LinearSolution):
        fits = solution.weights.shape == (n,)
    else:
        support, rows = solution.support, len(solution.dual)
        fits = support.shape == (rows, n) and len(support.rows) == len(support.ids) == len(support.values)
        fits = fits and all(((ids >= 0) & (ids < m)).all() for ids, m in ((support.rows, rows), (support.ids, n)))
    if not fits or len(idf) != n_bags or not deviation >= 0:
        raise ValueError(
            f"The model must have {n} features and a deviation of at least 0, got others. Copy the model again."
        )


def _report(
    progress: FitReporter,
    chosen: dict[str, float],
    solution: Solution,
    metric: str,
    score: float,
    residuals: dict[str, np.ndarray],
) -> None:
    """A line about one candidate."""
    named = {name: value for name, value in chosen.items() if name != "relative_gamma"}  # what is kept for another fit
    options = ", ".join(f"{name} {value:.4g}" for name, value in named.items())
    errors = ", ".join(f"{part} {np.sqrt(np.mean(errors**2)):.4g}" for part, errors in residuals.items())
    late = "" if solution.converged else "; the solver stopped before it converged"
    shown = f"{options}: " if options else ""
    progress.note(f"{shown}dev {metric} {score:.4f}; root mean squared error: {errors}{late}")
