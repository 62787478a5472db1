r"""Recursive networks over binary trees: the vector of a node is the same function of its two children everywhere.

A leaf's vector is its input; a and b are the vectors of the left and the right child, [a; b] their concatenation.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from catena.encoders.tree import TreeEncoder, encode_bottom_up
from catena.encoders.tree_batch import TreeBatch, TreeLevel


class RecursiveNetwork(TreeEncoder):
    r"""The recursive network :math:`p = f(W [a; b] + b_0)`.

    Socher et al. 2011, section 3.1. Time O(d²) for a node.

    Args:
        d: size of a vector.
        activation: the nonlinearity f.
    """

    leaves_only = True

    def __init__(self, d: int, activation: nn.Module) -> None:
        super().__init__()
        self.d_in = self.d_out = d
        self.fewest = self.most = 2
        self.activation = activation
        self.weight, self.bias = _pair_weights(d)

    def encode(self, x: Float[Tensor, "m d_in"], trees: TreeBatch) -> Float[Tensor, "n d_out"]:
        def step(level: TreeLevel, own: Tensor | None, children: Tensor | None) -> tuple[Tensor, Tensor]:
            if children is None:
                vectors = _leaves(own, level, x)
            else:
                pairs = children.view(level.size, 2 * self.d_out)
                vectors = self.activation(torch.addmm(self.bias, pairs, self.weight.t()))
            return vectors, vectors

        return encode_bottom_up(trees, x, step)


class TensorNetwork(TreeEncoder):
    r"""A recursive network with products of the two children (RNTN).

    .. math:: p_i = f([a; b]^\top V_i [a; b] + W_i [a; b] + b_i)

    Socher et al. 2013, section 4.3. Each of the d slices V_i is 2d × 2d. Time O(d³) for a node. ``tensor`` holds 2d V:
    an optimizer step changes all values of V by a similar amount, and each unit sums 4d² of them where W has 2d, so V
    would otherwise dominate W.

    Args:
        d: size of a vector.
        activation: the nonlinearity f.
        scale: V is initialized uniformly between ``-scale`` and ``scale``; 1 / (4 d) if None.
    """

    leaves_only = True

    def __init__(self, d: int, activation: nn.Module, scale: float | None = None) -> None:
        super().__init__()
        self.d_in = self.d_out = d
        self.fewest = self.most = 2
        self.activation = activation
        self.weight, self.bias = _pair_weights(d)
        bound = 1 / (4 * d) if scale is None else scale
        self.tensor = nn.Parameter(2 * d * torch.empty(d, 2 * d, 2 * d).uniform_(-bound, bound))

    def encode(self, x: Float[Tensor, "m d_in"], trees: TreeBatch) -> Float[Tensor, "n d_out"]:
        d = self.d_out
        slices = self.tensor.view(2 * d * d, 2 * d).t() / (2 * d)

        def step(level: TreeLevel, own: Tensor | None, children: Tensor | None) -> tuple[Tensor, Tensor]:
            if children is None:
                vectors = _leaves(own, level, x)
            else:
                pairs = children.view(level.size, 2 * d)
                products = (pairs @ slices).view(level.size, d, 2 * d) @ pairs[:, :, None]
                vectors = self.activation(torch.addmm(self.bias, pairs, self.weight.t()) + products.squeeze(2))
            return vectors, vectors

        return encode_bottom_up(trees, x, step)


class MatrixVectorNetwork(TreeEncoder):
    r"""A recursive network in which every node also has a matrix, which is applied to its sibling (MV-RNN).

    .. math::
        p = f(W [B a; A b] + b_0) \qquad P = W_M [A; B]

    Socher et al. 2012, section 2.3. A word's matrix is diagonal plus low rank (section 2.6):
    A = diag(m) + U V, with U of ``rank`` columns. The input of a leaf is its vector, then m, U and V, row by row: see
    :meth:`first_matrices`. Time O(d³) for a node.

    Args:
        d: size of a vector; matrices are ``d × d``.
        rank: rank of the low-rank part of the matrix of a word.
        activation: the nonlinearity f.
    """

    leaves_only = True

    def __init__(self, d: int, rank: int, activation: nn.Module) -> None:
        super().__init__()
        self.d_out, self.rank = d, rank
        self.d_in = d + d * (1 + 2 * rank)
        self.fewest = self.most = 2
        self.activation = activation
        self.weight, self.bias = _pair_weights(d)
        self.weight_matrices = nn.Parameter(0.5 * torch.eye(d).repeat(1, 2) + _drawn(d, 2 * d))

    def first_matrices(self, n: int) -> Float[Tensor, "n numbers"]:
        """The initial matrices of ``n`` words, near the identity, which follow the vectors in the inputs."""
        d = self.d_out
        return torch.cat((torch.ones(n, d), 0.01 * torch.randn(n, 2 * d * self.rank)), dim=1)

    def encode(self, x: Float[Tensor, "m d_in"], trees: TreeBatch) -> Float[Tensor, "n d_out"]:
        d = self.d_out

        def step(level: TreeLevel, own: Tensor | None, children: Tensor | None) -> tuple[Tensor, Tensor]:
            if children is None:
                leaves = _leaves(own, level, x)
                vectors, matrices = leaves[:, :d], self._matrices(leaves[:, d:])
            else:
                pairs = children.view(level.size, 2, d + d * d)
                a_b, both = pairs[:, :, :d], pairs[:, :, d:].reshape(level.size, 2, d, d)
                crossed = (both.flip(1) @ a_b[..., None]).view(level.size, 2 * d)
                vectors = self.activation(torch.addmm(self.bias, crossed, self.weight.t()))
                matrices = self.weight_matrices @ both.reshape(level.size, 2 * d, d)
            return vectors, torch.cat((vectors, matrices.flatten(1)), dim=1)

        return encode_bottom_up(trees, x, step)

    def _matrices(self, numbers: Float[Tensor, "k numbers"]) -> Float[Tensor, "k d d"]:
        d, r = self.d_out, self.rank
        diagonal, left, right = numbers.split([d, d * r, d * r], dim=1)
        return torch.diag_embed(diagonal) + left.reshape(-1, d, r) @ right.reshape(-1, r, d)


def _pair_weights(d: int) -> tuple[nn.Parameter, nn.Parameter]:
    """W, initially near the mean of both children, with noise that distinguishes them, and a bias of 0."""
    return nn.Parameter(0.5 * torch.eye(d).repeat(1, 2) + _drawn(d, 2 * d)), nn.Parameter(torch.zeros(d))


def _drawn(rows: int, columns: int) -> Float[Tensor, "rows columns"]:
    bound = 0.5 / math.sqrt(columns)
    return torch.empty(rows, columns).uniform_(-bound, bound)


def _leaves(own: Tensor | None, level: TreeLevel, x: Tensor) -> Tensor:
    """The inputs of the leaves; zeros if a batch has none."""
    return x.new_zeros(level.size, x.shape[1]) if own is None else own
