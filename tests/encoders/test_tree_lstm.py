"""Tree-LSTMs compared to plain recursion and to torch's LSTM on chains, with the laws of tree encoders."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from catena.encoders.tree import TreeEncoder
from catena.encoders.tree_batch import TreeBatchBuilder
from catena.encoders.tree_lstm import ChildSumTreeLSTM, NaryTreeLSTM
from catena.errors import DataError
from tests.laws.tree_laws import ANY, BINARY, CLOSE, TreeLaws, states_of
from tests.oracle import tree_networks as oracle

BLOCKS = "uio"
UP_TO_TWO = [*BINARY, [1, 2, -1]]


def redrawn(encoder: TreeEncoder) -> TreeEncoder:
    """The encoder with random parameters, so that no bias is 0 or equal to another."""
    with torch.no_grad():
        for parameter in encoder.parameters():
            parameter.normal_(std=0.5)
    return encoder


def oracle_weights(encoder: ChildSumTreeLSTM | NaryTreeLSTM, most: int | None) -> dict[str, np.ndarray]:
    d = encoder.d_out
    wx, wh, bias = (p.detach().numpy() for p in (encoder.weight_x, encoder.weight_h, encoder.bias))
    weights = {}
    for b, gate in enumerate("uiof"):
        weights["W" + gate], weights["b" + gate] = wx[b * d : (b + 1) * d], bias[b * d : (b + 1) * d]
    if most is None:
        return weights | {"U" + gate: wh[b * d : (b + 1) * d] for b, gate in enumerate("uiof")}
    names = [*BLOCKS, *(f"f,{k}" for k in range(most))]
    return weights | {
        f"U{name},{place}": wh[b * d : (b + 1) * d, place * d : (place + 1) * d]
        for b, name in enumerate(names)
        for place in range(most)
    }


def as_tuples(parents: list[int], node: int, x: np.ndarray, takes: np.ndarray) -> oracle.OracleTree:
    below = [as_tuples(parents, i, x, takes) for i, parent in enumerate(parents) if parent == node]
    return (x[node] if takes[node] else None), below


def in_postorder(parents: list[int], node: int) -> list[int]:
    return [*(n for i, p in enumerate(parents) if p == node for n in in_postorder(parents, i)), node]


def by_recursion(
    run: Callable[..., list[np.ndarray]], weights: dict[str, np.ndarray], parents: list[int], x: Tensor, takes: Tensor
) -> np.ndarray:
    """The oracle's vector of each node."""
    root = parents.index(-1)
    found = run(as_tuples(parents, root, x.numpy(), np.asarray(takes)), weights)
    rows = np.empty((len(parents), len(found[0])))
    rows[in_postorder(parents, root)] = np.stack(found)
    return rows


@pytest.mark.parametrize("everywhere", [False, True], ids=["leaves", "every node"])
@pytest.mark.parametrize("form", ["summed", "full", "binary", "ternary"])
def test_tree_lstm_equals_plain_recursion(form: str, everywhere: bool) -> None:
    most = {"summed": None, "full": 2, "binary": 2, "ternary": 3}[form]
    trees = [tree for tree in ANY if most is None or max(tree.count(p) for p in set(tree) - {-1} or {-1}) <= most]
    assert len(trees) > len(BINARY)
    if form == "full":
        trees = BINARY
    encoder = redrawn((ChildSumTreeLSTM(3, 4) if most is None else NaryTreeLSTM(3, 4, most)).double())
    flags = [[everywhere or i not in tree for i in range(len(tree))] for tree in trees]
    forest = TreeBatchBuilder.of(trees, has_input=flags)
    x = torch.randn(len(forest.parents), 3, dtype=torch.float64)
    found = states_of(encoder, forest, x, range(len(trees))).detach().split(forest.sizes.tolist())
    weights = oracle_weights(encoder, most)  # type: ignore[arg-type]
    run = oracle.child_sum if most is None else oracle.nary
    for tree, vectors, own, takes in zip(trees, found, x.split(forest.sizes.tolist()), flags, strict=True):
        expected = by_recursion(run, weights, tree, own, torch.tensor(takes))
        torch.testing.assert_close(vectors.numpy(), expected, **CLOSE)


