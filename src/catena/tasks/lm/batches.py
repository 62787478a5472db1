"""Training batches of a language model, and the log-probabilities of the tokens of a text.

Training batches of a language model: input ids and the same ids shifted by one position.

In every batch ``targets[:, i]`` is the token after ``ids[:, i]``. There are three orders: contiguous, windows and
sentences. Each epoch is a plan whose batches are accessed by index.

Log-probabilities of the tokens of a text under a language model.

If the text is one stream, the context of a token includes previous lines, as far as the model reaches: a recurrent
encoder reads the text in several parallel streams, each after a warm-up context; a Transformer reads overlapping
windows and scores the last part of each. Tested in tests/tasks/lm/test_evaluation.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from catena.data.batches import BatchPlan, pad
from catena.data.config import BatchConfig
from catena.data.corpus import Corpus
from catena.data.vocabulary import PAD
from catena.lm.base import AutoregressiveLM
from catena.lm.neural import NeuralLanguageModel
from catena.tasks.lm.config import LmBatchConfig, LmConfig
from catena.tasks.lm.data import TextPart
from catena.tasks.lm.predict import reads_streams
from catena.training.task import EpochPlan


@dataclass(frozen=True, eq=False)
class LmBatch:
    """Sequences with the next token of each position.

    Args:
        lengths: number of real positions of each row; None if there is no padding.
        first: whether the sequences start here; otherwise they continue the previous batch.
    """

    ids: Int[Tensor, "b t"]
    targets: Int[Tensor, "b t"]
    lengths: Int[Tensor, " b"] | None = None
    first: bool = True
    tokens: int = 0

    @classmethod
    def of(cls, ids: Tensor, targets: Tensor, first: bool = True) -> LmBatch:
        return cls(ids, targets, None, first, targets.numel())


def as_stream(flat: np.ndarray, begin: int, device: torch.device) -> Int[Tensor, " n"]:
    """The text after its begin symbol, on the device; ids are stream[:-1] and targets are stream[1:]."""
    stream = torch.empty(len(flat) + 1, dtype=torch.int32)
    stream[0] = begin
    stream[1:] = torch.from_numpy(np.asarray(flat, np.int32))
    return stream.to(device)


class ContiguousEpoch(EpochPlan):
    """The text in ``batch_size`` equal parts, read in parallel.

    The first axis is the part and the second axis is time: row ``i`` of a batch continues in row ``i`` of the next
    batch. Up to ``batch_size - 1`` tokens at the end of the text are dropped.
    """

    def __init__(self, stream: Int[Tensor, " n"], settings: LmBatchConfig, generator: np.random.Generator) -> None:
        n = len(stream) - 1
        rows = min(settings.batch_size, n)
        width = n // rows
        self.ids = stream[: rows * width].view(rows, width)
        self.targets = stream[1 : rows * width + 1].view(rows, width)
        self.cuts = _cuts(width, settings, generator)

    def __len__(self) -> int:
        return len(self.cuts) - 1

    def batch(self, i: int) -> LmBatch:
        low, high = self.cuts[i], self.cuts[i + 1]
        return LmBatch.of(self.ids[:, low:high].long(), self.targets[:, low:high].long(), first=i == 0)


def _cuts(width: int, settings: LmBatchConfig, generator: np.random.Generator) -> list[int]:
    """Start positions of the steps.

    With ``vary`` step lengths are normally distributed around ``length``, one in twenty around half of it (Merity et
    al. 2018, section 4.1).
    """
    if not settings.vary:
        return [*range(0, width, settings.length), width]
    cuts = [0]
    while cuts[-1] < width:
        around = settings.length if generator.random() < 0.95 else settings.length / 2
        size = round(generator.normal(around, settings.length / 14))
        cuts.append(min(width, cuts[-1] + max(size, min(5, settings.length))))
    return cuts


class WindowEpoch(EpochPlan):
    """Windows of ``length`` tokens that cover the text once, in random order.

    The position of the first window differs between epochs.
    """

    def __init__(self, stream: Int[Tensor, " n"], settings: LmBatchConfig, generator: np.random.Generator) -> None:
        n = len(stream) - 1
        self.stream, self.length = stream, min(settings.length, n)
        begin = int(generator.integers(0, max(1, min(self.length, n - self.length + 1))))
        starts = np.arange(begin, n - self.length + 1, self.length)
        starts = starts[generator.permutation(len(starts))]
        self.starts = torch.from_numpy(starts).to(stream.device)
        self.size = settings.batch_size
        self.steps = torch.arange(self.length + 1, device=stream.device)

    def __len__(self) -> int:
        return -(-len(self.starts) // self.size)

    def batch(self, i: int) -> LmBatch:
        starts = self.starts[i * self.size : (i + 1) * self.size]
        window = self.stream[starts[:, None] + self.steps].long()
        return LmBatch.of(window[:, :-1], window[:, 1:])


class SentenceEpoch(EpochPlan):
    """Single lines, each after the begin symbol, batched by length."""

    def __init__(
        self,
        corpus: Corpus,
        rows: np.ndarray,
        begin: int,
        settings: LmBatchConfig,
        device: torch.device,
        generator: np.random.Generator,
        longest: int | None = None,
    ) -> None:
        self.corpus, self.rows, self.begin, self.device, self.longest = corpus, rows, begin, device, longest
        how = BatchConfig(batch_size=settings.batch_size, bucket=settings.bucket)
        self.plan = BatchPlan.shuffled(corpus.lengths[rows], how, generator)

    def __len__(self) -> int:
        return len(self.plan)

    def batch(self, i: int) -> LmBatch:
        lines = [self.corpus[int(row)][: self.longest] for row in self.rows[self.plan[i]]]
        return sentences(lines, self.begin, self.device)


def sentences(lines: list[np.ndarray], begin: int, device: torch.device) -> LmBatch:
    """Lines with their end symbols, as one padded batch."""
    targets, lengths = pad(lines, PAD)
    ids = torch.cat((torch.full((len(lines), 1), begin), targets[:, :-1]), dim=1)
    return LmBatch(ids.to(device), targets.to(device), lengths.to(device), True, int(lengths.sum()))


# --- log-probabilities of tokens --------------------------------------------------------------------------------------


_CHUNK = 512
"""Number of positions processed in one step if the state is carried, over all streams."""
_LONG = 2048
"""Number of tokens above which a text is scored in pieces."""


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


def line_log_probs(model: AutoregressiveLM[Any], part: TextPart, device: torch.device) -> np.ndarray:
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


@torch.no_grad()
def separate_log_probs(
    model: AutoregressiveLM[Any], corpus: Corpus, longest: int | None, device: torch.device
) -> np.ndarray:
    """log p of every token of texts that are scored separately, long ones in pieces.

    Args:
        model: the language model.
        corpus: the texts with their end symbols.
        longest: the longest text that the model reads in one piece; None if there is no limit.
        device: the device of the model.
    """
    is_long = int(corpus.lengths.max(initial=0)) > (longest or _LONG)
    if not (is_long and isinstance(model, NeuralLanguageModel)):
        return line_log_probs(model, TextPart(corpus, 0, 0, 0), device)
    texts = (corpus.flat[low:high] for low, high in pairwise(corpus.offsets.tolist()))
    return np.concatenate([_long_log_probs(model, ids, longest, device) for ids in texts])


def _long_log_probs(model: NeuralLanguageModel, ids: np.ndarray, longest: int | None, device: torch.device) -> Any:
    stream = as_stream(ids, model.begin, device)
    if longest is None:
        return carried_log_probs(model, stream, 1, 0).cpu().numpy()
    return window_log_probs(model, stream, longest, max(1, longest // 2)).cpu().numpy()
