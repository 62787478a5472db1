"""The dependency parser as a task of the training loop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import nn

from catena.checkpoint import CONFIG
from catena.config import to_toml
from catena.data.batches import BatchPlan
from catena.data.config import BatchConfig
from catena.data.examples import ConlluSentence
from catena.data.tokenize import build_tokenizer
from catena.data.vocabulary import Labels
from catena.metrics.attachment import MEASURES, DependencyArc, count_trees
from catena.randomness import Randomness
from catena.tasks.kept import TOKENIZER
from catena.tasks.looped import BatchedEpoch, NeuralTask
from catena.tasks.parse.config import ParseConfig
from catena.tasks.parse.dependency.config import METRICS, BiaffineParserConfig
from catena.tasks.parse.dependency.dataset import DependencyDataset, to_attachments
from catena.tasks.parse.dependency.decode import DependencyDecoder
from catena.tasks.parse.dependency.loss import GoldDependencyTrees, sentence_losses
from catena.tasks.parse.dependency.model import BiaffineParser
from catena.tasks.pretrained import unfreeze_top_layers
from catena.tasks.words.encoding import EncodedSentences, WordBatch
from catena.tasks.words.pretrained import pretrained_layer_groups
from catena.training.task import BatchLoss, EpochPlan, Evaluation

RELATIONS = "relations.json"
_SAMPLES = 3
"""Number of dev sentences that are shown with the mistakes in their parses."""


@dataclass(frozen=True)
class ParseBatch:
    """Sentences and their trees."""

    words: WordBatch
    gold: GoldDependencyTrees
    known: int
    """Number of words with a known head."""


class DependencyTask(NeuralTask):
    """A dependency parser, its data and its metric."""

    what_next = ("predict RUN FILE", "evaluate RUN FILE", "draw RUN TEXT")

    def __init__(
        self,
        config: ParseConfig,
        data: DependencyDataset,
        model: BiaffineParser,
        device: torch.device,
        randomness: Randomness,
    ) -> None:
        assert isinstance(config.model, BiaffineParserConfig)
        self.config, self.settings, self.data = config, config.model, data
        self.device, self.randomness = device, randomness
        self.parser = model.to(device)
        self._frozen_at_first = pretrained_layer_groups(model.encoder.reader) if config.pretrained else []

    @property
    def model(self) -> nn.Module:
        return self.parser

    @property
    def metric(self) -> str:
        return METRICS[0]

    @property
    def higher_is_better(self) -> bool:
        return True

    def epoch(self, number: int) -> EpochPlan:
        unfreeze_top_layers(self._frozen_at_first, number, self.config.unfreeze)
        generator = self.randomness.numpy("batches", number)
        plan = BatchPlan.shuffled(self.data.sentences.lengths[self.data.train], self.config.batches, generator)
        return BatchedEpoch(plan, self._batch)

    def _batch(self, rows: np.ndarray) -> ParseBatch:
        data, train = self.data, self.data.train[rows]
        known = sum(int((data.heads[int(row)] >= 0).sum()) for row in train)
        return ParseBatch(data.sentences.batch(train, self.device), data.gold(train, self.device), known)

    def loss(self, batch: ParseBatch) -> BatchLoss:
        losses = sentence_losses(self.settings, self.parser(batch.words), batch.gold)
        return BatchLoss(losses.sum() / batch.known, batch.known, batch.words.tokens)

    # --- evaluation ---------------------------------------------------------------------------------------------------

    def evaluate(self) -> Evaluation:
        references, predictions = self._parsed(self.data.dev)
        return Evaluation(compute_scores(references, predictions), self._samples(references, predictions))

    def test_scores(self) -> dict[str, float]:
        return compute_all_scores(*self._parsed(self.data.test)) if len(self.data.test) else {}

    def _parsed(self, rows: np.ndarray) -> tuple[list[list[DependencyArc]], list[list[DependencyArc]]]:
        """The gold trees and the predicted trees of some sentences."""
        examples = [self.data.examples[int(i)] for i in rows]
        size = self.config.evaluation.words_at_once
        found = parse_all(self.parser, self.settings, self.data.sentences, rows, self.data.names, size, self.device)
        return [to_attachments(e) for e in examples], [
            with_tags(e, h, q) for e, (h, q) in zip(examples, found, strict=True)
        ]

    def _samples(self, references: list[list[DependencyArc]], predictions: list[list[DependencyArc]]) -> list[str]:
        lines = []
        for i in np.linspace(0, len(references) - 1, min(_SAMPLES, len(references))).astype(int):
            words = [word.form for word in self.data.examples[int(self.data.dev[i])].words]
            wrong = [
                f"{words[j]} ← {words[b.head - 1] if b.head else 'root'} ({b.relation})"
                for j, (a, b) in enumerate(zip(references[i], predictions[i], strict=True))
                if (a.head, a.relation) != (b.head, b.relation)
            ]
            shown = " ".join(words)
            shown = shown if len(shown) <= 60 else shown[:57] + "…"
            mistakes = ", ".join([*wrong[:3], *["…"] * (len(wrong) > 3)])
            lines.append(f"{shown}  →  " + (f"✗ {mistakes}" if wrong else "✓"))
        return lines

    # --- saving and reports -------------------------------------------------------------------------------------------

    def save(self, folder: Path) -> None:
        (folder / CONFIG).write_text(to_toml(self.config), encoding="utf-8")
        self.data.names.save(folder / RELATIONS)
        self.data.encoding.save(folder)
        build_tokenizer(self.config.tokenizer).save(folder / TOKENIZER)

    def describe_batch(self, batch: ParseBatch) -> str:
        return f"{batch.words.size} sentences, longest {batch.words.longest} words"

    def summary(self) -> Sequence[str]:
        return self.data.lines


def parse_all(
    parser: BiaffineParser,
    settings: BiaffineParserConfig,
    sentences: EncodedSentences,
    rows: np.ndarray,
    names: Labels,
    words_at_once: int,
    device: torch.device,
) -> list[tuple[list[int], list[str]]]:
    """Heads and relations of sentences, in the order of ``rows``; those of similar length are parsed together."""
    batches = BatchConfig(batch_size=words_at_once, batch_by="tokens")
    plan = BatchPlan.by_length(sentences.lengths[rows], batches)
    found: dict[int, tuple[list[int], list[str]]] = {}
    with torch.inference_mode():
        for part in plan:
            scores = parser(sentences.batch(rows[part], device))
            for place, (heads, relations) in zip(part, DependencyDecoder(settings, scores, names).best(), strict=True):
                found[int(place)] = heads, [names.name(q) for q in relations]
    return [found[i] for i in range(len(rows))]


def with_tags(example: ConlluSentence, heads: Sequence[int], relations: Sequence[str]) -> list[DependencyArc]:
    """A predicted tree with the tags and features of the file."""
    rows = zip(example.words, heads, relations, strict=True)
    return [DependencyArc(head, relation, word.upos, word.feats) for word, head, relation in rows]


def compute_scores(references: list[list[DependencyArc]], predictions: list[list[DependencyArc]]) -> dict[str, float]:
    """The scores by name, beginning with the one that selects checkpoints."""
    sums = count_trees(references, predictions).sum(0)
    return {name: float(MEASURES[name].score(sums)) for name in METRICS}


def compute_all_scores(
    references: list[list[DependencyArc]], predictions: list[list[DependencyArc]]
) -> dict[str, float]:
    """The scores of :func:`compute_scores` and those that are too noisy to report at each evaluation."""
    sums = count_trees(references, predictions).sum(0)
    return {name: float(measure.score(sums)) for name, measure in MEASURES.items()}
