from __future__ import annotations

import math
import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catena.errors import DataError
from catena.metrics.correlation import pearson, ranks, spearman

LISTS = st.integers(2, 12).flatmap(lambda n: st.tuples(*[st.lists(st.integers(-5, 5), min_size=n, max_size=n)] * 2))


@given(LISTS)
def test_spearman_is_pearson_of_mean_ranks(lists: tuple[list[int], list[int]]) -> None:
    x, y = lists
    mean_ranks = [
        [statistics.mean([sorted(v).index(a) + 1, len(v) - sorted(v)[::-1].index(a)]) for a in v] for v in lists
    ]
    assert [ranks(v).tolist() for v in lists] == mean_ranks
    if len(set(x)) == 1 or len(set(y)) == 1:
        assert math.isnan(spearman(x, y))
        return
    assert spearman(x, y) == pytest.approx(statistics.correlation(*mean_ranks))
    assert pearson(x, y) == pytest.approx(statistics.correlation(x, y))


@pytest.mark.parametrize("value", [0.1, 0.3, 1 / 3, 1e-9, 123.456])
def test_equal_values_have_no_correlation_though_their_mean_is_rounded(value: float) -> None:
    assert math.isnan(pearson([value] * 3, [0.1, 0.2, 0.4]))
    assert math.isnan(pearson([0.1, 0.2, 0.4, 0.7, 0.9, 1.1], [value] * 6))


@pytest.mark.parametrize("size", [1e200, 1e308, 1e-200, 1e-320])
def test_the_size_of_numbers_does_not_matter(size: float) -> None:
    assert pearson([size, -size, size / 2], [1.0, -1.0, 0.5]) == pytest.approx(1.0)


def test_the_signature_says_how_many() -> None:
    assert spearman([1, 2, 3], [1, 4, 9]) == pytest.approx(1.0)
    assert spearman([1.0, 2.0], [2.0, 1.0]).signature == "spearman|n=2"


@pytest.mark.parametrize("y", [[1.0], [1.0, 2.0, 3.0], [1.0, np.nan]])
def test_invalid_input_raises_error(y: list[float]) -> None:
    with pytest.raises(DataError, match=r"must have the same length|must be finite"):
        pearson([1.0, 2.0], y)
