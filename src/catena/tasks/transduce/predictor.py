"""Predictor of a trained string transducer."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import torch

from catena import config as configs
from catena.checkpoint import CONFIG, open_checkpoint
from catena.data.files import open_text
from catena.data.pairing import sources_of_lines
from catena.data.reading import ReadCounter
from catena.errors import CheckpointError, DataError
from catena.metrics.text import width
from catena.registry import did_you_mean
from catena.tasks.application import (
    DEFAULT_PREDICT_OPTIONS,
    DEFAULT_READ_OPTIONS,
    EvaluationReport,
    PairedPredictions,
    PredictOptions,
    Predictor,
    ReadOptions,
)
from catena.tasks.transduce.config import METRICS, TransduceConfig, TransduceDataConfig
from catena.tasks.transduce.dataset import StringPair, SymbolTokenizer, group_by_source, pairs_format, read_pairs
from catena.tasks.transduce.scoring import MEASURES, build_report, first_answers
from catena.tasks.written import NO_SCORE, score_cell, score_value, unknown_input_warning
from catena.transduction.alphabet import Alphabet
from catena.transduction.base import Link, StringTransducer, TransducedString
from catena.transduction.config import BaselineConfig, EditConfig, JointConfig, SequenceTransducerConfig
from catena.transduction.network import NetworkTransducer, load_alphabets

if TYPE_CHECKING:
    from catena.draw.picture import Picture

BLOCK = 256
GUESSED = unknown_input_warning("text", "symbol")
CUT = "{n} target{s} {was} truncated at the maximum length without an end symbol: train the model longer"


@dataclass(frozen=True)
class TransductionResult:
    """The targets of a text, best first; none for a blank text. ``str()`` gives the best one."""

    text: str
    targets: tuple[str, ...]
    log_probs: tuple[float | None, ...]
    alignments: tuple[tuple[tuple[str, str], ...], ...]
    options: PredictOptions = DEFAULT_PREDICT_OPTIONS
    finished: tuple[bool, ...] = ()
    """For each target, whether it has an end symbol; otherwise it was truncated at the maximum length."""
    known: bool = True
    """Whether the model knows any symbol of the text; if not, the targets are a guess without a score."""

    def __str__(self) -> str:
        return self.targets[0] if self.targets else ""


class TransducePredictor(Predictor):
    """A trained transducer with its symbol tokenizer.

    Args:
        config: the config of the run.
        cutting: splits texts into symbols.
        model: the transducer.
    """

    reads_columns: ClassVar[tuple[str, ...]] = ()
    supported_options: ClassVar[frozenset[str]] = frozenset({"n_best", "scores", "alignment", "beam_size"})

    def __init__(self, config: TransduceConfig, cutting: SymbolTokenizer, model: StringTransducer) -> None:
        self.config, self.cutting, self.model = config, cutting, model

    @property
    def networks(self) -> list[torch.nn.Module]:
        return [self.model.network] if isinstance(self.config.model, SequenceTransducerConfig) else []  # type: ignore[attr-defined]

    def find_network(self) -> torch.nn.Module | None:
        return getattr(self.model, "network", None)

    def searching(self, options: PredictOptions) -> TransducePredictor:
        """This predictor with the beam size of the options."""
        self.check(options)
        return TransducePredictor(self.config, self.cutting, self._searched(options))

    def _searched(self, options: PredictOptions) -> StringTransducer:
        if options.beam_size is None:
            return self.model
        if not isinstance(self.config.model, SequenceTransducerConfig):
            raise DataError(
                f"model.kind must be seq2seq if --beam-size is set, got {self.config.model.kind}. Remove --beam-size."
            )
        from catena.transduction.sequence import SequenceModel

        if not isinstance(self.model, SequenceModel):
            raise DataError(
                "--beam-size applies only to networks, and this ensemble has other models. Remove --beam-size, or the "
                "other models."
            )
        return self.model.with_beam(options.beam_size)

    def together(self, others: Sequence[Predictor]) -> TransducePredictor:
        """An ensemble of this model and others, in which each run has the same weight.

        Networks over the same symbols are averaged at every step. Models of other kinds are averaged by the
        probabilities of their targets.
        """
        from catena.transduction.sequence import SequenceModel
        from catena.transduction.together import TransducerEnsemble

        models: list[tuple[StringTransducer, float]] = [(self.model, 1.0)]
        for number, other in enumerate(others, start=2):
            if not isinstance(other, TransducePredictor):
                raise DataError(
                    f"The models of an ensemble must all be of task 'transduce', got {other.task_name!r} as model "
                    f"{number}. Remove it."
                )
            if other.cutting != self.cutting:
                raise DataError(
                    f"Model {number} of the ensemble splits texts into other symbols than the first. Train it with the "
                    f"same data options."
                )
            first, weight = models[0]
            if isinstance(first, SequenceModel) and isinstance(other.model, SequenceModel):
                models[0] = (first.together_with(other.model), weight + 1.0)
            else:
                models.append((other.model, 1.0))
        model = models[0][0] if len(models) == 1 else TransducerEnsemble(models)
        return TransducePredictor(self.config, self.cutting, model)

    def predict(
        self, items: Sequence[str], options: PredictOptions = DEFAULT_PREDICT_OPTIONS
    ) -> list[TransductionResult]:
        """The targets of each text, best first."""
        self.check(options)
        if isinstance(items, str):
            raise DataError(
                f"items must be a list of texts, got the text {items[:60]!r}. Pass a list, as in predict([text])."
            )
        if options.scores and isinstance(self.config.model, BaselineConfig):
            raise DataError("A baseline has no probabilities. Remove --scores.")
        sources = {i: x for i, text in enumerate(items) if text.strip() and (x := self.cutting.source(text))}
        found = dict(zip(sources, self._searched(options).search_all([*sources.values()], options.n_best), strict=True))
        symbols = self._source_symbols()
        return [
            self._transduced(
                text,
                found.get(i, ()),
                options,
                known=i in sources and (symbols is None or any(symbol in symbols for symbol in sources[i])),
            )
            for i, text in enumerate(items)
        ]

    def _transduced(
        self, text: str, listed: Sequence[TransducedString], options: PredictOptions, known: bool
    ) -> TransductionResult:
        return TransductionResult(
            text,
            tuple(self.cutting.join(found.tokens) for found in listed),
            tuple(found.log_prob if known else None for found in listed),
            tuple(tuple(self._link(link) for link in found.alignment) for found in listed),
            options,
            tuple(found.finished for found in listed),
            known,
        )

    def _link(self, link: Link) -> tuple[str, str]:
        return self.cutting.join_source(link.source), self.cutting.join(link.target)

    def predict_stream(
        self, items: Iterable[str], options: PredictOptions = DEFAULT_PREDICT_OPTIONS
    ) -> Iterator[TransductionResult]:
        waiting = iter(items)
        while block := list(islice(waiting, BLOCK)):
            yield from self.predict(block, options)

    def read_inputs(self, path: Path, reading: ReadOptions = DEFAULT_READ_OPTIONS) -> Iterator[str]:
        """The sources of a file of pairs, or the lines of a plain text file."""
        data = self._data(reading)
        if reading.format not in (None, "text"):
            yield from (pair.source for pair in read_pairs(path, data, str(reading.format)))
            return
        with open_text(path, data.encoding) as lines:
            yield from self.items_of_lines(line for _, line in lines)

    def items_of_lines(self, lines: Iterator[str]) -> Iterator[str]:
        """The source of each line, which ends at a tab if there is one, or starts after it if columns are swapped.

        A header line is skipped.
        """
        return sources_of_lines(lines, self.config.data.swap)

    def _data(self, reading: ReadOptions) -> TransduceDataConfig:
        given = {key: value for key, value in (("format", reading.format), ("encoding", reading.encoding)) if value}
        return self.config.data.model_copy(update=given)

    def words(self, path: Path, reading: ReadOptions = DEFAULT_READ_OPTIONS) -> list[StringPair]:
        """The sources of a file with their targets."""
        data = self._data(reading)
        found = group_by_source(read_pairs(path, data, pairs_format(path, data)), self.cutting, ReadCounter())
        if not found:
            raise DataError(f"{path} has no pairs to score. Write source<TAB>target on every line.")
        return found

    def evaluate(self, path: Path, reading: ReadOptions = DEFAULT_READ_OPTIONS) -> EvaluationReport:
        words = self.words(path, reading)
        known = self._source_symbols()
        unknown = 0 if known is None else sum(s not in known for word in words for s in word.source)
        return build_report(words, first_answers(self.model, words), unknown)

    def _source_symbols(self) -> Alphabet | None:
        return getattr(self.model, "source", None)

    def answers(
        self, path: Path, metric: str | None = None, reading: ReadOptions = DEFAULT_READ_OPTIONS
    ) -> PairedPredictions:
        metric = metric or METRICS[0]
        if metric not in METRICS:
            raise DataError(f"Unknown metric {metric!r} of a transducer: {did_you_mean(metric, METRICS)}")
        words = self.words(path, reading)
        return PairedPredictions(MEASURES[metric], [word.targets for word in words], first_answers(self.model, words))

    def describe(self, top: int) -> list[str]:
        return self.model.describe()

    def write(self, prediction: TransductionResult, item: str, format: str) -> str:
        if format == "text":
            return str(prediction)
        parts = prediction.targets, prediction.log_probs, prediction.alignments, prediction.finished
        rows = list(zip(*parts, strict=True)) or [("", NO_SCORE, (), True)]
        if format == "jsonl":
            listed = [
                {"target": y, "log_prob": score_value(s), "finished": end, "alignment": [list(pair) for pair in links]}
                for y, s, links, end in rows
            ]
            row = {"source": item, "known": prediction.known, "targets": listed}
            return json.dumps(row, ensure_ascii=False)
        lines = []
        for y, s, links, _ in rows:
            fields = [item, y]
            if prediction.options.scores:
                fields.append(score_cell(s))
            if prediction.options.alignment:
                fields.append(" ".join(f"{a.replace(' ', '+') or '_'}|{b.replace(' ', '+') or '_'}" for a, b in links))
            lines.append("\t".join(fields))
        return "\n".join(lines)

    def remarks(self, prediction: TransductionResult) -> list[str]:
        """Warnings about truncated targets and unknown texts."""
        guessed = [GUESSED] if prediction.targets and not prediction.known else []
        return [*guessed, *[CUT] * sum(not end for end in prediction.finished)]

    def _best(self, item: str) -> TransducedString:
        found = self.model.search_all([self.cutting.source(item)])[0]
        if not found or not found[0].tokens:
            raise DataError(f"The target of {item!r} is empty, so there is nothing to draw. Use another text.")
        return found[0]

    def picture(self, item: str, options: PredictOptions = DEFAULT_PREDICT_OPTIONS) -> Picture:
        """The alignment of the source with the best target."""
        from catena.draw.alignment import draw_links

        found, i, j = self._best(item), 0, 0
        links: list[tuple[int, int]] = []
        for read, wrote in found.alignment:
            links += [(a, b) for a in range(i, i + len(read)) for b in range(j, j + len(wrote))]
            i, j = i + len(read), j + len(wrote)
        return draw_links(self.cutting.source(item), found.tokens, links)

    def sketch(self, item: str, options: PredictOptions = DEFAULT_PREDICT_OPTIONS) -> str:
        """The alignment of the source with the best target, as text for a terminal."""
        pairs = [self._link(link) for link in self._best(item).alignment]
        rows = [[(a, b)[side] or "_" for a, b in pairs] for side in (0, 1)]
        wide = [max(width(a), width(b)) for a, b in zip(*rows, strict=True)]
        lines = ["  ".join(cell + " " * (w - width(cell)) for cell, w in zip(row, wide, strict=True)) for row in rows]
        return "\n".join(line.rstrip() for line in lines)


def load_predictor(folder: Path, device: torch.device) -> TransducePredictor:
    """Load a trained transducer from a run folder or checkpoint folder."""
    checkpoint = open_checkpoint(folder)
    config = configs.load(TransduceConfig, checkpoint.folder / CONFIG)
    settings, place = config.model, checkpoint.folder
    cutting = load_cutting(place)
    if isinstance(settings, JointConfig):
        from catena.transduction.joint import JointModel

        return TransducePredictor(config, cutting, JointModel.load(place, settings))
    if isinstance(settings, BaselineConfig):
        from catena.transduction.baseline import Baseline

        return TransducePredictor(config, cutting, Baseline.load(place, settings))
    model = network_model(settings, *load_alphabets(place))
    checkpoint.load_into(model.network)
    model.network.to(device).eval()
    return TransducePredictor(config, cutting, model)


def network_model(
    settings: EditConfig | SequenceTransducerConfig, source: Alphabet, target: Alphabet
) -> NetworkTransducer:
    """A network over two alphabets with newly initialized weights."""
    if isinstance(settings, SequenceTransducerConfig):
        from catena.transduction.sequence import SequenceModel, build_network

        return SequenceModel(build_network(settings, source, target), source, target, settings)
    from catena.transduction.edit import EditModel, EditTransducer

    return EditModel(EditTransducer(settings, len(source), len(target)), source, target, settings)


_CUTTING = "cutting.json"


def save_cutting(cutting: SymbolTokenizer, folder: Path) -> None:
    """Save a symbol tokenizer."""
    (folder / _CUTTING).write_text(json.dumps(vars(cutting), ensure_ascii=False) + "\n", encoding="utf-8")


def load_cutting(folder: Path) -> SymbolTokenizer:
    """Load the tokenizer written by :func:`save_cutting`."""
    try:
        return SymbolTokenizer(**json.loads((folder / _CUTTING).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise CheckpointError(f"{folder / _CUTTING} cannot be read: {error}. Copy the model folder again.") from error
