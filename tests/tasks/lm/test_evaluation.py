"""Scores of a text: every token once with full context, for any split into streams or windows."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
import torch

from catena.data.corpus import Corpus
from catena.data.vocabulary import Vocabulary
from catena.encoders.config import RecurrentConfig, TransformerConfig
from catena.lm.base import SPECIALS
from catena.lm.neural import NeuralLanguageModel
from catena.lm.neural_build import build_neural
from catena.lm.neural_config import FeedForwardConfig, FeedForwardLMConfig, LSTMLMConfig, TransformerLMConfig
from catena.tasks.lm.batches import as_stream, carried_log_probs, line_log_probs, window_log_probs
from catena.tasks.lm.config import LmConfig
from catena.tasks.lm.data import TextPart
from catena.tasks.lm.predict import LmEvaluation

CPU = torch.device("cpu")
IDS = torch.randint(4, 12, (157,), generator=torch.Generator().manual_seed(1)).numpy().astype(np.int32)


def lstm() -> NeuralLanguageModel:
    words = Vocabulary(list("abcdefgh"), specials=SPECIALS)
    settings = LSTMLMConfig(embedding={"d": 6, "scale": 1.0}, encoder=RecurrentConfig(d=8, bidirectional=False))
    return build_neural(settings, words, [1] * 12).eval()


def feed_forward() -> NeuralLanguageModel:
    words = Vocabulary(list("abcdefgh"), specials=SPECIALS)
    settings = FeedForwardLMConfig(embedding={"d": 6, "scale": 1.0}, encoder=FeedForwardConfig(d=8, context=4))
    return build_neural(settings, words, [1] * 12).eval()


def transformer() -> NeuralLanguageModel:
    words = Vocabulary(list("abcdefgh"), specials=SPECIALS)
    encoder = TransformerConfig(d=8, n_heads=2, d_ff=8, causal=True, positions="rotary")
    return build_neural(TransformerLMConfig(embedding={"d": 8, "scale": 1.0}, encoder=encoder), words, [1] * 12).eval()


def whole(model: NeuralLanguageModel) -> torch.Tensor:
    return model.token_log_probs(torch.from_numpy(IDS).long()[None], torch.tensor([len(IDS)]))[0]


@torch.no_grad()
def test_carried_log_probs_one_stream_equals_whole_text() -> None:
    model = lstm()
    found = carried_log_probs(model, as_stream(IDS, model.begin, CPU), 1, 0)
    torch.testing.assert_close(found, whole(model), atol=1e-5, rtol=1e-5)


@torch.no_grad()
@pytest.mark.parametrize(("streams", "context"), [(2, 4), (2, 64), (7, 10)])
def test_carried_log_probs_several_streams_equal_one_with_enough_context(streams: int, context: int) -> None:
    model = feed_forward()  # sees four tokens back, so a context of four is all
    found = carried_log_probs(model, as_stream(IDS, model.begin, CPU), streams, context)
    torch.testing.assert_close(found, whole(model), atol=1e-5, rtol=1e-5)


@torch.no_grad()
@pytest.mark.parametrize(("width", "stride"), [(40, 20), (16, 5), (40, 40), (157, 3), (500, 20), (12, 1)])
def test_window_log_probs_have_the_promised_context(width: int, stride: int) -> None:
    model = transformer()
    found = window_log_probs(model, as_stream(IDS, model.begin, CPU), width, stride)
    sequence = [model.begin, *IDS.tolist()]
    least = min(width, 157) - stride
    for i in range(157):
        if i < width:
            low = 0
        else:  # the window that scores it begins at a multiple of the stride, or ends at the end
            start = -(-(i + 1 - width) // stride) * stride
            low = min(start, 157 - width)
        assert i < width or i - low >= min(least, i)
        logits = model.read(torch.tensor([sequence[low : i + 1]])).hidden[:, -1]
        alone = model.output.log_prob(logits, torch.tensor([sequence[i + 1]]))
        assert found[i].item() == pytest.approx(alone.item(), abs=1e-4), i


@torch.no_grad()
def test_line_log_probs_equal_separate_lines() -> None:
    model = lstm()
    offsets = np.array([0, 5, 6, 60, 157])
    found = line_log_probs(model, TextPart(Corpus(IDS, offsets), 0, 0, 0), CPU)
    assert len(found) == len(IDS)
    for low, high in pairwise(offsets.tolist()):
        ids = torch.from_numpy(IDS[low:high]).long()[None]
        alone = model.token_log_probs(ids, torch.tensor([high - low]))[0]
        np.testing.assert_allclose(found[low:high], alone.numpy(), atol=1e-5)


def test_scores_are_means_over_tokens_characters_and_bytes() -> None:
    part = TextPart(Corpus(np.array([5, 1, 3, 3], np.int32), np.array([0, 3, 4])), characters=8, bytes=16, outside=1)
    result = LmEvaluation(LmConfig(), part, np.log([0.5, 0.25, 0.5, 0.5]).astype(np.float32))
    scores = result.scores()
    assert scores["nats_per_token"] == pytest.approx(5 * math.log(2) / 4)
    assert scores["perplexity"] == pytest.approx(2 ** (5 / 4))
    assert scores["bits_per_character"] == pytest.approx(5 / 8)
    assert scores["bits_per_byte"] == pytest.approx(5 / 16)
    assert scores["unknown_fraction"] == 0.25
    np.testing.assert_allclose(result.by_line(), [-4 * math.log(2), -math.log(2)], rtol=1e-6)
