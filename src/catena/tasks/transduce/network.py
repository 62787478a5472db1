"""Networks for string transduction as tasks: edit transducers and encoder-decoders.

Tested in tests/tasks/transduce/test_task.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
from torch import nn

from catena.data.batches import pad
from catena.data.examples import ParallelText
from catena.errors import DataError
from catena.tasks.base import Origin
from catena.tasks.config import model_section
from catena.tasks.neural import Dataset, NetworkTraining, NeuralTask
from catena.tasks.sources import Sources
from catena.tasks.transduce.config import TransduceConfig, TransduceOptions
from catena.tasks.transduce.data import Symbols, SymbolTokenizer, gather_pairs
from catena.tasks.transduce.predict import TransduceEvaluation, TransductionPrediction
from catena.tasks.transduce.task import TransduceTask
from catena.training.task import BatchLoss
from catena.transduction.alphabet import Alphabet
from catena.transduction.base import StringTransducer
from catena.transduction.config import EditConfig, SequenceTransducerConfig
from catena.transduction.edit import EditModel, EditTransducer
from catena.transduction.network import NetworkTransducer, StringPairBatch, load_alphabets
from catena.transduction.sequence import SequenceModel, build_network


@dataclass(frozen=True, eq=False)
class StringRows:
    """Pairs of strings as symbols, and the number of ids of each source."""

    pairs: list[tuple[Symbols, Symbols]]
    lengths: np.ndarray

    def __len__(self) -> int:
        return len(self.pairs)


@dataclass(frozen=True, eq=False)
class Alphabets:
    """The symbols of sources and targets."""

    source: Alphabet
    target: Alphabet


class NetworkTransduceTask(
    TransduceTask, NeuralTask[TransduceConfig, ParallelText, TransductionPrediction, TransduceOptions]
):
    """A transducer with a network.

    Args:
        config: the config.
        encoding: the alphabets.
        network: the network.
        model: the transducer with this network; one of the config if None.
    """

    model: NetworkTransducer
    transducer: ClassVar[Callable[..., NetworkTransducer]]
    """Builds a transducer from a network, two alphabets and the config of the model."""

    def __init__(
        self,
        config: TransduceConfig,
        encoding: Alphabets,
        network: nn.Module,
        model: NetworkTransducer | None = None,
    ) -> None:
        super().__init__(config, encoding, network)
        self.model = model or type(self).transducer(network, encoding.source, encoding.target, config.model)

    @classmethod
    def prepare(cls, config: TransduceConfig, sources: Sources[ParallelText], origin: Origin) -> NetworkTraining:
        parts, lines = gather_pairs(config, sources)
        task = cls.new(config, parts.train, origin, lines)
        tokenizer, target = task.tokenizer, task.encoding.target
        train = [example for example in parts.train if all(y in target for y in tokenizer.target(example.target))]
        if len(train) < len(parts.train):
            lines.append(f"{len(parts.train) - len(train):,} targets have a symbol unknown to the old model")
        if not train:
            raise DataError("Every target has symbols unknown to the old model. Remove --init-from.")
        data = Dataset(task.encode(train), task.encode(parts.dev), task.encode(parts.test), lines)
        return NetworkTraining(task, data, origin.randomness)

    @classmethod
    def fit_encoding(cls, config: TransduceConfig, train: Sequence[ParallelText], origin: Origin) -> Alphabets:
        tokenizer = SymbolTokenizer.from_config(config.data)
        pairs = [tokenizer.pair(example) for example in train]
        return Alphabets(*(Alphabet.of(pair[side] for pair in pairs) for side in (0, 1)))

    @classmethod
    def load_encoding(cls, config: TransduceConfig, folder: Path) -> Alphabets:
        return Alphabets(*load_alphabets(folder))

    def save(self, folder: Path) -> None:
        self.model.save(folder)

    def with_model(self, model: StringTransducer) -> TransduceTask:
        if isinstance(model, NetworkTransducer):
            return type(self)(self.config, self.encoding, self._network, model)
        return super().with_model(model)

    def encode(self, examples: Sequence[ParallelText], *, gold: bool = True) -> StringRows:
        pairs = [self.tokenizer.pair(example) for example in examples]
        return StringRows(pairs, np.array([len(self.model.source_ids(source)) for source, _ in pairs], np.int64))

    def collate(self, rows: StringRows, index: np.ndarray) -> StringPairBatch:
        pairs = [rows.pairs[i] for i in index.tolist()]
        sources = pad([self.model.source_ids(source) for source, _ in pairs])
        targets = pad([self.model.target_ids(target) for _, target in pairs])
        n_read, n_written = int(sources[1].sum()), int(targets[1].sum())
        tensors = [tensor.to(self.device, non_blocking=True) for tensor in (*sources, *targets)]
        return StringPairBatch(tensors[0], tensors[1], tensors[2], tensors[3], n_read, n_written)

    def loss(self, batch: StringPairBatch) -> BatchLoss:
        total, n = self.model.loss(batch)
        return BatchLoss(total, n, batch.symbols)

    def describe_batch(self, batch: StringPairBatch) -> str:
        return f"{len(batch.ids)} pairs, longest source {batch.ids.shape[1]} symbols"

    def evaluate_rows(self, rows: StringRows) -> TransduceEvaluation:
        with torch.no_grad():
            return self.evaluate_pairs(rows.pairs)

    def show(self, rows: StringRows, result: TransduceEvaluation) -> list[str]:
        tokenizer, lines = self.tokenizer, []
        for source, target, predicted in zip(result.sources[:3], result.targets, result.predicted, strict=False):
            mark = "✓" if predicted == target else f"✗ (is {tokenizer.join(target)})"
            lines.append(f"{tokenizer.join_source(source)}  →  {tokenizer.join(predicted)} {mark}")
        return lines


class EditTransduceTask(NetworkTransduceTask):
    """A contextual edit transducer."""

    transducer = EditModel

    @classmethod
    def build_network(
        cls, config: TransduceConfig, encoding: Alphabets, report: list[str] | None = None
    ) -> EditTransducer:
        return EditTransducer(model_section(config, EditConfig), len(encoding.source), len(encoding.target))


class SequenceTransduceTask(NetworkTransduceTask):
    """An encoder-decoder over symbols."""

    transducer = SequenceModel
    quantizable = True

    @classmethod
    def build_network(cls, config: TransduceConfig, encoding: Alphabets, report: list[str] | None = None) -> nn.Module:
        return build_network(model_section(config, SequenceTransducerConfig), encoding.source, encoding.target)

    @property
    def networks(self) -> Sequence[nn.Module]:
        return (self._network, *getattr(self.model, "others", ()))
