"""Recursive networks compared to plain recursion, with the laws of tree encoders."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import nn

from catena.encoders.tree import TreeEncoder
from catena.encoders.tree_batch import TreeBatchBuilder
from catena.encoders.tree_recursive import MatrixVectorNetwork, RecursiveNetwork, TensorNetwork
from catena.errors import DataError
from tests.encoders.test_tree_lstm import in_postorder, redrawn
from tests.laws.tree_laws import BINARY, CLOSE, TreeLaws, states_of
from tests.oracle import tree_networks as oracle

D, RANK = 3, 2


def numbers(encoder: TreeEncoder) -> dict[str, np.ndarray]:
    names = {"weight": "W", "bias": "bias", "tensor": "V", "weight_matrices": "WM"}
    found = {names[name]: p.detach().numpy() for name, p in encoder.named_parameters()}
    return found | ({"V": found["V"] / (2 * D)} if "V" in found else {})  # the parameter is 2d V


def leaf(encoder: TreeEncoder, x: np.ndarray) -> object:
    """The oracle's input at a leaf: the vector, and for MV-RNN the matrix diag(m) + U V."""
    if not isinstance(encoder, MatrixVectorNetwork):
        return x
    vector, diagonal, left, right = np.split(x, [D, 2 * D, 2 * D + D * RANK])
    matrix = np.diag(diagonal)
    for i in range(D):
        for j in range(D):
            matrix[i, j] += sum(left[i * RANK + r] * right[r * D + j] for r in range(RANK))
    return vector, matrix


def nested(encoder: TreeEncoder, parents: list[int], node: int, x: np.ndarray) -> oracle.OracleTree:
    below = [nested(encoder, parents, i, x) for i, parent in enumerate(parents) if parent == node]
    return (None if below else leaf(encoder, x[node])), below


@pytest.mark.parametrize(
    ("encoder", "run"),
    [
        (RecursiveNetwork(D, nn.Tanh()), oracle.recursive),
        (TensorNetwork(D, nn.Tanh()), oracle.tensor),
        (MatrixVectorNetwork(D, RANK, nn.Tanh()), oracle.matrix_vector),
    ],
    ids=["recursive", "tensor", "matrix-vector"],
)
def test_recursive_network_equals_plain_recursion(encoder: TreeEncoder, run: Callable[..., list[np.ndarray]]) -> None:
    redrawn(encoder.double())
    forest = TreeBatchBuilder.of(BINARY)
    x = torch.randn(len(forest.parents), encoder.d_in, dtype=torch.float64)
    found = states_of(encoder, forest, x, range(len(BINARY))).detach().split(forest.sizes.tolist())
    for tree, vectors, own in zip(BINARY, found, x.split(forest.sizes.tolist()), strict=True):
        root = tree.index(-1)
        expected = np.empty((len(tree), D))
        expected[in_postorder(tree, root)] = np.stack(run(nested(encoder, tree, root, own.numpy()), numbers(encoder)))
        torch.testing.assert_close(vectors.numpy(), expected, **CLOSE)


def test_mv_rnn_word_matrices_start_near_the_identity() -> None:
    encoder = MatrixVectorNetwork(D, RANK, nn.Tanh())
    first = encoder.first_matrices(5)
    assert first.shape == (5, encoder.d_in - D)
    torch.testing.assert_close(encoder._matrices(first), torch.eye(D).expand(5, D, D), rtol=0.0, atol=0.02)


@pytest.mark.parametrize("trees", [[[3, 3, 3, -1]], [[1, -1]]], ids=["three", "one"])
def test_recursive_network_raises_unless_binary(trees: list[list[int]]) -> None:
    batch = TreeBatchBuilder.of(trees).batch(np.array([0]))
    n = max(trees[0].count(p) for p in trees[0] if p >= 0)
    with pytest.raises(DataError, match=f"have 2 children for RecursiveNetwork, got {n}"):
        RecursiveNetwork(D, nn.Tanh())(torch.zeros(len(batch.inputs), D), batch)


def test_recursive_network_inputs_at_inner_nodes_raise() -> None:
    batch = TreeBatchBuilder.of([[2, 2, -1]], has_input=[[True] * 3]).batch(np.array([0]))
    with pytest.raises(DataError, match="must be at leaves only"):
        TensorNetwork(D, nn.Tanh())(torch.zeros(3, D), batch)


class TestRecursive(TreeLaws):
    @pytest.fixture
    def make(self) -> Callable[[], TreeEncoder]:
        return lambda: RecursiveNetwork(D, nn.Tanh())


class TestTensor(TreeLaws):
    @pytest.fixture
    def make(self) -> Callable[[], TreeEncoder]:
        return lambda: TensorNetwork(D, nn.Tanh())


class TestMatrixVector(TreeLaws):
    @pytest.fixture
    def make(self) -> Callable[[], TreeEncoder]:
        return lambda: MatrixVectorNetwork(D, RANK, nn.Tanh())
