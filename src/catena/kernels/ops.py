"""How a kernel becomes an operator of torch: shapes for tracing, a rule for vmap, and a derivative.

Every tensor of a row-wise operator has its rows (or groups of rows) on the first axis, so vmap only makes
more rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


def fold_vmap(op: Any) -> None:
    """Give an operator over rows its vmap rule: the mapped axis is folded into the rows of every tensor."""

    def rule(info: Any, dims: tuple[int | None, ...], *arguments: Any) -> tuple[Any, Any]:
        n = info.batch_size
        folded = []
        for x, dim in zip(arguments, dims, strict=True):
            if not isinstance(x, Tensor):
                folded.append(x)
            else:
                x = x.expand(n, *x.shape) if dim is None else x.movedim(dim, 0)
                folded.append(x.flatten(0, 1))
        results = op(*folded)
        if isinstance(results, Tensor):
            return results.unflatten(0, (n, -1)), 0
        return tuple(x.unflatten(0, (n, -1)) for x in results), tuple(0 for _ in results)

    op.register_vmap(rule)


def differentiable(op: Any, setup_context: Callable[..., None], backward: Callable[..., Any]) -> Callable[..., Any]:
    """Register an operator's derivative, and return a way to call it that torch.func.grad follows as well.

    torch.func refuses the rule that ``register_autograd`` makes; an autograd function of the same parts is
    let through, but costs 0.1 ms more a call.
    """
    op.register_autograd(backward, setup_context=setup_context)
    parts = {
        "forward": staticmethod(lambda *arguments: op(*arguments)),
        "setup_context": staticmethod(setup_context),
        "backward": staticmethod(backward),
        "generate_vmap_rule": True,
    }
    door: Any = type(f"Door_{op._name}", (torch.autograd.Function,), parts)

    def call(*arguments: Any) -> Any:
        return door.apply(*arguments) if torch._C._are_functorch_transforms_active() else op(*arguments)

    return call


def wants_gradient(*tensors: Tensor) -> bool:
    """Whether a gradient may be asked for later. Inside torch.func it always may."""
    if torch._C._are_functorch_transforms_active():
        return True
    return torch.is_grad_enabled() and any(x.requires_grad for x in tensors)
