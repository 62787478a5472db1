"""Texts scored by a language model, and the metrics of a text, such as perplexity.

Metrics of the log-probabilities of the tokens of a text. Imports no torch.

Every token and every end symbol counts; perplexity is exp of the mean of -log p over all of them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from catena.errors import DataError
from catena.metrics.likelihood import MOST_NATS, NATS_PER_TOKEN, PERPLEXITY, likelihood_metric
from catena.metrics.measure import Metric, signature
from catena.tasks.base import EvaluationResult, PairedPredictions, Prediction
from catena.tasks.lm.config import LmConfig
from catena.tasks.lm.data import TextPart


@dataclass(frozen=True)
class ScoredText(Prediction):
    """A text with the log-probability in nats of each token, including the end symbol.

    ``str()`` gives the total log-probability. ``tokens`` are in readable form; ``known[i]`` says whether token i is in
    the vocabulary.
    """

    text: str
    tokens: tuple[str, ...]
    log_probs: tuple[float, ...]
    known: tuple[bool, ...]

    @property
    def unknown(self) -> int:
        """The number of tokens outside the vocabulary."""
        return len(self.known) - sum(self.known)

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

    def to_dict(self) -> dict[str, Any]:
        return {
            "text": self.text,
            "log_prob": self.log_prob,
            "perplexity": self.perplexity,
            "bits_per_character": self.bits_per_character,
            "tokens": list(self.tokens),
            "log_probs": list(self.log_probs),
            "unknown": self.unknown,
        }

    def to_rows(self) -> list[dict[str, Any]]:
        return [{"log_prob": self.log_prob, "perplexity": self.perplexity, "text": self.text}]


# --- evaluation -------------------------------------------------------------------------------------------------------


_LOG_TWO = math.log(2)
METRICS = {
    "perplexity": PERPLEXITY,
    "nats_per_token": NATS_PER_TOKEN,
    "bits_per_character": likelihood_metric("bits_per_character", _LOG_TWO),
    "bits_per_byte": likelihood_metric("bits_per_byte", _LOG_TWO),
}


@dataclass(frozen=True, eq=False)
class LmEvaluation(EvaluationResult):
    """The log-probability of every token of a text, in order, in nats.

    Args:
        config: the config of the model, for the conditions of the evaluation.
        part: the text as ids.
        log_probs: the log-probability of each token.
        texts: the lines, for a paired test; None in training.
    """

    config: LmConfig
    part: TextPart
    log_probs: np.ndarray
    texts: list[str] | None = None
    counts: str = ""

    def metrics(self) -> Mapping[str, Metric]:
        return METRICS

    def pairs(self, name: str) -> tuple[Sequence[Any], Sequence[Any]]:
        texts = self.texts if self.texts is not None else [""] * len(self.part)
        if name == "bits_per_character":
            sizes = [len(text) + 1 for text in texts]
        elif name == "bits_per_byte":
            sizes = [len(text.encode("utf-8", "surrogatepass")) + 1 for text in texts]
        else:
            sizes = self.part.corpus.lengths.tolist()
        return list(zip(texts, sizes, strict=True)), self.by_line().tolist()

    def scores(self) -> dict[str, float]:
        """The scores, from the sums over the whole text, and the fraction of unknown tokens."""
        total, part = -float(self.log_probs.sum(dtype=np.float64)), self.part
        mean = total / max(part.tokens, 1)
        return {
            "perplexity": math.exp(mean) if mean < MOST_NATS else math.inf,
            "nats_per_token": mean,
            "bits_per_character": total / _LOG_TWO / max(part.characters, 1),
            "bits_per_byte": total / _LOG_TWO / max(part.bytes, 1),
            "unknown_fraction": part.unknown / max(part.tokens, 1),
        }

    def signatures(self) -> dict[str, str]:
        part, conditions = self.part, self._conditions()
        sizes = {"bits_per_character": part.characters, "bits_per_byte": part.bytes}
        return {name: signature(name, sizes.get(name, part.tokens), conditions) for name in self.scores()}

    def _conditions(self) -> dict[str, object]:
        """The conditions of the evaluation."""
        config, part = self.config, self.part
        return {
            "unit": config.data.unit,
            "blank_lines": config.data.blank_lines,
            "ends": "counted",
            "context": "stream" if reads_streams(config) or config.data.unit == "file" else "line",
            "tokens": config.tokenizer.kind,
            "unk": f"{100 * part.unknown / max(part.tokens, 1):.2f}%",
            "oov": part.outside,
        }

    def paired(self, name: str) -> PairedPredictions:
        found = super().paired(name)
        if len(impossible := np.flatnonzero(np.isneginf(self.log_probs))):
            raise DataError(
                f"{len(impossible):,} of {self.part.tokens:,} tokens have probability 0 under this model, so its "
                f"{name} is infinite and cannot be compared. Choose a smoothed estimator."
            )
        conditions = {"tokenizer.kind": self.config.tokenizer.kind}
        return replace(found, conditions=conditions, unknown=self.part.unknown / self.part.tokens)

    def by_line(self) -> np.ndarray:
        """The log-probability of each line."""
        starts = self.part.corpus.offsets - self.part.corpus.offsets[0]
        sums = np.concatenate(([0.0], np.cumsum(self.log_probs, dtype=np.float64)))
        return sums[starts[1:]] - sums[starts[:-1]]

    def lines(self) -> list[str]:
        part, names = self.part, self.signatures()
        lines = [
            f"{part.tokens:,} tokens (with end symbols) in {len(part):,} lines; {part.characters:,} characters, "
            f"{part.bytes:,} bytes; {part.unknown:,} unknown ({part.outside:,} of them not in the vocabulary)",
            *(f"{name} {value:.4f}   {names[name]}" for name, value in self.scores().items()),
        ]
        if part.unknown:
            percent = 100 * part.unknown / part.tokens
            lines.append(
                f"warning: {percent:.2f} % of the tokens are unknown and scored as one symbol. Compare perplexity and "
                f"bits only with models that have the same tokens and vocabulary."
            )
        return lines


def reads_streams(config: LmConfig) -> bool:
    """Whether previous lines are context of a line."""
    return config.is_neural and config.order != "sentences"
