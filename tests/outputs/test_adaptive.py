from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from catena.errors import ConfigError, ShapeError
from catena.outputs.adaptive import MOST_MASS, OVERHEAD, AdaptiveSoftmax, by_frequency, cheapest_cutoffs
from tests.laws.output_laws import CLOSE, COUNTS, D, N, OutputLaws, V, counts_for, scramble


class TestAdaptive(OutputLaws):
    def make(self, v: int, forbidden: Sequence[int] = ()) -> AdaptiveSoftmax:
        return AdaptiveSoftmax(D, counts_for(v), cutoffs=[3, 6], shrink=2.0, forbidden=forbidden)


class TestAdaptiveTied(OutputLaws):
    def make(self, v: int, forbidden: Sequence[int] = ()) -> AdaptiveSoftmax:
        tied = nn.Parameter(torch.randn(v, D))
        return AdaptiveSoftmax(D, counts_for(v), cutoffs=[2], bias=False, tied=tied, forbidden=forbidden)


class TestAdaptiveWithoutClusters(OutputLaws):
    def make(self, v: int, forbidden: Sequence[int] = ()) -> AdaptiveSoftmax:
        return AdaptiveSoftmax(D, counts_for(v), cutoffs=[], forbidden=forbidden)


@pytest.fixture
def hidden() -> Tensor:
    return torch.randn(N, D, dtype=torch.float64)


def test_adaptive_softmax_equals_torch_for_sorted_words(hidden: Tensor) -> None:
    counts = list(range(40, 0, -2))
    theirs = nn.AdaptiveLogSoftmaxWithLoss(D, 20, [5, 11], div_value=2.0, head_bias=True).double()
    ours = scramble(AdaptiveSoftmax(D, counts, [5, 11], shrink=2.0).double())
    with torch.no_grad():
        theirs.head.weight.copy_(ours.head)
        theirs.head.bias.copy_(ours.head_bias)
        for i, (project, words) in enumerate(theirs.tail):
            project.weight.copy_(ours.projections[i].weight)
            words.weight.copy_(ours.tails[i])
            ours.tail_biases[i].zero_()  # torch's clusters have none
    torch.testing.assert_close(ours.log_probs(hidden), theirs.log_prob(hidden), **CLOSE)
    targets = torch.tensor([0, 4, 5, 10, 11, 19, 7])
    output, loss = theirs(hidden, targets)
    torch.testing.assert_close(ours.log_prob(hidden, targets), output, **CLOSE)
    torch.testing.assert_close(ours.loss(hidden, targets), loss, **CLOSE)


def test_adaptive_softmax_accepts_ids_in_any_order(hidden: Tensor) -> None:
    sorted_counts = sorted(COUNTS, reverse=True)
    first = scramble(AdaptiveSoftmax(D, sorted_counts, [3, 6]).double())
    order = np.argsort(-np.array(COUNTS), kind="stable")
    second = AdaptiveSoftmax(D, COUNTS, [3, 6]).double()
    second.load_state_dict({k: v for k, v in first.state_dict().items() if k not in ("order", "rank")}, strict=False)
    torch.testing.assert_close(second.log_probs(hidden)[:, torch.from_numpy(order)], first.log_probs(hidden), **CLOSE)


def test_adaptive_softmax_tied_rows_are_the_embedding() -> None:
    tied = nn.Parameter(torch.randn(V, D, dtype=torch.float64))
    layer = AdaptiveSoftmax(D, COUNTS, [4], tied=tied).double()
    assert layer.tied is tied
    assert layer.head.shape == (1, D)
    hidden = torch.randn(1, D, dtype=torch.float64)
    within = layer.log_probs(hidden)[0]
    ranked = by_frequency(COUNTS)
    plain = (hidden @ tied.T)[0]
    for group in (ranked[:4], ranked[4:]):
        torch.testing.assert_close(within[group] - within[group[0]], plain[group] - plain[group[0]], **CLOSE)
    layer.loss(hidden, torch.tensor([2])).backward()
    assert tied.grad is not None
    with pytest.raises(ShapeError, match="tied must have the shape"):
        AdaptiveSoftmax(D, COUNTS, [4], tied=nn.Parameter(torch.zeros(V, D + 1)))


def test_by_frequency_sorts_by_count_without_forbidden_ids() -> None:
    assert by_frequency([3, 9, 3, 0, 5]).tolist() == [1, 4, 0, 2, 3]
    assert by_frequency([3, 9, 3, 0, 5], forbidden=[4, 0]).tolist() == [1, 2, 3]


def cost(counts: list[int], cutoffs: tuple[int, ...], d: int, shrink: float) -> float:
    """The mean number of multiplications for a token, counted word by word."""
    edges = [*cutoffs, len(counts)]
    total = d * (edges[0] + len(cutoffs)) + OVERHEAD * len(cutoffs)
    for i in range(1, len(edges)):
        size = max(1, int(d / shrink**i))
        share = sum(max(c, 1) for c in counts[edges[i - 1] : edges[i]]) / sum(max(c, 1) for c in counts)
        total += share * size * (edges[i] - edges[i - 1] + (d if size < d else 0))
    return total


@given(st.integers(2, 400), st.floats(0.3, 2.0), st.sampled_from([1.0, 4.0]))
def test_cheapest_cutoffs_cost_no_more_than_others(v: int, zipf: float, shrink: float) -> None:
    counts, d = [int(1e6 / (r + 1) ** zipf) for r in range(v)], 512
    found = cheapest_cutoffs(counts, d, shrink)
    least = cost(counts, found, d, shrink)
    beyond = [sum(counts[c:]) / sum(counts) for c in range(v)]
    tries = [
        (),
        *((a,) for a in (1, 2, 12, 96) if a < v),
        *((a, b) for a, b in ((1, 2), (2, 12), (12, 96), (96, 237), (38, 96)) if b < v),
    ]
    grid = {round(1.2**i) for i in range(60)}
    for other in tries:
        kept = shrink == 1 or all(beyond[c] <= most for c, most in zip(other, MOST_MASS, strict=False))
        if set(other) <= grid and kept:
            assert least <= cost(counts, other, d, shrink) * (1 + 1e-9)


def test_cheapest_cutoffs_only_for_large_vocabularies() -> None:
    counts = [int(1e7 / (r + 1)) for r in range(50_000)]
    found = cheapest_cutoffs(counts, 256)
    assert len(found) in (2, 3)
    for cutoff, most in zip(found, MOST_MASS, strict=False):
        assert sum(counts[cutoff:]) <= most * sum(counts)
    assert cost(counts, found, 256, 4.0) < 256 * 50_000 / 10
    assert cheapest_cutoffs([5, 4, 3], 8) == ()
    assert AdaptiveSoftmax(D, counts[:100]).cutoffs == ()


def test_adaptive_softmax_ignores_large_cutoffs_and_raises_for_invalid_ones() -> None:
    assert AdaptiveSoftmax(D, COUNTS, [4, 11, 5000]).cutoffs == (4,)
    for bad in ([5, 3], [0, 4], [3, 3]):
        with pytest.raises(ConfigError, match="cutoffs must be increasing and above 0"):
            AdaptiveSoftmax(D, COUNTS, bad)


def test_adaptive_softmax_forbidden_target_has_infinite_loss(hidden: Tensor) -> None:
    layer = AdaptiveSoftmax(D, COUNTS, [4], forbidden=(3,)).double()
    assert layer.loss(hidden, torch.full((N,), 3)).item() == math.inf
