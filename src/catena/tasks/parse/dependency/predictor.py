"""Prediction with a trained dependency parser. Needs only its own folder."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch

from catena import config as configs
from catena.checkpoint import CONFIG, open_checkpoint
from catena.data.batches import BatchPlan
from catena.data.config import BatchConfig
from catena.data.detect import detect_format
from catena.data.examples import ConlluSentence
from catena.data.readers.brackets import read as read_brackets
from catena.data.readers.brackets import spoken
from catena.data.readers.columns import read as read_columns
from catena.data.readers.conllu import read, read_lines
from catena.data.readers.text import read as read_text
from catena.data.tokenize import Tokenizer, load_tokenizer
from catena.data.vocabulary import Labels
from catena.draw.arcs import draw_arcs
from catena.draw.picture import Picture
from catena.draw.terminal.arcs import arcs_text
from catena.errors import DataError, FormatError
from catena.metrics.attachment import MEASURES, DependencyArc
from catena.registry import did_you_mean
from catena.tasks.application import (
    DEFAULT_PREDICT_OPTIONS,
    DEFAULT_READ_OPTIONS,
    EvaluationReport,
    PairedPredictions,
    PredictOptions,
    ReadOptions,
)
from catena.tasks.kept import TOKENIZER
from catena.tasks.parse.config import ParseConfig
from catena.tasks.parse.dependency.config import METRICS, BiaffineParserConfig
from catena.tasks.parse.dependency.constraint import allowed_arcs
from catena.tasks.parse.dependency.dataset import count_unseen, parser_input, read_sentences, to_attachments
from catena.tasks.parse.dependency.decode import DependencyDecoder
from catena.tasks.parse.dependency.model import BiaffineParser, build_parser
from catena.tasks.parse.dependency.report import report_lines
from catena.tasks.parse.dependency.task import RELATIONS, compute_all_scores, with_tags
from catena.tasks.parse.dependency.trees import check_tree
from catena.tasks.parse.dependency.writing import DependencyPrediction, sentence_of_words, to_conllu, to_json
from catena.tasks.parse.predictor import ParsePredictor
from catena.tasks.unseen import unseen_line
from catena.tasks.words.encoding import WordEncoding

_STANDARD_INPUT = "standard input"


class DependencyPredictor(ParsePredictor):
    """A dependency parser with its encoding and the names of its relations.

    An item is a text, a list of words, or a sentence of a CoNLL-U file, whose tree is ignored.
    """

    formats: ClassVar[tuple[str, ...]] = ("conllu", "text", "jsonl")

    def __init__(
        self,
        config: ParseConfig,
        encoding: WordEncoding,
        names: Labels,
        tokenizer: Tokenizer,
        parser: BiaffineParser,
        device: torch.device,
    ) -> None:
        assert isinstance(config.model, BiaffineParserConfig)
        self.config, self.settings, self.encoding, self.names = config, config.model, encoding, names
        self.tokenizer, self.device = tokenizer, device
        self.parser = parser.to(device).eval()

    def find_network(self) -> BiaffineParser:
        return self.parser

    # --- input --------------------------------------------------------------------------------------------------------

    def sentence(self, item: Any) -> ConlluSentence:
        """An item as a CoNLL-U sentence."""
        if isinstance(item, ConlluSentence):
            return item
        if columns := self.settings.words.columns:
            raise DataError(
                f"this parser reads {', '.join(columns)} of each word, which plain text does not have. Give CoNLL-U "
                f"with these columns filled, for example by a tagger."
            )
        if isinstance(item, str):
            return sentence_of_words(self.tokenizer.tokens(item), item)
        if isinstance(item, Sequence) and all(isinstance(word, str) for word in item):
            return sentence_of_words(item, None)
        raise DataError(
            f"item must be a text, a list of words or a CoNLL-U sentence, got {type(item).__name__}. Pass one of these."
        )

    def read_inputs(self, path: Path, reading: ReadOptions = DEFAULT_READ_OPTIONS) -> Iterator[Any]:
        format = reading.format or detect_format(path, reading.encoding).format
        if format == "conllu":
            yield from read(path, encoding=reading.encoding)
        elif format == "columns":
            yield from (list(example.column(0)) for example in read_columns(path, encoding=reading.encoding))
        elif format == "brackets":
            yield from (spoken(tree) for tree in read_brackets(path, encoding=reading.encoding))
        else:
            yield from (example.text for example in read_text(path, encoding=reading.encoding))

    def items_of_lines(self, lines: Iterator[str]) -> Iterator[Any]:
        """The lines of standard input as texts, or as CoNLL-U if the first line looks like it."""
        first = next(lines, None)
        if first is None:
            return iter(())
        if first.startswith("# ") or first.count("\t") == 9:
            return read_lines(_STANDARD_INPUT, enumerate(chain((first,), lines), start=1))
        if "\t" in first.strip():
            raise FormatError(
                f"the first line of standard input has {first.count(chr(9)) + 1} tab-separated fields, but a parser "
                f"reads one text per line, or CoNLL-U with ten fields. Give words in columns as a file."
            )
        return chain((first,), lines)

    def read_constraints(self, path: Path) -> Iterator[ConlluSentence]:
        return read(path)

    # --- output -------------------------------------------------------------------------------------------------------

    def parse(
        self, items: Sequence[Any], options: PredictOptions, constraints: Sequence[Any] | None = None
    ) -> list[DependencyPrediction]:
        sentences = [self.sentence(item) for item in items]
        encoded = self.encoding.encode(parser_input(s, self.settings.words.columns) for s in sentences)
        batches = BatchConfig(batch_size=self.config.evaluation.words_at_once, batch_by="tokens")
        generator = torch.Generator().manual_seed(options.seed)
        found: dict[int, DependencyPrediction] = {}
        with torch.inference_mode():
            for part in BatchPlan.by_length(encoded.lengths, batches):
                some = [sentences[i] for i in part]
                given = None if constraints is None else [constraints[i] for i in part]
                parsed = self._parse_batch(encoded.batch(part, self.device), some, given, options, generator)
                found.update(zip(part.tolist(), parsed, strict=True))
        return [found[i] for i in range(len(items))]

    def _parse_batch(
        self,
        batch: Any,
        sentences: Sequence[ConlluSentence],
        constraints: Sequence[ConlluSentence] | None,
        options: PredictOptions,
        generator: torch.Generator,
    ) -> list[DependencyPrediction]:
        drawn, scored = options.samples > 0, bool(options.beyond() - {"constraint"})
        if batch.longest == 0:
            return [DependencyPrediction(sentence, (), drawn, scored) for sentence in sentences]
        allowed = None if constraints is None else allowed_arcs(sentences, constraints, self.names)
        decoder = DependencyDecoder(self.settings, self.parser(batch), self.names, allowed)
        found = []
        for i, parses in enumerate(decoder.parses(options, generator)):
            if not parses and constraints is not None:
                raise DataError(
                    f"{constraints[i].place}: this constraint allows no tree "
                    f"({'projective' if self.settings.trees == 'projective' else 'any'} trees"
                    f"{' with one root' if self.settings.single_root else ''}). Remove part of it."
                )
            parses = parses if sentences[i].words else []  # a sentence without words has no tree
            found.append(DependencyPrediction(sentences[i], tuple(parses), drawn, scored))
        return found

    def write(self, prediction: Any, item: Any, format: str) -> str:
        if format == "jsonl":
            return to_json(prediction)
        if format == "conllu":
            return to_conllu(prediction)
        return "\n".join(_sketched(prediction)) + "\n"

    # --- evaluation ---------------------------------------------------------------------------------------------------

    def judge(
        self, path: Path, reading: ReadOptions = DEFAULT_READ_OPTIONS
    ) -> tuple[list[list[DependencyArc]], list[list[DependencyArc]], list[ConlluSentence]]:
        """The gold trees of a file, the predicted ones, and the sentences."""
        data = self.config.data.model_copy(update={"format": reading.format or "auto", "encoding": reading.encoding})
        sentences = list(read_sentences(data, path, to_score=True))
        if not sentences:
            raise DataError(f"{path} has no sentence to score. Check the file.")
        for sentence in sentences:
            check_tree(sentence, single_root=False, whole=True)
        predicted = self.predict(sentences)
        own = [with_tags(s, p.heads, p.relations) for s, p in zip(sentences, predicted, strict=True)]
        return [to_attachments(s) for s in sentences], own, sentences

    def evaluate(self, path: Path, reading: ReadOptions = DEFAULT_READ_OPTIONS) -> EvaluationReport:
        references, predictions, sentences = self.judge(path, reading)
        scores = compute_all_scores(references, predictions)
        signatures = {name: f"{MEASURES[name].name}|n={len(sentences)}" for name in scores}
        unseen = unseen_line(count_unseen(sentences, self.names), "this file", "words have a relation")
        lines = [unseen] if unseen else []
        lines += report_lines(references, predictions, self.config.seed)
        return EvaluationReport(scores, signatures, tuple(lines))

    def answers(
        self, path: Path, metric: str | None = None, reading: ReadOptions = DEFAULT_READ_OPTIONS
    ) -> PairedPredictions:
        name = metric or METRICS[0]
        if name not in MEASURES:
            raise DataError(f"{name!r} is not a metric for comparing parsers: {did_you_mean(name, MEASURES)}")
        references, predictions, _ = self.judge(path, reading)
        return PairedPredictions(MEASURES[name], references, predictions)

    # --- reports ------------------------------------------------------------------------------------------------------

    def picture(self, item: Any, options: PredictOptions = DEFAULT_PREDICT_OPTIONS) -> Picture:
        prediction = self._best_of(item, options)
        words, parse = prediction.words, prediction.best
        return draw_arcs(words, parse.heads, parse.relations, probabilities=parse.confidence)

    def sketch(self, item: Any, options: PredictOptions = DEFAULT_PREDICT_OPTIONS) -> str:
        return "\n".join(_sketched(self._best_of(item, options)))

    def _best_of(self, item: Any, options: PredictOptions) -> DependencyPrediction:
        found: DependencyPrediction = self.predict([item], options)[0]
        if not found.words:
            raise DataError("A text without words has no tree to draw. Give at least one word.")
        return found

    def describe(self, top: int) -> list[str]:
        n = sum(p.numel() for p in self.parser.parameters())
        most = sorted(zip(self.names.counts, self.names.names, strict=True), reverse=True)[:top]
        return [
            f"a biaffine dependency parser: {self.settings.trees} trees, trained by {self.settings.loss}, "
            f"{len(self.encoding.words):,} words, {len(self.names)} relations, {n:,} parameters",
            "relations: " + ", ".join(f"{name} {count:,}" for count, name in most),
        ]


def _sketched(prediction: DependencyPrediction) -> Iterator[str]:
    """Every parse as a drawing for a terminal, with its probability if it has one."""
    for number, parse in enumerate(prediction.parses, start=1):
        if len(prediction.parses) > 1 or parse.log_prob is not None:
            named = f"{'sample' if prediction.drawn else 'parse'} {number}"
            yield named + ("" if parse.log_prob is None else f"   probability {np.exp(parse.log_prob):.4g}")
        if prediction.words:
            labels = parse.relations
            if parse.confidence is not None:
                labels = tuple(f"{name} {p:.2f}" for name, p in zip(labels, parse.confidence, strict=True))
            yield arcs_text(prediction.words, parse.heads, labels).rstrip("\n")


def load_predictor(folder: Path, device: torch.device) -> DependencyPredictor:
    """Load a trained parser from a run folder or a checkpoint folder."""
    checkpoint = open_checkpoint(folder)
    config = configs.load(ParseConfig, checkpoint.folder / CONFIG)
    assert isinstance(config.model, BiaffineParserConfig)
    encoding = WordEncoding.load(config.model.words, checkpoint.folder)
    names = Labels.load(checkpoint.folder / RELATIONS)
    parser = build_parser(config.model, encoding, len(names))
    checkpoint.load_into(parser)
    return DependencyPredictor(config, encoding, names, load_tokenizer(checkpoint.folder / TOKENIZER), parser, device)
