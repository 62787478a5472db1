from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from catena.errors import ConfigError
from catena.outputs.noise import (
    UNIT,
    DistinctSampler,
    ReplacementSampler,
    WithoutReplacement,
    alias_tables,
    inclusion_units,
    noise_weights,
)
from tests.laws.output_laws import chi_square_bound

COUNTS = [0, 30, 7, 7, 1, 100]
WEIGHTS = st.lists(st.floats(1e-6, 1e3), min_size=1, max_size=30).map(np.array)


def test_noise_weights_equal_their_formula() -> None:
    assert noise_weights("uniform", COUNTS).tolist() == [1] * 6
    assert noise_weights("unigram", COUNTS).tolist() == [1, 30, 7, 7, 1, 100]
    assert noise_weights("unigram", COUNTS, 0.75).tolist() == pytest.approx([max(c, 1) ** 0.75 for c in COUNTS])
    ranks = [4, 1, 2, 3, 5, 0]  # of ties the smaller id comes first; 0 counts as 1
    wanted = [math.log((r + 2) / (r + 1)) for r in ranks]
    assert noise_weights("log_uniform", COUNTS).tolist() == pytest.approx(wanted)
    assert sum(wanted) == pytest.approx(math.log(7))
    assert noise_weights("unigram", COUNTS, forbidden=[5, 1]).tolist() == [1, 0, 7, 7, 1, 0]
    with pytest.raises(ConfigError, match="noise must be 'uniform', 'unigram' or 'log_uniform', got 'zipf'"):
        noise_weights("zipf", COUNTS)


@given(WEIGHTS)
def test_alias_tables_represent_the_distribution(weights: np.ndarray) -> None:
    threshold, alias = alias_tables(weights)
    mass = np.zeros(len(weights))
    for column, (own, other) in enumerate(zip(threshold, alias, strict=True)):
        mass[column] += own / UNIT
        mass[other] += 1 - own / UNIT
    np.testing.assert_allclose(mass / len(weights), weights / weights.sum(), atol=1e-8)


@given(WEIGHTS, st.integers(1, 40))
def test_inclusion_units_are_capped_and_sum_to_k(weights: np.ndarray, k: int) -> None:
    k = min(k, len(weights))
    units = inclusion_units(weights, k)
    assert units.sum() == k * UNIT
    assert units.min() >= 1
    assert units.max() <= UNIT
    free = units < UNIT
    if free.any():
        factor = units[free].sum() / UNIT / weights[free].sum()
        np.testing.assert_allclose(units[free] / UNIT, factor * weights[free], atol=1e-7)
        assert (factor * weights[~free] >= 1 - 1e-6).all()


def test_replacement_sampler_frequencies_match() -> None:
    weights = noise_weights("unigram", COUNTS, forbidden=[2])
    sampler = ReplacementSampler(weights, 20_000)
    seen = torch.bincount(sampler.draw(), minlength=6).double()
    expected = sampler.log_expected.double().exp()
    assert seen[2] == 0
    kept = torch.tensor([0, 1, 3, 4, 5])
    assert ((seen - expected).square() / expected)[kept].sum() < chi_square_bound(5)
    assert expected[kept].tolist() == pytest.approx((20_000 * weights / weights.sum())[kept].tolist(), rel=1e-5)
    assert sampler.draw_rows(3).shape == (3, 20_000)


def test_without_replacement_samples_are_distinct_with_expected_frequencies() -> None:
    weights = noise_weights("unigram", COUNTS, forbidden=[2])
    sampler = WithoutReplacement(weights, 3)
    draws = 4000
    seen: Counter[int] = Counter()
    pairs: Counter[frozenset[int]] = Counter()
    for _ in range(draws):
        ids = sampler.draw().tolist()
        assert len(set(ids)) == 3
        seen.update(ids)
        pairs[frozenset(ids)] += 1
    promised = sampler.log_expected.double().exp()
    assert seen[2] == 0
    assert seen[5] == seen[1] == draws, "the two frequent words are always included"
    for word in (0, 3, 4):
        p = promised[word].item()
        assert abs(seen[word] - draws * p) < 4.5 * math.sqrt(draws * p * (1 - p))


def test_distinct_sampler_samples_are_distinct_with_expected_frequencies() -> None:
    weights = noise_weights("unigram", COUNTS, forbidden=[2])
    sampler = DistinctSampler(weights, 4)
    draws = 4000
    seen: Counter[int] = Counter()
    for _ in range(draws):
        ids = sampler.draw().tolist()
        assert ids == sorted(set(ids))
        seen.update(ids)
    assert seen[2] == 0
    for word, q in enumerate(weights / weights.sum()):
        if q:
            p = 1 - (1 - q) ** 4
            assert sampler.log_expected[word].exp().item() == pytest.approx(p, rel=1e-5)
            assert abs(seen[word] - draws * p) < 4.5 * math.sqrt(draws * p * (1 - p))
    assert DistinctSampler(np.array([0.0, 3.0]), 5).draw().tolist() == [1]


def test_without_replacement_uses_a_new_random_order() -> None:
    sampler = WithoutReplacement(np.ones(5), 2)
    met = Counter(frozenset(sampler.draw().tolist()) for _ in range(2000))
    assert len(met) == 10
    assert min(met.values()) > 120


def test_without_replacement_returns_all_words_if_k_is_large() -> None:
    sampler = WithoutReplacement(np.array([1.0, 0.0, 5.0, 2.0]), 10)
    assert sampler.k == 3
    assert sampler.draw().tolist() == [0, 2, 3]
    assert sampler.log_expected.tolist() == [0.0, 0.0, 0.0, 0.0]


@pytest.mark.parametrize("kind", [ReplacementSampler, WithoutReplacement, DistinctSampler])
def test_sampler_half_precision_keeps_probabilities(
    kind: type[ReplacementSampler] | type[WithoutReplacement] | type[DistinctSampler],
) -> None:
    sampler = kind(noise_weights("log_uniform", COUNTS), 3)
    before = sampler.log_expected.clone()
    assert torch.equal(sampler.bfloat16().log_expected, before)
    assert torch.equal(sampler.double().log_expected, before)
