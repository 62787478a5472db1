r"""Adadelta that skips table rows without a gradient.

.. math::
    v \leftarrow \rho v + (1-\rho) g^2, \quad
    \delta = \sqrt{u + \epsilon} \, / \sqrt{v + \epsilon} \; g, \quad
    u \leftarrow \rho u + (1-\rho) \delta^2, \quad
    w \leftarrow w - \eta \delta

(Zeiler 2012, algorithm 1). A word that is not in the batch has g = 0: its weights do not change, and v and u only
shrink by :math:`\rho`. So a row of a table is updated when it next has a gradient, with :math:`\rho^n` for
the n steps in between. The result equals the plain form up to rounding, at the cost of the rows of the batch instead of
the vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.optim import Optimizer

ROWS_OF_A_TABLE = 1024
"""Matrices with at least this many rows are searched for rows without a gradient."""


class Adadelta(Optimizer):
    """Adadelta with ``weight_decay`` as an L2 penalty, equal to torch's but faster for tables on the CPU."""

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(params, {"lr": lr, "rho": rho, "eps": eps, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """Take one step along the current gradients."""
        if closure is not None:
            raise NotImplementedError("Adadelta does not support a closure. Call step() without arguments.")
        for group in self.param_groups:
            numbers = (group["lr"], group["rho"], group["eps"])
            for weight in group["params"]:
                if weight.grad is None:
                    continue
                grad = weight.grad
                if group["weight_decay"]:
                    grad = grad.add(weight, alpha=group["weight_decay"])
                state = self.state[weight]
                is_table = weight.ndim == 2 and weight.shape[0] >= ROWS_OF_A_TABLE and weight.itemsize >= 4
                if not state:
                    state["square_avg"] = torch.zeros_like(weight)
                    state["acc_delta"] = torch.zeros_like(weight)
                    if is_table:
                        state["steps"] = torch.zeros(())
                        state["seen"] = torch.zeros(weight.shape[0])
                if is_table:
                    _update_rows(weight, grad, state, *numbers)
                else:
                    _update(weight, grad, state["square_avg"], state["acc_delta"], *numbers)
        return None


def _update_rows(
    weight: Float[Tensor, "n d"],
    grad: Float[Tensor, "n d"],
    state: dict[str, Tensor],
    lr: float,
    rho: float,
    eps: float,
) -> None:
    """Update the rows with a gradient. ``state["seen"][i]`` is the number of steps that row i has had."""
    has_grad = torch.maximum(grad.amax(1), grad.amin(1).neg_()) != 0
    rows = has_grad.nonzero().squeeze(1)
    missed = (state["steps"] - state["seen"]).double()[:, None]
    state["steps"] += 1
    v, u = state["square_avg"], state["acc_delta"]
    if 2 * len(rows) > len(has_grad):  # copying most rows costs more than it saves
        shrink = (rho**missed).to(weight.dtype)
        v.mul_(shrink)
        u.mul_(shrink)
        _update(weight, grad, v, u, lr, rho, eps)
        state["seen"].copy_(state["steps"].expand_as(state["seen"]))
        return
    shrink = (rho ** missed[rows]).to(weight.dtype)
    w_rows, g_rows, v_rows, u_rows = (table.index_select(0, rows) for table in (weight, grad, v, u))
    _update(w_rows, g_rows, v_rows.mul_(shrink), u_rows.mul_(shrink), lr, rho, eps)
    for table, updated in ((weight, w_rows), (v, v_rows), (u, u_rows)):
        table.index_copy_(0, rows, updated)
    state["seen"][rows] = state["steps"]


def _update(
    weight: Float[Tensor, "*shape"],
    grad: Float[Tensor, "*shape"],
    v: Float[Tensor, "*shape"],
    u: Float[Tensor, "*shape"],
    lr: float,
    rho: float,
    eps: float,
) -> None:
    v.mul_(rho).addcmul_(grad, grad, value=1 - rho)
    delta = u.add(eps).div_(v.add(eps)).sqrt_().mul_(grad)
    u.mul_(rho).addcmul_(delta, delta, value=1 - rho)
    weight.add_(delta, alpha=-lr)
