"""Batches: every example once, the same under the same generator, within the limit, with little padding."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from catena.data.batches import BatchPlan, pad
from catena.data.config import BatchConfig

LENGTHS = st.lists(st.integers(0, 30), max_size=60).map(lambda values: np.array(values, np.int64))
SETTINGS = st.builds(
    BatchConfig,
    batch_size=st.integers(1, 40),
    batch_by=st.sampled_from(["examples", "tokens"]),
    bucket=st.sampled_from([0, 1, 3, 50]),
    length_noise=st.sampled_from([0.0, 0.1, 0.5]),
)


def generator(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def padded_size(plan: BatchPlan, lengths: np.ndarray) -> int:
    return sum(len(batch) * int(lengths[batch].max()) for batch in plan)


def skewed_lengths(n: int = 3000) -> np.ndarray:
    return 1 + generator(7).gamma(2.0, 10.0, n).astype(np.int64)


@given(LENGTHS, SETTINGS)
def test_every_example_is_in_exactly_one_batch(lengths: np.ndarray, settings: BatchConfig) -> None:
    for plan in (
        BatchPlan.shuffled(lengths, settings, generator()),
        BatchPlan.by_length(lengths, settings),
    ):
        indices = [int(i) for batch in plan for i in batch]
        assert sorted(indices) == list(range(len(lengths)))
        assert all(len(batch) > 0 for batch in plan)
        assert len(list(plan)) == len(plan)


@given(LENGTHS, SETTINGS)
def test_the_same_generator_gives_the_same_batches(lengths: np.ndarray, settings: BatchConfig) -> None:
    one = BatchPlan.shuffled(lengths, settings, generator(3))
    two = BatchPlan.shuffled(lengths, settings, generator(3))
    assert [batch.tolist() for batch in one] == [two[i].tolist() for i in range(len(two))]


@given(LENGTHS, SETTINGS)
def test_batches_are_as_large_as_they_may_be_and_no_larger(lengths: np.ndarray, settings: BatchConfig) -> None:
    for plan in (
        BatchPlan.shuffled(lengths, settings, generator()),
        BatchPlan.by_length(lengths, settings),
    ):
        sizes = [len(batch) for batch in plan]
        if settings.batch_by == "examples":
            assert sorted(sizes, reverse=True)[:-1] == [settings.batch_size] * (len(sizes) - 1)
            assert max(sizes, default=0) <= settings.batch_size
        else:
            for batch in plan:
                longest = max(1, int(lengths[batch].max()))
                assert len(batch) * longest <= settings.batch_size or len(batch) == 1


def test_batches_by_tokens_are_filled() -> None:
    settings = BatchConfig(batch_size=100, batch_by="tokens")
    plan = BatchPlan.by_length(np.full(40, 10), settings)
    assert [len(batch) for batch in plan] == [10, 10, 10, 10]
    assert [len(b) for b in BatchPlan.by_length(np.array([3, 500, 2]), settings)] == [1, 2]


def test_batches_differ_between_epochs_and_from_the_order_of_the_file() -> None:
    lengths = skewed_lengths()
    for bucket in (0, 5):
        settings = BatchConfig(bucket=bucket)
        first, second = (BatchPlan.shuffled(lengths, settings, generator(seed)) for seed in (1, 2))
        assert {frozenset(b.tolist()) for b in first}.isdisjoint(frozenset(b.tolist()) for b in second)
        assert not np.array_equal(np.concatenate(list(first)), np.arange(len(lengths)))


def test_long_and_short_batches_are_mixed() -> None:
    lengths = skewed_lengths()
    plan = BatchPlan.shuffled(lengths, BatchConfig(bucket=1000, length_noise=0.0), generator())
    means = np.array([lengths[batch].mean() for batch in plan])
    assert not np.all(np.diff(means) >= 0)
    assert abs(np.corrcoef(means, np.arange(len(means)))[0, 1]) < 0.5


@pytest.mark.parametrize("by", ["examples", "tokens"])
def test_bucketing_saves_padding(by: str) -> None:
    lengths = skewed_lengths()
    waste = {}
    for bucket, noise in ((0, 0.1), (20, 0.1), (20, 0.0)):
        settings = BatchConfig.model_validate(
            {
                "batch_size": 50 if by == "examples" else 1500,
                "batch_by": by,
                "bucket": bucket,
                "length_noise": noise,
            }
        )
        plan = BatchPlan.shuffled(lengths, settings, generator())
        waste[bucket, noise] = padded_size(plan, lengths) / lengths.sum() - 1
    assert waste[20, 0.0] < waste[20, 0.1] < 0.35 * waste[0, 0.1]
    assert waste[20, 0.0] < 0.2


def test_lengths_match_where_windows_meet() -> None:
    # Ten windows of 72 examples, turned in turn: only where long ones end in one of five may a batch be mixed.
    lengths = generator(2).permutation(np.repeat([10, 100], 360))
    settings = BatchConfig(batch_size=1000, batch_by="tokens", bucket=4, length_noise=0.0)
    plan = BatchPlan.shuffled(lengths, settings, generator())
    assert sum(len(set(lengths[batch].tolist())) > 1 for batch in plan) <= 5


def test_examples_are_sorted_inside_windows_only() -> None:
    lengths = generator(4).permutation(np.arange(1, 401))
    plan = BatchPlan.shuffled(lengths, BatchConfig(batch_size=10, bucket=2, length_noise=0.0), generator())
    # The windows hold 20 of the 400 lengths: a batch is half of one, and never 10 neighbors of all of them.
    assert min(np.ptp(lengths[batch]) for batch in plan) > 40
    assert max(np.ptp(lengths[batch]) for batch in plan) < 350


def test_the_longest_come_first_in_evaluation() -> None:
    lengths = np.array([3, 9, 1, 9, 4])
    plan = BatchPlan.by_length(lengths, BatchConfig(batch_size=2))
    assert [batch.tolist() for batch in plan] == [[1, 3], [4, 0], [2]]


def test_no_examples_make_no_batches() -> None:
    for settings in (BatchConfig(), BatchConfig(batch_size=10, batch_by="tokens", bucket=0)):
        assert len(BatchPlan.shuffled(np.zeros(0, np.int64), settings, generator())) == 0
        assert len(BatchPlan.by_length(np.zeros(0, np.int64), settings)) == 0


def test_batch_by_tokens_requires_batch_size() -> None:
    with pytest.raises(ValidationError, match="batch_size must be set in tokens if batch_by = 'tokens'"):
        BatchConfig(batch_by="tokens")


# --- padding ----------------------------------------------------------------------------------------------


@given(st.lists(st.lists(st.integers(1, 2**31 - 1), max_size=9), min_size=1, max_size=9), st.integers(0, 5))
def test_padding_puts_each_sequence_in_its_row(sequences: list[list[int]], pad_id: int) -> None:
    for dtype in (np.int32, np.int64):
        ids, lengths = pad([np.array(s, dtype) for s in sequences], pad_id)
        assert lengths.tolist() == [len(s) for s in sequences]
        assert ids.dtype == lengths.dtype == torch.int64
        assert ids.shape == (len(sequences), max(1, max(len(s) for s in sequences)))
        for row, sequence in zip(ids.tolist(), sequences, strict=True):
            assert row == sequence + [pad_id] * (len(row) - len(sequence))


def test_padding_nothing_gives_no_rows() -> None:
    ids, lengths = pad([])
    assert ids.shape == (0, 1)
    assert lengths.shape == (0,)
