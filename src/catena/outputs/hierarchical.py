r"""Hierarchical softmax: a binary decision at each node of the path from the root of a tree to the word.

.. math::  p(w \mid h) = \prod_{j \in \text{path to } w} \sigma(\pm (h \cdot n_j + b_j))

with + where the path turns left (Morin & Bengio 2005; Mnih & Hinton 2008). It sums to one by construction. Time
O(depth) for the probability of a word, and for a sample, instead of O(v); O(v) for all of them. The trees are built in
:mod:`catena.outputs.word_trees`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from catena.errors import ShapeError
from catena.kernels.softmax.reference import wide
from catena.numerics import NEG_INF
from catena.outputs.base import OutputLayer, checked_targets
from catena.outputs.scores import check_forbidden, new_weight_rows
from catena.outputs.word_trees import CodePaths, expected_depth, tree_paths
from catena.shapes import match_shape


class TreeSoftmax(OutputLayer):
    """A softmax given by a path of binary decisions to each word. The tree is saved with the weights.

    Args:
        d_in: the size of an input vector.
        v: the number of words.
        children: the tree, in the format of :mod:`catena.outputs.word_trees`; its leaf ``j`` is the word ``words[j]``.
        words: the words at the leaves; all others have probability 0. Leaf j is word j by default.
        bias: whether each decision has a bias.
    """

    normalized = True
    likelihood = True
    children_of: Tensor
    words: Tensor
    starts: Tensor
    nodes: Tensor
    signs: Tensor
    place: Tensor
    level_nodes: Tensor
    level_above: Tensor
    column: Tensor

    def __init__(
        self, d_in: int, v: int, children: np.ndarray, words: np.ndarray | None = None, bias: bool = True
    ) -> None:
        super().__init__()
        words = np.arange(v) if words is None else np.asarray(words, dtype=np.int64)
        if len(children) != len(words) - 1:
            raise ShapeError(
                f"children must have {len(words) - 1} inner nodes for {len(words)} words, got {len(children)}. Build "
                "the tree with catena.outputs.word_trees."
            )
        missing = np.setdiff1d(np.arange(v), words)
        check_forbidden(missing.tolist(), v)
        self.d_in, self.v = d_in, v
        self.weight = nn.Parameter(new_weight_rows(len(children), d_in))
        self.bias = nn.Parameter(torch.zeros(len(children))) if bias else None
        self.register_buffer("children_of", torch.from_numpy(children.astype(np.int64)))
        self.register_buffer("words", torch.from_numpy(words))
        self._prepare()
        self.register_load_state_dict_post_hook(_after_loading)

    def _prepare(self) -> None:
        """Lay out the paths to the words, and the levels of the tree."""
        paths = tree_paths(self.children_of.cpu().numpy())
        self._keep("starts", paths.starts)
        self._keep("nodes", paths.nodes)
        self._keep("signs", np.where(paths.left, 1, -1))
        place = np.full(self.v, -1)
        place[self.words.cpu().numpy()] = np.arange(len(self.words))
        self._keep("place", place)
        self._lay_out_levels(self.children_of.cpu().numpy())

    def _keep(self, name: str, values: np.ndarray) -> None:
        tensor = torch.from_numpy(np.ascontiguousarray(values, dtype=np.int64)).to(self.words.device)
        self.register_buffer(name, tensor, persistent=False)

    def _lay_out_levels(self, children: np.ndarray) -> None:
        """The tree by depth: level 0 is the root, and each level has the children of the inner nodes of the one above.

        ``level_nodes`` are these inner nodes and ``level_above`` their indices in their own level, for all levels
        concatenated; ``column[w]`` is the index of word w in all levels together, and one after the last for words
        without a leaf.
        """
        items = np.zeros(1, dtype=np.int64) if len(children) else np.array([-1])
        leaf_column, before = np.zeros(len(children) + 1, dtype=np.int64), 0
        nodes, above = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
        while True:
            leaf = np.flatnonzero(items < 0)
            leaf_column[-1 - items[leaf]] = before + leaf
            before += len(items)
            inner = np.flatnonzero(items >= 0)
            if not len(inner):
                break
            nodes.append(items[inner])
            above.append(inner)
            items = children[items[inner]].ravel()
        self._sizes = [len(part) for part in nodes[1:]]
        self._keep("level_nodes", np.concatenate(nodes))
        self._keep("level_above", np.concatenate(above))
        place = self.place.cpu().numpy()
        self._keep("column", np.where(place >= 0, leaf_column[place], before))

    def expected_depth(self, counts: Sequence[int]) -> float:
        """The mean number of decisions for a word of the text, if word w occurs ``counts[w]`` times."""
        paths = CodePaths(self.starts.cpu().numpy(), self.nodes.cpu().numpy(), self.signs.cpu().numpy() > 0)
        return expected_depth(paths, np.asarray(counts)[self.words.cpu().numpy()])

    def loss(self, hidden: Float[Tensor, "n d_in"], targets: Int[Tensor, " n"]) -> Float[Tensor, ""]:
        return -self.log_prob(hidden, targets).sum() / max(len(targets), 1)

    def log_prob(self, hidden: Float[Tensor, "n d_in"], targets: Int[Tensor, " n"]) -> Float[Tensor, " n"]:
        place = self.place[checked_targets(self, hidden, targets)]
        rows, steps = self._steps(place.clamp_min(0))
        nodes, signs = self.nodes[steps], self.signs[steps]
        # Gathered in float32 at least: the root is in every row, and its gradient is a long sum.
        weight = functional.embedding(nodes, self.weight.to(wide(self.weight.dtype)))
        scores = (hidden.to(weight.dtype).index_select(0, rows) * weight).sum(1)
        if self.bias is not None:
            scores = scores + functional.embedding(nodes, self.bias[:, None].to(scores.dtype))[:, 0]
        log_probs = functional.logsigmoid(scores * signs)
        zero = (hidden[:, :1] * 0).sum(1).to(scores.dtype)  # keeps the gradient of rows without decisions
        return zero.index_add(0, rows, log_probs).masked_fill(place < 0, NEG_INF)

    def _steps(self, place: Int[Tensor, " n"]) -> tuple[Int[Tensor, " m"], Int[Tensor, " m"]]:
        """All decisions of all rows' paths, concatenated: the row of each, and its index in the tables."""
        first, lengths = self.starts[place], self.starts[place + 1] - self.starts[place]
        rows = torch.arange(len(place), device=place.device).repeat_interleave(lengths)
        before = lengths.cumsum(0) - lengths
        return rows, torch.arange(len(rows), device=place.device) - before[rows] + first[rows]

    def log_probs(self, hidden: Float[Tensor, "n d_in"]) -> Float[Tensor, "n v"]:
        match_shape("hidden", tuple(hidden.shape), "n d_in", d_in=self.d_in)
        scores = functional.linear(hidden, self.weight.to(hidden.dtype)).to(wide(hidden.dtype))
        scores = scores if self.bias is None else scores + self.bias
        log_sides = torch.stack((functional.logsigmoid(scores), functional.logsigmoid(-scores)), dim=2)  # n nodes 2
        level = scores.new_zeros(hidden.shape[0], 1)  # len() would be a constant in an exported graph
        levels = [level]
        for nodes, above in zip(self.level_nodes.split(self._sizes), self.level_above.split(self._sizes), strict=True):
            level = (level[:, above, None] + log_sides[:, nodes]).flatten(1)
            levels.append(level)
        never = scores.new_full((hidden.shape[0], 1), NEG_INF)
        return torch.cat((*levels, never), dim=1)[:, self.column]

    @torch.no_grad()
    def start_at(self, frequencies: np.ndarray) -> None:
        if self.bias is None:
            return
        mass = np.repeat(frequencies[self.words.cpu().numpy()], np.diff(self.starts.cpu().numpy()))
        nodes, left = self.nodes.cpu().numpy(), self.signs.cpu().numpy() > 0
        sides = [np.bincount(nodes[side], mass[side], minlength=len(self.bias)) for side in (left, ~left)]
        self.bias.copy_(torch.from_numpy(np.log(sides[0]) - np.log(sides[1])))

    @torch.no_grad()
    def sample(self, hidden: Float[Tensor, "n d_in"], generator: torch.Generator) -> Int[Tensor, " n"]:
        """Walk down from the root, sampling the side at each node."""
        node = hidden.new_zeros(len(hidden), dtype=torch.long)
        if not len(self.children_of):
            return self.words[node]
        while bool((node >= 0).any()):
            here = node.clamp_min(0)
            scores = (hidden * self.weight[here]).sum(1).to(wide(hidden.dtype))
            scores = scores if self.bias is None else scores + self.bias[here]
            chance = torch.rand(len(hidden), generator=generator, device=generator.device).to(scores.device)
            below = self.children_of[here, (chance >= scores.sigmoid()).long()]
            node = torch.where(node >= 0, below, node)
        return self.words[-1 - node]


def _after_loading(layer: TreeSoftmax, _: Any) -> None:  # no lambda, so that a layer can be pickled
    layer._prepare()
