"""The N-ary Tree-LSTM over trees whose inner nodes all have N children, with its derivative written out.

The plain form, :class:`catena.encoders.tree_lstm.NaryTreeLSTM`, is differentiated by autograd step by step: for each
level a gradient of the weights, which is as large as the weights and has to be added up. Here all vectors stand in one
table, a level writes its rows, and the gradient of the weights is one product over all nodes at the end. About half of
the time and a third of the kernels.

Blocks of the sums z of a node: u, i, o, f_1 … f_N. Leaves have u, i, o.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

sigmoid_backward = torch.ops.aten.sigmoid_backward.grad_input
tanh_backward = torch.ops.aten.tanh_backward.grad_input


def climb_full(
    leaves: Tensor, weight: Tensor, bias: Tensor, mask: Tensor | None, children: Tensor, sizes: tuple[int, ...]
) -> Tensor:
    """h of all nodes.

    Args:
        leaves: the sums of the leaves, ``m 3d``; they are the first m nodes.
        weight: of the children, ``(3 + N)d Nd``.
        bias: of the sums of inner nodes, ``(3 + N)d``.
        mask: what the candidates u are multiplied by, ``n d``; None for nothing.
        children: the places of the children of all inner nodes, from left to right under each in turn.
        sizes: how many nodes each level has, leaves first.
    """
    found: Tensor = _Climb.apply(leaves, weight, bias, mask, children, sizes)
    return found


class _Climb(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        leaves: Tensor,
        weight: Tensor,
        bias: Tensor,
        mask: Tensor | None,
        children: Tensor,
        sizes: tuple[int, ...],
    ) -> Tensor:
        d = leaves.shape[1] // 3
        m = sizes[0]
        n = weight.shape[1] // d
        total = sum(sizes)
        h, c, t = (leaves.new_empty(total, d) for _ in range(3))
        first = torch.cat((leaves[:, :d].tanh(), leaves[:, d:].sigmoid()), dim=1)
        z = leaves.new_empty(total - m, (3 + n) * d)
        below_h, below_c = (leaves.new_empty(total - m, n * d) for _ in range(2))
        start = 0
        for size in sizes:
            end = start + size
            own = first
            if start:
                rows = slice(start - m, end - m)
                places = children[n * (start - m) : n * (end - m)]
                torch.index_select(h, 0, places, out=below_h[rows].view(-1, d))
                torch.index_select(c, 0, places, out=below_c[rows].view(-1, d))
                own = torch.addmm(bias, below_h[rows], weight.t(), out=z[rows])
                own[:, :d].tanh_()
                own[:, d:].sigmoid_()
            u, i, o = own[:, :d], own[:, d : 2 * d], own[:, 2 * d : 3 * d]
            new = torch.mul(i, u if mask is None else u * mask[start:end], out=c[start:end])
            for k in range(n if start else 0):
                new.addcmul_(own[:, (3 + k) * d : (4 + k) * d], below_c[rows][:, k * d : (k + 1) * d])
            torch.mul(o, torch.tanh(new, out=t[start:end]), out=h[start:end])
            start = end
        ctx.save_for_backward(weight, mask, children, first, z, below_h, below_c, t)
        ctx.sizes = sizes
        return h

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        weight, mask, children, first, z, below_h, below_c, t = ctx.saved_tensors
        d = t.shape[1]
        m = ctx.sizes[0]
        end = len(t)
        n = weight.shape[1] // d
        dh = grad.clone()
        dc = torch.zeros_like(t)
        dz = torch.empty_like(z)
        dfirst = torch.empty_like(first)
        for size in reversed(ctx.sizes):
            start = end - size
            rows = slice(start - m, end - m)
            own, down = (z[rows], dz[rows]) if start else (first, dfirst)
            u, i, o = own[:, :d], own[:, d : 2 * d], own[:, 2 * d : 3 * d]
            to_h = dh[start:end]
            to_c = dc[start:end]
            tanh = t[start:end]
            through = to_h * o
            to_c += tanh_backward(through, tanh, grad_input=through)
            to_u = torch.mul(to_c, i, out=down[:, :d])
            if mask is not None:
                to_u *= mask[start:end]
            torch.mul(to_c, u if mask is None else u * mask[start:end], out=down[:, d : 2 * d])
            torch.mul(to_h, tanh, out=down[:, 2 * d : 3 * d])
            if start:
                forget = own[:, 3 * d :].view(size, n, d)
                torch.mul(to_c[:, None], below_c[rows].view(size, n, d), out=down[:, 3 * d :].view(size, n, d))
            tanh_backward(to_u, u, grad_input=to_u)
            sigmoid_backward(down[:, d:], own[:, d:], grad_input=down[:, d:])
            if start:
                places = children[n * (start - m) : n * (end - m)]
                dh.index_add_(0, places, (down @ weight).view(-1, d))
                dc.index_copy_(0, places, (to_c[:, None] * forget).view(-1, d))
            end = start
        return dfirst, dz.t() @ below_h, dz.sum(0), None, None, None
