"""The span parser as a task of the training loop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor, nn
from torch.nn import functional as F

from catena.checkpoint import CONFIG
from catena.config import to_toml
from catena.data.batches import BatchPlan
from catena.data.config import BatchConfig
from catena.data.examples import Tree
from catena.data.tokenize import build_tokenizer
from catena.data.vocabulary import Labels, Vocabulary
from catena.randomness import Randomness
from catena.tasks.application import DEFAULT_PREDICT_OPTIONS, PredictOptions
from catena.tasks.kept import TOKENIZER
from catena.tasks.looped import BatchedEpoch, NeuralTask
from catena.tasks.parse.config import ParseConfig
from catena.tasks.parse.constituency.answers import Parsed
from catena.tasks.parse.constituency.config import METRICS, SpanParserConfig
from catena.tasks.parse.constituency.constraints import BracketConstraint
from catena.tasks.parse.constituency.dataset import Treebank
from catena.tasks.parse.constituency.scoring import compute_scores, sample_lines
from catena.tasks.parse.constituency.span_decode import Names, SpanDecoder, SpanWords
from catena.tasks.parse.constituency.span_model import SpanParser
from catena.tasks.parse.constituency.span_trees import (
    GoldSpanTrees,
    chain_names,
    gold_trees,
    label_ids,
    log_probabilities,
    margin_losses,
)
from catena.tasks.parse.constituency.treebank_pcfg import WHAT_NEXT
from catena.tasks.parse.constituency.trees import tree_tags, tree_to_phrases
from catena.tasks.pretrained import unfreeze_top_layers
from catena.tasks.words.encoding import EncodedSentences, WordBatch, WordEncoding
from catena.tasks.words.pretrained import pretrained_layer_groups
from catena.tasks.words.sentences import Sentence
from catena.training.task import BatchLoss, EpochPlan, Evaluation

CHAINS, TAGS, TOP = "phrases.json", "tags.json", "top.txt"
_SPANS_AT_ONCE = 400_000
"""Number of spans that are scored together in prediction."""


@dataclass(frozen=True, eq=False)
class SpanData:
    """An encoded treebank; ``spans`` and ``tags`` belong to the training trees."""

    bank: Treebank
    names: Names
    encoding: WordEncoding
    encoded: EncodedSentences
    spans: list[list[tuple[int, int, int]]]
    tags: list[np.ndarray]


def encode(
    config: ParseConfig,
    bank: Treebank,
    names: Names | None = None,
    encoding: WordEncoding | None = None,
    words: Vocabulary | None = None,
) -> SpanData:
    """Encode a treebank, with the encoding of an old model if given; ``words`` belong to a language model."""
    assert isinstance(config.model, SpanParserConfig)
    if names is None:
        names = Names(chain_names(bank.train), Labels.count(map(tree_tags, bank.train)), _most_common_top(bank.train))
    sentences = [Sentence(tree.words()) for tree in bank.train]
    if encoding is None:
        encoding = WordEncoding.count(config.model.words, sentences, words)
    spans, tags, kept = [], [], []
    for tree in bank.train:
        found = label_ids(tree_to_phrases(tree), names.chains)
        if found is not None and all(tag in names.tags for tag in tree_tags(tree)):
            spans.append(found)
            tags.append(np.array(names.tags.ids(tree_tags(tree)), np.int64))
            kept.append(tree)
    if len(kept) < len(bank.train):
        bank.lines.append(f"{len(bank.train) - len(kept):,} trees have a label or tag that the old model does not know")
    encoded = encoding.encode(Sentence(tree.words()) for tree in kept)
    bank.lines.append(f"{len(names.chains)} chains of labels, {len(names.tags)} tags, {len(encoding.words):,} words")
    return SpanData(bank, names, encoding, encoded, spans, tags)


def _most_common_top(trees: Sequence[Tree]) -> str:
    labels = [tree.label for tree in trees]
    return max(sorted(set(labels)), key=labels.count)


@dataclass(frozen=True)
class SpanBatch:
    """Sentences, their trees and their tags; tags are -1 at padding."""

    words: WordBatch
    gold: GoldSpanTrees
    tags: Int[Tensor, "b t"]


class SpanTask(NeuralTask):
    """A span parser, its data and its metric."""

    what_next = WHAT_NEXT

    def __init__(
        self, config: ParseConfig, data: SpanData, model: SpanParser, device: torch.device, randomness: Randomness
    ) -> None:
        assert isinstance(config.model, SpanParserConfig)
        self.config, self.settings, self.data = config, config.model, data
        self.device, self.randomness = device, randomness
        self.parser = model.to(device)
        self._frozen_at_first = pretrained_layer_groups(model.encoder.reader) if config.pretrained else []

    @property
    def model(self) -> nn.Module:
        return self.parser

    @property
    def metric(self) -> str:
        return self.config.training.metric or METRICS["span"][0]

    @property
    def higher_is_better(self) -> bool:
        return self.metric != "crossing"

    def epoch(self, number: int) -> EpochPlan:
        unfreeze_top_layers(self._frozen_at_first, number, self.config.unfreeze)
        generator = self.randomness.numpy("batches", number)
        plan = BatchPlan.shuffled(self.data.encoded.lengths, self.config.batches, generator)
        return BatchedEpoch(plan, self._batch)

    def _batch(self, rows: np.ndarray) -> SpanBatch:
        data = self.data
        words = data.encoded.batch(rows, self.device)
        lengths = [len(data.tags[int(r)]) for r in rows]
        tags = np.full((len(rows), max(lengths)), -1, np.int64)
        for place, r in enumerate(rows):
            tags[place, : lengths[place]] = data.tags[int(r)]
        gold = gold_trees([data.spans[int(r)] for r in rows], lengths)
        return SpanBatch(words, gold.to(self.device), torch.from_numpy(tags).to(self.device))

    def loss(self, batch: SpanBatch) -> BatchLoss:
        scores = self.parser(batch.words)
        if self.settings.loss == "crf":
            trees = -log_probabilities(scores.spans, batch.gold)
        else:
            trees = margin_losses(scores.spans, batch.gold, self.settings.margin)
        tags = F.cross_entropy(scores.tags.flatten(0, 1).float(), batch.tags.flatten(), ignore_index=-1)
        n = int((batch.tags >= 0).sum())
        total = trees.sum().to(tags.device) / n + self.settings.tag_weight * tags
        return BatchLoss(total, n, batch.words.tokens)

    # --- evaluation ---------------------------------------------------------------------------------------------------

    def evaluate(self) -> Evaluation:
        given = self._parsed(self.data.bank.dev)
        return Evaluation(compute_scores(self.data.bank.dev, given), sample_lines(self.data.bank.dev, given))

    def test_scores(self) -> dict[str, float]:
        test = self.data.bank.test
        return compute_scores(test, self._parsed(test)) if test else {}

    def _parsed(self, trees: Sequence[Tree]) -> list[Tree]:
        words = [tree.words() for tree in trees]
        found = parse_all(self.parser, self.settings, self.data.encoding, words, self.data.names, self.device)
        return [parsed.tree for parsed in found]

    # --- saving and reports -------------------------------------------------------------------------------------------

    def save(self, folder: Path) -> None:
        (folder / CONFIG).write_text(to_toml(self.config), encoding="utf-8")
        build_tokenizer(self.config.tokenizer).save(folder / TOKENIZER)
        self.data.encoding.save(folder)
        save_names(self.data.names, folder)

    def describe_batch(self, batch: SpanBatch) -> str:
        return f"{batch.words.size} sentences, longest {batch.words.longest} words"

    def summary(self) -> Sequence[str]:
        return self.data.bank.lines


def save_names(names: Names, folder: Path) -> None:
    """Write the names of labels and tags, and the top label."""
    names.chains.save(folder / CHAINS)
    names.tags.save(folder / TAGS)
    (folder / TOP).write_text(names.top + "\n", encoding="utf-8")


def load_names(folder: Path) -> Names:
    """Read what :func:`save_names` wrote."""
    top = (folder / TOP).read_text(encoding="utf-8").strip()
    return Names(Labels.load(folder / CHAINS), Labels.load(folder / TAGS), top)


def parse_all(
    parser: SpanParser,
    settings: SpanParserConfig,
    encoding: WordEncoding,
    sentences: Sequence[SpanWords],
    names: Names,
    device: torch.device,
    options: PredictOptions = DEFAULT_PREDICT_OPTIONS,
    given: Sequence[tuple[BracketConstraint, ...]] | None = None,
) -> list[Parsed]:
    """Predictions for nonempty sentences; those of similar length are parsed together."""
    encoded = encoding.encode(Sentence(words) for words in sentences)
    generator = torch.Generator().manual_seed(options.seed)
    found: dict[int, Parsed] = {}
    parser.eval()
    with torch.inference_mode():
        for plan in BatchPlan.by_length(encoded.lengths, BatchConfig(batch_size=64)):
            longest = int(encoded.lengths[plan].max())
            most = max(1, _SPANS_AT_ONCE // (longest * longest))
            for at in range(0, len(plan), most):
                rows = plan[at : at + most]
                scores = parser(encoded.batch(rows, device))
                some = [sentences[int(r)] for r in rows]
                fixed = None if given is None else [given[int(r)] for r in rows]
                parsed = SpanDecoder(settings, scores, some, names, fixed).parsed(options, generator)
                found.update(zip(rows.tolist(), parsed, strict=True))
    return [found[i] for i in range(len(sentences))]
