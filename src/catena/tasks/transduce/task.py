"""String transduction as a task, and its counted models. Networks are in network.py."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np

from catena.checkpoint import Checkpoint
from catena.data.examples import ParallelText, SourceLocation
from catena.data.reading import ReadCounter
from catena.draw.picture import Picture
from catena.errors import DataError
from catena.metrics.measure import Metric
from catena.metrics.text_table import width
from catena.tasks.base import BaseTask, DataParts, Origin, check_ensemble, check_text, first_ranked
from catena.tasks.config import model_section
from catena.tasks.fitted import FitReporter, FittedTask
from catena.tasks.pairs import read_sources
from catena.tasks.sources import Sources
from catena.tasks.transduce.config import NEXT_COMMANDS, TransduceConfig, TransduceOptions
from catena.tasks.transduce.data import (
    Symbols,
    SymbolTokenizer,
    choose_tokens,
    gather_pairs,
    pair_format,
    read_strings,
)
from catena.tasks.transduce.predict import METRICS, TransduceEvaluation, TransductionPrediction
from catena.tasks.writing import unknown_input_warning
from catena.transduction.alphabet import Alphabet
from catena.transduction.base import Link, StringTransducer, TransducedString
from catena.transduction.baseline import Baseline
from catena.transduction.config import BaselineConfig, JointConfig, SequenceTransducerConfig
from catena.transduction.ensemble import TransducerEnsemble
from catena.transduction.sequence import SequenceModel

GUESSED = unknown_input_warning("text", "symbol")
TRUNCATED = "{n} target{s} {was} truncated at the maximum length without an end symbol: train the model longer"


class TransduceTask(BaseTask[TransduceConfig, ParallelText, TransductionPrediction, TransduceOptions]):
    """A transducer, p(target string | source string)."""

    name = "transduce"
    options_class = TransduceOptions
    formats = ("tsv", "text", "csv", "jsonl")
    not_in_text = ("scores", "alignment")
    next_commands = NEXT_COMMANDS
    model: StringTransducer

    @property
    def tokenizer(self) -> SymbolTokenizer:
        """Splits texts into symbols."""
        return SymbolTokenizer.from_config(self.config.data)

    # --- reading ------------------------------------------------------------------------------------------------------

    @classmethod
    def complete(cls, config: TransduceConfig, note: Callable[[str], None]) -> TransduceConfig:
        return config.model_copy(update={"data": choose_tokens(config.data)})

    @classmethod
    def read(
        cls, config: TransduceConfig, path: Path, counter: ReadCounter, *, gold: bool = True
    ) -> Iterator[ParallelText]:
        if gold:
            return read_strings(config.data, path, counter)
        return read_sources(config.data, path, counter)

    @classmethod
    def describe_file(cls, config: TransduceConfig, path: Path) -> str:
        return f"{path} is read as {pair_format(config.data, path)}"

    def to_example(self, item: Any) -> ParallelText:
        if isinstance(item, ParallelText):
            return item
        return ParallelText(check_text(item), "", SourceLocation("input", 0))

    @classmethod
    def split_key(cls, example: ParallelText) -> str:
        return example.source.strip()

    # --- prediction ---------------------------------------------------------------------------------------------------

    def check_options(self, options: TransduceOptions) -> None:
        if options.scores and isinstance(self.config.model, BaselineConfig):
            raise DataError("A baseline has no probabilities. Remove --scores.")
        self._search_model(options)

    def _search_model(self, options: TransduceOptions) -> StringTransducer:
        """The model with the beam size of the options."""
        if options.beam_size is None:
            return self.model
        if not isinstance(self.config.model, SequenceTransducerConfig):
            raise DataError(
                f"model.kind must be seq2seq if --beam-size is set, got {self.config.model.kind}. Remove --beam-size."
            )
        if not isinstance(self.model, SequenceModel):
            raise DataError(
                "--beam-size applies only to networks, and this ensemble has other models. Remove --beam-size, or the "
                "other models."
            )
        return self.model.with_beam(options.beam_size)

    def predict_examples(
        self, examples: Sequence[ParallelText], options: TransduceOptions
    ) -> list[TransductionPrediction]:
        tokenizer = self.tokenizer
        sources = {
            i: symbols
            for i, example in enumerate(examples)
            if example.source.strip() and (symbols := tokenizer.source(example.source))
        }
        found = self._search_model(options).search_all([*sources.values()], options.n_best)
        by_row = dict(zip(sources, found, strict=True))
        return [
            self._prediction(example.source, by_row[i], self._knows(sources[i]), options)
            if by_row.get(i)
            else self._empty(example.source, options)
            for i, example in enumerate(examples)
        ]

    def _prediction(
        self, text: str, listed: Sequence[TransducedString], known: bool, options: TransduceOptions
    ) -> TransductionPrediction:
        ranked = [
            TransductionPrediction(
                text,
                self.tokenizer.join(one.tokens),
                one.log_prob if known else None,
                not one.finished,
                known,
                tuple(map(self._pieces, one.alignment)) if options.alignment else None,
                scores=options.scores,
            )
            for one in listed
        ]
        return first_ranked(ranked, options.n_best > 1)

    def _empty(self, text: str, options: TransduceOptions) -> TransductionPrediction:
        """The prediction for a blank text."""
        return TransductionPrediction(text, alignment=() if options.alignment else None, scores=options.scores)

    def _knows(self, source: Symbols) -> bool:
        alphabet = self._source_alphabet()
        return alphabet is None or any(symbol in alphabet for symbol in source)

    def _source_alphabet(self) -> Alphabet | None:
        return getattr(self.model, "source", None)

    def _pieces(self, link: Link) -> tuple[str, str]:
        return self.tokenizer.join_source(link.source), self.tokenizer.join(link.target)

    def warnings(self, prediction: TransductionPrediction, options: TransduceOptions) -> Sequence[str]:
        """Warnings about truncated targets and unknown texts."""
        is_guess = not prediction.known and bool(prediction.source.strip())
        return [*[GUESSED] * is_guess, *[TRUNCATED] * sum(one.truncated for one in prediction.ranked)]

    # --- evaluation ---------------------------------------------------------------------------------------------------

    def all_metrics(self) -> Mapping[str, Metric]:
        return METRICS

    def evaluate_examples(self, examples: Sequence[ParallelText]) -> TransduceEvaluation:
        return self.evaluate_pairs([self.tokenizer.pair(example) for example in examples])

    def evaluate_pairs(self, pairs: Sequence[tuple[Symbols, Symbols]]) -> TransduceEvaluation:
        """Predict the targets of sources, and compare."""
        sources = list(dict.fromkeys(source for source, _ in pairs))
        found = self.model.search_all(sources)
        predicted = {source: listed[0].tokens if listed else () for source, listed in zip(sources, found, strict=True)}
        alphabet = self._source_alphabet()
        unknown = [0 if alphabet is None else sum(symbol not in alphabet for symbol in source) for source, _ in pairs]
        return TransduceEvaluation(
            [source for source, _ in pairs],
            [target for _, target in pairs],
            [predicted[source] for source, _ in pairs],
            np.array(unknown, np.int64),
        )

    # --- reports ------------------------------------------------------------------------------------------------------

    def describe(self, top: int) -> list[str]:
        return self.model.describe()

    def draw(self, example: ParallelText, options: TransduceOptions) -> Picture:
        """The alignment of the source with the best target."""
        from catena.draw.alignment import draw_links

        best, i, j = self._best(example), 0, 0
        links: list[tuple[int, int]] = []
        for read, written in best.alignment:
            links += [(a, b) for a in range(i, i + len(read)) for b in range(j, j + len(written))]
            i, j = i + len(read), j + len(written)
        return draw_links(self.tokenizer.source(example.source), best.tokens, links)

    def draw_text(self, example: ParallelText, options: TransduceOptions) -> str:
        """The alignment of the source with the best target, as text for a terminal."""
        pieces = [self._pieces(link) for link in self._best(example).alignment]
        rows = [[pair[side] or "_" for pair in pieces] for side in (0, 1)]
        widths = [max(width(a), width(b)) for a, b in zip(*rows, strict=True)]
        lines = ["  ".join(cell + " " * (n - width(cell)) for cell, n in zip(row, widths, strict=True)) for row in rows]
        return "\n".join(line.rstrip() for line in lines)

    def _best(self, example: ParallelText) -> TransducedString:
        found = self.model.search_all([self.tokenizer.source(example.source)])[0]
        if not found or not found[0].tokens:
            raise DataError(
                f"The target of {example.source!r} is empty, so there is nothing to draw. Use another text."
            )
        return found[0]

    # --- ensembles ----------------------------------------------------------------------------------------------------

    def ensemble(self, others: Sequence[BaseTask[Any, Any, Any, Any]]) -> TransduceTask:
        """An ensemble of this model and others, in which each run has the same weight.

        Networks over the same symbols are averaged at every step. Models of other kinds are averaged by the
        probabilities of their targets.
        """
        models: list[tuple[StringTransducer, float]] = [(self.model, 1.0)]
        for number, other in check_ensemble(TransduceTask, others):  # type: ignore[type-abstract]
            if other.tokenizer != self.tokenizer:
                raise DataError(
                    f"Model {number} of the ensemble splits texts into other symbols than the first. Train it with the "
                    f"same data options."
                )
            first, weight = models[0]
            if isinstance(first, SequenceModel) and isinstance(other.model, SequenceModel):
                models[0] = (first.together_with(other.model), weight + 1.0)
            else:
                models.append((other.model, 1.0))
        if len(models) == 1:
            return self.with_model(models[0][0])
        return CountedTransduceTask(self.config, TransducerEnsemble(models))

    def with_model(self, model: StringTransducer) -> TransduceTask:
        """The same task with another model, such as an ensemble."""
        return CountedTransduceTask(self.config, model)

    def search_options(self, options: TransduceOptions) -> TransduceTask:
        return self.with_model(self._search_model(options))


# --- counted models ---------------------------------------------------------------------------------------------------


class CountedTransduceTask(
    TransduceTask, FittedTask[TransduceConfig, ParallelText, TransductionPrediction, TransduceOptions]
):
    """A joint n-gram model or a baseline, fitted without gradient steps; or an ensemble of any transducers."""

    stops_early = True

    def __init__(self, config: TransduceConfig, model: StringTransducer) -> None:
        self.config, self.model = config, model

    @classmethod
    def gather(
        cls, config: TransduceConfig, sources: Sources[ParallelText], origin: Origin
    ) -> tuple[DataParts[ParallelText], list[str]]:
        return gather_pairs(config, sources)

    @classmethod
    def fit(
        cls, config: TransduceConfig, parts: DataParts[ParallelText], origin: Origin, progress: FitReporter
    ) -> Self:
        tokenizer = SymbolTokenizer.from_config(config.data)
        pairs = [tokenizer.pair(example) for example in parts.train]
        if isinstance(config.model, BaselineConfig):
            return cls(config, Baseline.train(pairs, config.model))
        from catena.transduction.joint import JointModel

        return cls(
            config, JointModel.train(pairs, model_section(config, JointConfig), progress.note, progress.is_time_over)
        )

    def n_tokens(self, parts: DataParts[ParallelText]) -> int:
        return sum(len(self.tokenizer.source(example.source)) for example in parts.train)

    @classmethod
    def load(cls, config: TransduceConfig, checkpoint: Checkpoint, device: str) -> Self:
        if isinstance(config.model, BaselineConfig):
            return cls(config, Baseline.load(checkpoint.folder, config.model))
        from catena.transduction.joint import JointModel

        return cls(config, JointModel.load(checkpoint.folder, model_section(config, JointConfig)))

    def save(self, folder: Path) -> None:
        self.model.save(folder)
