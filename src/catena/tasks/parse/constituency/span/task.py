"""The span parser as a task. Tested in tests/tasks/parse/constituency/test_task.py."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor
from torch.nn import functional as F

from catena.data.batches import pad
from catena.data.examples import Tree
from catena.data.vocabulary import Labels
from catena.tasks.base import DataParts, Origin, by_length
from catena.tasks.config import model_section
from catena.tasks.neural import Dataset
from catena.tasks.parse.config import ConstrainedParseOptions, ParseConfig
from catena.tasks.parse.constituency.config import SpanParserConfig
from catena.tasks.parse.constituency.span.decode import SpanDecoder, SpanLabels
from catena.tasks.parse.constituency.span.model import (
    GoldSpanTrees,
    SpanParser,
    build_span_parser,
    chain_names,
    gold_trees,
    label_ids,
    log_probabilities,
    margin_losses,
)
from catena.tasks.parse.constituency.task import ConstituencyTask, describe_trees, reason_to_drop
from catena.tasks.parse.constituency.trees import tree_tags, tree_to_phrases
from catena.tasks.parse.data import TreeExample
from catena.tasks.parse.predict import ConstituencyPrediction
from catena.tasks.parse.task import NeuralParseTask, ParseRows
from catena.tasks.pretrained import initial_vectors
from catena.tasks.word_inputs.encoding import WordBatch, WordEncoding
from catena.tasks.word_inputs.sentences import Sentence
from catena.tasks.word_inputs.task import WordTask
from catena.training.task import BatchLoss

_SPANS_AT_ONCE = 400_000
"""Number of spans that are scored together in prediction."""


@dataclass(frozen=True, eq=False)
class SpanEncoding:
    """The vocabularies of words, and the labels and tags of trees."""

    words: WordEncoding
    names: SpanLabels

    def save(self, folder: Path) -> None:
        self.words.save(folder)
        self.names.save(folder)


@dataclass(frozen=True)
class SpanBatch:
    """Sentences, their trees and their tags; tags are -1 at padding."""

    words: WordBatch
    gold: GoldSpanTrees
    tags: Int[Tensor, "b t"]


class SpanTask(
    WordTask[ParseConfig, TreeExample, ConstituencyPrediction, ConstrainedParseOptions],
    NeuralParseTask[Tree, ConstituencyPrediction, ConstrainedParseOptions],
    ConstituencyTask[ConstrainedParseOptions],
):
    """A phrase-structure parser with scores of spans."""

    options_class = ConstrainedParseOptions

    def __init__(self, config: ParseConfig, encoding: SpanEncoding, network: SpanParser) -> None:
        super().__init__(config, encoding, network)
        self.settings, self.names, self.parser = model_section(config, SpanParserConfig), encoding.names, network

    # --- data ---------------------------------------------------------------------------------------------------------

    @classmethod
    def fit_encoding(cls, config: ParseConfig, train: Sequence[TreeExample], origin: Origin) -> SpanEncoding:
        words = origin.pretrained.encoding.vocabulary if origin.pretrained else None
        sentences = (Sentence(example.words) for example in train)
        trees = [example.tree for example in train]
        tops = Counter(tree.label for tree in trees)
        top = max(sorted(tops), key=tops.__getitem__)
        names = SpanLabels(chain_names(trees), Labels.count(map(tree_tags, trees)), top)
        return SpanEncoding(WordEncoding.count(model_section(config, SpanParserConfig).words, sentences, words), names)

    @classmethod
    def load_encoding(cls, config: ParseConfig, folder: Path) -> SpanEncoding:
        return SpanEncoding(
            WordEncoding.load(model_section(config, SpanParserConfig).words, folder), SpanLabels.load(folder)
        )

    @classmethod
    def build_network(cls, config: ParseConfig, encoding: SpanEncoding, report: list[str] | None = None) -> SpanParser:
        settings, names = model_section(config, SpanParserConfig), encoding.names
        vectors = initial_vectors(settings.words.embedding, encoding.words.words, report)
        return build_span_parser(settings, encoding.words, len(names.chains) + 1, len(names.tags), vectors)

    def usable(self, example: TreeExample) -> TreeExample | str:
        if (reason := reason_to_drop(self.config, example)) is not None:
            return reason
        spans, tags = label_ids(tree_to_phrases(example.tree), self.names.chains), tree_tags(example.tree)
        known = spans is not None and all(tag in self.names.tags for tag in tags)
        return example if known else "with a label or tag that the old model does not know"

    def summarize(self, parts: DataParts[TreeExample], data: Dataset) -> list[str]:
        words, names = self.encoding.words, self.names
        return [
            *describe_trees(parts, words.unknown_fractions(data)),
            f"{len(names.chains)} chains of labels, {len(names.tags)} tags, {len(words.words):,} words",
        ]

    # --- training -----------------------------------------------------------------------------------------------------

    def encode(self, examples: Sequence[TreeExample], *, gold: bool = True) -> ParseRows:
        words = self.encoding.words.encode(Sentence(example.words) for example in examples)
        return ParseRows(examples, words, words.lengths)

    def encode_tree(self, example: TreeExample) -> tuple[list[tuple[int, int, int]], np.ndarray]:
        """The labeled spans and the tags."""
        spans = label_ids(tree_to_phrases(example.tree), self.names.chains)
        assert spans is not None
        return spans, np.array(self.names.tags.ids(tree_tags(example.tree)), np.int64)

    def collate(self, rows: ParseRows, index: np.ndarray) -> SpanBatch:
        spans, tags = zip(*self.encoded_trees(rows, index), strict=True)
        gold = gold_trees(spans, rows.lengths[index].tolist()).to(self.device)
        return SpanBatch(rows.words.batch(index, self.device), gold, pad(tags, -1)[0].to(self.device))

    def loss(self, batch: SpanBatch) -> BatchLoss:
        scores = self.parser(batch.words)
        if self.settings.loss == "crf":
            trees = -log_probabilities(scores.spans, batch.gold)
        else:
            trees = margin_losses(scores.spans, batch.gold, self.settings.margin)
        tags = F.cross_entropy(scores.tags.flatten(0, 1).float(), batch.tags.flatten(), ignore_index=-1)
        n = batch.words.tokens
        return BatchLoss(trees.sum().to(tags.device) / n + self.settings.tag_weight * tags, n, n)

    # --- prediction ---------------------------------------------------------------------------------------------------

    def parse_rows(self, rows: ParseRows, options: ConstrainedParseOptions) -> list[ConstituencyPrediction]:
        generator = torch.Generator().manual_seed(options.seed)

        def predict(index: np.ndarray) -> list[ConstituencyPrediction]:
            examples = [rows.examples[i] for i in index]
            with torch.inference_mode():
                scores = self.parser(rows.words.batch(index, self.device))
                return SpanDecoder(self.settings, scores, examples, self.names).predictions(options, generator)

        return by_length(rows.lengths**2, _SPANS_AT_ONCE, predict)

    def describe(self, top: int) -> list[str]:
        names = self.names
        return [
            f"a span parser trained by {self.settings.loss}: {len(self.encoding.words.words):,} words, "
            f"{len(names.chains)} chains of labels, {len(names.tags)} tags, {self.n_parameters:,} parameters",
            f"labels: {names.chains.describe(top)}",
        ]
