"""Span scores depend on the fenceposts or ends of the span, and not on padding."""

from __future__ import annotations

import pytest
import torch

from catena.tasks.parse.constituency.config import SpanParserConfig
from catena.tasks.parse.constituency.span.model import SpanParser, build_span_parser
from catena.tasks.word_inputs.encoding import WordBatch, WordEncoding
from catena.tasks.word_inputs.sentences import Sentence

SENTENCES = [Sentence(("a", "b", "c", "d")), Sentence(("d", "a"))]
SMALL = {
    "encoder": {"kind": "recurrent", "d": 5},
    "d_span": 6,
    "words": {"embedding": {"d": 4}, "characters": {"kind": "none"}},
}


def parser(features: str) -> tuple[SpanParser, WordEncoding]:
    settings = SpanParserConfig.model_validate({**SMALL, "features": features})
    encoding = WordEncoding.count(settings.words, SENTENCES)
    torch.manual_seed(0)
    return build_span_parser(settings, encoding, 3, 2).eval(), encoding


def batch(encoding: WordEncoding, rows: list[int]) -> WordBatch:
    return encoding.encode(SENTENCES).batch(rows, torch.device("cpu"))


def by_hand(model: SpanParser, states: torch.Tensor, i: int, j: int) -> torch.Tensor:
    """The scores of words i to j of one sentence, from the formula."""
    half, n = model.forward_half, len(states)
    if model.last is not None:
        vector = model.first(states[i]) + model.last(states[j])
    else:
        nothing = torch.zeros(half), torch.zeros(states.shape[1] - half)
        left = states[j, :half] - (states[i - 1, :half] if i else nothing[0])
        right = states[i, half:] - (states[j + 1, half:] if j + 1 < n else nothing[1])
        vector = model.first(torch.cat((left, right)))
    return model.labels(torch.relu(model.norm(vector + model.bias)))


@pytest.mark.parametrize("features", ["fenceposts", "ends"])
def test_spans_are_scored_by_the_formula_with_padding_or_without(features: str) -> None:
    model, encoding = parser(features)
    with torch.no_grad():
        both = model(batch(encoding, [0, 1]))
        for row in (0, 1):
            alone = batch(encoding, [row])
            states = model.encoder(alone)[0]
            for i in range(len(SENTENCES[row])):
                for j in range(i, len(SENTENCES[row])):
                    wanted = by_hand(model, states, i, j)
                    torch.testing.assert_close(both.spans[row, i, j], wanted, atol=1e-6, rtol=1e-5)
            torch.testing.assert_close(model(alone).tags[0], both.tags[row, : len(SENTENCES[row])])
