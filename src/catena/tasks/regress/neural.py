r"""Neural regression: the encoders of the classifiers with a Gaussian output.

The mean is a sum of a network of the text and a network of the numbers, :math:`\mu = f(x) + g(z)`, and so is
:math:`\log \sigma^2` if the variance is learned. The loss is

.. math::  \tfrac12 \big( \log \sigma^2 + (y - \mu)^2 / \sigma^2 \big)

with standardized values y; with a constant variance, half the squared error. A factor of the variance is fitted on
dev. Tested in tests/tasks/regress/test_neural.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from catena.randomness import Randomness
from catena.tasks.base import DataParts, Origin, by_length
from catena.tasks.classify.config import NeuralClassifierConfig
from catena.tasks.classify.encoding import TokenEncoding
from catena.tasks.classify.model import build_model
from catena.tasks.neural import Dataset, NetworkTraining, NeuralTask
from catena.tasks.pretrained import initial_vectors
from catena.tasks.regress.config import RegressConfig, RegressOptions
from catena.tasks.regress.data import RegressExample
from catena.tasks.regress.encoding import RegressEncoding, fit_tokenizer, get_weights
from catena.tasks.regress.predict import RegressEvaluation, ValuePrediction
from catena.tasks.regress.task import Gaussians, RegressTask, describe_parts, keep_usable, kept_deviation
from catena.tasks.sources import Sources
from catena.training.task import BatchLoss, EpochPlan

_SHOWN = 3
"""Number of dev examples that are shown with their predictions at each evaluation."""
_LEAST_VARIANCE = 1e-12


@dataclass(frozen=True)
class RegressBatch:
    """Texts or files and standardized numbers and values on the model's device.

    Args:
        texts: a value with ``tokens`` and ``longest``; None without texts and files.
    """

    texts: Any
    numbers: Float[Tensor, "b m"]
    values: Float[Tensor, "b"]
    weights: Float[Tensor, "b"]

    @property
    def tokens(self) -> int:
        return self.numbers.numel() + (0 if self.texts is None else self.texts.tokens)


@dataclass(frozen=True, eq=False)
class RegressRows:
    """Encoded examples: texts or files, standardized numbers, and values in their own unit.

    Args:
        texts: a value with ``lengths`` and ``batch``; None without texts and files.
        weights: the factor of the loss of each example, 1 on average.
    """

    texts: Any
    numbers: Float[np.ndarray, "n m"]
    values: Float[np.ndarray, "n"]
    weights: Float[np.ndarray, "n"]
    shown: dict[int, str] = field(default_factory=dict)

    @property
    def lengths(self) -> np.ndarray:
        return np.ones(len(self.values), np.int64) if self.texts is None else self.texts.lengths

    def __len__(self) -> int:
        return len(self.values)


class GaussianNetwork(nn.Module):
    """The mean and the log variance of standardized values.

    Args:
        text: scores texts, pictures or sounds: one value for the mean and, if it is learned, one for the log variance;
            None if there are only numbers.
        numbers: the same for numbers; None without numbers.

    ``variance`` multiplies the variance in prediction only; it is fitted on dev, not trained.
    """

    variance: Tensor

    def __init__(self, text: nn.Module | None, numbers: nn.Module | None) -> None:
        super().__init__()
        self.text, self.numbers = text, numbers
        self.register_buffer("variance", torch.ones(()))

    def forward(self, batch: RegressBatch) -> tuple[Float[Tensor, "b"], Float[Tensor, "b"]]:
        parts = [] if self.text is None or batch.texts is None else [self.text(batch.texts).logits]
        if self.numbers is not None:
            parts.append(self.numbers(batch.numbers))
        output = torch.stack(parts).sum(0)
        mean = output[:, 0]
        return mean, output[:, 1] if output.shape[1] > 1 else torch.zeros_like(mean)


def build_number_network(sizes: Sequence[int]) -> nn.Module:
    """Linear layers of these sizes with rectifiers between them."""
    layers: list[nn.Module] = []
    for d_in, d_out in pairwise(sizes):
        layers += [nn.Linear(d_in, d_out), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def gaussian_loss(
    values: Float[Tensor, "b"],
    mean: Float[Tensor, "b"],
    log_variance: Float[Tensor, "b"],
    weights: Float[Tensor, "b"],
) -> Float[Tensor, ""]:
    """The mean weighted negative log-likelihood, without the constant log(2π) / 2."""
    return 0.5 * (weights * (log_variance + (values - mean) ** 2 * torch.exp(-log_variance))).mean()


class NeuralRegressTask(NeuralTask[RegressConfig, RegressExample, ValuePrediction, RegressOptions], RegressTask):
    """A network with a Gaussian output."""

    tokens_at_once: ClassVar[int] = 16_384
    """Number of tokens that are predicted together."""

    def __init__(self, config: RegressConfig, encoding: RegressEncoding, network: GaussianNetwork) -> None:
        super().__init__(config, encoding, network)
        self.model = network
        self._train: RegressRows | None = None

    # --- encoding and network -----------------------------------------------------------------------------------------

    @classmethod
    def prepare(cls, config: RegressConfig, sources: Sources[RegressExample], origin: Origin) -> NetworkTraining:
        lines = sources.describe()
        again = Sources(cls, config, sources.given)  # a trained tokenizer reads the texts first
        parts = keep_usable(config, sources, fit_tokenizer(config, again.read("train")))
        task = cls.new(config, parts.train, origin, lines)
        train, dev, test = (task.encode(part) for part in (parts.train, parts.dev, parts.test))
        data = Dataset(train, dev, test, [*lines, sources.counts(parts), *describe_parts(parts)])
        return NetworkTraining(task, data, origin.randomness)

    def training_parts(self, sources: Sources[RegressExample]) -> DataParts[RegressExample]:
        return RegressTask.training_parts(self, sources)

    @classmethod
    def fit_encoding(cls, config: RegressConfig, train: Sequence[RegressExample], origin: Origin) -> RegressEncoding:
        return RegressEncoding.fit(config, train)

    @classmethod
    def load_encoding(cls, config: RegressConfig, folder: Path) -> RegressEncoding:
        return RegressEncoding.load(config, folder)

    @classmethod
    def build_network(
        cls, config: RegressConfig, encoding: RegressEncoding, report: list[str] | None = None
    ) -> GaussianNetwork:
        n_outputs = 2 if config.output.variance == "learned" else 1
        text = vectors = None
        if encoding.texts is not None:
            if isinstance(config.model, NeuralClassifierConfig) and isinstance(encoding.texts, TokenEncoding):
                vectors = initial_vectors(config.model.embedding, encoding.texts.vocabulary, report)
            text = build_model(config.encoder_config(), encoding.texts.size, n_outputs, vectors)
        sizes = (len(encoding.names), *config.output.hidden, n_outputs)
        return GaussianNetwork(text, build_number_network(sizes) if encoding.names else None)

    def encode(self, examples: Sequence[RegressExample], *, gold: bool = True) -> RegressRows:
        values = np.array([example.value for example in examples], np.float64)
        at = np.linspace(0, len(examples) - 1, min(_SHOWN, len(examples))).astype(int).tolist()
        shown = {i: examples[i].text or examples[i].key.strip() for i in at}
        weights = get_weights(examples)
        weights = weights / (weights.mean() if len(weights) else 1.0)  # keeps the size of the steps
        texts, numbers = self.encoding.encode_texts(examples), self.encoding.numbers(examples)
        return RegressRows(texts, numbers, values, weights, shown)

    def collate(self, rows: RegressRows, index: np.ndarray) -> RegressBatch:
        texts = None if rows.texts is None else rows.texts.batch(index, None, self.device)
        return RegressBatch(texts, *self._numbers(rows, index))

    def _numbers(
        self, rows: RegressRows, index: np.ndarray
    ) -> tuple[Float[Tensor, "b m"], Float[Tensor, "b"], Float[Tensor, "b"]]:
        """The standardized numbers and values of the rows at ``index``, and their weights."""
        values = (rows.values[index] - self.encoding.middle) / self.encoding.scale
        parts = rows.numbers[index], values, rows.weights[index]
        return tuple(torch.from_numpy(part).float().to(self.device) for part in parts)  # type: ignore[return-value]

    # --- training -----------------------------------------------------------------------------------------------------

    def epoch(self, rows: RegressRows, number: int, randomness: Randomness) -> EpochPlan:
        self._train = rows
        return super().epoch(rows, number, randomness)

    def loss(self, batch: RegressBatch) -> BatchLoss:
        mean, log_variance = self.model(batch)
        loss = gaussian_loss(batch.values, mean, log_variance, batch.weights)
        return BatchLoss(loss, len(batch.values), batch.tokens)

    def describe_batch(self, batch: RegressBatch) -> str:
        longest = "" if batch.texts is None else f", longest {batch.texts.longest} tokens"
        return f"{len(batch.values)} examples{longest}"

    def show(self, rows: RegressRows, result: RegressEvaluation) -> list[str]:
        lines = []
        for i, text in rows.shown.items():
            short = text if len(text) <= 60 else text[:57] + "…"
            lines.append(f"{short}  →  {result.means[i]:.4g} ± {result.deviations[i]:.2g} (is {result.gold[i]:.4g})")
        return lines

    # --- prediction and evaluation ------------------------------------------------------------------------------------

    def evaluate_dev(self, rows: RegressRows) -> RegressEvaluation:
        """Evaluate, after fitting the factor of the variance: the mean squared error in units of the deviation."""
        fitted = rows if self.config.evaluation.calibrate or self._train is None else self._train
        self.model.variance.fill_(1.0)
        means, deviations = self._gaussians(fitted)
        errors = kept_deviation(self.config) or fitted.values - means
        factor = float(np.mean((errors / deviations) ** 2))
        self.model.variance.fill_(max(factor, _LEAST_VARIANCE))
        return self.evaluate_rows(rows)

    def evaluate_rows(self, rows: RegressRows) -> RegressEvaluation:
        return RegressEvaluation(rows.values, *self._gaussians(rows))

    def gaussians(self, examples: Sequence[RegressExample]) -> Gaussians:
        return self._gaussians(self.encode(examples, gold=False))

    def _gaussians(self, rows: RegressRows) -> Gaussians:
        def predict(index: np.ndarray) -> list[tuple[float, float]]:
            mean, log_variance = self.model(self.collate(rows, index))
            both = torch.stack((mean, log_variance), dim=-1)
            return [tuple(pair) for pair in both.double().cpu().tolist()]

        with torch.inference_mode():
            found = np.array(by_length(rows.lengths, self.tokens_at_once, predict), np.float64).reshape(-1, 2)
        deviations = np.exp(found[:, 1] / 2) * np.sqrt(float(self.model.variance))
        return self.encoding.middle + self.encoding.scale * found[:, 0], self.encoding.scale * deviations

    def describe(self, top: int) -> list[str]:
        texts = "" if self.encoding.texts is None else f", {self.encoding.texts.size:,} ids"
        lines: list[Any] = [
            f"regression of kind {self.config.model.kind}{texts}, {self.n_parameters:,} parameters",
            f"values: mean {self.encoding.middle:.4g}, standard deviation {self.encoding.scale:.4g}",
            f"factor of the variance fitted on dev: {float(self.model.variance):.3g}",
        ]
        return [*lines, *([f"numbers: {', '.join(self.encoding.names)}"] if self.encoding.names else [])]
