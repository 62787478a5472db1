"""Neural language models as tasks: next-token and masked models."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from catena.data.examples import Text
from catena.data.special_tokens import BEGIN_SYMBOL, END_SYMBOL
from catena.data.vocabulary import Vocabulary
from catena.errors import CatenaError, CheckpointError, DataError
from catena.lm.base import AutoregressiveLM
from catena.lm.neural import EncodedPrefix, NeuralLanguageModel
from catena.lm.neural_build import build_masked, build_neural
from catena.lm.neural_masked import MaskedLanguageModel
from catena.randomness import Randomness
from catena.shapes import mask_from_lengths
from catena.tasks.base import Origin
from catena.tasks.lm.batches import ContiguousEpoch, LmBatch, SentenceEpoch, WindowEpoch, as_stream
from catena.tasks.lm.config import LmConfig, LmMixtureConfig, LmOptions, NgramConfig, ObjectiveConfig
from catena.tasks.lm.data import LmEncoding, TextPart, encode_texts, load_encoding, prepare_text
from catena.tasks.lm.predict import LmEvaluation, ScoredText
from catena.tasks.lm.sound.config import WaveNetLMConfig
from catena.tasks.lm.task import LmTask
from catena.tasks.neural import Dataset, NetworkTraining, NeuralTask
from catena.tasks.pretrained import initial_vectors
from catena.tasks.sources import Sources
from catena.training.task import BatchLoss, EpochPlan


class NeuralLmTask(NeuralTask[LmConfig, Text, ScoredText, LmOptions], LmTask):  # type: ignore[misc]
    """A neural model that predicts the next token."""

    _network: NeuralLanguageModel

    def __init__(self, config: LmConfig, encoding: LmEncoding, network: nn.Module) -> None:
        super().__init__(config, encoding, network)
        self._streams: dict[int, Tensor] = {}
        self._carried: Any = None

    @property
    def stepper(self) -> AutoregressiveLM[Any]:
        return self._network

    @property
    def _begin(self) -> int:
        """The id before the first token of a text."""
        return self.stepper.begin  # type: ignore[attr-defined]

    # --- preparation --------------------------------------------------------------------------------------------------

    @classmethod
    def prepare(cls, config: LmConfig, sources: Sources[Text], origin: Origin) -> NetworkTraining:
        """As in the base class, but the text is stored as one array of ids."""
        family = MaskedLmTask if config.objective.kind == "masked" else cls
        encoding = cls.load_encoding(config, origin.folder) if origin.folder else None
        data = prepare_text(config, sources, encoding)
        origin.randomness.seed_torch("weights")
        network = build_network(config, data.encoding.vocabulary, data.counts, data.lines)
        task = family(config, data.encoding, network)
        if task.config.order == "sentences" and not len(task._trainable(data.train)):
            raise DataError("Every training line is longer than data.max_length. Raise it.")
        return NetworkTraining(task, Dataset(data.train, data.dev, data.test, data.lines), origin.randomness)

    @classmethod
    def load(cls, config: LmConfig, checkpoint: Any, device: str) -> NeuralLmTask:
        if config.objective.kind == "masked" and cls is NeuralLmTask:
            return MaskedLmTask.load(config, checkpoint, device)
        return super().load(config, checkpoint, device)

    @classmethod
    def check_start(cls, theirs: LmConfig, config: LmConfig, folder: Path) -> None:
        if theirs.objective.kind != config.objective.kind:
            raise CheckpointError(
                f"objective.kind must be {theirs.objective.kind!r}, the objective of the model in {folder}, got "
                f"{config.objective.kind!r}. Remove objective.kind."
            )

    @classmethod
    def load_encoding(cls, config: LmConfig, folder: Path) -> LmEncoding:
        return load_encoding(folder, config.data.unit)

    @classmethod
    def build_network(cls, config: LmConfig, encoding: LmEncoding, report: list[str] | None = None) -> nn.Module:
        return build_network(config, encoding.vocabulary)

    def encode(self, examples: Sequence[Text], *, gold: bool = True) -> TextPart:
        return encode_texts(examples, self.encoding)

    # --- batches ------------------------------------------------------------------------------------------------------

    def epoch(self, rows: TextPart, number: int, randomness: Randomness) -> EpochPlan:
        generator, settings = randomness.numpy("batches", number), self.config.batches
        if self.config.order == "sentences":
            longest = self.config.data.max_length + 1  # with the end symbol
            index = self._trainable(rows)
            return SentenceEpoch(rows.corpus, index, self._begin, settings, self.device, generator, longest)
        stream = self._stream(rows)
        return (WindowEpoch if self.config.order == "windows" else ContiguousEpoch)(stream, settings, generator)

    def _stream(self, rows: TextPart) -> Tensor:
        """The ids of a text on the device, made once."""
        if id(rows) not in self._streams:
            self._streams[id(rows)] = as_stream(rows.flat, self._begin, self.device)
        return self._streams[id(rows)]

    def _trainable(self, rows: TextPart) -> np.ndarray:
        """The lines that are not too long to train on."""
        lengths, data = rows.corpus.lengths, self.config.data
        return np.flatnonzero(lengths <= data.max_length + 1) if data.too_long == "drop" else np.arange(len(lengths))

    def describe_batch(self, batch: LmBatch) -> str:
        return f"{batch.ids.shape[0]} sequences of {batch.ids.shape[1]} tokens"

    # --- the loss -----------------------------------------------------------------------------------------------------

    def loss(self, batch: LmBatch) -> BatchLoss:
        model, state = self._network, None
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

    def training_tensors(self) -> dict[str, Tensor]:
        return {f"carried/{i}": part for i, part in enumerate(_leaves(self._carried))}

    def restore_training(self, tensors: dict[str, Tensor]) -> None:
        if tensors:
            like = self._network.fresh(len(tensors["carried/0"]))
            parts = (tensors[f"carried/{i}"].to(self.device) for i in range(len(tensors)))
            self._carried = _rebuilt(like, parts)

    # --- evaluation ---------------------------------------------------------------------------------------------------

    def evaluate_rows(self, rows: TextPart) -> LmEvaluation:
        return self.evaluate_part(rows)

    def show(self, rows: TextPart, result: LmEvaluation) -> list[str]:
        """A sampled text of the model."""
        ids: list[int] = []
        stepper = self.stepper
        state = stepper.start(1)
        for _ in range(self.config.evaluation.sample):
            sampled = torch.multinomial(stepper.log_probs(state).exp().double().cpu(), 1)[:, 0]
            if int(sampled) == stepper.end and ids:
                break
            ids.append(int(sampled))
            state = stepper.advance(state, sampled.to(self.device))
        return [self.encoding.text(ids).replace("\n", " ⏎ ")] if ids else []


class MaskedLmTask(NeuralLmTask):
    """A masked language model, which pretrains an encoder and cannot score or generate text."""

    next_commands = ("train classify FILE --pretrained RUN",)
    _network: MaskedLanguageModel  # type: ignore[assignment]

    @property
    def stepper(self) -> AutoregressiveLM[Any]:
        raise CatenaError(
            "A masked language model has no p(next | prefix), so it cannot score or generate text. Train one with "
            "--objective next."
        )

    @property
    def _begin(self) -> int:
        return self.encoding.end

    def loss(self, batch: LmBatch) -> BatchLoss:
        hidden, targets = self._predicted(batch)
        return BatchLoss(self._network.output.loss(hidden, targets), len(targets), batch.tokens)

    def _predicted(self, batch: LmBatch) -> tuple[Float[Tensor, "n d"], Tensor]:
        """The states at masked positions and their tokens."""
        ids, lengths = batch.targets, batch.lengths
        if lengths is None:
            lengths = torch.full((len(ids),), ids.shape[1], device=ids.device)
        shown, chosen = self._network.hide(ids, lengths, self.config.objective.mask_prob)
        return self._network.hidden(shown, lengths)[chosen], ids[chosen]

    @torch.no_grad()
    def evaluate_rows(self, rows: TextPart) -> MaskedEvaluation:
        """The likelihood of masked tokens. The same tokens are masked each time, and perplexity covers only them."""
        randomness = Randomness(self.config.seed)
        torch.manual_seed(randomness.number("hidden"))  # the training loop restores the generators afterwards
        plan = self._evaluation_plan(rows, randomness.numpy("hidden"))
        total, n = 0.0, 0
        for i in range(len(plan)):
            hidden, targets = self._predicted(plan.batch(i))
            total -= float(self._network.output.log_prob(hidden, targets).sum(dtype=torch.float64))
            n += len(targets)
        return MaskedEvaluation(self.config, rows, np.array([-total / max(n, 1)]))

    def _evaluation_plan(self, rows: TextPart, generator: np.random.Generator) -> EpochPlan:
        if self.config.order == "sentences":
            index = np.arange(len(rows))
            return SentenceEpoch(rows.corpus, index, self._begin, self.config.batches, self.device, generator)
        return WindowEpoch(as_stream(rows.flat, self._begin, self.device), self.config.batches, generator)

    def show(self, rows: TextPart, result: LmEvaluation) -> list[str]:
        return []


class MaskedEvaluation(LmEvaluation):
    """The mean log-probability of masked tokens."""

    def scores(self) -> dict[str, float]:
        mean = -float(self.log_probs[0])
        return {"perplexity": math.exp(min(mean, 700.0)), "nats_per_token": mean}


def build_network(
    config: LmConfig, vocabulary: Vocabulary, counts: Sequence[int] | None = None, report: list[str] | None = None
) -> NeuralLanguageModel | MaskedLanguageModel:
    """The network of a config, with random weights.

    Args:
        config: the config of a neural model.
        vocabulary: the vocabulary of the model.
        counts: frequency of each id in train. A saved model may be rebuilt with the counts of the vocabulary, which
            lack the end symbols: the values derived from the true counts are among its weights.
        report: as in :func:`~catena.tasks.pretrained.initial_vectors`.
    """
    settings = config.model
    assert not isinstance(settings, NgramConfig | LmMixtureConfig | WaveNetLMConfig)
    counts = vocabulary.counts if counts is None else counts
    vectors = initial_vectors(settings.embedding, vocabulary, report)
    if config.objective.kind == "masked":
        return build_masked(settings, vocabulary, counts, vectors=vectors)
    begin = BEGIN_SYMBOL if config.order == "sentences" else END_SYMBOL
    return build_neural(settings, vocabulary, counts, begin=begin, vectors=vectors)


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
