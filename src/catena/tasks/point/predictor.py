"""Predictor of a trained pointer network."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import torch

from catena import config as configs
from catena.checkpoint import CONFIG, open_checkpoint
from catena.data.examples import SourceLocation
from catena.errors import DataError, FormatError
from catena.registry import did_you_mean
from catena.seq2seq.pointer import PointerNetwork, build_pointer
from catena.tasks.application import (
    DEFAULT_PREDICT_OPTIONS,
    DEFAULT_READ_OPTIONS,
    EvaluationReport,
    PairedPredictions,
    PredictOptions,
    Predictor,
    ReadOptions,
)
from catena.tasks.point.config import PointConfig
from catena.tasks.point.dataset import FIRST_TOKEN, PointEncoding, PointSetBatch, check_targets, pointing_rule
from catena.tasks.point.items import PointItem, as_item, parse, read_items
from catena.tasks.point.problems import PROBLEMS
from catena.tasks.point.scoring import build_report, hypothesis_positions, predict_positions, search
from catena.tasks.point.task import load_encoding
from catena.tasks.written import NO_SCORE, score_cell, score_value

if TYPE_CHECKING:
    from catena.draw.picture import Picture

BLOCK = 1024
_CUT = "{n} output{s} {was} truncated at the length of the longest training target, without an end symbol"


@dataclass(frozen=True)
class PointAnswer:
    """The output positions of a set, best first. ``str()`` gives the best ones."""

    item: PointItem
    positions: tuple[tuple[int, ...], ...]
    log_probs: tuple[float, ...]
    finished: tuple[bool, ...] = ()
    """For each output, whether it has an end symbol; otherwise it was truncated at the maximum number of steps."""
    options: PredictOptions = DEFAULT_PREDICT_OPTIONS

    def __str__(self) -> str:
        return " ".join(map(str, self.positions[0])) if self.positions else ""


class PointPredictor(Predictor):
    """A trained pointer network with its encoding."""

    reads_columns: ClassVar[tuple[str, ...]] = ()
    supported_options: ClassVar[frozenset[str]] = frozenset({"n_best", "scores"})

    def __init__(self, config: PointConfig, encoding: PointEncoding, model: PointerNetwork) -> None:
        self.config, self.encoding, self.model = config, encoding, model

    def find_network(self) -> PointerNetwork:
        return self.model

    def predict(self, items: Sequence[Any], options: PredictOptions = DEFAULT_PREDICT_OPTIONS) -> list[PointAnswer]:
        """The output positions of each set, best first; none for an empty set.

        Args:
            items: the sets, each a line, a list of points or tokens, or a :class:`PointItem`.
        """
        self.check(options)
        if isinstance(items, str):
            raise DataError(
                f"items must be a list of sets, got the text {items[:60]!r}. Pass a list, as in predict([text])."
            )
        read = [as_item(item, self.encoding.kind) for item in items]
        full = [item for item in read if item.things]
        sets = self.encoding.encode(full, solve=False)
        found = iter(search(self.model, self.encoding, sets, self.config.search.width, options.n_best))
        answers = []
        for item in read:
            listed = next(found) if item.things else []
            positions = tuple(hypothesis_positions(hypothesis) for hypothesis in listed)
            scores, ended = tuple(h.log_prob for h in listed), tuple(h.finished for h in listed)
            answers.append(PointAnswer(item, positions, scores, ended, options))
        return answers

    def predict_stream(
        self, items: Iterable[Any], options: PredictOptions = DEFAULT_PREDICT_OPTIONS
    ) -> Iterator[PointAnswer]:
        waiting = iter(items)
        while block := list(islice(waiting, BLOCK)):
            yield from self.predict(block, options)

    def read_inputs(self, path: Path, reading: ReadOptions = DEFAULT_READ_OPTIONS) -> Iterator[PointItem]:
        """The sets of a file, with targets or without."""
        if reading.format is not None:
            raise FormatError(f"--input-format is not supported for sets of points, got {reading.format!r}. Remove it.")
        return read_items(path, reading.encoding or self.config.data.encoding, self.encoding.kind)

    def items_of_lines(self, lines: Iterator[str]) -> Iterator[PointItem]:
        return (
            parse(line, SourceLocation("standard input", i), self.encoding.kind)
            for i, line in enumerate(lines, start=1)
        )

    def sets(self, path: Path, reading: ReadOptions = DEFAULT_READ_OPTIONS) -> PointSetBatch:
        """The sets of a file with their targets."""
        items = [item for item in self.read_inputs(path, reading) if item.things]
        if not items:
            raise DataError(f"{path} has no sets to score. Add sets with targets.")
        if PROBLEMS[self.encoding.problem].solve is None:
            for item in items:
                if item.target is None:
                    raise FormatError(f"{item.place} has no target. Add one.")
        return check_targets(self.encoding.encode(items), items, self.model.rule)

    def evaluate(self, path: Path, reading: ReadOptions = DEFAULT_READ_OPTIONS) -> EvaluationReport:
        right, given = self._compared(self.sets(path, reading))
        return build_report(self.encoding.problem, right, given)

    def _compared(self, sets: PointSetBatch) -> tuple[list[Any], list[Any]]:
        found = search(self.model, self.encoding, sets, self.config.search.width)
        return [sets.pointed(i) for i in range(len(sets))], list(predict_positions(sets, found))

    def answers(
        self, path: Path, metric: str | None = None, reading: ReadOptions = DEFAULT_READ_OPTIONS
    ) -> PairedPredictions:
        measures = PROBLEMS[self.encoding.problem].measures
        metric = metric or next(iter(measures))
        if metric not in measures:
            raise DataError(f"Unknown metric {metric!r} of this model: {did_you_mean(metric, measures)}")
        return PairedPredictions(measures[metric], *self._compared(self.sets(path, reading)))

    def describe(self, top: int) -> list[str]:
        parameters = sum(p.numel() for p in self.model.parameters())
        encoding, what = self.encoding, "tokens"
        if encoding.tokens is None:
            what = f"points with {encoding.n_features} coordinate{'s' if encoding.n_features > 1 else ''}"
        return [
            f"a pointer network of {parameters:,} parameters over {what}",
            f"problem {encoding.problem}, rule {self.model.rule}, beam size {self.config.search.width}",
        ]

    def write(self, prediction: PointAnswer, item: PointItem, format: str) -> str:
        if format == "text":
            return str(prediction)
        rows = list(zip(prediction.positions, prediction.log_probs, prediction.finished, strict=True))
        rows = rows or [((), NO_SCORE, True)]
        if format == "jsonl":
            listed = [{"positions": list(p), "log_prob": score_value(s), "finished": end} for p, s, end in rows]
            return json.dumps({item.kind: item.things, "answers": listed}, ensure_ascii=False)
        lines = []
        for positions, score, _ in rows:
            fields = [item.text(), " ".join(map(str, positions))]
            lines.append("\t".join([*fields, score_cell(score)] if prediction.options.scores else fields))
        return "\n".join(lines)

    def remarks(self, prediction: PointAnswer) -> list[str]:
        """A warning about truncated outputs."""
        return [_CUT] * sum(not end for end in prediction.finished)

    def picture(self, item: Any, options: PredictOptions = DEFAULT_PREDICT_OPTIONS) -> Picture:
        """Points in the plane with the path or triangles; other items with their order below them."""
        from catena.draw.alignment import draw_links
        from catena.draw.points import draw_path

        answer = self.predict([item])[0]
        things, positions = answer.item.things, answer.positions[0] if answer.positions else ()
        if not things:
            raise DataError("The set is empty, so there is nothing to draw. Add points.")
        if answer.item.kind == "points" and len(things[0]) == 2:
            return draw_path(things, drawing_lines(positions, self.encoding.problem))
        words = [",".join(f"{x:.4g}" for x in t) if answer.item.kind == "points" else t for t in things]
        return draw_links(words, [words[j] for j in positions], [(j, i) for i, j in enumerate(positions)])

    def sketch(self, item: Any, options: PredictOptions = DEFAULT_PREDICT_OPTIONS) -> str:
        """The items in the order of the output positions, as text for a terminal."""
        from catena.draw.terminal.points import sketch_points

        answer = self.predict([item])[0]
        things, positions = answer.item.things, answer.positions[0] if answer.positions else ()
        if not things:
            raise DataError("The set is empty, so there is nothing to draw. Add points.")
        if answer.item.kind == "points" and len(things[0]) == 2:
            return sketch_points(things) + "\n" + str(answer)
        words = [",".join(f"{x:.4g}" for x in t) if answer.item.kind == "points" else t for t in things]
        return "  ".join(words) + "\n" + "  ".join(words[j] for j in positions)


def drawing_lines(positions: tuple[int, ...], problem: str) -> list[tuple[int, ...]]:
    """The lines to draw for output positions: triangles, a round trip or a path."""
    if problem == "delaunay":
        return [(*positions[i : i + 3], positions[i]) for i in range(0, len(positions) - 2, 3)]
    return [(*positions, positions[0])] if problem == "tsp" and positions else [positions]


def load_predictor(folder: Path, device: torch.device) -> PointPredictor:
    """Load a trained pointer network from a run folder or checkpoint folder."""
    checkpoint = open_checkpoint(folder)
    config = configs.load(PointConfig, checkpoint.folder / CONFIG)
    encoding = load_encoding(checkpoint.folder)
    n_tokens = 0 if encoding.tokens is None else len(encoding.tokens) + FIRST_TOKEN
    model = build_pointer(config.model, pointing_rule(config.data), n_features=encoding.n_features, n_tokens=n_tokens)
    checkpoint.load_into(model)
    return PointPredictor(config, encoding, model.to(device).eval())
