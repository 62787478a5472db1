"""The edit channel compared to explicit enumeration of edits."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from catena.errors import ConfigError, DataError
from catena.search.channel import EditChannel
from tests.oracle.search import channel_by_hand, strings

SYMBOLS = [1, 2, 4]
texts = st.lists(st.sampled_from(SYMBOLS), max_size=4).map(tuple)
RATES = [
    {"insert": 0.1, "delete": 0.2, "substitute": 0.3, "transpose": 0.15},
    {"insert": 0.0, "delete": 0.0, "substitute": 0.3, "transpose": 0.0},
    {"insert": 0.2, "delete": 0.0, "substitute": 0.0, "transpose": 0.4},
    {"insert": 0.0, "delete": 0.5, "substitute": 0.5, "transpose": 0.0},
    {"insert": 0.0, "delete": 0.0, "substitute": 0.0, "transpose": 0.0},
]


def likelihood(channel: EditChannel, true: tuple[int, ...], observed: tuple[int, ...], padding: int = 0) -> float:
    ids = torch.tensor([[*true, *[4] * padding]], dtype=torch.int64)
    return channel.given(observed).log_prob(ids, torch.tensor([len(true)]))[0].exp().item()


@given(texts, texts, st.sampled_from(RATES), st.sampled_from([{}, {1: [2], 4: [1, 2]}]), st.integers(0, 2))
def test_channel_sums_all_edit_sequences(true: Any, observed: Any, rates: Any, confusions: Any, padding: int) -> None:
    channel = EditChannel(SYMBOLS, 5, **rates, confusions=confusions, near=0.7)
    wanted = channel_by_hand(true, observed, 3, rates, channel.substitution)
    assert likelihood(channel, true, observed, padding) == pytest.approx(wanted, abs=1e-14)


@pytest.mark.parametrize("true", [(), (2, 4), (1, 1)])
@pytest.mark.parametrize("rates", RATES)
def test_channel_sums_to_one_over_observed_texts(true: tuple[int, ...], rates: dict[str, float]) -> None:
    few = {**rates, "insert": rates["insert"] / 20}  # so that long texts have little mass
    channel = EditChannel(SYMBOLS, 5, **few)
    mass = [likelihood(channel, true, tuple(SYMBOLS[i] for i in s)) for s in strings(3, -1, 4)]
    assert math.fsum(mass) == pytest.approx(1.0, abs=1e-3)


def test_substitutions_sum_to_one_and_prefer_confusions() -> None:
    channel = EditChannel([0, 1, 2, 3], 4, confusions={0: [1, 9, 0], 2: [0, 1, 3]}, near=0.8)
    for x in range(4):
        assert math.fsum(channel.substitution(x, other) for other in range(4)) == pytest.approx(1.0)
    assert channel.substitution(0, 1) == pytest.approx(0.8 + 0.2 / 3)
    assert channel.substitution(0, 2) == pytest.approx(0.2 / 3)
    assert channel.substitution(3, 0) == pytest.approx(1 / 3)


def test_channel_batch_equals_single_texts() -> None:
    channel = EditChannel(SYMBOLS, 5, **RATES[0])
    true = [(1, 2), (), (4, 4, 1), (2,)]
    ids = torch.tensor([[*row, *[1] * (3 - len(row))] for row in true])
    found = channel.given((1, 4)).log_prob(ids, torch.tensor([len(row) for row in true]))
    assert found.exp().tolist() == pytest.approx([likelihood(channel, row, (1, 4)) for row in true])
    assert channel.given((1, 4)).log_prob(ids[:0], torch.tensor([], dtype=torch.int64)).shape == (0,)


def test_channel_of_one_symbol_has_no_substitutions() -> None:
    channel = EditChannel([0], 1, insert=0.0, delete=0.1, substitute=0.5, transpose=0.0)
    assert likelihood(channel, (0,), (0,)) == pytest.approx(0.9)


@pytest.mark.parametrize(
    "rates", [{"insert": 1.0}, {"delete": -0.1}, {"delete": 0.6, "substitute": 0.5}, {"near": 1.2}, {"transpose": 2.0}]
)
def test_channel_invalid_rates_raise(rates: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match="rates must be from 0 to 1"):
        EditChannel(SYMBOLS, 5, **rates)


def test_channel_invalid_symbols_raise() -> None:
    for symbols in ([], [5], [-1]):
        with pytest.raises(ConfigError, match="one or more ids from 0 to 4"):
            EditChannel(symbols, 5)
    with pytest.raises(DataError, match="got the ids \\[0, 3\\]"):
        EditChannel(SYMBOLS, 5).given((1, 3, 0))
