from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from catena.errors import ConfigError, ShapeError
from catena.outputs.classes import ClassSoftmax, frequency_classes
from tests.laws.output_laws import COUNTS, D, N, OutputLaws, V, counts_for, scramble
from tests.oracle.outputs import log_sum, scores


class TestClassSoftmax(OutputLaws):
    def make(self, v: int, forbidden: Sequence[int] = ()) -> ClassSoftmax:
        return ClassSoftmax(D, frequency_classes(counts_for(v)), forbidden=forbidden)


class TestClassSoftmaxTied(OutputLaws):
    """Given classes, one of them with only forbidden words."""

    def make(self, v: int, forbidden: Sequence[int] = ()) -> ClassSoftmax:
        classes = [2 if w in (0, 4) else w % 2 for w in range(v)]
        return ClassSoftmax(D, classes, bias=False, tied=nn.Parameter(torch.randn(v, D)), forbidden=forbidden)


@pytest.fixture
def hidden() -> Tensor:
    return torch.randn(N, D, dtype=torch.float64)


def test_class_softmax_is_the_product_of_class_and_word_probability(hidden: Tensor) -> None:
    classes = [1, 0, 1, 2, 0, 1]
    layer = scramble(ClassSoftmax(D, classes).double())
    assert layer.bias is not None
    assert layer.class_bias is not None
    assert layer.weight is not None
    of_class = scores(hidden.tolist(), layer.class_weight.tolist(), layer.class_bias.tolist())
    of_word = scores(hidden.tolist(), layer.weight.tolist(), layer.bias.tolist())
    words = layer.words.tolist()
    assert words == [1, 4, 0, 2, 5, 3]
    found = layer.log_probs(hidden)
    for i in range(N):
        for place, word in enumerate(words):
            mates = [of_word[i][j] for j, other in enumerate(words) if classes[other] == classes[word]]
            wanted = of_class[i][classes[word]] - log_sum(of_class[i]) + of_word[i][place] - log_sum(mates)
            assert found[i, word].item() == pytest.approx(wanted, abs=1e-10)


def test_class_softmax_loads_classes_with_the_weights(hidden: Tensor) -> None:
    saved = scramble(ClassSoftmax(D, [0, 1, 0, 1, 1]).double())
    other = ClassSoftmax(D, [0, 0, 0, 0, 1]).double()
    other.load_state_dict(saved.state_dict())
    assert torch.equal(other.log_probs(hidden), saved.log_probs(hidden))
    targets = torch.randint(5, (N,))
    assert torch.equal(other.log_prob(hidden, targets), saved.log_prob(hidden, targets))


def test_class_softmax_class_of_one_word_needs_one_decision() -> None:
    layer = ClassSoftmax(D, [0, 1, 1])
    assert layer.expected_depth([6, 1, 1]) == pytest.approx(6 / 8 * 1 + 2 / 8 * 2)


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=80), st.data())
def test_frequency_classes_are_ordered_without_gaps(counts: list[int], data: st.DataObject) -> None:
    n = data.draw(st.integers(1, len(counts)) | st.none())
    classes = frequency_classes(counts, n)
    assert sorted(set(classes.tolist())) == list(range(classes.max() + 1))
    assert classes.max() < (n or max(1, round(len(counts) ** 0.5)))
    ranked = classes[np.argsort(-np.array(counts), kind="stable")]
    assert (np.diff(ranked) >= 0).all()


def test_frequency_classes_of_zipfian_counts_are_balanced() -> None:
    counts = [int(1e6 / (r + 1)) for r in range(10_000)]
    classes = frequency_classes(counts)
    weight = np.bincount(classes, weights=np.sqrt(counts))
    assert len(weight) == 100
    assert weight.max() < 2.5 * weight.mean()


def test_class_softmax_invalid_arguments_raise() -> None:
    with pytest.raises(ShapeError, match="n_classes must be at most 11, the number of words, got 12"):
        frequency_classes(COUNTS, 12)
    with pytest.raises(ConfigError, match="classes must be integers from 0, got -1"):
        ClassSoftmax(D, [0, -1])
    assert len(COUNTS) == V
