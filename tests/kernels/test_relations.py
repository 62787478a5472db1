"""The summary of biaffine scores of relations equals that of all scores, computed one by one in double precision."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from catena.kernels.dependency import cpu_relations
from catena.kernels.dependency.ops_relations import PackedRelations


def check(lengths: list[int], d: int, k: int, head_bias: bool, seed: int) -> None:
    draw = np.random.default_rng(seed)
    n = max(lengths) + 1
    heads, dependents = draw.normal(size=(2, len(lengths), n, d))
    weight = draw.normal(size=(k, d + head_bias, d + 1))
    tensors = (torch.from_numpy(x).float() for x in (weight, heads, dependents))
    packed = PackedRelations(next(tensors))
    best, which, total = packed(*tensors, torch.tensor(lengths))
    assert len(best) == len(lengths) > 0
    for b, length in enumerate(lengths):
        for m in range(1, length + 1):
            y = np.append(dependents[b, m], 1.0)
            for h in range(length + 1):
                x = np.append(heads[b, h], [1.0] * head_bias)
                scores = [float(x @ matrix @ y) for matrix in weight]
                assert best[b, h, m].item() == pytest.approx(max(scores), abs=1e-3)
                assert scores[int(which[b, h, m])] == pytest.approx(max(scores), abs=1e-3)
                wanted = max(scores) + math.log(sum(math.exp(score - max(scores)) for score in scores))
                assert total[b, h, m].item() == pytest.approx(wanted, abs=1e-3)


@settings(deadline=None, max_examples=25)
@given(
    st.lists(st.integers(0, 8), min_size=1, max_size=5),
    st.integers(1, 20),
    st.integers(1, 12),
    st.booleans(),
    st.integers(0, 2**31),
)
def test_summary_equals_all_scores(lengths: list[int], d: int, k: int, head_bias: bool, seed: int) -> None:
    check(lengths, d, k, head_bias, seed)


def test_sentences_longer_than_a_panel_and_than_a_block_of_words() -> None:
    assert cpu_relations.PANEL_COLUMNS < 70 > cpu_relations._WORDS_AT_ONCE
    check([31, 70, 32, 2], 3, 2, head_bias=True, seed=0)


@pytest.mark.parametrize("threads", [1, 3])
def test_threads_split_the_sentences(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("catena.kernels.common.threads.WORTH_A_THREAD", 1)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        check([3, 0, 7, 5], 4, 5, head_bias=True, seed=1)
    finally:
        torch.set_num_threads(before)


def test_far_scores_stay_finite_and_weights_that_changed_are_noticed() -> None:
    weight = torch.zeros(2, 2, 2)
    packed = PackedRelations(weight)
    weight[0, 1, 1] = 1e4
    assert not packed.is_current(weight)
    best, which, total = PackedRelations(weight)(torch.zeros(1, 2, 1), torch.zeros(1, 2, 1), torch.tensor([1]))
    assert best[0, 0, 1] == total[0, 0, 1] == 1e4
    assert which[0, 0, 1] == 0
