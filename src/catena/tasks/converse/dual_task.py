"""Dual encoders as a task of the training loop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from catena.checkpoint import CONFIG
from catena.config import to_toml
from catena.data.batches import BatchPlan, pad
from catena.data.dialogue import Exchange
from catena.randomness import Randomness
from catena.retrieval.config import DualEncoderConfig
from catena.retrieval.dual import DualEncoder, binary_loss, softmax_loss
from catena.tasks.converse.config import WHAT_NEXT, ConverseConfig
from catena.tasks.converse.dataset import ConverseDataset
from catena.tasks.converse.encoding import DualEncoding
from catena.tasks.converse.index import CONTEXTS, INDEX, RESPONSES, collect_responses
from catena.tasks.converse.questions import Groups, build_ranking_examples, compute_scores
from catena.tasks.converse.rankers import DualRanker
from catena.tasks.looped import BatchedEpoch, NeuralTask
from catena.training.task import BatchLoss, EpochPlan, Evaluation


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


@dataclass(frozen=True)
class Pair:
    """Indices of a context and a response, and whether the response is correct."""

    context: int
    response: int
    right: bool = True


class DualTask(NeuralTask):
    """Training task of a dual encoder: its data and metric."""

    what_next = WHAT_NEXT

    def __init__(
        self,
        config: ConverseConfig,
        data: ConverseDataset,
        encoding: DualEncoding,
        model: DualEncoder,
        device: torch.device,
        randomness: Randomness,
    ) -> None:
        assert isinstance(config.model, DualEncoderConfig)
        self.config, self.data, self.device, self.randomness = config, data, device, randomness
        self.settings, self.encoding = config.model, encoding
        self._model = model.to(device)
        self.ranker = DualRanker(encoding, self._model, device, config.evaluation.texts_at_once)
        self._texts: dict[str, int] = {}
        self._contexts = [encoding.context(exchange) for exchange in data.taught]
        self._right = [[self._number(text) for text in exchange.responses] for exchange in data.taught]
        self._wrong = [[self._number(text) for text in (*e.wrong, *e.hard)] for e in data.taught]
        self._ids = [encoding.response(text) for text in self._texts]
        self._labeled = self.settings.loss == "binary" and any(e.wrong for e in data.train)
        self._dev, self._test = self._questions("dev", data.dev), self._questions("test", data.test)

    def _number(self, text: str) -> int:
        return self._texts.setdefault(text, len(self._texts))

    def _questions(self, name: str, part: Sequence[Exchange]) -> Groups:
        format = self.data.formats.get(name, self.data.formats["train"])
        return build_ranking_examples(part, self.config.evaluation, format, self.data.responses()) if part else []

    @property
    def model(self) -> nn.Module:
        return self._model

    @property
    def metric(self) -> str:
        return self.config.evaluation.ranking[0]

    @property
    def higher_is_better(self) -> bool:
        return True

    # --- batches ------------------------------------------------------------------------------------------------------

    def epoch(self, number: int) -> EpochPlan:
        generator = self.randomness.numpy("batches", number)
        pairs = self.pairs(generator)
        lengths = np.array([len(self._contexts[pair.context]) for pair in pairs])
        plan = BatchPlan.shuffled(lengths, self.config.batches, generator)
        drawn = generator.integers(0, 2**31, len(pairs))

        def batch(rows: np.ndarray) -> DualBatch:
            return self.batch([pairs[int(row)] for row in rows], [int(drawn[row]) for row in rows])

        return BatchedEpoch(plan, batch)

    def pairs(self, generator: np.random.Generator) -> list[Pair]:
        """The pairs of an epoch: the correct ones and, for the binary loss, given or sampled incorrect ones."""
        right = [Pair(i, j) for i, own in enumerate(self._right) for j in own]
        if self.settings.loss == "softmax":
            return right
        if self._labeled:
            return right + [Pair(i, j, False) for i, own in enumerate(self._wrong) for j in own]
        wrong = []
        for pair in right:
            for j in generator.integers(0, len(self._ids), self.settings.negatives).tolist():
                if j not in self._right[pair.context]:  # skip a sampled response that is correct
                    wrong.append(Pair(pair.context, j, False))
        return right + wrong

    def batch(self, pairs: Sequence[Pair], drawn: Sequence[int]) -> DualBatch:
        """The pairs as tensors; the random numbers of the second argument choose incorrect responses."""
        contexts, sizes = pad([self._contexts[pair.context] for pair in pairs])
        columns = [pair.response for pair in pairs]
        allowed = labels = None
        if self.settings.loss == "softmax":
            if self.settings.hard_negatives:
                wrong = [(self._wrong[pair.context], number) for pair, number in zip(pairs, drawn, strict=True)]
                columns += [own[number % len(own)] for own, number in wrong if own]
            right = [set(self._right[pair.context]) for pair in pairs]
            allowed = torch.tensor([[j not in own for j in columns] for own in right]).to(self.device)
        else:
            labels = torch.tensor([float(pair.right) for pair in pairs]).to(self.device)
        responses, lengths = pad([self._ids[j] for j in columns])
        tensors = [x.to(self.device) for x in (contexts, sizes, responses, lengths)]
        return DualBatch(tensors[0], tensors[1], tensors[2], tensors[3], allowed, labels)

    def loss(self, batch: DualBatch) -> BatchLoss:
        queries = self._model.queries(batch.contexts, batch.context_lengths)
        keys = self._model.keys(batch.responses, batch.response_lengths)
        if batch.allowed is not None:
            total = softmax_loss(queries @ keys.T, batch.allowed)
        else:
            assert batch.labels is not None
            total = binary_loss((queries * keys).sum(-1), batch.labels)
        return BatchLoss(total, len(queries), batch.contexts.numel() + batch.responses.numel())

    # --- evaluation ---------------------------------------------------------------------------------------------------

    def evaluate(self) -> Evaluation:
        return Evaluation(self._scores(self._dev), self._samples())

    def test_scores(self) -> dict[str, float]:
        return self._scores(self._test) if self._test else {}

    def _scores(self, groups: Groups) -> dict[str, float]:
        return compute_scores(groups, self.ranker.standings(groups), self.config.evaluation)

    def _samples(self) -> list[str]:
        shown = [group[0] for group in self._dev[:3]]
        lines = []
        for question, scores in zip(shown, self.ranker.scores(shown), strict=True):
            best = int(scores.argmax())
            mark = "✓" if best == 0 else f"✗ (is {question.candidates[0]})"
            lines.append(f"{question.exchange.context[-1]}  →  {question.candidates[best]} {mark}")
        return lines

    # --- saving and reports -------------------------------------------------------------------------------------------

    def save(self, folder: Path) -> None:
        (folder / CONFIG).write_text(to_toml(self.config), encoding="utf-8")
        self.encoding.save(folder)
        (folder / INDEX).mkdir()
        for name, lines in zip((RESPONSES, CONTEXTS), collect_responses(self.config, self.data), strict=True):
            (folder / INDEX / name).write_text("".join(line + "\n" for line in lines), encoding="utf-8")

    def describe_batch(self, batch: DualBatch) -> str:
        return f"{len(batch.contexts)} contexts, longest {batch.contexts.shape[1]} tokens"

    def summary(self) -> Sequence[str]:
        return self.data.lines
