"""The parser that writes trees as sequences, as a task of the training loop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor, nn

from catena.checkpoint import CONFIG
from catena.config import to_toml
from catena.data.batches import BatchPlan, pad
from catena.data.examples import Tree
from catena.data.tokenize import build_tokenizer
from catena.errors import DataError
from catena.randomness import Randomness
from catena.seq2seq.base import EncoderDecoder, Source
from catena.seq2seq.build import build_encoder_decoder
from catena.seq2seq.sides import VocabularyInfo
from catena.tasks.kept import TOKENIZER
from catena.tasks.looped import BatchedEpoch, NeuralTask
from catena.tasks.parse.config import ParseConfig
from catena.tasks.parse.constituency.config import METRICS, SequenceParserConfig
from catena.tasks.parse.constituency.dataset import Treebank
from catena.tasks.parse.constituency.linear import BEGIN, END, PAD, TreeSymbols
from catena.tasks.parse.constituency.scoring import compute_scores, sample_lines
from catena.tasks.parse.constituency.sequence_decode import SequenceParser
from catena.tasks.parse.constituency.sequence_words import SourceWords
from catena.tasks.parse.constituency.treebank_pcfg import WHAT_NEXT
from catena.training.task import BatchLoss, EpochPlan, Evaluation


@dataclass(frozen=True, eq=False)
class SequenceData:
    """An encoded treebank: the sentences and trees of train as ids."""

    bank: Treebank
    words: SourceWords
    symbols: TreeSymbols
    sources: list[np.ndarray]
    targets: list[np.ndarray]


def encode(
    config: ParseConfig, bank: Treebank, words: SourceWords | None = None, symbols: TreeSymbols | None = None
) -> SequenceData:
    """Encode a treebank, with the encoding of an old model if it is given."""
    assert isinstance(config.model, SequenceParserConfig)
    words = words or SourceWords.count([tree.words() for tree in bank.train], config.model.rare)
    symbols = symbols or TreeSymbols.count(bank.train, config.model.tags)
    written = [(tree, symbols.written(tree)) for tree in bank.train]
    kept = [(tree, ids) for tree, ids in written if ids is not None]
    if len(kept) < len(written):
        bank.lines.append(f"{len(written) - len(kept):,} trees have a label or tag that the old model does not know")
    if not kept:
        raise DataError("No training tree has only labels and tags of the old model. Train without --from.")
    targets = [np.array([*ids, END], np.int64) for _, ids in kept]
    mean = sum(map(len, targets)) / sum(len(tree.words()) for tree, _ in kept)
    bank.lines.append(
        f"{len(symbols.labels)} labels, {len(symbols.tags)} tags, {len(words):,} words and classes; {mean:.2f} tree "
        f"symbols per word"
    )
    return SequenceData(bank, words, symbols, [words.ids(tree.words()) for tree, _ in kept], targets)


def build_network(settings: SequenceParserConfig, words: SourceWords, symbols: TreeSymbols) -> EncoderDecoder:
    """The network with random weights."""
    counts = [1] * len(symbols)  # adaptive layers are for large vocabularies
    sides = VocabularyInfo(len(words), counts, BEGIN, END, forbidden=(PAD, BEGIN))
    return build_encoder_decoder(settings.network, sides)


@dataclass(frozen=True, eq=False)
class LinearizedTreeBatch:
    """Sentences and their trees; ``symbols`` is the number of tree symbols."""

    source: Source
    targets: Int[Tensor, "b t"]
    lengths: Int[Tensor, " b"]
    words: int
    symbols: int


class SequenceTask(NeuralTask):
    """A parser that writes trees, its data and its metric."""

    what_next = WHAT_NEXT

    def __init__(
        self,
        config: ParseConfig,
        data: SequenceData,
        network: EncoderDecoder,
        device: torch.device,
        randomness: Randomness,
    ) -> None:
        assert isinstance(config.model, SequenceParserConfig)
        self.config, self.data, self.device, self.randomness = config, data, device, randomness
        self.network = network.to(device)
        self._parser = SequenceParser(network, config.model, data.words, data.symbols)
        self._classes, self._shares = (x.to(device) for x in data.words.dropout(config.model.unknown_dropout))
        self._lengths = np.array([len(ids) for ids in data.sources])

    @property
    def model(self) -> nn.Module:
        return self.network

    @property
    def metric(self) -> str:
        return self.config.training.metric or METRICS["seq2seq"][0]

    @property
    def higher_is_better(self) -> bool:
        return self.metric != "crossing"

    def epoch(self, number: int) -> EpochPlan:
        generator = self.randomness.numpy("batches", number)
        return BatchedEpoch(BatchPlan.shuffled(self._lengths, self.config.batches, generator), self._batch)

    def _batch(self, rows: np.ndarray) -> LinearizedTreeBatch:
        ids, lengths = pad([self.data.sources[r] for r in rows.tolist()])
        targets, target_lengths = pad([self.data.targets[r] for r in rows.tolist()])
        words, symbols = int(lengths.sum()), int(target_lengths.sum())
        source = Source(ids, lengths).to(self.device)
        return LinearizedTreeBatch(source, targets.to(self.device), target_lengths.to(self.device), words, symbols)

    def loss(self, batch: LinearizedTreeBatch) -> BatchLoss:
        ids = batch.source.ids
        gone = torch.rand(ids.shape, device=ids.device) < self._shares[ids]
        source = Source(torch.where(gone, self._classes[ids], ids), batch.source.lengths)
        total = self.network.loss(source, batch.targets, batch.lengths)
        return BatchLoss(total, batch.symbols, batch.words)

    def evaluate(self) -> Evaluation:
        dev = self.data.bank.dev
        given = self._parsed(dev)
        return Evaluation(compute_scores(dev, given), sample_lines(dev, given))

    def test_scores(self) -> dict[str, float]:
        test = self.data.bank.test
        return compute_scores(test, self._parsed(test)) if test else {}

    def _parsed(self, trees: Sequence[Tree]) -> list[Tree]:
        return [parsed.tree for parsed in self._parser.parse([tree.words() for tree in trees])]

    def save(self, folder: Path) -> None:
        (folder / CONFIG).write_text(to_toml(self.config), encoding="utf-8")
        build_tokenizer(self.config.tokenizer).save(folder / TOKENIZER)
        self.data.words.save(folder)
        self.data.symbols.save(folder)

    def describe_batch(self, batch: LinearizedTreeBatch) -> str:
        b, t = batch.targets.shape
        return f"{b} sentences, longest {batch.source.ids.shape[1] - 1} words, longest tree {t} symbols"

    def summary(self) -> Sequence[str]:
        return self.data.bank.lines