@pytest.mark.parametrize("form", ["summed", "one child", "two children"])
def test_tree_lstm_on_a_chain_equals_torch_lstm(form: str) -> None:
    d_in, d, t = 3, 4, 6
    lstm = torch.nn.LSTM(d_in, d).double()
    most = {"summed": None, "one child": 1, "two children": 2}[form]
    encoder = (ChildSumTreeLSTM(d_in, d) if most is None else NaryTreeLSTM(d_in, d, most)).double()
    order = [2, 0, 3, 1]  # torch's blocks are i, f, g, o; ours u, i, o, f
    with torch.no_grad():
        for own, theirs in ((encoder.weight_x, lstm.weight_ih_l0), (encoder.bias, lstm.bias_ih_l0 + lstm.bias_hh_l0)):
            own.copy_(torch.cat([theirs.chunk(4)[i] for i in order]))
        encoder.weight_h[: 4 * d, :d] = torch.cat([lstm.weight_hh_l0.chunk(4)[i] for i in order])
    chain = [*range(1, t), -1]
    x = torch.randn(t, d_in, dtype=torch.float64)
    found = states_of(encoder, TreeBatchBuilder.of([chain], has_input=[[True] * t]), x, [0])
    torch.testing.assert_close(found, lstm(x[:, None])[0][:, 0], **CLOSE)


def test_only_ordered_children_depend_on_order() -> None:
    forest = TreeBatchBuilder.of([[2, 2, -1]])
    x = torch.randn(3, 3, dtype=torch.float64)
    swapped = x[[1, 0, 2]]
    for encoder, equal in ((ChildSumTreeLSTM(3, 4), True), (NaryTreeLSTM(3, 4), False)):
        roots = [states_of(encoder.double(), forest, given, [0])[2] for given in (x, swapped)]
        assert torch.allclose(*roots) == equal


def test_nary_tree_lstm_with_too_many_children_raises() -> None:
    batch = TreeBatchBuilder.of([[3, 3, 3, -1]]).batch(np.array([0]))
    with pytest.raises(DataError, match="Nodes must have 1 to 2 children for NaryTreeLSTM, got 3"):
        NaryTreeLSTM(3, 4)(torch.zeros(3, 3), batch)


def test_tree_lstm_dropout_keeps_memories_and_is_off_in_evaluation() -> None:
    encoder = ChildSumTreeLSTM(3, 50, dropout=0.5)
    batch = TreeBatchBuilder.of([[2, 2, -1]]).batch(np.array([0]))
    x = torch.randn(2, 3)
    encoder.train()
    dropped = encoder(x, batch)
    assert (dropped[:2] == 0).float().mean() > 0.3, "a leaf has only the candidate"
    assert (dropped[2] == 0).float().mean() < 0.3, "above, a unit is 0 only if it was dropped in all three"
    encoder.eval()
    assert torch.equal(encoder(x, batch), encoder(x, batch))
    assert (encoder(x, batch) != 0).all()


def test_tree_lstm_forget_gate_starts_open() -> None:
    for encoder in (ChildSumTreeLSTM(3, 4, forget_bias=2.0), NaryTreeLSTM(3, 4, forget_bias=2.0)):
        assert encoder.bias.tolist() == [0.0] * 12 + [2.0] * 4


class TestChildSum(TreeLaws):
    trees = ANY

    @pytest.fixture
    def make(self) -> Callable[[], TreeEncoder]:
        return lambda: ChildSumTreeLSTM(3, 4)


class TestNary(TreeLaws):
    trees = UP_TO_TWO

    @pytest.fixture
    def make(self) -> Callable[[], TreeEncoder]:
        return lambda: NaryTreeLSTM(3, 4)


class TestFull(TreeLaws):
    trees = BINARY

    @pytest.fixture
    def make(self) -> Callable[[], TreeEncoder]:
        return lambda: NaryTreeLSTM(3, 4)


class TestOfFour(TreeLaws):
    trees = ANY

    @pytest.fixture
    def make(self) -> Callable[[], TreeEncoder]:
        return lambda: NaryTreeLSTM(3, 4, most=4)
