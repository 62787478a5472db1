"""Log-probabilities of the tokens of a text under a language model.

If the text is one stream, the context of a token includes previous lines, as far as the model reaches: a recurrent
encoder reads the text in several parallel streams, each after a warm-up context; a Transformer reads overlapping
windows and scores the last part of each. Tested in tests/tasks/lm/test_evaluation.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from catena.data.batches import BatchPlan
from catena.data.config import BatchConfig
from catena.data.corpus import Corpus
from catena.lm.base import AutoregressiveLM
from catena.lm.neural import NeuralLanguageModel
from catena.tasks.lm.batches import as_stream, sentences
from catena.tasks.lm.config import LmConfig
from catena.tasks.lm.data import TextPart
from catena.tasks.lm.evaluation import reads_streams

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
