"""Laws of all tree encoders. A test class defines the fixture ``make`` and the attribute ``trees``."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
import torch
from safetensors.torch import load, save
from torch import Tensor

from catena.encoders.tree import TreeEncoder
from catena.encoders.tree_batch import TreeBatchBuilder
from catena.errors import ShapeError

CLOSE = {"rtol": 0.0, "atol": 1e-10}
BINARY = [[2, 2, 4, 4, -1], [-1], [2, 2, 6, 5, 5, 6, -1], [4, 3, 3, 4, -1]]
ANY = [*BINARY, [1, 2, -1], [3, 3, 3, -1], [1, 4, 4, 4, 6, 6, -1]]


def states_of(encoder: TreeEncoder, forest: TreeBatchBuilder, x: Tensor, rows: Sequence[int]) -> Tensor:
    """The vectors of the nodes of some trees, tree after tree, node after node; ``x`` has a row for every node."""
    batch = forest.batch(np.array(rows, np.int64))
    found = encoder(x[torch.from_numpy(batch.inputs)], batch)
    nodes = forest.nodes_of(np.array(rows, np.int64)).tolist()
    place = {node: i for i, node in enumerate(batch.nodes.tolist())}
    return found[[place[node] for node in nodes]]


class TreeLaws:
    """Inherit, define the fixture ``make``, and set ``trees`` to what the encoder takes."""

    trees: list[list[int]] = BINARY

    @pytest.fixture
    def encoder(self, make: Callable[[], TreeEncoder]) -> TreeEncoder:
        return make().double().eval()

    @pytest.fixture
    def forest(self) -> TreeBatchBuilder:
        return TreeBatchBuilder.of(self.trees)

    @pytest.fixture
    def x(self, encoder: TreeEncoder, forest: TreeBatchBuilder) -> Tensor:
        return torch.randn(len(forest.parents), encoder.d_in, dtype=torch.float64)

    def test_output_has_a_vector_for_each_node(self, encoder: TreeEncoder, forest: TreeBatchBuilder, x: Tensor) -> None:
        found = states_of(encoder, forest, x, range(len(forest)))
        assert found.shape == (len(forest.parents), encoder.d_out)
        assert (found != 0).any(dim=1).all()

    def test_batched_equals_single(self, encoder: TreeEncoder, forest: TreeBatchBuilder, x: Tensor) -> None:
        alone = torch.cat([states_of(encoder, forest, x, [i]) for i in range(len(forest))])
        torch.testing.assert_close(states_of(encoder, forest, x, range(len(forest))), alone, **CLOSE)

    def test_order_of_trees_does_not_change_outputs(
        self, encoder: TreeEncoder, forest: TreeBatchBuilder, x: Tensor
    ) -> None:
        order = list(range(len(forest)))[::-1]
        order = [*order[1:], order[0]]
        parts = states_of(encoder, forest, x, order).split(forest.sizes[order].tolist())
        expected = states_of(encoder, forest, x, range(len(forest))).split(forest.sizes.tolist())
        assert len(order) > 0
        for i, row in enumerate(order):
            torch.testing.assert_close(parts[i], expected[row], **CLOSE)

    def test_tree_may_occur_twice_in_a_batch(self, encoder: TreeEncoder, forest: TreeBatchBuilder, x: Tensor) -> None:
        first, second = forest.batch(np.array([3, 0])), forest.batch(np.array([3, 0, 3]))
        roots = [encoder(x[torch.from_numpy(b.inputs)], b)[b.roots] for b in (first, second)]
        torch.testing.assert_close(roots[1], roots[0][[0, 1, 0]], **CLOSE)

    def test_node_depends_only_on_its_subtree(self, encoder: TreeEncoder, forest: TreeBatchBuilder, x: Tensor) -> None:
        before = states_of(encoder, forest, x, range(len(forest)))
        leaf = int(np.flatnonzero(forest.has_input)[0])
        changed = x.clone()
        changed[leaf] += 1.0
        moved = (states_of(encoder, forest, changed, range(len(forest))) != before).any(dim=1)
        above = {leaf}
        while (parent := int(forest.parents[max(above, key=lambda n: forest.heights[n])])) >= 0:
            above.add(parent)
        assert set(torch.nonzero(moved).flatten().tolist()) == above

    def test_tree_encoder_gradients_equal_finite_differences(
        self, encoder: TreeEncoder, forest: TreeBatchBuilder, x: Tensor
    ) -> None:
        batch = forest.batch(np.arange(len(forest)))
        names, weights = zip(*encoder.named_parameters(), strict=True)
        given = x[torch.from_numpy(batch.inputs)].requires_grad_()

        def run(given: Tensor, *weights: Tensor) -> Tensor:
            return torch.func.functional_call(encoder, dict(zip(names, weights, strict=True)), (given, batch))

        assert torch.autograd.gradcheck(run, (given, *weights), atol=1e-6, fast_mode=True)

    @pytest.mark.parametrize("shape", ["left", "right"])
    def test_trees_of_depth_one_and_of_depth_five_hundred(self, encoder: TreeEncoder, shape: str) -> None:
        n = 500  # inner nodes, each over a leaf and the inner node below it
        left = [parent for i in range(n) for parent in (2 * i + 2, 2 * i + 2)]
        right = [2 * n - i for i in range(n)] + [n + 1] + [n + 2 + i for i in range(n - 1)]
        parents = [*(left if shape == "left" else right), -1]
        forest = TreeBatchBuilder.of([parents, [-1]])
        assert forest.heights.max() == n
        x = torch.randn(len(forest.parents), encoder.d_in, dtype=torch.float64)
        batch = forest.batch(np.arange(2))
        given = x[torch.from_numpy(batch.inputs)].requires_grad_()
        roots = encoder(given, batch)[batch.roots]
        roots.square().sum().backward()
        assert roots.isfinite().all()
        assert given.grad is not None
        assert given.grad.isfinite().all()

    def test_saving_and_loading_is_identity(self, make: Callable[[], TreeEncoder], forest: TreeBatchBuilder) -> None:
        torch.manual_seed(1)
        encoder, other = make().eval(), make().eval()
        x = torch.randn(len(forest.parents), encoder.d_in)
        other.load_state_dict(load(save(encoder.state_dict())))
        rows = range(len(forest))
        assert torch.equal(states_of(encoder, forest, x, rows), states_of(other, forest, x, rows))

    def test_half_precision_is_near(self, encoder: TreeEncoder, forest: TreeBatchBuilder, x: Tensor) -> None:
        rows = range(len(forest))
        exact = states_of(encoder, forest, x, rows)
        given = x.float().requires_grad_()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            rough = states_of(encoder.float(), forest, given, rows)
        rough.float().square().sum().backward()
        torch.testing.assert_close(rough.double(), exact, rtol=0.1, atol=0.05)
        assert given.grad is not None
        assert given.grad.isfinite().all()

    def test_empty_batch_gives_no_vectors(self, encoder: TreeEncoder, forest: TreeBatchBuilder) -> None:
        batch = forest.batch(np.zeros(0, np.int64))
        assert encoder(torch.zeros(0, encoder.d_in).double(), batch).shape == (0, encoder.d_out)

    def test_inputs_of_wrong_size_or_number_raise(self, encoder: TreeEncoder, forest: TreeBatchBuilder) -> None:
        batch = forest.batch(np.array([0]))
        with pytest.raises(ShapeError, match=f"must have size .* on axis 'd_in'.*, got {encoder.d_in + 1}"):
            encoder(torch.zeros(len(batch.inputs), encoder.d_in + 1).double(), batch)
        with pytest.raises(ShapeError, match="on axis 'm'"):
            encoder(torch.zeros(len(batch.inputs) + 1, encoder.d_in).double(), batch)
