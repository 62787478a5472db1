"""Pointer networks as a task."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from catena.data.batches import BatchPlan
from catena.data.reading import ReadCounter
from catena.draw.picture import Picture
from catena.errors import DataError, FormatError
from catena.metrics.measure import Metric
from catena.niche.geometry.problems import PROBLEMS
from catena.randomness import Randomness
from catena.search.hypothesis import Hypothesis
from catena.seq2seq.pointer import PointerInputs, PointerNetwork, PointReader, build_pointer
from catena.tasks.base import DataParts, Origin, first_ranked
from catena.tasks.neural import Dataset, NetworkTraining, NeuralTask, PlannedEpoch
from catena.tasks.point.config import NEXT_COMMANDS, PointConfig, PointOptions
from catena.tasks.point.data import (
    FIRST_TOKEN,
    PointEncoding,
    PointItem,
    PointSetBatch,
    as_item,
    check_targets,
    fit_encoding,
    generate_problems,
    pointing_rule,
    read_items,
)
from catena.tasks.point.search import (
    PointEvaluation,
    PointPrediction,
    hypothesis_positions,
    point_tensors,
    predict_positions,
    reinforced_loss,
    search,
)
from catena.tasks.sources import Sources
from catena.training.task import BatchLoss, EpochPlan

_TRUNCATED = "{n} output{s} {was} truncated at the length of the longest training target, without an end symbol"


@dataclass(frozen=True)
class PointBatch:
    """Padded sets and targets. ``tokens`` is the number of steps, kept on the CPU to avoid a device sync."""

    things: PointerInputs
    targets: Tensor
    lengths: Tensor
    tokens: int


class GeneratedEpoch(EpochPlan):
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


class PointTask(NeuralTask[PointConfig, PointItem, PointPrediction, PointOptions]):
    """A pointer network, whose outputs are positions of the input."""

    name = "point"
    options_class = PointOptions
    formats = ("tsv", "text", "csv", "jsonl")
    next_commands = NEXT_COMMANDS
    encoding: PointEncoding
    encoding_class = PointEncoding

    def __init__(self, config: PointConfig, encoding: PointEncoding, network: PointerNetwork) -> None:
        super().__init__(config, encoding, network)
        self.pointer = network

    @property
    def problem(self) -> str:
        """The problem that the network solves; a key of :data:`PROBLEMS`."""
        return self.encoding.problem

    # --- reading ------------------------------------------------------------------------------------------------------

    @classmethod
    def read(cls, config: PointConfig, path: Path, counter: ReadCounter, *, gold: bool = True) -> Iterator[PointItem]:
        solvable = PROBLEMS[config.data.problem].solve is not None
        for item in counter.seen(read_items(path, config.data.encoding)):
            if not gold:
                yield item
                continue
            if not item.things:
                counter.drop("without points", item.location, "")
                continue
            if item.target is None and not solvable:
                raise FormatError(
                    f"{item.location} has no target. Add one, or set the problem, as in --data.problem sort."
                )
            yield item

    @classmethod
    def describe_file(cls, config: PointConfig, path: Path) -> str:
        return f"{path.name} has one set of points or tokens per line"

    def to_example(self, item: Any) -> PointItem:
        return as_item(item, self.encoding.kind)

    @classmethod
    def split_key(cls, example: PointItem) -> str:
        return example.text()

    def usable(self, example: PointItem) -> PointItem | str:
        limit = self.config.data.max_length
        return f"longer than max_length={limit}" if len(example.things) > limit else example

    # --- preparation --------------------------------------------------------------------------------------------------

    @classmethod
    def prepare(cls, config: PointConfig, sources: Sources[PointItem], origin: Origin) -> NetworkTraining:
        if "train" in sources:
            return super().prepare(config, sources, origin)
        data = config.data
        if data.problem == "own":
            raise DataError(
                "There is no training file. Name a file of points and targets, or a generated problem, such as "
                "--data.problem sort."
            )
        if data.dev is not None or data.test is not None:
            raise DataError("data.dev or data.test is set without training files. Remove them, or name training files.")
        randomness = origin.randomness
        dev = generate_problems(data, data.n_dev, randomness.numpy("dev"))
        test = generate_problems(data, data.n_test, randomness.numpy("test")) if data.n_test else ()
        train = () if data.fresh else generate_problems(data, data.n_train, randomness.numpy("problems-1"))
        encoding = PointEncoding(data.problem, None, PROBLEMS[data.problem].n_features, dev.targets.shape[1] - 1)
        randomness.seed_torch("weights")
        task = cls(config, encoding, cls.build_network(config, encoding))
        task._start_reader(train or dev)
        size = f"{data.size}" if data.least is None else f"{data.least} to {data.size}"
        what = "new in each epoch" if data.fresh else "the same in each epoch"
        sizes = f"{data.n_train:,} sets of {size} points, {what}; dev {data.n_dev:,}, test {data.n_test:,}"
        return NetworkTraining(task, Dataset(train, dev, test, [f"generated: {sizes}"]), randomness)

    @classmethod
    def new(cls, config: PointConfig, train: Sequence[PointItem], origin: Origin, report: list[str]) -> PointTask:
        task = super().new(config, train, origin, report)
        task._start_reader(task.encode(train[:1000], gold=False))
        return task

    def _start_reader(self, sets: PointSetBatch) -> None:
        """Scale the inputs of a new network by the points of some sets."""
        if isinstance(self.pointer.reader, PointReader):
            inside = np.arange(sets.values.shape[1]) < sets.sizes[:, None]
            self.pointer.reader.start_at(torch.from_numpy(sets.values[inside]), alike=self.problem != "own")

    @classmethod
    def fit_encoding(cls, config: PointConfig, train: Sequence[PointItem], origin: Origin) -> PointEncoding:
        return fit_encoding(config.data.problem, train)

    @classmethod
    def build_network(
        cls, config: PointConfig, encoding: PointEncoding, report: list[str] | None = None
    ) -> PointerNetwork:
        n_tokens = 0 if encoding.tokens is None else len(encoding.tokens) + FIRST_TOKEN
        rule = pointing_rule(config.data)
        return build_pointer(config.model, rule, n_features=encoding.n_features, n_tokens=n_tokens)

    def encode(self, examples: Sequence[PointItem], *, gold: bool = True) -> PointSetBatch:
        items = [item.as_kind(self.encoding.kind) for item in examples]
        sets = self.encoding.encode(items, solve=gold)
        return check_targets(sets, items, self.pointer.rule) if gold else sets

    # --- training -----------------------------------------------------------------------------------------------------

    def epoch(self, rows: PointSetBatch | tuple[()], number: int, randomness: Randomness) -> EpochPlan:
        batches = self.config.batches
        if isinstance(rows, PointSetBatch):
            sets = rows
            plan = BatchPlan.shuffled(sets.sizes, batches, randomness.numpy("batches", number))
            return PlannedEpoch(plan, lambda index: self.collate(sets, index))
        n, size = self.config.data.n_train, batches.batch_size

        def make(i: int) -> PointSetBatch:
            generator = randomness.numpy(f"problems-{number}", i)
            return generate_problems(self.config.data, min(size, n - i * size), generator)

        return GeneratedEpoch(-(-n // size), make, lambda sets: self.collate(sets, np.arange(len(sets))))

    def collate(self, rows: PointSetBatch, index: np.ndarray) -> PointBatch:
        lengths = rows.lengths[index]
        targets = torch.from_numpy(rows.targets[index, : int(lengths.max())]).to(self.device)
        counts = torch.from_numpy(lengths).to(self.device)
        return PointBatch(point_tensors(rows, index, self.device), targets, counts, int(lengths.sum()))

    def loss(self, batch: PointBatch) -> BatchLoss:
        if self.config.learning.objective == "reinforce":
            return BatchLoss(reinforced_loss(self.pointer, batch.things), len(batch.lengths), batch.tokens)
        total = -self.pointer.token_log_probs(batch.things, batch.targets, batch.lengths).sum() / batch.tokens
        return BatchLoss(total, batch.tokens, batch.tokens)

    def describe_batch(self, batch: PointBatch) -> str:
        return (
            f"{len(batch.lengths)} sets of up to {batch.things.values.shape[1]}, longest target "
            f"{batch.targets.shape[1]} steps"
        )

    # --- evaluation ---------------------------------------------------------------------------------------------------

    def all_metrics(self) -> Mapping[str, Metric]:
        return PROBLEMS[self.problem].measures

    def evaluate_rows(self, rows: PointSetBatch) -> PointEvaluation:
        found = search(self.pointer, self.encoding, rows, self.config.search.beam_size)
        gold = [rows.pointed(i) for i in range(len(rows))]
        return PointEvaluation(self.problem, gold, predict_positions(rows, found))

    def show(self, rows: PointSetBatch, result: PointEvaluation) -> list[str]:
        return [
            f"{' '.join(map(str, b.positions))}  (gold: {' '.join(map(str, a.positions))})"
            for a, b in zip(result.gold[:3], result.predicted[:3], strict=True)
        ]

    # --- prediction ---------------------------------------------------------------------------------------------------

    def predict_examples(self, examples: Sequence[PointItem], options: PointOptions) -> list[PointPrediction]:
        examples = [item.as_kind(self.encoding.kind) for item in examples]
        filled = [item for item in examples if item.things]
        sets = self.encode(filled, gold=False)
        beam_size = options.beam_size or self.config.search.beam_size
        found = iter(search(self.pointer, self.encoding, sets, beam_size, options.n_best))
        return [self._prediction(item, next(found) if item.things else [], options) for item in examples]

    def _prediction(self, item: PointItem, found: Sequence[Hypothesis], options: PointOptions) -> PointPrediction:
        if not found:
            return PointPrediction(item, None, scores=options.scores)
        ranked = [
            PointPrediction(item, hypothesis_positions(one), one.log_prob, not one.finished, scores=options.scores)
            for one in found
        ]
        return first_ranked(ranked, options.n_best > 1)

    def search_options(self, options: PointOptions) -> PointTask:
        if options.beam_size is None:
            return self
        search = self.config.search.model_copy(update={"beam_size": options.beam_size})
        return PointTask(self.config.model_copy(update={"search": search}), self.encoding, self.pointer)

    def warnings(self, prediction: PointPrediction, options: PointOptions) -> Sequence[str]:
        return [_TRUNCATED] * sum(one.truncated for one in prediction.ranked)

    # --- reports ------------------------------------------------------------------------------------------------------

    def summarize(self, parts: DataParts[PointItem], data: Dataset) -> list[str]:
        named = ((name, getattr(data, name)) for name in ("train", "dev", "test"))
        kind = self.encoding.kind
        return [
            f"{name}: {len(sets):,} sets of up to {sets.values.shape[1]} {kind}" for name, sets in named if len(sets)
        ]

    def describe(self, top: int) -> list[str]:
        encoding, what = self.encoding, "tokens"
        if encoding.tokens is None:
            what = f"points with {encoding.n_features} coordinate{'s' if encoding.n_features > 1 else ''}"
        return [
            f"a pointer network of {self.n_parameters:,} parameters over {what}",
            f"problem {encoding.problem}, rule {self.pointer.rule}, beam size {self.config.search.beam_size}",
        ]

    def draw(self, example: PointItem, options: PointOptions) -> Picture:
        """Points in the plane with the path or triangles; other items with their order below them."""
        from catena.draw.alignment import draw_links
        from catena.draw.points import draw_path

        positions = self._positions(example, options)
        if _in_plane(example):
            return draw_path(example.things, drawing_lines(positions, self.problem))
        words = _words(example)
        return draw_links(words, [words[j] for j in positions], [(j, i) for i, j in enumerate(positions)])

    def draw_text(self, example: PointItem, options: PointOptions) -> str:
        """The items in the order of the output positions, as text for a terminal."""
        from catena.draw.terminal.points import sketch_points

        positions = self._positions(example, options)
        if _in_plane(example):
            return sketch_points(example.things) + "\n" + " ".join(map(str, positions))
        words = _words(example)
        return "  ".join(words) + "\n" + "  ".join(words[j] for j in positions)

    def _positions(self, example: PointItem, options: PointOptions) -> tuple[int, ...]:
        if not example.things:
            raise DataError("The set is empty, so there is nothing to draw. Add points.")
        return self.predict_examples([example], options)[0].positions or ()


def _in_plane(item: PointItem) -> bool:
    return item.kind == "points" and len(item.things[0]) == 2


def _words(item: PointItem) -> list[str]:
    return [",".join(f"{x:.4g}" for x in thing) if item.kind == "points" else thing for thing in item.things]


def drawing_lines(positions: tuple[int, ...], problem: str) -> list[tuple[int, ...]]:
    """The lines to draw for output positions: triangles, a round trip or a path."""
    if problem == "delaunay":
        return [(*positions[i : i + 3], positions[i]) for i in range(0, len(positions) - 2, 3)]
    return [(*positions, positions[0])] if problem == "tsp" and positions else [positions]
