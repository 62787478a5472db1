"""The parser that generates trees as sequences, as a task.

The search generates only trees over the words (:mod:`catena.search.brackets`). Log-probabilities come from the network,
which also gives some probability to sequences that are not trees.

Tested in tests/tasks/parse/constituency/test_sequence.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor, nn

from catena.data.batches import pad
from catena.data.examples import Tree
from catena.errors import DataError
from catena.search.brackets import Bracketed
from catena.search.build import search
from catena.search.combine import Ensemble
from catena.search.config import BaseSearchConfig, SampleConfig
from catena.search.overrides import best_search
from catena.seq2seq.base import EncoderDecoder, Source, VocabularyInfo
from catena.seq2seq.build import build_encoder_decoder
from catena.tasks.base import BaseTask, DataParts, Origin, by_length
from catena.tasks.config import model_section
from catena.tasks.neural import Dataset
from catena.tasks.parse.config import ParseConfig, SequenceParseOptions
from catena.tasks.parse.constituency.config import SequenceParserConfig
from catena.tasks.parse.constituency.sequence.symbols import BEGIN, END, PAD, SequenceEncoding, SourceWords, TreeSymbols
from catena.tasks.parse.constituency.task import ConstituencyTask, describe_trees, reason_to_drop
from catena.tasks.parse.constituency.trees import bracket_fractions, max_expected_recall, tag_fractions
from catena.tasks.parse.data import TreeExample
from catena.tasks.parse.predict import ConstituencyPrediction, ParsedTree
from catena.tasks.parse.task import NeuralParseTask, ParseRows
from catena.training.task import BatchLoss

_MORE_BRACKETS = 10
"""Number of brackets that any tree may have, in addition to those for each word."""


@dataclass(frozen=True, eq=False)
class SequenceBatch:
    """Sentences and their trees; ``n_words`` and ``n_symbols`` do not count padding."""

    source: Source
    targets: Int[Tensor, "b t"]
    lengths: Int[Tensor, " b"]
    n_words: int
    n_symbols: int


class SequenceTask(
    NeuralParseTask[Tree, ConstituencyPrediction, SequenceParseOptions], ConstituencyTask[SequenceParseOptions]
):
    """A phrase-structure parser that generates trees.

    Args:
        config: the config.
        encoding: the words and the symbols of trees.
        network: the network.
        others: further networks with the same encoding, whose probabilities are averaged with the first at every step.
    """

    options_class = SequenceParseOptions

    def __init__(
        self,
        config: ParseConfig,
        encoding: SequenceEncoding,
        network: EncoderDecoder,
        others: Sequence[EncoderDecoder] = (),
    ) -> None:
        super().__init__(config, encoding, network)
        self.settings, self.words, self.symbols = (
            model_section(config, SequenceParserConfig),
            encoding.words,
            encoding.symbols,
        )
        self.decoder, self.others = network, tuple(others)

    @property
    def networks(self) -> Sequence[nn.Module]:
        return (self.decoder, *self.others)

    # --- data ---------------------------------------------------------------------------------------------------------

    @classmethod
    def fit_encoding(cls, config: ParseConfig, train: Sequence[TreeExample], origin: Origin) -> SequenceEncoding:
        settings = model_section(config, SequenceParserConfig)
        words = SourceWords.count([example.words for example in train], settings.rare)
        return SequenceEncoding(words, TreeSymbols.count([example.tree for example in train], settings.tags))

    @classmethod
    def load_encoding(cls, config: ParseConfig, folder: Path) -> SequenceEncoding:
        return SequenceEncoding(SourceWords.load(folder), TreeSymbols.load(folder))

    @classmethod
    def build_network(
        cls, config: ParseConfig, encoding: SequenceEncoding, report: list[str] | None = None
    ) -> EncoderDecoder:
        counts = [1] * len(encoding.symbols)  # adaptive layers are for large vocabularies
        sides = VocabularyInfo(len(encoding.words), counts, BEGIN, END, forbidden=(PAD, BEGIN))
        return build_encoder_decoder(model_section(config, SequenceParserConfig).network, sides)

    def usable(self, example: TreeExample) -> TreeExample | str:
        if (reason := reason_to_drop(self.config, example)) is not None:
            return reason
        known = self.symbols.write(example.tree) is not None
        return example if known else "with a label or tag that the old model does not know"

    def summarize(self, parts: DataParts[TreeExample], data: Dataset) -> list[str]:
        symbols = self.symbols
        trees = self.encoded_trees(data.train, np.arange(len(data.train)))
        mean = sum(map(len, trees)) / sum(len(example.words) for example in parts.train)
        return [
            *describe_trees(parts),
            f"{len(symbols.labels)} labels, {len(symbols.tags)} tags, {len(self.words):,} words and classes; "
            f"{mean:.2f} tree symbols per word",
        ]

    # --- training -----------------------------------------------------------------------------------------------------

    def encode(self, examples: Sequence[TreeExample], *, gold: bool = True) -> ParseRows:
        words = [self.words.ids(example.words) for example in examples]
        return ParseRows(examples, words, np.array([len(ids) for ids in words], np.int64))

    def encode_tree(self, example: TreeExample) -> np.ndarray:
        ids = self.symbols.write(example.tree)
        assert ids is not None
        return np.array([*ids, END], np.int64)

    def collate(self, rows: ParseRows, index: np.ndarray) -> SequenceBatch:
        source = self._source(rows, index)
        targets, lengths = pad(self.encoded_trees(rows, index))
        n_words, n_symbols = int(rows.lengths[index].sum()), int(lengths.sum())
        return SequenceBatch(source, targets.to(self.device), lengths.to(self.device), n_words, n_symbols)

    def _source(self, rows: ParseRows, index: np.ndarray) -> Source:
        return Source(*pad([rows.words[i] for i in index])).to(self.device)

    def loss(self, batch: SequenceBatch) -> BatchLoss:
        ids = batch.source.ids
        classes, probabilities = self._dropout
        dropped = torch.rand(ids.shape, device=ids.device) < probabilities[ids]
        source = Source(torch.where(dropped, classes[ids], ids), batch.source.lengths)
        return BatchLoss(self.decoder.loss(source, batch.targets, batch.lengths), batch.n_symbols, batch.n_words)

    @cached_property
    def _dropout(self) -> tuple[Tensor, Tensor]:
        classes, probabilities = self.words.dropout(self.settings.unknown_dropout)
        return classes.to(self.device), probabilities.to(self.device)

    def describe_batch(self, batch: SequenceBatch) -> str:
        b, t = batch.targets.shape
        return f"{b} sentences, longest {batch.source.ids.shape[1] - 1} words, longest tree {t} symbols"

    # --- prediction ---------------------------------------------------------------------------------------------------

    def parse_rows(self, rows: ParseRows, options: SequenceParseOptions) -> list[ConstituencyPrediction]:
        generator = torch.Generator().manual_seed(options.seed)

        def predict(index: np.ndarray) -> list[ConstituencyPrediction]:
            with torch.no_grad():
                return self._predict(rows, index, options, generator)

        return by_length(rows.lengths, self.config.evaluation.words_at_once, predict)

    def _predict(
        self, rows: ParseRows, index: np.ndarray, options: SequenceParseOptions, generator: torch.Generator
    ) -> list[ConstituencyPrediction]:
        examples, settings = [rows.examples[i] for i in index], self.settings
        scored = options.several or options.scores
        by_recall = settings.by_recall and not scored
        samples: list[list[Tree]] = [[] for _ in examples]
        if by_recall or options.confidence:
            found = self._search(rows, index, SampleConfig(n=settings.draws), generator)
            samples = [[one.tree for one in trees] for trees in found]
        if by_recall:
            best = [max_expected_recall(trees, settings.price) for trees in samples]
            parsed = [[ParsedTree(tree)] for tree in best]
        else:
            parsed = self._search(rows, index, self._search_config(options), generator)
        made = []
        for example, trees, some in zip(examples, parsed, samples, strict=True):
            kept = trees if scored else [ParsedTree(one.tree) for one in trees]
            prediction = ConstituencyPrediction.from_trees(example, kept, options)
            if options.confidence:
                prediction = replace(prediction, brackets=bracket_fractions(some), tags=tag_fractions(some))
            made.append(prediction)
        return made

    def _search_config(self, options: SequenceParseOptions) -> BaseSearchConfig:
        if options.samples:
            return SampleConfig(n=options.samples)
        return best_search(self.settings.search, options.n_best, options.beam_size)

    def _search(
        self, rows: ParseRows, index: np.ndarray, config: BaseSearchConfig, generator: torch.Generator
    ) -> list[list[ParsedTree]]:
        """The best or the sampled trees of each sentence, with their log-probabilities."""
        source, settings = self._source(rows, index), self.settings
        sentences = [rows.examples[i].words for i in index]
        leaves = torch.tensor([len(words) for words in sentences])
        brackets = [math.ceil(settings.brackets * len(words)) + _MORE_BRACKETS for words in sentences]
        limits = leaves + 1 + 2 * torch.tensor(brackets)
        steppers = [network.stepper(source) for network in (self.decoder, *self.others)]
        free = steppers[0] if len(steppers) == 1 else Ensemble(steppers)
        stepper = Bracketed(
            free, self.symbols.ids, leaves.to(self.device), limits.to(self.device), settings.most_opened
        )
        config = config.model_copy(update={"max_length": int(limits.max())})
        listed = search(config, stepper, stepper.start(len(sentences)), generator)
        return [
            [ParsedTree(self.symbols.read(one.ids, words), one.log_prob) for one in hypotheses]
            for words, hypotheses in zip(sentences, listed, strict=True)
        ]

    def search_options(self, options: SequenceParseOptions) -> SequenceTask:
        chosen = best_search(self.settings.search, 1, options.beam_size)
        model = self.settings.model_copy(update={"search": chosen})
        return SequenceTask(self.config.model_copy(update={"model": model}), self.encoding, self.decoder, self.others)

    def ensemble(self, others: Sequence[BaseTask[Any, Any, Any, Any]]) -> SequenceTask:
        networks = list(self.others)
        for number, other in enumerate(others, start=2):
            if not isinstance(other, SequenceTask) or not self.encoding.equals(other.encoding):
                raise DataError(
                    f"models of an ensemble need the same words, labels and tags, but model {number} has others. Train "
                    f"models of kind seq2seq on the same trees with other seeds, as --seeds 3 does."
                )
            networks += [other.decoder, *other.others]
        return SequenceTask(self.config, self.encoding, self.decoder, networks)

    def describe(self, top: int) -> list[str]:
        labels, tags = self.symbols.labels, self.symbols.tags
        return [
            f"a parser that generates trees, {self.settings.network.kind}: {len(self.words):,} words and classes, "
            f"{len(labels)} labels, {len(tags)} tags, {self.n_parameters:,} parameters",
            f"labels: {labels.describe(top)}",
        ]
