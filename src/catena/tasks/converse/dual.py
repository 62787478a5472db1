"""Dual encoders as a task: training pairs, the loss, and the index of response vectors.

Tested in tests/tasks/converse/test_task.py.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Self

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from catena.checkpoint import Checkpoint, open_checkpoint, read_stored
from catena.data.batches import BatchPlan, pad
from catena.data.conversations import Exchange
from catena.data.lines import LineIndex
from catena.data.special_tokens import TURN_SYMBOL
from catena.embeddings.table import build_embedding
from catena.errors import CheckpointError
from catena.files import file_sha256
from catena.randomness import Randomness
from catena.retrieval.config import DualEncoderConfig
from catena.retrieval.dual import DualEncoder, binary_loss, softmax_loss
from catena.tasks.base import DataParts, Origin, TrainResult
from catena.tasks.config import model_section
from catena.tasks.converse.config import ConverseConfig, ConverseOptions
from catena.tasks.converse.data import (
    DualEncoding,
    describe_parts,
    distinct_responses,
    distinct_texts,
    fit_tokenizer,
    fit_vocabulary,
    inverse_document_frequency,
    load_dual_encoding,
    training_exchanges,
)
from catena.tasks.converse.evaluation import ConverseEvaluation
from catena.tasks.converse.predict import ResponsePrediction
from catena.tasks.converse.rankers import (
    INDEX,
    DualRanker,
    ResponseIndex,
    build_index,
    collect_responses,
    load_index,
    load_texts,
    save_texts,
)
from catena.tasks.converse.task import RetrievalTask
from catena.tasks.neural import Dataset, NetworkTraining, NeuralTask, PlannedEpoch
from catena.tasks.pretrained import initial_vectors
from catena.tasks.runs import load_task
from catena.tasks.sources import Sources
from catena.training.report import Reporter
from catena.training.run import RunFolder
from catena.training.task import BatchLoss, EpochPlan

_ABOUT = "about.json"
"""The file in the index of a run that names the checkpoint whose vectors it has."""


class DualRows:
    """Exchanges, and their training pairs as ids, which are made when they are first used."""

    def __init__(self, exchanges: Sequence[Exchange], config: ConverseConfig, encoding: DualEncoding) -> None:
        self.exchanges, self.config, self.encoding = exchanges, config, encoding
        self._texts: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self.exchanges)

    @cached_property
    def _trained(self) -> list[Exchange]:
        return training_exchanges(self.exchanges, self.config.data)

    @cached_property
    def contexts(self) -> list[np.ndarray]:
        """The ids of the contexts."""
        return [self.encoding.context(exchange) for exchange in self._trained]

    @cached_property
    def right(self) -> list[list[int]]:
        """The correct responses to each context, as indices of :attr:`responses`."""
        return [self._indices(exchange.responses) for exchange in self._trained]

    @cached_property
    def wrong(self) -> list[list[int]]:
        """The incorrect responses to each context, as indices of :attr:`responses`."""
        return [self._indices((*exchange.wrong, *exchange.hard)) for exchange in self._trained]

    @cached_property
    def responses(self) -> list[np.ndarray]:
        """The ids of the distinct responses, the correct ones first."""
        _ = self.right, self.wrong  # number the texts
        return [self.encoding.response(text) for text in self._texts]

    @cached_property
    def is_labeled(self) -> bool:
        """Whether any context has incorrect responses."""
        return any(exchange.wrong for exchange in self.exchanges)

    def _indices(self, texts: Sequence[str]) -> list[int]:
        return [self._texts.setdefault(text, len(self._texts)) for text in texts]


@dataclass(frozen=True)
class DualPair:
    """Indices of a context and a response, and whether the response is correct."""

    context: int
    response: int
    is_correct: bool = True


@dataclass(frozen=True, eq=False)
class DualPairs:
    """The pairs of an epoch, with a random number for each, which chooses an incorrect response."""

    rows: DualRows
    pairs: list[DualPair]
    numbers: np.ndarray


@dataclass(frozen=True, eq=False)
class DualBatch:
    """Padded contexts and responses; response i is correct for context i, further responses for none.

    ``allowed[i, j]`` is False if response j must not count as incorrect for context i. ``labels`` are for the binary
    loss.
    """

    contexts: Int[Tensor, "n s"]
    context_lengths: Int[Tensor, " n"]
    responses: Int[Tensor, "m t"]
    response_lengths: Int[Tensor, " m"]
    allowed: Bool[Tensor, "n m"] | None = None
    labels: Float[Tensor, " n"] | None = None


class DualTask(NeuralTask[ConverseConfig, Exchange, ResponsePrediction, ConverseOptions], RetrievalTask):
    """A dual encoder with its index of responses."""

    encoding: DualEncoding
    _texts: Sequence[str] | LineIndex = ()
    _contexts: Sequence[str] | LineIndex = ()

    def __init__(self, config: ConverseConfig, encoding: DualEncoding, network: DualEncoder) -> None:
        super().__init__(config, encoding, network)
        self.settings, self.encoder = model_section(config, DualEncoderConfig), network
        self._ranker = DualRanker(encoding, network, config.evaluation.texts_at_once)

    @property
    def ranker(self) -> DualRanker:
        return self._ranker

    # --- the index ----------------------------------------------------------------------------------------------------

    @cached_property
    def index(self) -> ResponseIndex:  # type: ignore[override]
        """The index of the responses, which is built if the run has not stored it."""
        return build_index(self.config, self.ranker, list(self._texts), list(self._contexts))

    def save(self, folder: Path) -> None:
        super().save(folder)
        save_texts(folder / INDEX, self._texts, self._contexts)

    @classmethod
    def load(cls, config: ConverseConfig, checkpoint: Checkpoint, device: str) -> Self:
        task = super().load(config, checkpoint, device)
        task._texts, task._contexts = load_texts(checkpoint.folder / INDEX)
        stored = checkpoint.folder.parent.parent / INDEX
        if _belongs(stored, checkpoint):
            task.index = load_index(task.ranker, stored)
        return task

    # --- preparation --------------------------------------------------------------------------------------------------

    @classmethod
    def prepare(cls, config: ConverseConfig, sources: Sources[Exchange], origin: Origin) -> DualTraining:
        training = super().prepare(config, sources, origin)
        return DualTraining(training.task, training.data, training.randomness)

    @classmethod
    def new(cls, config: ConverseConfig, train: Sequence[Exchange], origin: Origin, report: list[str]) -> Self:
        task = super().new(config, train, origin, report)
        task._texts, task._contexts = collect_responses(config, train)
        task.more_distractors = distinct_responses(train)
        return task

    @classmethod
    def fit_encoding(cls, config: ConverseConfig, train: Sequence[Exchange], origin: Origin) -> DualEncoding:
        tokenizer, texts = fit_tokenizer(config, train), distinct_texts(train)
        vectors = model_section(config, DualEncoderConfig).embedding.vectors
        vocabulary = fit_vocabulary(config, tokenizer, texts, (TURN_SYMBOL,), vectors)
        rarity = inverse_document_frequency(vocabulary, tokenizer, texts)
        return DualEncoding(tokenizer, vocabulary, config.data.max_length, rarity)

    @classmethod
    def load_encoding(cls, config: ConverseConfig, folder: Path) -> DualEncoding:
        return load_dual_encoding(folder, config.data.max_length)

    @classmethod
    def build_network(
        cls, config: ConverseConfig, encoding: DualEncoding, report: list[str] | None = None
    ) -> DualEncoder:
        settings, n = model_section(config, DualEncoderConfig), len(encoding.vocabulary)
        matrix, known = initial_vectors(settings.embedding, encoding.vocabulary, report) or (None, None)
        embedding = build_embedding(settings.embedding, n, matrix=matrix, known=known)
        rarity = torch.zeros(n) if encoding.rarity is None else torch.from_numpy(encoding.rarity)
        return DualEncoder(settings, embedding, rarity)

    def encode(self, examples: Sequence[Exchange], *, gold: bool = True) -> DualRows:
        return DualRows(examples, self.config, self.encoding)

    def summarize(self, parts: DataParts[Exchange], data: Dataset) -> list[str]:
        return [*describe_parts(parts, self.config.data), *self.encoding.vocabulary.notes()]

    # --- training -----------------------------------------------------------------------------------------------------

    def epoch(self, rows: DualRows, number: int, randomness: Randomness) -> EpochPlan:
        generator = randomness.numpy("batches", number)
        pairs = self.pairs(rows, generator)
        lengths = np.array([len(rows.contexts[pair.context]) for pair in pairs])
        plan = BatchPlan.shuffled(lengths, self.config.batches, generator)
        epoch_pairs = DualPairs(rows, pairs, generator.integers(0, 2**31, len(pairs)))
        return PlannedEpoch(plan, lambda index: self.collate(epoch_pairs, index))

    def pairs(self, rows: DualRows, generator: np.random.Generator) -> list[DualPair]:
        """The pairs of an epoch: the correct ones and, for the binary loss, given or sampled incorrect ones."""
        right = [DualPair(i, j) for i, own in enumerate(rows.right) for j in own]
        if self.settings.loss == "softmax":
            return right
        if rows.is_labeled:
            return right + [DualPair(i, j, False) for i, own in enumerate(rows.wrong) for j in own]
        wrong = []
        for pair in right:
            for j in generator.integers(0, len(rows.responses), self.settings.negatives).tolist():
                if j not in rows.right[pair.context]:  # skip a sampled response that is correct
                    wrong.append(DualPair(pair.context, j, False))
        return right + wrong

    def collate(self, rows: DualPairs, index: np.ndarray) -> DualBatch:
        source, pairs = rows.rows, [rows.pairs[i] for i in index]
        contexts, sizes = pad([source.contexts[pair.context] for pair in pairs])
        columns = [pair.response for pair in pairs]
        allowed = labels = None
        if self.settings.loss == "softmax":
            if self.settings.hard_negatives:
                wrong = [(source.wrong[rows.pairs[i].context], int(rows.numbers[i])) for i in index]
                columns += [own[number % len(own)] for own, number in wrong if own]
            right = [set(source.right[pair.context]) for pair in pairs]
            allowed = torch.tensor([[j not in own for j in columns] for own in right]).to(self.device)
        else:
            labels = torch.tensor([float(pair.is_correct) for pair in pairs]).to(self.device)
        responses, lengths = pad([source.responses[j] for j in columns])
        tensors = [x.to(self.device) for x in (contexts, sizes, responses, lengths)]
        return DualBatch(tensors[0], tensors[1], tensors[2], tensors[3], allowed, labels)

    def loss(self, batch: DualBatch) -> BatchLoss:
        queries = self.encoder.queries(batch.contexts, batch.context_lengths)
        keys = self.encoder.keys(batch.responses, batch.response_lengths)
        if batch.allowed is not None:
            total = softmax_loss(queries @ keys.T, batch.allowed)
        else:
            assert batch.labels is not None
            total = binary_loss((queries * keys).sum(-1), batch.labels)
        return BatchLoss(total, len(queries), batch.contexts.numel() + batch.responses.numel())

    def describe_batch(self, batch: DualBatch) -> str:
        return f"{len(batch.contexts)} contexts, longest {batch.contexts.shape[1]} tokens"

    # --- evaluation ---------------------------------------------------------------------------------------------------

    def evaluate_rows(self, rows: DualRows) -> ConverseEvaluation:
        return self.rank_responses(rows.exchanges)

    def show(self, rows: DualRows, result: ConverseEvaluation) -> list[str]:
        shown = [group[0] for group in result.groups[:3]]
        lines = []
        for example, scores in zip(shown, self.ranker.scores(shown), strict=True):
            best = int(scores.argmax())
            mark = "✓" if best == 0 else f"✗ (is {example.candidates[0]})"
            lines.append(f"{example.exchange.context[-1]}  →  {example.candidates[best]} {mark}")
        return lines


class DualTraining(NetworkTraining):
    """The training of a dual encoder, which stores the index of its best checkpoint in the run."""

    def train(self, run: RunFolder, reporter: Reporter, *, saves_start: bool = False) -> TrainResult:
        return _with_index(super().train(run, reporter, saves_start=saves_start))

    def resume(self, run: RunFolder, reporter: Reporter) -> TrainResult:
        return _with_index(super().resume(run, reporter))


def _with_index(result: TrainResult) -> TrainResult:
    """The result of a run, in whose folder the index of the best checkpoint is stored if training has ended."""
    folder = result.folder / INDEX
    if not result.interrupted:
        shutil.rmtree(folder, ignore_errors=True)
        task = load_task(result.folder, "cpu")
        assert isinstance(task, DualTask)
        task.index.save(folder)
        about = {"checkpoint": open_checkpoint(result.folder).folder.name, "files": _hashes(folder)}
        (folder / _ABOUT).write_text(json.dumps(about) + "\n", encoding="utf-8")
    return result


def _belongs(folder: Path, checkpoint: Checkpoint) -> bool:
    """Whether an index was built by this checkpoint, and its files have not changed since."""
    try:
        about = read_stored(folder / _ABOUT, {"checkpoint": str, "files": dict[str, str]})
        return about["checkpoint"] == checkpoint.folder.name and about["files"] == _hashes(folder)
    except (OSError, CheckpointError):
        return False


def _hashes(folder: Path) -> dict[str, str]:
    """The sha256 of the files of an index."""
    paths = (path for path in folder.iterdir() if path.name != _ABOUT and path.is_file())
    return {path.name: file_sha256(path) for path in sorted(paths)}
