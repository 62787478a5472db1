"""Predictor of a trained language model: scores texts and provides a stepper to continue prompts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch

from catena.checkpoint import Checkpoint
from catena.data.corpus import Corpus
from catena.data.vocabulary import UNK
from catena.errors import CatenaError, DataError
from catena.lm.base import AutoregressiveLM
from catena.lm.neural import NeuralLanguageModel
from catena.lm.neural_masked import MaskedLanguageModel
from catena.metrics.measure import LOG_PROB_TOLERANCE, Metric
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
from catena.tasks.lm.batches import as_stream
from catena.tasks.lm.config import METRICS, LmConfig
from catena.tasks.lm.dataset import TextPart, encode_lines, read_lines
from catena.tasks.lm.encoding import LmEncoding, load_encoding
from catena.tasks.lm.model import build_network
from catena.tasks.lm.ngram import export_ngram, load_ngram
from catena.tasks.lm.scoring import (
    carried_log_probs,
    judge,
    line_log_probs,
    signatures,
    unknown_warning,
    window_log_probs,
)
from catena.tasks.written import valid_json

BLOCK = 1024
"""Number of texts scored together in a stream."""
_LONG = 2048
"""Number of tokens above which a text is scored in pieces."""


@dataclass(frozen=True)
class ScoredText:
    """A text with the log-probability in nats of each token, including the end symbol.

    ``str()`` gives the total log-probability.
    """

    text: str
    tokens: tuple[str, ...]
    log_probs: tuple[float, ...]
    unknown: int

    @property
    def log_prob(self) -> float:
        """The log-probability of the whole text."""
        return math.fsum(self.log_probs)

    @property
    def perplexity(self) -> float:
        """exp of the mean of -log p over the tokens and the end symbol."""
        mean = -self.log_prob / len(self.log_probs)
        return math.exp(mean) if mean < 700 else math.inf

    @property
    def bits_per_character(self) -> float:
        """Bits per character; the end of the text counts as one character."""
        return -self.log_prob / math.log(2) / (len(self.text) + 1)

    @property
    def bits_per_byte(self) -> float:
        """Bits per UTF-8 byte; the end of the text counts as one byte."""
        return -self.log_prob / math.log(2) / (len(self.text.encode("utf-8", "surrogatepass")) + 1)

    def __str__(self) -> str:
        return f"{self.log_prob:.4f}"


@dataclass(frozen=True)
class PrefixState:
    """A stepper and its state after reading prompts, one row per prompt."""

    stepper: AutoregressiveLM[Any]
    state: Any


class LmPredictor(Predictor):
    """A trained language model with its tokenizer and vocabulary."""

    def __init__(self, config: LmConfig, encoding: LmEncoding, model: Any, device: torch.device) -> None:
        self.config, self.encoding = config, encoding
        self.model: Any = model.to(device).eval() if isinstance(model, torch.nn.Module) else model
        # n-gram models, and mixtures with one as first model, are on the CPU.
        self.device = getattr(self.model, "device", None) or device

    @property
    def networks(self) -> list[torch.nn.Module]:
        return [self.model] if isinstance(self.model, torch.nn.Module) else []

    @property
    def stepper(self) -> AutoregressiveLM[Any]:
        """The model as a stepper, for searches.

        Raises:
            CatenaError: if the model is a masked language model.
        """
        if isinstance(self.model, MaskedLanguageModel):
            raise CatenaError(
                "A masked language model has no p(next | prefix), so it cannot score or generate text. Train one with "
                "--objective next."
            )
        return self.model

    # --- prompts ------------------------------------------------------------------------------------------------------

    def continue_(self, prompts: Sequence[str]) -> PrefixState:
        """The stepper and its state after reading prompts; an empty prompt is the start of a text."""
        listed = [self.encoding.ids(prompt) for prompt in prompts]
        lengths = torch.tensor([len(ids) for ids in listed], dtype=torch.long, device=self.device)
        width = max((len(ids) for ids in listed), default=0)
        ids = torch.full((len(listed), width), self.encoding.end, device=self.device)
        for row, own in zip(ids, listed, strict=True):
            row[: len(own)] = torch.tensor(own, dtype=torch.long)
        stepper = self.stepper
        return PrefixState(stepper, stepper.extend(stepper.start(len(listed)), ids, lengths))

    def text(self, ids: Iterable[int]) -> str:
        """The text of ids. An end symbol becomes a line break."""
        return self.encoding.text(ids)

    # --- scoring texts ------------------------------------------------------------------------------------------------

    def predict(self, items: Sequence[str], options: PredictOptions = DEFAULT_PREDICT_OPTIONS) -> list[ScoredText]:
        """The log-probabilities of texts, each scored separately with its end symbol."""
        self.check(options)
        if isinstance(items, str):
            raise DataError(
                f"items must be a list of texts, got the text {items[:60]!r}. Pass a list, as in predict([text])."
            )
        lines = [[*self.encoding.ids(text), self.encoding.end] for text in items]
        offsets = np.concatenate(([0], np.cumsum([len(line) for line in lines]))).astype(np.int64)
        flat = np.array([id for line in lines for id in line], np.int32)
        found = self._log_probs(flat, offsets)
        names = self.encoding.vocabulary
        return [
            ScoredText(
                text,
                (*self.encoding.tokenizer.tokens(text), names.tokens([self.encoding.end])[0]),
                tuple(found[low:high].tolist()),
                int((flat[low:high] == UNK).sum()),
            )
            for text, low, high in zip(items, offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)
        ]

    @torch.no_grad()
    def _log_probs(self, flat: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        longest = int((offsets[1:] - offsets[:-1]).max(initial=0))
        if not isinstance(self.stepper, NeuralLanguageModel) or longest <= (self._longest() or _LONG):
            return line_log_probs(self.stepper, TextPart(Corpus(flat, offsets), 0, 0, 0), self.device)
        return np.concatenate([self._long(flat[low:high]) for low, high in pairwise(offsets.tolist())])

    def _longest(self) -> int | None:
        """The longest text that is scored in one piece; None if there is no limit."""
        return self.config.batches.length if self.config.model.kind == "transformer" else None

    def _long(self, ids: np.ndarray) -> np.ndarray:
        assert isinstance(self.model, NeuralLanguageModel)
        stream = as_stream(ids, self.model.begin, self.device)
        longest = self._longest()
        if longest is None:
            return carried_log_probs(self.model, stream, 1, 0).cpu().numpy()
        return window_log_probs(self.model, stream, longest, max(1, longest // 2)).cpu().numpy()

    def predict_stream(
        self, items: Iterable[str], options: PredictOptions = DEFAULT_PREDICT_OPTIONS
    ) -> Iterator[ScoredText]:
        waiting = iter(items)
        while block := list(islice(waiting, BLOCK)):
            yield from self.predict(block, options)

    def read_inputs(self, path: Path, reading: ReadOptions = DEFAULT_READ_OPTIONS) -> Iterator[str]:
        return read_lines(path, self._data(reading))

    def _data(self, reading: ReadOptions) -> Any:
        given = {key: value for key, value in vars(reading).items() if value is not None}
        if "format" not in given:
            given["format"] = "auto"
        return self.config.data.model_copy(update=given)

    # --- files --------------------------------------------------------------------------------------------------------

    def part(self, path: Path, reading: ReadOptions = DEFAULT_READ_OPTIONS) -> TextPart:
        """A file as ids."""
        part = encode_lines(read_lines(path, self._data(reading)), self.encoding)
        if not part.tokens:
            raise DataError(f"{path} has no text to score. Check the file and data.blank_lines.")
        return part

    def evaluate(self, path: Path, reading: ReadOptions = DEFAULT_READ_OPTIONS) -> EvaluationReport:
        part = self.part(path, reading)
        scores = judge(self.stepper, part, self.config, self.device).scores()
        named = signatures(self.config, part)
        lines = [
            f"{part.tokens:,} tokens (with end symbols) in {len(part):,} lines; {part.characters:,} characters, "
            f"{part.bytes:,} bytes; {part.unknown:,} unknown ({part.outside:,} of them not in the vocabulary)",
            *(f"{name} {value:.4f}   {named[name]}" for name, value in scores.items()),
            *unknown_warning(part),
        ]
        return EvaluationReport(scores, named, tuple(lines))

    def answers(
        self, path: Path, metric: str | None = None, reading: ReadOptions = DEFAULT_READ_OPTIONS
    ) -> PairedPredictions:
        metric = metric or METRICS[0]
        if metric not in METRICS:
            raise DataError(f"Unknown metric {metric!r} of a language model: {did_you_mean(metric, METRICS)}")
        part = self.part(path, reading)
        judged = judge(self.stepper, part, self.config, self.device)
        if len(impossible := np.flatnonzero(np.isneginf(judged.log_probs))):
            raise DataError(
                f"{len(impossible):,} of {part.tokens:,} tokens of {path} have probability 0 under this model, so its "
                f"{metric} is infinite and cannot be compared. Choose a smoothed estimator."
            )
        texts = list(read_lines(path, self._data(reading)))
        sizes = {
            "bits_per_character": [len(text) + 1 for text in texts],
            "bits_per_byte": [len(text.encode("utf-8", "surrogatepass")) + 1 for text in texts],
        }.get(metric, part.corpus.lengths.tolist())
        right = list(zip(texts, sizes, strict=True))
        conditions = {"tokenizer.kind": self.config.tokenizer.kind}
        unknown = part.unknown / part.tokens
        return PairedPredictions(build_metric(metric), right, judged.by_line().tolist(), conditions, unknown)

    def export(self, to: str, folder: Path, quantization: str | None = None) -> None:
        export_ngram(to, self.stepper, folder, quantization)

    # --- output -------------------------------------------------------------------------------------------------------

    def describe(self, top: int) -> list[str]:
        config, vocabulary = self.config, self.encoding.vocabulary
        frequent = sorted(range(len(vocabulary)), key=lambda i: -vocabulary.counts[i])[:top]
        lines = [
            f"a language model of kind {config.model.kind} over {config.tokenizer.kind}: {len(vocabulary):,} symbols",
            f"a text is a {config.data.unit}; blank lines: {config.data.blank_lines}",
            f"most frequent symbols: {' '.join(vocabulary.tokens(frequent))}",
        ]
        if isinstance(self.model, torch.nn.Module):
            lines.insert(1, f"{sum(p.numel() for p in self.model.parameters()):,} parameters")
        return lines

    def write(self, prediction: Any, item: str, format: str) -> str:
        if format == "jsonl":
            row = {
                "text": item,
                "log_prob": round(prediction.log_prob, 6),
                "perplexity": round(prediction.perplexity, 4),
                "bits_per_character": round(prediction.bits_per_character, 6),
                "tokens": list(prediction.tokens),
                "log_probs": [round(x, 6) for x in prediction.log_probs],
                "unknown": prediction.unknown,
            }
            return valid_json(row)
        if format == "tsv":
            return f"{prediction.log_prob:.4f}\t{prediction.perplexity:.4f}\t{' '.join(item.split())}"
        return str(prediction)


def build_metric(metric: str) -> Metric:
    """A metric as a function of sums over lines: nats, and tokens, characters or bytes."""

    def statistics(right: Sequence[tuple[str, int]], given: Sequence[float]) -> np.ndarray:
        return np.array([(-log_prob, size) for (_, size), log_prob in zip(right, given, strict=True)], np.float64)

    def score(sums: np.ndarray) -> np.ndarray:
        mean = np.asarray(sums[..., 0] / sums[..., 1])
        if metric == "perplexity":
            return np.asarray(np.exp(mean))
        return mean if metric == "nats_per_token" else np.asarray(mean / math.log(2))

    return Metric(metric, statistics, score, tolerance=LOG_PROB_TOLERANCE)


def build_predictor(checkpoint: Checkpoint, config: LmConfig, device: torch.device) -> LmPredictor:
    """The predictor of an n-gram model or network in a checkpoint."""
    encoding = load_encoding(checkpoint.folder, config.data.unit)
    if not config.is_neural:
        return LmPredictor(config, encoding, load_ngram(checkpoint.folder), device)
    model = build_network(config, encoding.vocabulary)
    checkpoint.load_into(model)
    return LmPredictor(config, encoding, model, device)
