"""Translators as a task of the training loop."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import nn

from catena.checkpoint import CONFIG
from catena.config import to_toml
from catena.data.batches import BatchPlan
from catena.randomness import Randomness
from catena.search.config import BaseSearchConfig, BeamConfig, GreedyConfig
from catena.seq2seq.base import EncoderDecoder
from catena.tasks.looped import NeuralTask
from catena.tasks.translate.batches import PairEpoch, TranslationBatch, pair_log_probs
from catena.tasks.translate.candidate_vocabulary import Candidates
from catena.tasks.translate.config import LESS_IS_BETTER, NEXT_COMMANDS, TranslateConfig
from catena.tasks.translate.dataset import ReferenceTexts, TranslateDataset
from catena.tasks.translate.lexicon import find_candidates, learn_candidates, save_candidates
from catena.tasks.translate.predictor import TranslatePredictor
from catena.tasks.translate.scoring import compute_scores, likelihood_scores
from catena.tasks.translate.search import EnsembleModel
from catena.training.task import BatchLoss, EpochPlan, Evaluation


class TranslateTask(NeuralTask):
    """Training task of an encoder-decoder: its data and metrics."""

    ties = "nats_per_token"

    what_next = NEXT_COMMANDS

    def __init__(
        self,
        config: TranslateConfig,
        data: TranslateDataset,
        model: EncoderDecoder,
        device: torch.device,
        randomness: Randomness,
    ) -> None:
        self.config, self.data, self.device, self.randomness = config, data, device, randomness
        self._model = model.to(device)
        self._table: np.ndarray | None = None
        candidates: Candidates | None = None
        if config.writing.candidates:
            self._table = learn_candidates(data.pairs, data.rows["train"], config.writing.candidates_each)
            candidates = find_candidates(config, data.encoding, self._table)
        self._member = EnsembleModel(model, data.encoding)
        self.predictor = TranslatePredictor(config, [self._member], candidates)
        self._lengths = data.pairs.lengths[data.rows["train"]].max(axis=1)

    @property
    def model(self) -> nn.Module:
        return self._model

    @property
    def metric(self) -> str:
        return self.config.training.metric or self.config.metric

    @property
    def higher_is_better(self) -> bool:
        return self.metric not in LESS_IS_BETTER

    def epoch(self, number: int) -> EpochPlan:
        plan = BatchPlan.shuffled(self._lengths, self.config.batches, self.randomness.numpy("batches", number))
        rows, copies = self.data.rows["train"], self._member.copies
        return PairEpoch(self.data.pairs, rows, plan, number, self.device, copies)

    def loss(self, batch: TranslationBatch) -> BatchLoss:
        self._model.set_progress(batch.step)
        return BatchLoss(self._model.loss(batch.source, batch.targets, batch.lengths), batch.tokens, batch.read)

    def evaluate(self) -> Evaluation:
        """Perplexity on dev, and metrics of the translations of evenly spaced dev sentences."""
        evaluation, dev = self.config.evaluation, self.data.dev
        scores = self._likelihood("dev")
        if not evaluation.sentences:
            return Evaluation(scores)
        chosen = np.unique(np.linspace(0, len(dev) - 1, min(len(dev), evaluation.sentences)).round().astype(int))
        some = ReferenceTexts([dev.sources[i] for i in chosen], [dev.targets[i] for i in chosen])
        longest = self.config.search.max_length
        how: BaseSearchConfig = GreedyConfig(max_length=longest)
        if evaluation.width > 1:
            how = BeamConfig(width=evaluation.width, max_length=longest, normalize="gnmt")
        given = self.predictor.texts(some.sources, how)
        return Evaluation({**compute_scores(evaluation, some.targets, given), **scores}, _samples(some, given))

    def _likelihood(self, part: str) -> dict[str, float]:
        rows = self.data.rows[part]
        found = pair_log_probs(self._model, self.data.pairs, rows, self.config.batches, self._member.copies)
        return likelihood_scores(float(found.sum()), int(self.data.pairs.lengths[rows, 1].sum()))

    def test_scores(self) -> dict[str, float]:
        """The scores on test, translated with the search of the config."""
        test, evaluation = self.data.test, self.config.evaluation
        if not len(test):
            return {}
        with torch.no_grad():
            scores = self._likelihood("test")
            if not evaluation.sentences or not evaluation.metrics:
                return scores
            return {**compute_scores(evaluation, test.targets, self.predictor.texts(test.sources)), **scores}

    def save(self, folder: Path) -> None:
        (folder / CONFIG).write_text(to_toml(self.config), encoding="utf-8")
        self.data.encoding.save(folder)
        if self._table is not None:
            save_candidates(self._table, folder)

    def describe_batch(self, batch: TranslationBatch) -> str:
        return (
            f"{len(batch.targets)} pairs, longest source {batch.source.ids.shape[1]}, target {batch.targets.shape[1]}"
        )

    def summary(self) -> Sequence[str]:
        return self.data.lines


def _samples(texts: ReferenceTexts, given: Sequence[str]) -> list[str]:
    places = sorted({0, len(given) // 2, len(given) - 1})
    return [f"{texts.sources[i]}  →  {given[i]}  (is: {texts.targets[i]})" for i in places]
