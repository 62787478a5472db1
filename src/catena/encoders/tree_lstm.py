r"""Tree-LSTMs: a memory at every node, computed from the memories of its children with a forget gate for each.

Tai, Socher & Manning (2015), section 3. σ is the logistic function, ∘ the elementwise product; x is 0 at nodes without
an input. On a chain, where every node has one child, both are the LSTM.

``dropout`` drops units of the candidate u, so that memories are never lost (Semeniuta et al. 2016). Time O(d²) for a
node and each of its children.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from catena.encoders.tree import TreeEncoder, encode_bottom_up, stack_children, sum_children
from catena.encoders.tree_batch import TreeBatch, TreeLevel
from catena.kernels.common.derivatives import is_transformed
from catena.kernels.tree_lstm.ops import climb_full


class ChildSumTreeLSTM(TreeEncoder):
    r"""A Tree-LSTM that sums over its children, for any number of unordered children.

    .. math::
        \tilde h_j &= \textstyle\sum_k h_k \\
        u_j &= \tanh(W_u x_j + U_u \tilde h_j + b_u) \qquad
        i_j, o_j = \sigma(W_{i,o}\, x_j + U_{i,o}\, \tilde h_j + b_{i,o}) \\
        f_{jk} &= \sigma(W_f x_j + U_f h_k + b_f) \\
        c_j &= i_j \circ u_j + \textstyle\sum_k f_{jk} \circ c_k \qquad h_j = o_j \circ \tanh(c_j)

    Tai et al. 2015, equations 2 to 8. Blocks of the weights: u, i, o, f.

    Args:
        d_in: size of the input of a node.
        d: size of its state.
        dropout: fraction of the state that is set to 0 in training.
        forget_bias: initial bias of the forget gates.
    """

    def __init__(self, d_in: int, d: int, dropout: float = 0.0, forget_bias: float = 1.0) -> None:
        super().__init__()
        self.d_in, self.d_out, self.fewest, self.most = d_in, d, 1, None
        self.dropout = dropout
        self.weight_x, self.weight_h, self.bias = _weights(d_in, d, blocks=4, children=1, forget_bias=forget_bias)

    def encode(self, x: Float[Tensor, "m d_in"], trees: TreeBatch) -> Float[Tensor, "n d_out"]:
        d = self.d_out
        to_gates, to_forget = self.weight_h.split([3 * d, d])
        bias, forget_bias = self.bias.split([3 * d, d])

        def step(level: TreeLevel, own: Tensor | None, children: Tensor | None) -> tuple[Tensor, Tensor]:
            own_forget = None
            if own is not None and trees.inner_inputs:
                own, own_forget = own.split([3 * d, d], dim=1)
            sums = bias.expand(level.size, -1) if own is None else own + bias
            if children is None:
                return self._state(sums, None)
            h, c = children.split(d, dim=1)
            sums = torch.addmm(sums, sum_children(level, h), to_gates.t())
            forget = torch.addmm(forget_bias, h, to_forget.t())
            if own_forget is not None:
                forget = forget + own_forget.index_select(0, level.parents)
            return self._state(sums, sum_children(level, forget.sigmoid() * c))

        return encode_bottom_up(trees, _projected(x, self.weight_x, trees, d), step)

    def _state(self, sums: Float[Tensor, "k gates"], kept: Float[Tensor, "k d"] | None) -> tuple[Tensor, Tensor]:
        u, gates = sums.split([self.d_out, 2 * self.d_out], dim=1)
        return _state(F.dropout(u.tanh(), self.dropout, self.training), gates.sigmoid(), kept)


class NaryTreeLSTM(TreeEncoder):
    r"""A Tree-LSTM with separate weights for each of its at most N ordered children.

    .. math::
        u_j &= \tanh(W_u x_j + \textstyle\sum_l U_u^{(l)} h_l + b_u) \qquad
        i_j, o_j = \sigma(W_{i,o}\, x_j + \textstyle\sum_l U_{i,o}^{(l)} h_l + b_{i,o}) \\
        f_{jk} &= \sigma(W_f x_j + \textstyle\sum_l U_f^{(kl)} h_l + b_f) \\
        c_j &= i_j \circ u_j + \textstyle\sum_k f_{jk} \circ c_k \qquad h_j = o_j \circ \tanh(c_j)

    Tai et al. 2015, equations 9 to 14: the gate of the left child depends on the right one, too. h and c of a missing
    child are 0. Blocks of the weights: u, i, o, f_1 … f_N (``weight_x`` and ``bias``: one f for all). Trees whose nodes
    all have N children or none are computed by :mod:`catena.kernels.tree_lstm.ops`.

    Args:
        d_in: size of the input of a node.
        d: size of its state.
        most: the largest number of children, N.
        dropout: fraction of the state that is set to 0 in training.
        forget_bias: initial bias of the forget gates.
    """

    def __init__(self, d_in: int, d: int, most: int = 2, dropout: float = 0.0, forget_bias: float = 1.0) -> None:
        super().__init__()
        self.d_in, self.d_out, self.fewest, self.most = d_in, d, 1, most
        self.n_children = most
        self.dropout = dropout
        self.weight_x, self.weight_h, self.bias = _weights(d_in, d, 3 + most, most, forget_bias)

    def encode(self, x: Float[Tensor, "m d_in"], trees: TreeBatch) -> Float[Tensor, "n d_out"]:
        d, n = self.d_out, self.n_children
        leaf_bias, forget_bias = self.bias.split([3 * d, d])
        bias = torch.cat((leaf_bias, forget_bias.repeat(n)))
        if self._is_full(trees) and not is_transformed():
            leaves = torch.addmm(leaf_bias, x, self.weight_x[: 3 * d].t()).to(bias.dtype)
            mask = self._dropped(leaves.new_ones(trees.n, d)) if self.training and self.dropout else None
            return climb_full(leaves, self.weight_h, bias, mask, trees.children, trees.sizes)

        def step(level: TreeLevel, own: Tensor | None, children: Tensor | None) -> tuple[Tensor, Tensor]:
            own_forget = None
            if own is not None and trees.inner_inputs:
                own, own_forget = own.split([3 * d, d], dim=1)
            if children is None:
                sums = leaf_bias.expand(level.size, -1) if own is None else own + leaf_bias
                u, gates = sums.split([d, 2 * d], dim=1)
                return _state(self._dropped(u.tanh()), gates.sigmoid(), None)
            h, c = stack_children(level, children, n).split(d, dim=2)
            sums = torch.addmm(bias, h.reshape(level.size, n * d), self.weight_h.t())
            if own is not None and own_forget is not None:
                sums = sums + torch.cat((own, own_forget.repeat(1, n)), dim=1)
            u, gates = sums.split([d, (2 + n) * d], dim=1)
            gates, forget = gates.sigmoid().split([2 * d, n * d], dim=1)
            return _state(self._dropped(u.tanh()), gates, (forget.view(level.size, n, d) * c).sum(1))

        return encode_bottom_up(trees, _projected(x, self.weight_x, trees, d), step)

    def _is_full(self, trees: TreeBatch) -> bool:
        """Whether the fast kernel applies: exactly the leaves have inputs, and inner nodes have N children."""
        leaves_alone = not trees.inner_inputs and len(trees.inputs) == trees.levels[0].size
        return leaves_alone and trees.few in (0, self.n_children) and trees.many in (0, self.n_children)

    def _dropped(self, u: Float[Tensor, "k d"]) -> Float[Tensor, "k d"]:
        return F.dropout(u, self.dropout, self.training)


def _weights(
    d_in: int, d: int, blocks: int, children: int, forget_bias: float
) -> tuple[nn.Parameter, nn.Parameter, nn.Parameter]:
    """The weights of x, of the children and the bias, whose forget part starts at ``forget_bias``."""
    weight_x = torch.empty(4 * d, d_in).uniform_(-1 / math.sqrt(d_in), 1 / math.sqrt(d_in))
    bound = 1 / math.sqrt(children * d)
    weight_h = torch.empty(blocks * d, children * d).uniform_(-bound, bound)
    bias = torch.cat((torch.zeros(3 * d), torch.full((d,), forget_bias)))
    return nn.Parameter(weight_x), nn.Parameter(weight_h), nn.Parameter(bias)


def _projected(
    x: Float[Tensor, "m d_in"], weight: Float[Tensor, "gates d_in"], trees: TreeBatch, d: int
) -> Float[Tensor, "m p"]:
    """W x of all inputs in one product, without the forget gate if only leaves have inputs."""
    return F.linear(x, weight if trees.inner_inputs else weight[: 3 * d])


def _state(
    candidate: Float[Tensor, "k d"], gates: Float[Tensor, "k gates"], kept: Float[Tensor, "k d"] | None
) -> tuple[Tensor, Tensor]:
    """h, and [h; c], from the candidate, the gates i and o, and the kept memory of the children."""
    i, o = gates.chunk(2, dim=1)
    c = i * candidate if kept is None else torch.addcmul(kept, i, candidate)
    h = o * c.tanh()
    return h, torch.cat((h, c), dim=1)
