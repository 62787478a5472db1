from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from catena.errors import DataError
from catena.outputs.partitioned import PartitionedSoftmax, plan_partitions
from tests.laws.output_laws import CLOSE, D, N, OutputLaws, V, gradients, scramble
from tests.oracle.outputs import softmax_log_probs


class TestPartitioned(OutputLaws):
    # Words outside of a batch are never pushed down by it: here every word is in the batch.
    def make(self, v: int, forbidden: Sequence[int] = ()) -> PartitionedSoftmax:
        return PartitionedSoftmax(D, v, size=3, forbidden=forbidden)


@pytest.fixture
def hidden() -> Tensor:
    return torch.randn(N, D, dtype=torch.float64, requires_grad=True)


def test_partitioned_softmax_over_all_words_equals_softmax(hidden: Tensor) -> None:
    layer, targets = scramble(PartitionedSoftmax(D, V, size=V).double()), torch.randint(V, (N,))
    for loss in (layer.loss(hidden, targets), loss_using(layer, torch.arange(V), hidden, targets)):
        full = -layer.log_prob(hidden, targets).mean()
        torch.testing.assert_close(loss, full, **CLOSE)
        for ours, wanted in zip(gradients(loss, layer, hidden), gradients(full, layer, hidden), strict=True):
            torch.testing.assert_close(ours, wanted, **CLOSE)


def loss_using(layer: PartitionedSoftmax, ids: Tensor, hidden: Tensor, targets: Tensor) -> Tensor:
    with layer.using(ids):
        return layer.loss(hidden, targets)


def test_partitioned_softmax_normalizes_over_the_partition(hidden: Tensor) -> None:
    layer = scramble(PartitionedSoftmax(D, V, size=2).double())
    ids, targets = torch.tensor([9, 1, 4]), torch.tensor([1, 9, 4, 4, 1, 1, 9])
    assert layer.scores.bias is not None
    weight, bias = layer.scores.weight[ids].tolist(), layer.scores.bias[ids].tolist()
    rows = softmax_log_probs(hidden.tolist(), weight, bias)
    places = {9: 0, 1: 1, 4: 2}
    wanted = -sum(row[places[t]] for row, t in zip(rows, targets.tolist(), strict=True)) / N
    assert loss_using(layer, ids, hidden, targets).item() == pytest.approx(wanted, abs=1e-10)


def test_partitioned_softmax_without_partition_adds_sampled_words() -> None:
    layer = PartitionedSoftmax(D, 50, size=10, forbidden=(7,))
    targets = torch.tensor([3, 3, 20, 49])
    seen = set()
    for _ in range(200):
        candidates = layer._around(targets)
        assert len(candidates) == len(candidates.unique()) == 10
        assert {3, 20, 49} <= set(candidates.tolist())
        assert torch.equal(candidates, candidates.sort().values)
        seen |= set(candidates.tolist())
    assert seen == set(range(50)) - {7}
    assert layer._around(torch.arange(8, 30)).tolist() == list(range(8, 30))
    assert len(PartitionedSoftmax(D, 5, size=10, forbidden=(4,))._around(torch.tensor([0]))) == 4


def test_partitioned_softmax_target_outside_raises_and_leaves_the_partition(hidden: Tensor) -> None:
    layer = PartitionedSoftmax(D, V, size=3).double()
    with pytest.raises(DataError, match="targets must be among the 3 candidates of the partition, got 8"):
        loss_using(layer, torch.tensor([1, 2, 3]), hidden, torch.tensor([1, 2, 3, 8, 1, 1, 1]))
    assert layer.loss(hidden, torch.full((N,), 8)).isfinite()


TEXTS = st.lists(st.lists(st.integers(0, 12), max_size=6), max_size=12)


@given(TEXTS, st.integers(1, 8))
def test_plan_partitions_covers_all_texts_with_maximal_parts(texts: list[list[int]], size: int) -> None:
    parts = plan_partitions(texts, size)
    assert [i for part in parts for i in range(part.first, part.last)] == list(range(len(texts)))
    for i, part in enumerate(parts):
        words = {w for text in texts[part.first : part.last] for w in text}
        assert part.ids.tolist() == sorted(words)
        assert len(words) <= size or part.last == part.first + 1
        if i + 1 < len(parts):
            assert len(words | set(texts[part.last])) > size, "the next text would have fit"


def test_partitioned_training_reaches_all_words() -> None:
    texts = [[0, 1, 2], [2, 3], [4, 5, 6], [6, 6, 7], [8, 9, 10]]
    layer = PartitionedSoftmax(D, V, size=4)
    for part in plan_partitions(texts, 4):
        for text in texts[part.first : part.last]:
            with layer.using(part.ids):
                layer.loss(torch.randn(len(text), D), torch.tensor(text)).backward()
    assert layer.scores.weight.grad is not None
    assert (layer.scores.weight.grad != 0).any(dim=1).all()


def test_partitioned_weights_may_be_tied() -> None:
    tied = nn.Parameter(torch.randn(V, D))
    assert PartitionedSoftmax(D, V, 3, tied=tied).scores.weight is tied
