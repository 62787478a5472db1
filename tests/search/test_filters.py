"""Filters compared to implementations over plain lists."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from catena.errors import ConfigError
from catena.search.filters import USUAL, apply, min_p, temperature, top_k, top_p, typical
from tests.oracle import search as oracle

CASES = [
    (temperature, oracle.temperature, [0.5, 1.0, 3.0]),
    (top_k, oracle.top_k, [1, 2, 5, 99]),
    (top_p, oracle.top_p, [1e-9, 0.3, 0.72, 1.0]),
    (typical, oracle.typical, [1e-9, 0.3, 0.72, 1.0]),
    (min_p, oracle.min_p, [1e-9, 0.2, 0.6, 1.0]),
]


@st.composite
def distributions(draw: st.DrawFn) -> list[float]:
    n = draw(st.integers(1, 7))
    weights = draw(
        st.lists(st.sampled_from([0.0, 0.13, 0.31, 0.77, 1.0, 2.7, 4.1, 7.9]), min_size=n, max_size=n, unique=True)
    )
    weights = weights if sum(weights) else [*weights[:-1], 1.0]
    return [weight / math.fsum(weights) for weight in weights]


@pytest.mark.parametrize(("found", "wanted", "values"), CASES, ids=lambda x: getattr(x, "__name__", ""))
@given(p=distributions())
def test_filters_agree_with_plain_lists(found: Callable, wanted: Callable, values: list[float], p: list[float]) -> None:
    log_probs = torch.tensor([p, [1.0] + [0.0] * (len(p) - 1)], dtype=torch.float64).log()
    for value in values:
        kept = found(log_probs, value)
        assert kept.exp()[0].tolist() == pytest.approx(wanted(p, value), abs=1e-12)
        assert (kept[0].exp() == 0).tolist() == [x == 0 for x in wanted(p, value)]  # exactly impossible
        assert kept[1].exp().tolist() == [1.0] + [0.0] * (len(p) - 1)


@pytest.mark.parametrize(("found", "value"), [(f, values[1]) for f, _, values in CASES])
def test_filters_keep_a_row_without_possible_ids(found: Callable, value: float) -> None:
    log_probs = torch.tensor([[-math.inf] * 3, [math.log(0.7), math.log(0.3), -math.inf]], dtype=torch.float64)
    kept = found(log_probs, value)
    assert kept[0].tolist() == [-math.inf] * 3
    assert torch.equal(kept[1], found(log_probs[1:], value)[0])
    assert found(log_probs[:0], value).shape == (0, 3)


@pytest.mark.parametrize("found", [top_p, typical])
def test_filters_sort_all_ids_if_the_first_ones_have_too_little_mass(found: Callable) -> None:
    flat = torch.zeros(2, 3 * USUAL, dtype=torch.float64)
    flat[:, 0] = 0.5
    kept = found(flat.log_softmax(dim=1), 0.9)
    assert (kept > -math.inf).sum(dim=1).tolist() == pytest.approx([0.9 * 3 * USUAL] * 2, rel=1e-3)


def test_top_k_of_ties_keeps_exactly_k() -> None:
    assert (top_k(torch.full((1, 5), 0.2).log(), 2) > -math.inf).sum() == 2


def test_apply_uses_filters_in_order() -> None:
    log_probs = torch.tensor([[0.5, 0.3, 0.2]]).log()
    cold_first = apply([lambda x: temperature(x, 0.25), lambda x: top_p(x, 0.7)], log_probs)
    cold_last = apply([lambda x: top_p(x, 0.7), lambda x: temperature(x, 0.25)], log_probs)
    assert (cold_first > -math.inf).sum() == 1
    assert (cold_last > -math.inf).sum() == 2


@pytest.mark.parametrize(
    ("found", "value", "words"),
    [
        (temperature, 0.0, "temperature must be above 0, got 0.0"),
        (top_k, 0, "top_k must be at least 1"),
        (top_p, 1.5, "top_p must be above 0 and at most 1"),
        (typical, 0.0, "typical must be above 0"),
        (min_p, -0.1, "min_p must be above 0"),
    ],
)
def test_filters_invalid_values_raise(found: Callable, value: float, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        found(torch.zeros(1, 1), value)
