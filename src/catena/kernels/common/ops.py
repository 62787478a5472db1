"""Torch operators from kernels: registration, shapes for tracing, vmap rules and derivatives.

Every tensor of a row-wise operator has its rows (or groups of rows) on the first axis, so that vmap only adds rows.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from catena.kernels.common.derivatives import gradient_jvp, is_transformed, value_jvp
from catena.kernels.common.scratch import keep_freed_memory

keep_freed_memory()
_LIBRARY = torch.library.Library("catena", "FRAGMENT")


class TorchOperator:
    """A torch operator ``catena::name`` that runs a kernel.

    ``torch.library.custom_op`` does the same, but its first call imports torch's compiler, which takes more than a
    second. This class never imports it, and its kernels are not traced if you import it.

    Args:
        name: name of the operator, unique in the process.
        kernel: function of tensors, integers, floats and booleans. It must neither change its arguments nor return
            them.
        schema: types of the parameters and results, such as ``(Tensor x, int n) -> Tensor``; by default they are
            inferred from the annotations of the kernel.
    """

    def __init__(self, name: str, kernel: Callable[..., Any], schema: str | None = None) -> None:
        self.kernel = kernel
        self.__doc__ = kernel.__doc__
        self._qualified = f"catena::{name}"
        self._backward: Callable[..., Any] = self._reject_backward
        self._setup_context: Callable[..., None] = lambda ctx, inputs, output: None
        if schema is None:
            schema = torch.library.infer_schema(kernel, mutates_args=())
        _LIBRARY.define(name + schema, tags=(torch.Tag.pt2_compliant_tag,))
        _LIBRARY.impl(name, _untraced(kernel), "CompositeExplicitAutograd")
        self.overload = getattr(torch.ops.catena, name).default
        torch.library.register_autograd(
            self._qualified,
            lambda ctx, *grads: self._backward(ctx, *grads),
            setup_context=lambda ctx, inputs, output: self._setup_context(ctx, inputs, output),
            lib=_LIBRARY,
        )

    def __call__(self, *arguments: Any) -> Any:
        if is_plain() and not needs_grad(*arguments):
            return self.kernel(*arguments)  # an operator of torch takes 20 µs more
        return self.overload(*arguments)

    def _reject_backward(self, ctx: Any, *grads: Any) -> Any:
        raise RuntimeError(f"{self._qualified} has no derivative. Detach its inputs, or use a lower derivative.")

    def register_fake(self, shapes: Callable[..., Any]) -> None:
        """Set the function that returns empty results for tracing."""
        torch.library.register_fake(self._qualified, shapes, lib=_LIBRARY)

    def register_vmap(self, rule: Callable[..., Any]) -> None:
        """Set the rule for ``torch.vmap``, with the arguments of ``torch.library.register_vmap``."""
        torch.library.register_vmap(self._qualified, rule, lib=_LIBRARY)

    def register_autograd(self, backward: Callable[..., Any], setup_context: Callable[..., None]) -> None:
        """Set the derivative, with the arguments of ``torch.library.register_autograd``."""
        self._backward = backward
        self._setup_context = setup_context


def torch_operator(name: str) -> Callable[[Callable[..., Any]], TorchOperator]:
    """Decorator that makes a kernel the torch operator ``catena::name``."""
    return lambda kernel: TorchOperator(name, kernel)


def _untraced(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """A kernel that torch.compile does not trace when it calls it from code after a graph break."""
    disabled = torch._disable_dynamo(kernel)  # imports the compiler when it is called

    def call(*arguments: Any) -> Any:
        return disabled(*arguments) if "torch._dynamo" in sys.modules else kernel(*arguments)

    return call


def fold_vmap(op: TorchOperator) -> None:
    """Give an operator over rows its vmap rule: the mapped axis is folded into the rows of every tensor."""
    op.register_vmap(_folding_rule(op))


def _folding_rule(call: Callable[..., Any]) -> Callable[..., tuple[Any, Any]]:
    def rule(info: Any, dims: tuple[int | None, ...], *arguments: Any) -> tuple[Any, Any]:
        n = info.batch_size
        results = call(*(_folded(x, dim, n) for x, dim in zip(arguments, dims, strict=True)))
        if isinstance(results, Tensor):
            return results.unflatten(0, (n, -1)), 0
        return tuple(x.unflatten(0, (n, -1)) for x in results), tuple(0 for _ in results)

    return rule


def register_sampler(op: TorchOperator, shape: Callable[..., Sequence[int]]) -> None:
    """Register the shapes and the vmap rule of an operator that samples structures of rows.

    Its last argument are uniform numbers. They and the structures have their rows on the second axis. ``shape`` returns
    the sizes of the axes of a structure, given the other arguments.
    """

    @op.register_fake
    def _(*arguments: Any) -> Tensor:
        *given, uniforms = arguments
        return uniforms.new_empty((*uniforms.shape[:2], *shape(*given)), dtype=torch.int64)

    def rule(info: Any, dims: tuple[int | None, ...], *arguments: Any) -> tuple[Tensor, int]:
        n = info.batch_size
        folded = [_folded(x, dim, n) for x, dim in zip(arguments[:-1], dims[:-1], strict=True)]
        found = op(*folded, _folded(arguments[-1], dims[-1], n, axis=1))
        return found.unflatten(1, (n, -1)), 1

    op.register_vmap(rule)


def _folded(x: Any, dim: int | None, n: int, axis: int = 0) -> Any:
    """A tensor with its mapped axis folded into the axis of its rows; other values are unchanged."""
    if not isinstance(x, Tensor):
        return x
    x = x.unsqueeze(axis).expand(*x.shape[:axis], n, *x.shape[axis:]) if dim is None else x.movedim(dim, axis)
    return x.flatten(axis, axis + 1)


def register_gradient_shapes(op: TorchOperator, n: int) -> None:
    """Register the shapes of an operator of gradients: its results are like the ``n`` scores that follow the scale."""

    @op.register_fake
    def _(scale: Tensor, *inputs: Tensor) -> Any:
        return tuple(torch.empty_like(x, memory_format=torch.contiguous_format) for x in inputs[:n])


def keep_inputs(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    """For :func:`differentiable`: keep the inputs for the derivative."""
    _keep(ctx, inputs)


def keep_all(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    """Keep the inputs and all results except the first, which is the only one that has a derivative."""
    ctx.set_materialize_grads(False)
    ctx.mark_non_differentiable(*output[1:])
    _keep(ctx, inputs, *output[1:])


def _keep(ctx: Any, inputs: tuple[Any, ...], *results: Tensor) -> None:
    """Save tensors for both modes. ``ctx.constants`` has the other inputs, by their index among the arguments."""
    ctx.constants = {i: x for i, x in enumerate(inputs) if not (x is None or isinstance(x, Tensor))}
    tensors = (*(x for i, x in enumerate(inputs) if i not in ctx.constants), *results)
    ctx.save_for_backward(*tensors)
    ctx.save_for_forward(*tensors)


def differentiable(
    op: TorchOperator, setup_context: Callable[..., None], backward: Callable[..., Any], is_gradient: bool = False
) -> Callable[..., Any]:
    """Register an operator's derivative, and return the cheapest way to call it that is right where it is called.

    torch.func rejects the rule of ``register_autograd``, but accepts an autograd function of the same parts.
    Plain eager code needs no operator at all: the kernel, or an autograd function around it, saves 0.1 ms a call.

    Args:
        op: an operator over rows. Its first result is one value per row, and the others have no derivative; or, with
            ``is_gradient``, its results are the gradients of such values times a scale, which is its first argument.
        setup_context: :func:`keep_inputs` or :func:`keep_all`; a gradient keeps its inputs.
        backward: the derivative in reverse mode. The derivative in forward mode follows from it.
        is_gradient: which of the two kinds of operators it is.
    """
    op.register_autograd(backward, setup_context=setup_context)
    kernel = op.kernel

    class Door(torch.autograd.Function):
        @staticmethod
        def forward(*arguments: Any) -> Any:
            return op.overload(*arguments)  # the operator also accepts the zero tensors that torch.func makes

    class Eager(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *arguments: Any) -> Any:  # a setup_context of its own would cost 20 µs
            results = kernel(*arguments)
            setup_context(ctx, arguments, results)
            return results

    Door.setup_context = staticmethod(setup_context)  # type: ignore[method-assign]
    Door.backward = Eager.backward = staticmethod(backward)  # type: ignore[method-assign]
    Door.vmap = staticmethod(_folding_rule(Door.apply))  # type: ignore[method-assign]

    def call(*arguments: Any) -> Any:
        if is_transformed():
            return Door.apply(*arguments)
        if not is_plain():
            return op(*arguments)
        if needs_grad(*arguments):
            return Eager.apply(*arguments)
        return kernel(*arguments)

    n_results = len(op.overload._schema.returns)
    jvp = gradient_jvp(backward, call) if is_gradient else value_jvp(backward, n_results)
    Door.jvp = staticmethod(jvp)  # type: ignore[method-assign]
    return call


def first_result(op: TorchOperator, backward: Callable[[Any, Tensor | None], Any]) -> Callable[..., Any]:
    """A function that returns the first result of an operator and keeps the others for ``backward``, in plain code.

    Saved are the arguments and the other results, in this order; constants are in ``ctx.constants``, as for
    :func:`differentiable`. A result that is not returned costs no node in autograd's graph, which takes 3 µs.
    """
    kernel = op.kernel

    class First(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *arguments: Any) -> Any:
            first, *others = kernel(*arguments)
            ctx.set_materialize_grads(False)
            ctx.constants = {i: x for i, x in enumerate(arguments) if not (x is None or isinstance(x, Tensor))}
            tensors = [x for i, x in enumerate(arguments) if i not in ctx.constants] if ctx.constants else arguments
            ctx.save_for_backward(*tensors, *others)
            return first

    First.backward = staticmethod(backward)  # type: ignore[method-assign,assignment]
    return First.apply


def as_array(x: Tensor) -> NDArray[Any]:
    """The numbers of a tensor, contiguous, for a kernel."""
    return np.ascontiguousarray(x.numpy())


def as_lengths(lengths: Tensor, most: int) -> NDArray[np.int64]:
    """Lengths for a kernel, clipped to 0 to ``most``, so that it stays inside its arrays."""
    given = as_array(lengths)
    values = given.tolist()  # for few rows faster than the reductions of numpy
    return given if min(values, default=0) >= 0 and max(values, default=0) <= most else given.clip(0, most)


def as_int64_array(x: Tensor) -> NDArray[np.int64]:
    """Whole numbers of a tensor of any kind and place, contiguous and 64 bits wide, for a kernel."""
    return np.ascontiguousarray(x.detach().cpu().numpy(), dtype=np.int64)


def is_plain() -> bool:
    """Whether code runs as it is written, neither traced nor transformed, and need not go through operators."""
    if is_transformed() or torch.compiler.is_compiling():
        return False
    return torch._C._len_torch_dispatch_stack() == 0


def needs_grad(*arguments: Any) -> bool:
    """Whether a derivative by a tensor may be needed later. Inside torch.func and in forward mode it always may."""
    if is_transformed():
        return True
    return torch.is_grad_enabled() and any(isinstance(x, Tensor) and x.requires_grad for x in arguments)
