"""Language models as tasks of the training loop."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from catena.checkpoint import CONFIG
from catena.config import to_toml
from catena.lm.neural import EncodedPrefix, NeuralLanguageModel
from catena.lm.neural_masked import MaskedLanguageModel
from catena.randomness import Randomness
from catena.shapes import mask_from_lengths
from catena.tasks.lm.batches import ContiguousEpoch, LmBatch, SentenceEpoch, WindowEpoch, as_stream
from catena.tasks.lm.config import METRICS, WHAT_NEXT, LmConfig, ObjectiveConfig
from catena.tasks.lm.dataset import LmDataset, TextPart
from catena.tasks.lm.scoring import TextLogProbs, judge
from catena.tasks.looped import NeuralTask
from catena.training.task import BatchLoss, EpochPlan, Evaluation


class LmTask(NeuralTask):
    """Base class of masked and next-token models: the data and its batches."""

    def __init__(
        self,
        config: LmConfig,
        data: LmDataset,
        model: nn.Module,
        device: torch.device,
        randomness: Randomness,
        begin: int,
    ) -> None:
        self.config, self.data, self.device, self.randomness, self.begin = config, data, device, randomness, begin
        self._model = model.to(device)
        self._stream = None if config.order == "sentences" else as_stream(data.train.flat, begin, device)
        self._rows = trainable_lines(data.train, config) if config.order == "sentences" else None

    @property
    def model(self) -> nn.Module:
        return self._model

    @property
    def metric(self) -> str:
        return METRICS[0]

    @property
    def higher_is_better(self) -> bool:
        return False

    def epoch(self, number: int) -> EpochPlan:
        generator = self.randomness.numpy("batches", number)
        settings = self.config.batches
        if self._stream is None:
            assert self._rows is not None
            corpus = self.data.train.corpus
            longest = self.config.data.max_length + 1  # with the end symbol
            return SentenceEpoch(corpus, self._rows, self.begin, settings, self.device, generator, longest)
        if self.config.order == "windows":
            return WindowEpoch(self._stream, settings, generator)
        return ContiguousEpoch(self._stream, settings, generator)

    @abstractmethod
    def scores(self, part: TextPart) -> dict[str, float]:
        """The scores on a part of the data."""

    def test_scores(self) -> dict[str, float]:
        return {} if self.data.test is None else self.scores(self.data.test)

    def save(self, folder: Path) -> None:
        (folder / CONFIG).write_text(to_toml(self.config), encoding="utf-8")
        self.data.encoding.save(folder)

    def describe_batch(self, batch: LmBatch) -> str:
        return f"{batch.ids.shape[0]} sequences of {batch.ids.shape[1]} tokens"

    def summary(self) -> Sequence[str]:
        return self.data.lines


class NextTokenTask(LmTask):
    """Training task of a language model that predicts the next token."""

    what_next = WHAT_NEXT

    def __init__(
        self,
        config: LmConfig,
        data: LmDataset,
        model: NeuralLanguageModel,
        device: torch.device,
        randomness: Randomness,
    ) -> None:
        super().__init__(config, data, model, device, randomness, model.begin)
        self.lm = model
        self._carried: Any = None

    def loss(self, batch: LmBatch) -> BatchLoss:
        model = self.lm
        state = None
        if self.config.carries:
            fresh = batch.first or self._carried is None
            state = model.fresh(batch.ids.shape[0]) if fresh else self._carried
        read = model.read(batch.ids, batch.lengths, state)
        if self.config.carries:
            self._carried = model.encoder.detach(read.state)
        if batch.lengths is None:
            real, hidden, targets = None, read.hidden.flatten(0, 1), batch.targets.flatten()
        else:
            real = mask_from_lengths(batch.lengths, batch.ids.shape[1])
            hidden, targets = read.hidden[real], batch.targets[real]
        total = model.output.loss(hidden, targets) + penalty(read, self.config.objective, real)
        return BatchLoss(total, batch.tokens, batch.tokens)

    # --- the carried state in checkpoints -----------------------------------------------------------------------------

    def tensors(self) -> dict[str, Tensor]:
        return {f"carried/{i}": part for i, part in enumerate(_leaves(self._carried))}

    def restore(self, tensors: dict[str, Tensor]) -> None:
        if tensors:
            like = self.lm.fresh(len(tensors["carried/0"]))
            parts = (tensors[f"carried/{i}"].to(self.device) for i in range(len(tensors)))
            self._carried = _rebuilt(like, parts)

    # --- evaluation ---------------------------------------------------------------------------------------------------

    def evaluate(self) -> Evaluation:
        judged = self.judge(self.data.dev)
        return Evaluation(judged.scores(), self._sample())

    def scores(self, part: TextPart) -> dict[str, float]:
        return self.judge(part).scores()

    def judge(self, part: TextPart) -> TextLogProbs:
        """The log-probabilities of a part of the data."""
        return judge(self.lm, part, self.config, self.device)

    def _sample(self) -> list[str]:
        """A sampled text of the model."""
        ids: list[int] = []
        state = self.lm.start(1)
        for _ in range(self.config.evaluation.sample):
            sampled = torch.multinomial(self.lm.log_probs(state).exp().double().cpu(), 1)[:, 0]
            if int(sampled) == self.lm.end and ids:
                break
            ids.append(int(sampled))
            state = self.lm.advance(state, sampled.to(self.device))
        return [self.data.encoding.text(ids).replace("\n", " ⏎ ")] if ids else []


class MaskedTask(LmTask):
    """Training task of a masked language model."""

    what_next = ("train classify FILE --pretrained RUN",)

    def __init__(
        self,
        config: LmConfig,
        data: LmDataset,
        model: MaskedLanguageModel,
        device: torch.device,
        randomness: Randomness,
    ) -> None:
        super().__init__(config, data, model, device, randomness, data.encoding.end)
        self.masked = model

    def loss(self, batch: LmBatch) -> BatchLoss:
        hidden, targets = self._guessed(batch)
        return BatchLoss(self.masked.output.loss(hidden, targets), len(targets), batch.tokens)

    def _guessed(self, batch: LmBatch) -> tuple[Float[Tensor, "n d"], Tensor]:
        ids, lengths = batch.targets, batch.lengths
        if lengths is None:
            lengths = torch.full((len(ids),), ids.shape[1], device=ids.device)
        shown, chosen = self.masked.hide(ids, lengths, self.config.objective.mask_prob)
        return self.masked.hidden(shown, lengths)[chosen], ids[chosen]

    def evaluate(self) -> Evaluation:
        """Scores of masked tokens of dev. The same tokens are masked each time, and perplexity covers only them."""
        return Evaluation(self.scores(self.data.dev))

    @torch.no_grad()
    def scores(self, part: TextPart) -> dict[str, float]:
        """Perplexity and nats per token of the masked tokens of a part."""
        torch.manual_seed(self.randomness.number("hidden"))  # the training loop restores the generators afterwards
        generator = self.randomness.numpy("hidden")
        settings = self.config.batches
        plan: EpochPlan
        if self.config.order == "sentences":
            rows = np.arange(len(part))
            plan = SentenceEpoch(part.corpus, rows, self.begin, settings, self.device, generator)
        else:
            plan = WindowEpoch(as_stream(part.flat, self.begin, self.device), settings, generator)
        total, n = 0.0, 0
        for i in range(len(plan)):
            hidden, targets = self._guessed(plan.batch(i))
            total -= float(self.masked.output.log_prob(hidden, targets).sum(dtype=torch.float64))
            n += len(targets)
        mean = total / max(n, 1)
        return {"perplexity": math.exp(min(mean, 700.0)), "nats_per_token": mean}


def penalty(read: EncodedPrefix, settings: ObjectiveConfig, real: Bool[Tensor, "b t"] | None) -> Tensor | float:
    """Activation and temporal activation regularization, a mean over ``real`` positions.

    Merity et al. 2017, equations 1 and 2.
    """
    total: Tensor | float = 0.0
    if settings.activation:
        sizes = read.dropped if real is None else read.dropped[real]
        total = total + settings.activation * sizes.float().square().mean()
    if settings.slowness and read.raw.shape[1] > 1:
        changes = read.raw[:, 1:] - read.raw[:, :-1]
        changes = changes if real is None else changes[real[:, 1:]]
        total = total + settings.slowness * changes.float().square().mean()
    return total


def trainable_lines(part: TextPart, config: LmConfig) -> np.ndarray:
    """Indices of the lines of a part that are not too long to train on."""
    lengths = part.corpus.lengths
    if config.data.too_long == "cut":
        return np.arange(len(lengths))
    return np.flatnonzero(lengths <= config.data.max_length + 1)


def _leaves(state: Any) -> Iterator[Tensor]:
    """The tensors of nested tuples."""
    if isinstance(state, Tensor):
        yield state
    elif state is not None:
        for part in state:
            yield from _leaves(part)


def _rebuilt(like: Any, parts: Iterator[Tensor]) -> Any:
    """Nested tuples with the structure of ``like`` and the tensors of ``parts``."""
    return next(parts) if isinstance(like, Tensor) else tuple(_rebuilt(part, parts) for part in like)
