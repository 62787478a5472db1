"""Predictor of a trained model of texts with a goal and an agenda."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import torch

from catena import config as configs
from catena.checkpoint import CONFIG, open_checkpoint
from catena.errors import DataError
from catena.metrics.text import width
from catena.registry import did_you_mean
from catena.search.config import BaseSearchConfig
from catena.seq2seq.base import EncoderDecoder
from catena.seq2seq.checklist import ChecklistModel
from catena.tasks.application import (
    DEFAULT_PREDICT_OPTIONS,
    DEFAULT_READ_OPTIONS,
    EvaluationReport,
    PairedPredictions,
    PredictOptions,
    Predictor,
    ReadOptions,
)
from catena.tasks.compose.config import ComposeConfig, ComposeDataConfig
from catena.tasks.compose.encoding import ComposeEncoding, load_encoding
from catena.tasks.compose.model import build_model, perplexity, total_nll, write
from catena.tasks.compose.naming import split_words
from catena.tasks.compose.reading import Composition, names_columns, of_line, read
from catena.tasks.compose.scoring import WRITTEN, build_metric, build_report
from catena.tasks.searching import best_search, drawn_search, truncation_warning, with_max_length
from catena.tasks.written import NO_SCORE, score_cell, score_value

if TYPE_CHECKING:
    from catena.draw.picture import Picture

BLOCK = 256
_SHADES = " ░▒▓█"


@dataclass(frozen=True)
class CompositionResult:
    """The generated texts of a goal and its items, best first. ``str()`` gives the best one."""

    texts: tuple[str, ...]
    log_probs: tuple[float, ...]
    mentioned: tuple[tuple[bool, ...], ...]
    """For each text, whether it mentions each item."""
    options: PredictOptions = DEFAULT_PREDICT_OPTIONS
    finished: tuple[bool, ...] = ()
    """For each text, whether it has an end symbol; otherwise it was truncated at the maximum length."""

    def __str__(self) -> str:
        return self.texts[0] if self.texts else ""


class ComposePredictor(Predictor):
    """A trained model with its encoding. An input is a :class:`Composition`, whose text is ignored."""

    supported_options: ClassVar[frozenset[str]] = frozenset({"n_best", "samples", "scores", "max_length"})
    formats: ClassVar[tuple[str, ...]] = ("text", "tsv", "jsonl")
    reads_columns: ClassVar[tuple[str, ...]] = ("text_column",)

    def __init__(self, config: ComposeConfig, encoding: ComposeEncoding, model: EncoderDecoder) -> None:
        self.config, self.encoding, self.model = config, encoding, model.eval()

    def find_network(self) -> EncoderDecoder:
        return self.model

    def searching(self, options: PredictOptions) -> ComposePredictor:
        """This predictor with the search of the options."""
        self.check(options)
        config = self.config.model_copy(update={"search": self._search(options)})
        return ComposePredictor(config, self.encoding, self.model)

    # --- generation ---------------------------------------------------------------------------------------------------

    def predict(
        self, items: Sequence[Composition], options: PredictOptions = DEFAULT_PREDICT_OPTIONS
    ) -> list[CompositionResult]:
        """The best or sampled texts of each goal and its items; none if both are empty."""
        self.check(options)
        generator = torch.Generator().manual_seed(options.seed)
        asked = [i for i, item in enumerate(items) if item.goal or item.items]
        written = write(self.model, self.encoding, [items[i] for i in asked], self._search(options), generator)
        found = dict(zip(asked, written, strict=True))
        composed = []
        for i, item in enumerate(items):
            listed = found.get(i, [])
            texts = tuple(self.encoding.text(one.ids) for one in listed)
            mentioned = tuple(tuple(self._mentioned(item, text)) for text in texts)
            log_probs, finished = (tuple(getattr(one, name) for one in listed) for name in ("log_prob", "finished"))
            composed.append(CompositionResult(texts, log_probs, mentioned, options, finished))
        return composed

    def _search(self, options: PredictOptions) -> BaseSearchConfig:
        search: BaseSearchConfig = self.config.search
        if options.max_length is not None:
            search = with_max_length(search, options.max_length)
        if options.samples:
            return drawn_search(search, options.samples)
        return search if options.n_best == 1 else best_search(search, options.n_best)

    def _mentioned(self, item: Composition, text: str) -> list[bool]:
        return self.encoding.naming.mentioned(self.encoding.items(item), split_words(text, self.encoding.tokenizer))

    def predict_stream(
        self, items: Iterable[Composition], options: PredictOptions = DEFAULT_PREDICT_OPTIONS
    ) -> Iterator[CompositionResult]:
        waiting, done = iter(items), 0
        while block := list(islice(waiting, BLOCK)):
            yield from self.predict(block, options.after(done))
            done += len(block)

    def read_inputs(self, path: Path, reading: ReadOptions = DEFAULT_READ_OPTIONS) -> Iterator[Composition]:
        return read(path, self._data(reading), with_text=False)

    def items_of_lines(self, lines: Iterator[str]) -> Iterator[Composition]:
        """The goal and items of each line. A header line is skipped."""
        for number, line in enumerate(lines, start=1):
            if number > 1 or not names_columns(line):
                yield of_line(line, self.config.data, number)

    def _data(self, reading: ReadOptions) -> ComposeDataConfig:
        values = {**self.config.data.model_dump(), "format": reading.format or "auto"}
        for name in ("encoding", "text_column"):
            values[name] = getattr(reading, name) or values[name]
        if values["format"] not in ("auto", "jsonl", "tsv", "csv"):
            raise DataError(
                f"The format must be jsonl, csv or tsv, got {values['format']!r}. Pass one of them, or remove it."
            )
        return ComposeDataConfig.model_validate(values)

    # --- evaluation ---------------------------------------------------------------------------------------------------

    def examples(self, path: Path, reading: ReadOptions = DEFAULT_READ_OPTIONS) -> list[Composition]:
        """The examples of a file with a text."""
        found = [example for example in read(path, self._data(reading)) if example.text]
        if not found:
            raise DataError(f"{path} has no reference texts. Write a goal, items and a text on every line.")
        return found

    def evaluate(self, path: Path, reading: ReadOptions = DEFAULT_READ_OPTIONS) -> EvaluationReport:
        examples = self.examples(path, reading)
        total, tokens = total_nll(self.model, self.encoding, examples)
        texts = [str(composed) for composed in self.predict(examples)]
        return build_report(examples, texts, self.encoding, perplexity(total, tokens), tokens)

    def answers(
        self, path: Path, metric: str | None = None, reading: ReadOptions = DEFAULT_READ_OPTIONS
    ) -> PairedPredictions:
        metric = metric or WRITTEN[0]
        if metric not in WRITTEN:
            raise DataError(f"Unknown metric {metric!r} for comparing models: {did_you_mean(metric, WRITTEN)}")
        examples = self.examples(path, reading)
        measure = build_metric(metric, self.encoding)
        return PairedPredictions(measure, examples, [str(composed) for composed in self.predict(examples)])

    # --- output -------------------------------------------------------------------------------------------------------

    def describe(self, top: int) -> list[str]:
        parameters = sum(p.numel() for p in self.model.parameters())
        naming = self.encoding.naming
        likely = sorted(naming.telling, key=lambda word: (-naming.shares.get(word, 0), word))[:top]
        return [
            f"a model of texts with an agenda, of kind {self.config.model.kind}: {parameters:,} parameters",
            f"{len(self.encoding.vocabulary):,} words; {len(naming.telling):,} name items, such as {' '.join(likely)}",
        ]

    def write(self, prediction: CompositionResult, item: Composition, format: str) -> str:
        parts = prediction.texts, prediction.log_probs, prediction.mentioned, prediction.finished
        rows = list(zip(*parts, strict=True)) or [("", NO_SCORE, (False,) * len(item.items), True)]
        if format == "jsonl":
            listed = [
                {
                    "text": text,
                    "log_prob": score_value(log_prob),
                    "finished": end,
                    "mentioned": [name for name, there in zip(item.items, told, strict=True) if there],
                    "left_out": [name for name, there in zip(item.items, told, strict=True) if not there],
                }
                for text, log_prob, told, end in rows
            ]
            return json.dumps({"goal": item.goal, "items": list(item.items), "texts": listed}, ensure_ascii=False)
        lines = []
        for text, log_prob, _, _ in rows:
            fields = [text] if format == "text" else [item.goal, " | ".join(item.items), text]
            lines.append("\t".join([score_cell(log_prob), *fields] if prediction.options.scores else fields))
        return "\n".join(lines)

    def remarks(self, prediction: CompositionResult) -> list[str]:
        """A warning about truncated texts."""
        own = f"search.max_length = {self.config.search.max_length}"
        words = truncation_warning("text", prediction.options.max_length, own)
        return [words] * sum(not end for end in prediction.finished)

    def looked(self, item: Composition) -> tuple[list[str], list[str], np.ndarray]:
        """The rows (items or source words), the words of the best text, and a value for each pair.

        For a checklist model the value is the checklist weight of the item after the word; for a model with attention
        it is the attention weight of the word.
        """
        found = write(self.model, self.encoding, [item], self.config.search, torch.Generator().manual_seed(0))[0]
        if not found or not found[0].ids:
            raise DataError(f"The text of {item.goal!r} is empty, so there is nothing to draw. Use another goal.")
        ids = [*found[0].ids, self.encoding.end]
        source = self.encoding.sources([item]).to(self.model.device)
        targets = torch.tensor([ids], device=self.model.device)
        words = self.encoding.vocabulary.tokens(ids)
        with torch.no_grad():
            if isinstance(self.model, ChecklistModel):
                shown = [" ".join(words) for words in self.encoding.shown(item)]
                if not shown:
                    raise DataError(f"{item.goal!r} has no items, so there is no checklist to draw. Add items.")
                table = self.model.checked(source, targets).ticked[0, :, : len(shown)].T
                return shown, words, table.cpu().numpy()
            layers = self.model.attention(source, targets, torch.tensor([len(ids)], device=self.model.device))
        if not layers:
            raise DataError("A plain model has no checklist and no attention to draw. Use another model.kind.")
        read = self.encoding.vocabulary.tokens(source.ids[0].tolist())
        return read, words, layers[-1][0].mean(dim=0).T.cpu().numpy()

    def picture(self, item: Composition, options: PredictOptions = DEFAULT_PREDICT_OPTIONS) -> Picture:
        """A heat map of the checklist or attention: items as rows, words of the best text as columns."""
        from catena.draw.heat import draw_heat

        rows, words, table = self.looked(item)
        return draw_heat(table, rows, words, numbers=False, row_title="item", column_title="text", title=item.goal)

    def sketch(self, item: Composition, options: PredictOptions = DEFAULT_PREDICT_OPTIONS) -> str:
        """The heat map as text for a terminal, with a row per item."""
        rows, words, table = self.looked(item)
        most = max(map(width, rows))
        lines = [f"{item.goal}: {self.encoding.tokenizer.join(words[:-1])}"]
        for name, values in zip(rows, table.tolist(), strict=True):
            shades = "".join(_SHADES[min(int(value * len(_SHADES)), len(_SHADES) - 1)] for value in values)
            lines.append(f"{name}{' ' * (most - width(name))} |{shades}|")
        return "\n".join(lines)


def load_predictor(folder: Path, device: torch.device) -> ComposePredictor:
    """Load a trained model from a run folder or checkpoint folder."""
    checkpoint = open_checkpoint(folder)
    config = configs.load(ComposeConfig, checkpoint.folder / CONFIG)
    encoding = load_encoding(checkpoint.folder, config.data.item_words == "telling")  # style: config value
    model = build_model(config, encoding, [1] * len(encoding.vocabulary))
    checkpoint.load_into(model)
    return ComposePredictor(config, encoding, model.to(device))
