"""Predictors of conversation models."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

from torch import nn

from catena.data.dialogue import Exchange
from catena.data.examples import SourceLocation
from catena.data.files import open_text
from catena.data.readers.dialogue import read, split_turns
from catena.data.readers.names import CONTEXT_COLUMNS
from catena.data.readers.paired import has_columns, pair_layout
from catena.data.readers.sample import Sample
from catena.data.reading import ReadCounter
from catena.errors import DataError, FormatError
from catena.metrics.ranking import RankCounts
from catena.tasks.application import (
    DEFAULT_PREDICT_OPTIONS,
    DEFAULT_READ_OPTIONS,
    EvaluationReport,
    PairedPredictions,
    PredictOptions,
    Predictor,
    ReadOptions,
)
from catena.tasks.converse.config import ConverseConfig, ConverseDataConfig
from catena.tasks.converse.dataset import dialogue_format, exchanges
from catena.tasks.converse.index import ResponseIndex, RetrievedResponse
from catena.tasks.converse.questions import Groups, build_metric, build_ranking_examples, build_report
from catena.tasks.converse.rankers import Ranker, RetrievalRanker
from catena.tasks.written import NO_SCORE, score_cell, score_value, unknown_input_warning

BLOCK = 256
USER_INPUT_LOCATION = SourceLocation("input", 1)
GUESSED = unknown_input_warning("context", "word")
_BLANK = RetrievedResponse("", NO_SCORE)
"""The output for an empty context."""
_STRUCTURED = ("labeled", "distractors", "responses", "turns")
"""Formats in which a line is not a context. In all others each line is one, so that outputs match lines."""


@dataclass(frozen=True)
class Reply:
    """The responses to a context, best first. ``str()`` gives the best one, or an empty string.

    Args:
        known: whether any word of the context is in the vocabulary; if not, the responses are a guess.
    """

    responses: tuple[RetrievedResponse, ...]
    options: PredictOptions = DEFAULT_PREDICT_OPTIONS
    known: bool = True

    def __str__(self) -> str:
        return self.responses[0].text if self.responses else ""


class ConversePredictor(Predictor):
    """Base class of predictors that retrieve or generate responses.

    An item is a context: a sequence of turns, oldest first, one text with ``__eot__`` between turns, or an
    :class:`Exchange`.
    """

    reads_columns: ClassVar[tuple[str, ...]] = ()
    supported_options: ClassVar[frozenset[str]] = frozenset({"n_best", "scores"})
    config: ConverseConfig
    ranker: Ranker

    @abstractmethod
    def reply(self, contexts: Sequence[Exchange], options: PredictOptions) -> list[tuple[RetrievedResponse, ...]]:
        """The responses to contexts with at least one turn."""

    def predict(self, items: Sequence[Any], options: PredictOptions = DEFAULT_PREDICT_OPTIONS) -> list[Reply]:
        self.check(options)
        if isinstance(items, str):
            raise DataError(
                f"items must be a list of contexts, got the text {items[:60]!r}. Pass a list, as in predict([text])."
            )
        contexts = [self.exchange(item) for item in items]
        asked = [i for i, context in enumerate(contexts) if context.context]
        found = dict(zip(asked, self.reply([contexts[i] for i in asked], options), strict=True))
        return [Reply(found.get(i, ()), options, self.ranker.knows(contexts[i])) for i in range(len(items))]

    def exchange(self, item: str | Exchange | Sequence[str]) -> Exchange:
        """An item as an exchange without responses, truncated to the window."""
        if isinstance(item, Exchange):
            turns, own = item.context, item.own
        else:
            turns, own = split_turns(item) if isinstance(item, str) else tuple(item), ()
        w = self.config.data.window
        return Exchange(turns[-w:], (), USER_INPUT_LOCATION, own[-w:])

    def predict_stream(
        self, items: Iterable[Any], options: PredictOptions = DEFAULT_PREDICT_OPTIONS
    ) -> Iterator[Reply]:
        waiting, done = iter(items), 0
        while block := list(islice(waiting, BLOCK)):
            yield from self.predict(block, options.after(done))
            done += len(block)

    def read_inputs(self, path: Path, reading: ReadOptions = DEFAULT_READ_OPTIONS) -> Iterator[Any]:
        """The contexts of a file of conversations, or the lines of a plain text file."""
        data = self._data(path, reading)
        if _structured(path, data) if reading.format is None else reading.format != "text":
            yield from (Exchange(e.context, (), e.place, e.own) for e in self._read(path, data))
            return
        with open_text(path, reading.encoding or self.config.data.encoding) as lines:
            yield from self.items_of_lines(line for _, line in lines)

    def _read(self, path: Path, data: ConverseDataConfig) -> Iterator[Exchange]:
        return read(path, dialogue_format(path, data)[0], data.encoding, data.columns)

    def items_of_lines(self, lines: Iterator[str]) -> Iterator[str]:
        """The context of each line, which ends at a tab if there is one. A header line is skipped."""
        for number, line in enumerate(lines):
            context, tab, _ = line.partition("\t")
            if number or not (tab and context.strip().lower() in CONTEXT_COLUMNS):
                yield context

    def _data(self, path: Path, reading: ReadOptions) -> ConverseDataConfig:
        """The data config for reading a file, which need not have the columns of the training files."""
        named: dict[str, Any] = {"format": reading.format or "auto"}
        named["encoding"] = reading.encoding or self.config.data.encoding
        columns = self.config.data.columns
        kind = pair_layout(path, named["encoding"], columns) if columns.named and path.is_file() else "lines"
        if kind == "lines" or not has_columns(path, kind, columns, named["encoding"]):
            named |= {"context_column": None, "response_column": None}
        return self.config.data.model_copy(update=named)

    # --- evaluation ---------------------------------------------------------------------------------------------------

    def questions(self, path: Path, reading: ReadOptions = DEFAULT_READ_OPTIONS) -> tuple[Groups, str]:
        """The ranking examples of a file, and its format."""
        data, tally = self._data(path, reading), ReadCounter()
        format = dialogue_format(path, data)[0]
        part = [exchange for exchange in exchanges(path, data, tally) if exchange.responses]
        if not part:
            raise DataError(
                f"{path} has no context with a correct response to score: {tally.counts(0).sentence('')}. Check the "
                f"file."
            )
        return build_ranking_examples(part, self.config.evaluation, format), format

    def evaluate(self, path: Path, reading: ReadOptions = DEFAULT_READ_OPTIONS) -> EvaluationReport:
        groups, format = self.questions(path, reading)
        return build_report(groups, self.ranker.standings(groups), self.config.evaluation, format)

    def answers(
        self, path: Path, metric: str | None = None, reading: ReadOptions = DEFAULT_READ_OPTIONS
    ) -> PairedPredictions:
        measure = build_metric(metric or self.config.evaluation.ranking[0], self.config.evaluation)
        groups, _ = self.questions(path, reading)
        right = [[(q.exchange.context, q.candidates) for q in group] for group in groups]
        given: list[list[RankCounts]] = self.ranker.standings(groups)
        asked = self.config.evaluation
        by = {f"evaluation.{name}": getattr(asked, name) for name in ("candidates", "distractors", "seed")}
        return PairedPredictions(measure, right, given, {**by, "data.window": self.config.data.window})

    # --- writing ------------------------------------------------------------------------------------------------------

    def remarks(self, prediction: Reply) -> list[str]:
        """A warning if no word of the context is known."""
        return [] if prediction.known or not prediction.responses else [GUESSED]

    def write(self, prediction: Reply, item: Any, format: str) -> str:
        context = " __eot__ ".join(item.context) if isinstance(item, Exchange) else " ".join(str(item).split())
        if format == "jsonl":
            listed = [_row(found) for found in prediction.responses or (_BLANK,)]
            row = {"context": list(split_turns(context)), "known": prediction.known, "responses": listed}
            return json.dumps(row, ensure_ascii=False)
        if format == "text":
            return "\n".join(found.text for found in prediction.responses)
        lines = []
        for found in prediction.responses or (_BLANK,):
            fields = [context, found.text, *([score_cell(found.score)] if prediction.options.scores else [])]
            lines.append("\t".join(fields))
        return "\n".join(lines)


def _row(found: RetrievedResponse) -> dict[str, Any]:
    ended = {} if found.finished is None else {"finished": found.finished}
    return {"text": found.text, "score": score_value(found.score), **ended}


def _structured(path: Path, data: ConverseDataConfig) -> bool:
    """Whether a file has a conversation format, rather than one context per line."""
    try:
        format = dialogue_format(path, data)[0]
    except FormatError:  # blank lines or plain text: each line is a context
        if Sample(path).is_named(".csv"):
            raise
        return False
    return format in _STRUCTURED or (format == "pairs" and pair_layout(path, data.encoding, data.columns) != "lines")


class RetrievalPredictor(ConversePredictor):
    """A trained ranker with its index of responses."""

    def __init__(self, config: ConverseConfig, ranker: RetrievalRanker, index: ResponseIndex) -> None:
        self.config, self.ranker, self.index = config, ranker, index
        self.searcher = ranker

    def find_network(self) -> nn.Module | None:
        """The network of the ranker. Changing it does not change the vectors of the index."""
        return self.ranker.find_network()

    def reply(self, contexts: Sequence[Exchange], options: PredictOptions) -> list[tuple[RetrievedResponse, ...]]:
        return [tuple(found) for found in self.index.best(self.searcher, contexts, options.n_best)]

    def describe(self, top: int) -> list[str]:
        lines = [
            f"a conversation model of kind {self.config.model.kind}, which retrieves one of {len(self.index):,} "
            f"responses",
            f"context: the last {self.config.data.window} turns",
        ]
        weights = getattr(self.ranker, "weights", None)
        if weights is not None:
            runs = zip(self.config.model.runs, weights, strict=True)  # type: ignore[union-attr]
            lines.append("weights: " + ", ".join(f"{Path(run).name} {weight:.4f}" for run, weight in runs))
        lines += [f"  {self.index.texts[i]}" for i in range(min(top, len(self.index)))]
        return lines
