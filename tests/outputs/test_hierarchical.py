from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from torch import Tensor

from catena.errors import ShapeError
from catena.outputs.hierarchical import TreeSoftmax
from catena.outputs.word_trees import balanced_tree, clustered_tree, huffman_tree
from tests.laws.output_laws import COUNTS, D, N, OutputLaws, V, counts_for, scramble
from tests.oracle.outputs import log_sigmoid, scores, walk


def allowed(v: int, forbidden: Sequence[int]) -> np.ndarray:
    return np.array([w for w in range(v) if w not in forbidden])


class TestHuffman(OutputLaws):
    def make(self, v: int, forbidden: Sequence[int] = ()) -> TreeSoftmax:
        words = allowed(v, forbidden)
        return TreeSoftmax(D, v, huffman_tree([counts_for(v)[w] for w in words]), words)


class TestBalanced(OutputLaws):
    def make(self, v: int, forbidden: Sequence[int] = ()) -> TreeSoftmax:
        words = allowed(v, forbidden)[::-1].copy()
        return TreeSoftmax(D, v, balanced_tree(len(words)), words, bias=False)


class TestClustered(OutputLaws):
    def make(self, v: int, forbidden: Sequence[int] = ()) -> TreeSoftmax:
        words = allowed(v, forbidden)
        vectors = np.random.default_rng(1).normal(size=(v, 3))
        return TreeSoftmax(D, v, clustered_tree(vectors[words]), words)


@pytest.fixture
def hidden() -> Tensor:
    return torch.randn(N, D, dtype=torch.float64)


def test_tree_softmax_is_a_product_of_decisions(hidden: Tensor) -> None:
    words = np.array([4, 0, 2, 1, 5])
    children = huffman_tree([9, 1, 4, 4, 1])
    layer = scramble(TreeSoftmax(D, 6, children, words).double())
    assert layer.bias is not None
    decisions = scores(hidden.tolist(), layer.weight.tolist(), layer.bias.tolist())
    found = layer.log_probs(hidden)
    for leaf, way in walk(children.tolist()).items():
        for i in range(N):
            wanted = sum(log_sigmoid(decisions[i][node] if left else -decisions[i][node]) for node, left in way)
            assert found[i, words[leaf]].item() == pytest.approx(wanted, abs=1e-10)
    assert (found[:, 3] == -math.inf).all()


def test_tree_softmax_of_two_words_is_logistic_regression(hidden: Tensor) -> None:
    layer = scramble(TreeSoftmax(D, 2, balanced_tree(2)).double())
    assert layer.bias is not None
    plain = torch.sigmoid(hidden @ layer.weight[0] + layer.bias[0])
    torch.testing.assert_close(layer.log_probs(hidden)[:, 0].exp(), plain)


def test_tree_softmax_loads_the_tree_with_the_weights(hidden: Tensor) -> None:
    saved = scramble(TreeSoftmax(D, V, huffman_tree(COUNTS)).double())
    other = TreeSoftmax(D, V, balanced_tree(V)).double()
    other.load_state_dict(saved.state_dict())
    assert torch.equal(other.log_probs(hidden), saved.log_probs(hidden))
    targets = torch.randint(V, (N,))
    assert torch.equal(other.log_prob(hidden, targets), saved.log_prob(hidden, targets))
    assert other.expected_depth(COUNTS) == saved.expected_depth(COUNTS)


def test_huffman_tree_has_smaller_expected_depth_than_balanced() -> None:
    huffman, balanced = TreeSoftmax(D, V, huffman_tree(COUNTS)), TreeSoftmax(D, V, balanced_tree(V))
    entropy = -sum(c / sum(COUNTS) * math.log2(c / sum(COUNTS)) for c in COUNTS if c)
    assert entropy <= huffman.expected_depth(COUNTS) < balanced.expected_depth(COUNTS) <= 4


def test_tree_softmax_with_paths_of_many_lengths() -> None:
    """Counts that double turn the tree into a list: depths from 1 to v - 1."""
    v = 12
    layer = scramble(TreeSoftmax(D, v, huffman_tree([2**i for i in range(v)])).double())
    hidden, targets = torch.randn(40, D, dtype=torch.float64), torch.randint(v, (40,))
    found = layer.log_prob(hidden, targets)
    torch.testing.assert_close(found, layer.log_probs(hidden)[torch.arange(40), targets])
    assert layer.expected_depth([1] + [0] * (v - 1)) == v - 1


def test_tree_softmax_tree_of_wrong_size_raises() -> None:
    with pytest.raises(ShapeError, match="children must have 3 inner nodes for 4 words, got 4"):
        TreeSoftmax(D, 4, balanced_tree(5))
