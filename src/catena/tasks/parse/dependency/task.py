"""The dependency parser as the training loop sees it."""

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
from catena.data.examples import ConlluSentence
from catena.data.settings import BatchSettings
from catena.data.tokenise import build_tokeniser
from catena.data.vocabulary import Labels
from catena.metrics.attachment import MEASURES, Attached, count_trees
from catena.randomness import Randomness
from catena.tasks.kept import TOKENISER
from catena.tasks.looped import PlannedEpoch, TestedTask
from catena.tasks.parse.dependency.dataset import Dataset, attached
from catena.tasks.parse.dependency.decode import Decoder
from catena.tasks.parse.dependency.loss import GoldTrees, sentence_losses
from catena.tasks.parse.dependency.model import BiaffineParser
from catena.tasks.parse.dependency.settings import METRICS, BiaffineModel
from catena.tasks.parse.settings import ParseConfig
from catena.tasks.pretrained import free_from_the_top
from catena.tasks.words.encoding import EncodedSentences, WordBatch
from catena.tasks.words.pretrained import groups_of
from catena.training.task import EpochPlan, Evaluation, LossOutput

RELATIONS = "relations.json"
SAMPLES = 3
"""Sentences of dev that are shown with what is wrong in their parses."""


@dataclass(frozen=True)
class ParseBatch:
    """Sentences and their trees."""

    words: WordBatch
    gold: GoldTrees
    known: int
    """Words whose heads are known."""


class DependencyTask(TestedTask):
    """A dependency parser, its data and its metric."""

    what_next = ("predict RUN FILE", "evaluate RUN FILE", "draw RUN TEXT")

    def __init__(
        self,
        config: ParseConfig,
        data: Dataset,
        model: BiaffineParser,
        device: torch.device,
        randomness: Randomness,
    ) -> None:
        assert isinstance(config.model, BiaffineModel)
        self.config, self.settings, self.data = config, config.model, data
        self.device, self.randomness = device, randomness
        self.parser = model.to(device)
        self._frozen_at_first = groups_of(model.encoder.reader) if config.pretrained else []

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
        free_from_the_top(self._frozen_at_first, number, self.config.unfreeze)
        generator = self.randomness.numpy("batches", number)
        plan = BatchPlan.shuffled(self.data.sentences.lengths[self.data.train], self.config.batches, generator)
        return PlannedEpoch(plan, self._batch)

    def _batch(self, rows: np.ndarray) -> ParseBatch:
        data, train = self.data, self.data.train[rows]
        known = sum(int((data.heads[int(row)] >= 0).sum()) for row in train)
        return ParseBatch(data.sentences.batch(train, self.device), data.gold(train, self.device), known)

    def loss(self, batch: ParseBatch) -> LossOutput:
        losses = sentence_losses(self.settings, self.parser(batch.words), batch.gold)
        return LossOutput(losses.sum() / batch.known, batch.known, batch.words.tokens)

    # --- evaluation ---------------------------------------------------------------------------------------------------

    def evaluate(self) -> Evaluation:
        references, predictions = self._parsed(self.data.dev)
        return Evaluation(scores_of(references, predictions), self._samples(references, predictions))

    def test_scores(self) -> dict[str, float]:
        return all_scores_of(*self._parsed(self.data.test)) if len(self.data.test) else {}

    def _parsed(self, rows: np.ndarray) -> tuple[list[list[Attached]], list[list[Attached]]]:
        """The right trees and the model's own of some sentences."""
        examples = [self.data.examples[int(i)] for i in rows]
        size = self.config.evaluation.words_at_once
        found = parse_all(self.parser, self.settings, self.data.sentences, rows, self.data.names, size, self.device)
        return [attached(e) for e in examples], [with_tags(e, h, q) for e, (h, q) in zip(examples, found, strict=True)]

    def _samples(self, references: list[list[Attached]], predictions: list[list[Attached]]) -> list[str]:
        lines = []
        for i in np.linspace(0, len(references) - 1, min(SAMPLES, len(references))).astype(int):
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

    # --- the rest -----------------------------------------------------------------------------------------------------

    def save(self, folder: Path) -> None:
        (folder / CONFIG).write_text(to_toml(self.config), encoding="utf-8")
        self.data.names.save(folder / RELATIONS)
        self.data.encoding.save(folder)
        build_tokeniser(self.config.tokenizer).save(folder / TOKENISER)

    def describe_batch(self, batch: ParseBatch) -> str:
        return f"{batch.words.size} sentences, longest {batch.words.longest} words"

    def summary(self) -> Sequence[str]:
        return self.data.lines


def parse_all(
    parser: BiaffineParser,
    settings: BiaffineModel,
    sentences: EncodedSentences,
    rows: np.ndarray,
    names: Labels,
    words_at_once: int,
    device: torch.device,
) -> list[tuple[list[int], list[str]]]:
    """Heads and relations of some sentences, in the order of ``rows``; sentences of like length are parsed together."""
    batches = BatchSettings(batch_size=words_at_once, batch_by="tokens")
    plan = BatchPlan.by_length(sentences.lengths[rows], batches)
    found: dict[int, tuple[list[int], list[str]]] = {}
    with torch.inference_mode():
        for part in plan:
            scores = parser(sentences.batch(rows[part], device))
            for place, (heads, relations) in zip(part, Decoder(settings, scores, names).best(), strict=True):
                found[int(place)] = heads, [names.name(q) for q in relations]
    return [found[i] for i in range(len(rows))]


def with_tags(example: ConlluSentence, heads: Sequence[int], relations: Sequence[str]) -> list[Attached]:
    """A predicted tree with the tags and features that the file has."""
    rows = zip(example.words, heads, relations, strict=True)
    return [Attached(head, relation, word.upos, word.feats) for word, head, relation in rows]


def scores_of(references: list[list[Attached]], predictions: list[list[Attached]]) -> dict[str, float]:
    """The scores by name, the one that chooses checkpoints first."""
    sums = count_trees(references, predictions).sum(0)
    return {name: float(MEASURES[name].score(sums)) for name in METRICS}


def all_scores_of(references: list[list[Attached]], predictions: list[list[Attached]]) -> dict[str, float]:
    """The same, with those that are too rare to be told at each evaluation."""
    sums = count_trees(references, predictions).sum(0)
    return {name: float(measure.score(sums)) for name, measure in MEASURES.items()}
