"""Batches: shifted targets, every token once, and reproducible access by index."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from catena.data.corpus import Corpus
from catena.tasks.lm.batches import ContiguousEpoch, SentenceEpoch, WindowEpoch, as_stream, sentences
from catena.tasks.lm.config import LmBatchConfig

CPU = torch.device("cpu")


def stream(n: int) -> torch.Tensor:
    return as_stream(np.arange(10, 10 + n, dtype=np.int32), 3, CPU)


def generator(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_as_stream_starts_with_the_begin_symbol() -> None:
    assert stream(4).tolist() == [3, 10, 11, 12, 13]


@pytest.mark.parametrize("vary", [False, True])
def test_contiguous_rows_continue_in_the_next_batch(vary: bool) -> None:
    plan = ContiguousEpoch(stream(107), LmBatchConfig(batch_size=4, length=7, vary=vary), generator())
    batches = [plan.batch(i) for i in range(len(plan))]
    assert [batch.first for batch in batches] == [True] + [False] * (len(batches) - 1)
    ids = torch.cat([batch.ids for batch in batches], dim=1)
    targets = torch.cat([batch.targets for batch in batches], dim=1)
    whole = stream(107)
    assert ids.shape == (4, 107 // 4)
    assert ids.flatten().tolist() == whole[: 4 * 26].tolist()
    assert targets.flatten().tolist() == whole[1 : 4 * 26 + 1].tolist()
    assert torch.equal(ids[:, 1:], targets[:, :-1]), "the target of a position is the input of the next"
    if not vary:
        assert {batch.ids.shape[1] for batch in batches[:-1]} == {7}
    else:
        assert len({batch.ids.shape[1] for batch in batches}) > 1


def test_windows_cover_the_text_once_with_new_offset_per_epoch() -> None:
    settings = LmBatchConfig(batch_size=3, length=10)
    begins = set()
    for seed in range(8):
        plan = WindowEpoch(stream(103), settings, generator(seed))
        batches = [plan.batch(i) for i in range(len(plan))]
        rows = sorted(row.tolist() for batch in batches for row in batch.targets)
        for batch in batches:
            assert torch.equal(batch.ids[:, 1:], batch.targets[:, :-1])
        flat = [id for row in rows for id in row]
        assert flat == list(range(flat[0], flat[0] + len(flat)))
        assert len(flat) >= 103 - 2 * 10
        begins.add(flat[0])
    assert len(begins) > 3


@pytest.mark.parametrize("n", [1, 2, 5])
def test_text_shorter_than_a_step_is_one_batch(n: int) -> None:
    for kind in (ContiguousEpoch, WindowEpoch):
        plan = kind(stream(n), LmBatchConfig(batch_size=1, length=10), generator())
        assert len(plan) == 1
        batch = plan.batch(0)
        assert sorted(batch.targets.flatten().tolist()) == list(range(10, 10 + n))


def test_sentences_start_with_begin_and_end_with_end_symbol() -> None:
    batch = sentences([np.array([5, 6, 3]), np.array([3])], 2, CPU)
    assert batch.ids.tolist() == [[2, 5, 6], [2, 3, 0]]
    assert batch.targets.tolist() == [[5, 6, 3], [3, 0, 0]]
    assert batch.lengths is not None
    assert (batch.lengths.tolist(), batch.tokens) == ([3, 1], 4)


def test_sentence_epoch_reads_each_line_once_and_truncates_long_lines() -> None:
    corpus = Corpus(np.array([5, 3, 6, 6, 6, 6, 3, 7, 7, 3], np.int32), np.array([0, 2, 7, 10]))
    plan = SentenceEpoch(corpus, np.array([0, 1, 2]), 2, LmBatchConfig(batch_size=2), CPU, generator(), longest=4)
    found = []
    for i in range(len(plan)):
        batch = plan.batch(i)
        assert batch.lengths is not None
        found += [row[:n].tolist() for row, n in zip(batch.targets, batch.lengths.tolist(), strict=True)]
    assert sorted(found) == [[5, 3], [6, 6, 6, 6], [7, 7, 3]]
