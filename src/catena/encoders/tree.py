"""The interface of tree encoders: a batch of trees with vectors at some nodes in, a vector for every node out.

A subclass defines one step: the vectors of the nodes of a level from those of their children. The loop over levels is
the same for all (:func:`encode_bottom_up`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from catena.encoders.tree_batch import TreeBatch, TreeLevel
from catena.errors import DataError
from catena.shapes import match_shape

_Step = Callable[[TreeLevel, Tensor | None, Tensor | None], tuple[Tensor, Tensor]]
"""From a level, the inputs of its nodes (None if it has none) and the states of their children (None for leaves) to the
vectors of the nodes and the states for their parents. Children have one row each, from left to right, node by node."""


class TreeEncoder(nn.Module, ABC):
    """Abstract map of trees with inputs of size ``d_in`` at some nodes to a vector of size ``d_out`` at every node.

    An inner node must have at least ``fewest`` children and at most ``most``; None is any number. With
    ``leaves_only`` inner nodes must not have inputs.
    """

    d_in: int
    d_out: int
    fewest: int
    most: int | None
    leaves_only: bool = False

    def forward(self, x: Float[Tensor, "m d_in"], trees: TreeBatch) -> Float[Tensor, "n d_out"]:
        """The vectors of all nodes, in the order of ``trees.nodes``; ``x`` is in the order of ``trees.inputs``."""
        match_shape("the input of the tree encoder", tuple(x.shape), "m d_in", m=len(trees.inputs), d_in=self.d_in)
        self._check(trees)
        if not trees.levels:
            return x.new_zeros(0, self.d_out)
        return self.encode(x, trees)

    @abstractmethod
    def encode(self, x: Float[Tensor, "m d_in"], trees: TreeBatch) -> Float[Tensor, "n d_out"]:
        """The implementation, usually a call of :func:`encode_bottom_up`."""

    def _check(self, trees: TreeBatch) -> None:
        if self.leaves_only and trees.inner_inputs:
            raise DataError(
                f"Inputs of {type(self).__name__} must be at leaves only, got a node with children and an input. "
                f"Choose a Tree-LSTM, which allows inputs at every node."
            )
        if trees.many == 0:
            return
        if trees.few < self.fewest or (self.most is not None and trees.many > self.most):
            wanted = f"{self.fewest}" if self.most == self.fewest else f"{self.fewest} to {self.most}"
            if self.most is None:
                wanted = f"at least {self.fewest}"
            wrong = trees.few if trees.few < self.fewest else trees.many
            raise DataError(
                f"Nodes must have {wanted} children for {type(self).__name__}, got {wrong}. Binarize the trees, or "
                f"choose a child-sum Tree-LSTM, which takes any number."
            )


def encode_bottom_up(trees: TreeBatch, x: Float[Tensor, "m p"], step: _Step) -> Float[Tensor, "n d_out"]:
    """Compute all nodes, level by level, each level in one step. Moves O(n) vectors for any depth."""
    handed: list[list[Tensor]] = [[] for _ in trees.levels]
    vectors = []
    for number, level in enumerate(trees.levels):
        came, handed[number] = handed[number], []
        children = _joined(came).index_select(0, level.children) if came else None
        found, state = step(level, _inputs(level, x), children)
        vectors.append(found)
        for reader, part in zip(level.readers, state.split(level.splits), strict=False):  # the last part is the roots
            handed[reader].append(part)
    return torch.cat(vectors)


def _joined(parts: list[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def _inputs(level: TreeLevel, x: Float[Tensor, "m p"]) -> Float[Tensor, "size p"] | None:
    """The inputs of a level's nodes, zeros for nodes without input; None if no node has one."""
    first, last = level.inputs
    if first == last:
        return None
    own = x if last - first == len(x) else x[first:last]
    if level.takers is None:
        return own
    return x.new_zeros(level.size, x.shape[1]).index_copy(0, level.takers, own)


def stack_children(level: TreeLevel, children: Float[Tensor, "c s"], most: int) -> Float[Tensor, "size most s"]:
    """The states of each node's children in ``most`` slots, zeros in empty slots."""
    if level.arity == most:
        return children.view(level.size, most, -1)
    room = children.new_zeros(level.size * most, children.shape[1])
    return room.index_copy(0, level.parents * most + level.slots, children).view(level.size, most, -1)


def sum_children(level: TreeLevel, children: Float[Tensor, "c s"]) -> Float[Tensor, "size s"]:
    """The sum over the children of each node."""
    if level.arity is not None:
        return children.view(level.size, level.arity, -1).sum(1)
    return children.new_zeros(level.size, children.shape[1]).index_add(0, level.parents, children)
