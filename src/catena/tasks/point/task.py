"""Pointer networks as a task of the training loop."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from catena.checkpoint import CONFIG
from catena.config import to_toml
from catena.data.batches import BatchPlan
from catena.errors import CheckpointError
from catena.randomness import Randomness
from catena.seq2seq.pointer import PointerInputs, PointerNetwork
from catena.tasks.looped import BatchedEpoch, NeuralTask
from catena.tasks.point.config import WHAT_NEXT, PointConfig
from catena.tasks.point.dataset import PointDataset, PointEncoding, PointSetBatch, generate_problems
from catena.tasks.point.problems import PROBLEMS
from catena.tasks.point.reinforce import reinforced_loss
from catena.tasks.point.scoring import compute_scores, point_tensors, predict_positions, search
from catena.training.task import BatchLoss, EpochPlan, Evaluation

_ENCODING = "encoding.json"


@dataclass(frozen=True)
class PointBatch:
    """Padded sets and targets. ``tokens`` is the number of steps, kept on the CPU to avoid a device sync."""

    things: PointerInputs
    targets: Tensor
    lengths: Tensor
    tokens: int


class MadeEpoch(EpochPlan):
    """An epoch whose batches are generated on demand, a few of them ahead of time by other threads.

    Batch ``i`` depends only on the seed, the epoch and ``i``.
    """

    def __init__(
        self, n: int, make: Callable[[int], PointSetBatch], ready: Callable[[PointSetBatch], PointBatch]
    ) -> None:
        self.n, self.make, self.ready = n, make, ready
        self.threads = max(1, min(8, (os.cpu_count() or 1) - 1))
        self.pool = ThreadPoolExecutor(self.threads)
        self.ahead: dict[int, Future[PointSetBatch]] = {}

    def __len__(self) -> int:
        return self.n

    def batch(self, i: int) -> PointBatch:
        self.ahead = {k: future for k, future in self.ahead.items() if k >= i}
        for k in range(i, min(self.n, i + 2 * self.threads)):
            if k not in self.ahead:
                self.ahead[k] = self.pool.submit(self.make, k)
        return self.ready(self.ahead.pop(i).result())


class PointTask(NeuralTask):
    """Training task of a pointer network: its data and metric."""

    what_next = WHAT_NEXT

    def __init__(
        self,
        config: PointConfig,
        data: PointDataset,
        model: PointerNetwork,
        device: torch.device,
        randomness: Randomness,
    ) -> None:
        self.config, self.data, self.device, self.randomness = config, data, device, randomness
        self.network = model.to(device)

    @property
    def model(self) -> nn.Module:
        return self.network

    @property
    def problem(self) -> str:
        return self.data.encoding.problem

    @property
    def metric(self) -> str:
        return next(iter(PROBLEMS[self.problem].measures))

    @property
    def higher_is_better(self) -> bool:
        return not PROBLEMS[self.problem].lower

    def epoch(self, number: int) -> EpochPlan:
        batches, train = self.config.batches, self.data.train
        if train is not None:
            plan = BatchPlan.shuffled(train.sizes, batches, self.randomness.numpy("batches", number))
            return BatchedEpoch(plan, lambda rows: self.batch(train, rows))
        n, size = self.config.data.n_train, batches.batch_size

        def make(i: int) -> PointSetBatch:
            generator = self.randomness.numpy(f"problems-{number}", i)
            return generate_problems(self.config.data, min(size, n - i * size), generator)

        return MadeEpoch(-(-n // size), make, lambda sets: self.batch(sets, np.arange(len(sets))))

    def batch(self, sets: PointSetBatch, rows: np.ndarray) -> PointBatch:
        """A batch of the sets at ``rows``."""
        lengths = sets.lengths[rows]
        targets = torch.from_numpy(sets.targets[rows, : int(lengths.max())]).to(self.device)
        counts = torch.from_numpy(lengths).to(self.device)
        return PointBatch(point_tensors(sets, rows, self.device), targets, counts, int(lengths.sum()))

    def loss(self, batch: PointBatch) -> BatchLoss:
        if self.config.learning.objective == "reinforce":
            return BatchLoss(reinforced_loss(self.network, batch.things), len(batch.lengths), batch.tokens)
        total = -self.network.token_log_probs(batch.things, batch.targets, batch.lengths).sum() / batch.tokens
        return BatchLoss(total, batch.tokens, batch.tokens)

    def evaluate(self) -> Evaluation:
        dev = self.data.dev
        right = [dev.pointed(i) for i in range(len(dev))]
        given = predict_positions(dev, search(self.network, self.data.encoding, dev, self.config.search.width))
        shown = [
            f"{' '.join(map(str, b.positions))}  (gold: {' '.join(map(str, a.positions))})"
            for a, b in zip(right[:3], given[:3], strict=True)
        ]
        return Evaluation(compute_scores(self.problem, right, given), shown)

    def test_scores(self) -> dict[str, float]:
        test = self.data.test
        if test is None:
            return {}
        right = [test.pointed(i) for i in range(len(test))]
        with torch.no_grad():
            found = search(self.network, self.data.encoding, test, self.config.search.width)
        return compute_scores(self.problem, right, predict_positions(test, found))

    def save(self, folder: Path) -> None:
        (folder / CONFIG).write_text(to_toml(self.config), encoding="utf-8")
        about = json.dumps(asdict(self.data.encoding), ensure_ascii=False)
        (folder / _ENCODING).write_text(about + "\n", encoding="utf-8")

    def describe_batch(self, batch: PointBatch) -> str:
        return (
            f"{len(batch.lengths)} sets of up to {batch.things.values.shape[1]}, longest target "
            f"{batch.targets.shape[1]} steps"
        )

    def summary(self) -> Sequence[str]:
        return self.data.lines


def load_encoding(folder: Path) -> PointEncoding:
    """Load the encoding written by :meth:`PointTask.save`."""
    try:
        about = json.loads((folder / _ENCODING).read_text(encoding="utf-8"))
        tokens = about["tokens"]
        return PointEncoding(
            about["problem"], None if tokens is None else tuple(tokens), about["n_features"], about["longest"]
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{folder / _ENCODING} cannot be read: {error}. Copy the model folder again.") from error
