"""Log-probabilities of the tokens of a text, and the metrics computed from them.

Every token and every end symbol counts; perplexity is exp of the mean of -log p over all of them. If the text is one
stream, the context of a token includes previous lines, as far as the model reaches: a recurrent encoder reads the text
in several parallel streams, each after a warm-up context; a Transformer reads overlapping windows and scores the last
part of each.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from catena.data.batches import BatchPlan
from catena.data.config import BatchConfig
from catena.data.corpus import Corpus
from catena.errors import ConfigError, DataError
from catena.lm.base import AutoregressiveLM
from catena.lm.neural import NeuralLanguageModel
from catena.metrics.likelihood import MOST_NATS, NATS_PER_TOKEN, PERPLEXITY, likelihood_metric
from catena.metrics.measure import Metric, signature
from catena.registry import did_you_mean
from catena.tasks.base import EvaluationResult, PairedPredictions
from catena.tasks.lm.batches import as_stream, sentences
from catena.tasks.lm.config import LmConfig
from catena.tasks.lm.data import TextPart

_CHUNK = 512
"""Number of positions processed in one step if the state is carried, over all streams."""


_LOG_TWO = math.log(2)
_METRICS = {
    "perplexity": PERPLEXITY,
    "nats_per_token": NATS_PER_TOKEN,
    "bits_per_character": likelihood_metric("bits_per_character", _LOG_TWO),
    "bits_per_byte": likelihood_metric("bits_per_byte", _LOG_TWO),
}


def find_metric(name: str) -> Metric:
    """The metric of a score."""
    if name not in _METRICS:
        raise ConfigError(f"Unknown metric {name!r} of a language model: {did_you_mean(name, _METRICS)}")
    return _METRICS[name]


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
        return _METRICS

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


# --- log-probabilities ------------------------------------------------------------------------------------------------


def reads_streams(config: LmConfig) -> bool:
    """Whether previous lines are context of a line."""
    return config.is_neural and config.order != "sentences"


@torch.no_grad()
def text_log_probs(model: AutoregressiveLM[Any], part: TextPart, config: LmConfig, device: torch.device) -> np.ndarray:
    """The log-probability of every token of a part, with the context that the model was trained on."""
    if isinstance(model, NeuralLanguageModel) and reads_streams(config):
        stream = as_stream(part.flat, model.begin, device)
        if config.model.kind == "transformer":
            width = config.batches.length
            found = window_log_probs(model, stream, width, config.evaluation.stride or max(1, width // 2))
        else:
            found = carried_log_probs(model, stream, config.evaluation.streams, config.evaluation.context)
        return found.cpu().numpy()
    return line_log_probs(model, part if config.data.unit != "file" else _as_one(part), device)


def _as_one(part: TextPart) -> TextPart:
    """The part with all lines joined into one."""
    ends = np.array([0, part.tokens], np.int64)
    return TextPart(Corpus(part.flat, ends), part.characters, part.bytes, part.outside)


def carried_log_probs(model: NeuralLanguageModel, stream: Tensor, streams: int, context: int) -> Tensor:
    """log p of every token of a stream except the first, computed in parallel streams.

    Args:
        model: the language model.
        stream: the ids, the begin symbol first.
        streams: number of parallel streams.
        context: number of context tokens before each stream except the first.
    """
    n = len(stream) - 1
    found = torch.empty(n, device=stream.device)
    if n == 0:
        return found
    width = -(-n // min(streams, max(1, n // max(context, 64))))
    starts = torch.arange(0, n, width, device=stream.device)
    state = model.fresh(1)
    if len(starts) > 1:
        others = model.fresh(len(starts) - 1)
        warm = min(context, width)
        if warm:
            places = (starts[1:, None] - warm) + torch.arange(warm, device=stream.device)
            others = model.read(stream[places].long(), state=others).state
        state = model.encoder.join([state, others])
    step = max(1, _CHUNK * 16 // len(starts))
    for low in range(0, width, step):
        places = starts[:, None] + torch.arange(low, min(low + step, width), device=stream.device)
        real = places < n
        places = places.clamp(max=n - 1)
        read = model.read(stream[places].long(), state=state)
        state = read.state
        found[places[real]] = model.output.log_prob(read.hidden[real], stream[places[real] + 1].long()).float()
    return found


def window_log_probs(model: NeuralLanguageModel, stream: Tensor, width: int, stride: int) -> Tensor:
    """log p of every token of a stream except the first, in windows that score their last ``stride`` tokens.

    Args:
        model: the language model.
        stream: the ids, the begin symbol first.
        width: number of tokens of a window.
        stride: number of tokens scored in each window except the first, which scores all of its tokens.
    """
    n = len(stream) - 1
    found = torch.empty(n, device=stream.device)
    width, stride = min(width, n), min(stride, width, max(n, 1))
    if n == 0:
        return found
    starts = torch.arange(0, n - width + 1, stride, device=stream.device)
    if int(starts[-1]) + width < n:
        starts = torch.cat((starts, starts.new_tensor([n - width])))
    # Each window scores only tokens that no earlier window scored. The first window scores all of its tokens.
    scored_from = torch.cat((starts.new_zeros(1), starts[:-1] + width))
    at_once = max(1, _CHUNK * 16 // width)
    for i in range(0, len(starts), at_once):
        places = starts[i : i + at_once, None] + torch.arange(width, device=stream.device)
        hidden = model.read(stream[places].long()).hidden
        wanted = places >= scored_from[i : i + at_once, None]
        found[places[wanted]] = model.output.log_prob(hidden[wanted], stream[places[wanted] + 1].long()).float()
    return found


def line_log_probs(model: AutoregressiveLM, part: TextPart, device: torch.device) -> np.ndarray:
    """log p of every token; the context of a line is only the begin symbol."""
    corpus = part.corpus
    base = int(corpus.offsets[0])
    found = np.zeros(part.tokens, np.float32)
    for rows in _batches(corpus.lengths):
        batch = sentences([corpus[int(row)] for row in rows], model.end, device)
        assert batch.lengths is not None
        log_probs = model.token_log_probs(batch.targets, batch.lengths).float().cpu().numpy()
        for row, line in zip(rows.tolist(), log_probs, strict=True):
            low, high = int(corpus.offsets[row]) - base, int(corpus.offsets[row + 1]) - base
            found[low:high] = line[: high - low]
    return found


def _batches(lengths: np.ndarray) -> Iterator[np.ndarray]:
    return iter(BatchPlan.by_length(lengths, BatchConfig(batch_size=_CHUNK * 16, batch_by="tokens")))
