"""Search of spans compared to the enumeration of all spans of all windows."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from catena.errors import ConfigError
from catena.tasks.read.encoding import split_windows
from catena.tasks.read.spans import SpanDistribution, best_spans, owned_spans, score_spans
from tests.oracle import reading as oracle

NEG_INF = -math.inf


@st.composite
def logits(draw: st.DrawFn) -> tuple[list[list[float]], list[list[float]], int]:
    """Start and end logits of windows of different lengths."""
    sizes = draw(st.lists(st.integers(1, 6), min_size=1, max_size=3))
    value = st.floats(-5, 5, width=16)
    rows = [[draw(value) for _ in range(size)] for size in sizes]
    others = [[draw(value) for _ in range(size)] for size in sizes]
    return rows, others, draw(st.integers(1, 7))


def padded(rows: list[list[float]]) -> torch.Tensor:
    t = max(map(len, rows))
    return torch.tensor([[*row, *[NEG_INF] * (t - len(row))] for row in rows], dtype=torch.float64)


@given(logits())
def test_best_spans_equal_enumeration(given_logits: tuple[list[list[float]], list[list[float]], int]) -> None:
    starts, ends, longest = given_logits
    first, last, score = best_spans(padded(starts), padded(ends), longest)
    assert len(starts) > 0
    for w, (s, e) in enumerate(zip(starts, ends, strict=True)):
        every = oracle.spans(s, e, longest)
        assert float(score[w]) == pytest.approx(max(every)[0], abs=1e-12)
        assert any(span[1:] == (int(first[w]), int(last[w])) for span in every if span[0] == float(score[w]))


@given(logits(), st.booleans())
def test_distribution_equals_enumeration(
    given_logits: tuple[list[list[float]], list[list[float]], int], with_no_answer: bool
) -> None:
    starts, ends, longest = given_logits
    bias = torch.linspace(-1, 1, len(starts), dtype=torch.float64)
    no_answer = 0.5 if with_no_answer else NEG_INF
    found = SpanDistribution(score_spans(padded(starts), padded(ends), longest), bias, no_answer)
    every = [
        (score + float(bias[w]), w, i, j)
        for w, (s, e) in enumerate(zip(starts, ends, strict=True))
        for score, i, j in oracle.spans(s, e, longest)
    ]
    z = sum(math.exp(score) for score, *_ in every) + math.exp(no_answer)
    assert found.log_partition == pytest.approx(math.log(z), abs=1e-9)
    top = found.top(1000)
    assert sorted(span[:3] for span in top) == sorted(span[1:] for span in every)
    assert [span.score for span in top] == pytest.approx(sorted((s for s, *_ in every), reverse=True), abs=1e-12)
    total = sum(found.probability(span.score) for span in top) + found.no_answer_probability
    assert total == pytest.approx(1, abs=1e-9)
    assert found.no_answer_probability == pytest.approx(math.exp(no_answer) / z, abs=1e-9)
    assert [span.score for span in found.top(2)] == [span.score for span in top[:2]]


def test_owned_spans_of_all_windows_are_the_spans_of_the_text() -> None:
    n, longest = 17, 3
    windows = split_windows(n, 6, 4, longest)
    columns = [torch.tensor([getattr(w, name) for w in windows]) for name in ("low", "high", "first")]
    real = score_spans(
        padded([[0.0] * (w.end - w.first) for w in windows]), padded([[0.0] * 6] * len(windows)), longest
    )
    owned = owned_spans(*columns, 6, longest) & real.isfinite()
    found = [(windows[w].first + i, windows[w].first + i + k) for w, i, k in owned.nonzero().tolist()]
    assert sorted(found) == sorted((i, j) for _, i, j in oracle.spans([0.0] * n, [0.0] * n, longest))


def test_no_spans_give_no_answer() -> None:
    assert SpanDistribution(torch.full((1, 2, 1), NEG_INF)).top(3) == []
    assert SpanDistribution(torch.full((1, 2, 1), NEG_INF), no_answer=3.0).no_answer_probability == 1
    assert SpanDistribution(torch.zeros(0, 0, 1)).probability(NEG_INF) == 0


def test_answers_of_length_zero_raise() -> None:
    with pytest.raises(ConfigError, match="max_answer must be at least 1, got 0"):
        score_spans(torch.zeros(1, 1), torch.zeros(1, 1), 0)
