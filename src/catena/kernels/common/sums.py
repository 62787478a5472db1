"""Torch operators for sums over the structures of each row: log Z, marginals, and derivatives of any order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from catena.kernels.common.derivatives import second_derivative
from catena.kernels.common.ops import (
    TorchOperator,
    differentiable,
    first_result,
    fold_vmap,
    is_plain,
    keep_all,
    keep_inputs,
    needs_grad,
)


def scale_marginals(scale: Tensor, *others: Any, n_scores: int) -> tuple[Tensor, ...]:
    """The gradients if the kept tensors, which come last, are the marginals of all scores."""
    return tuple(x * scale.reshape(-1, *[1] * (x.dim() - 1)) for x in others[-n_scores:])


class RowSums:
    """Log Z of rows, its marginals, and its derivatives of any order.

    It registers three operators over the parameters of ``reference``: ``name_log_z``; ``name_log_z_and_kept``, which
    also returns what the gradient needs; and ``name_gradients``, the gradients of Σ scale × log Z by the scores. The
    second derivative is computed with ``reference``.

    Args:
        name: prefix of the names of the operators.
        reference: the reference implementation of log Z. Its annotated parameters are the parameters of the operators.
            Rows, or groups of rows, are on the first axis of every tensor.
        n_scores: the first ``n_scores`` parameters are scores, which may be None if the annotation says so.
        sum_rows: ``sum_rows(keep, *arguments)`` returns log Z and the kept tensors, which only matter with ``keep``.
        kept: ``kept(*arguments)`` returns empty tensors in the shapes of the kept ones, for tracing.
        n_kept: the number of kept tensors.
        gradients: ``gradients(scale, *arguments, *kept)``. By default the kept tensors are the marginals of the scores.
    """

    def __init__(
        self,
        name: str,
        reference: Callable[..., Tensor],
        n_scores: int,
        *,
        sum_rows: Callable[..., tuple[Tensor, ...]],
        kept: Callable[..., tuple[Tensor, ...]],
        n_kept: int,
        gradients: Callable[..., tuple[Tensor, ...]] | None = None,
    ) -> None:
        self.reference = reference
        self.n_scores = n_scores
        self._kept_shapes = kept
        self._keeps_marginals = gradients is None
        schema = torch.library.infer_schema(reference, mutates_args=())
        parameters = schema[1 : schema.rindex(")")]
        self.n_arguments = parameters.count(",") + 1
        kept_parameters = "".join(f", Tensor kept_{i}" for i in range(n_kept))

        def scaled(scale: Tensor, *others: Any) -> Any:
            if gradients is None:
                return _one_or_all(scale_marginals(scale, *others, n_scores=n_scores))
            return _one_or_all(gradients(scale, *others))

        self.log_z_op = TorchOperator(
            f"{name}_log_z", lambda *arguments: sum_rows(False, *arguments)[0], f"({parameters}) -> Tensor"
        )
        self.keep_op = TorchOperator(
            f"{name}_log_z_and_kept",
            lambda *arguments: sum_rows(True, *arguments),
            f"({parameters}) -> {_tensors(1 + n_kept)}",
        )
        self.gradients_op = TorchOperator(
            f"{name}_gradients", scaled, f"(Tensor scale, {parameters}{kept_parameters}) -> {_tensors(n_scores)}"
        )
        self._register_shapes()
        self.log_z = differentiable(self.log_z_op, keep_inputs, self.back_log_z)
        self.log_z_and_kept = differentiable(self.keep_op, keep_all, self._back_kept)
        self.gradients = differentiable(self.gradients_op, keep_inputs, self._back_gradients, is_gradient=True)
        self._only_log_z = first_result(self.keep_op, self._back_kept)

    def log_partition(self, *arguments: Any) -> Tensor:
        """Log Z of every row; if it may be differentiated, what its gradient needs is kept."""
        if not self.needs_grad(*arguments):
            return self.log_z(*arguments)
        return self._only_log_z(*arguments) if is_plain() else self.log_z_and_kept(*arguments)[0]

    def log_partition_and_marginals(self, *arguments: Any) -> tuple[Tensor, Any]:
        """Log Z of every row, and the marginals of the scores: a tensor for one score, else a tuple."""
        log_z, *kept = self.log_z_and_kept(*arguments)
        if self._keeps_marginals and not self.needs_grad(*arguments):
            return log_z, _one_or_all(tuple(kept))
        return log_z, self.gradients(torch.ones_like(log_z), *arguments, *(x.detach() for x in kept))

    def needs_grad(self, *arguments: Any) -> bool:
        """Whether a derivative by the scores may be needed later."""
        return needs_grad(*arguments[: self.n_scores])

    def _register_shapes(self) -> None:
        def empty(x: Tensor) -> Tensor:
            return torch.empty_like(x, memory_format=torch.contiguous_format)

        def gradients(scale: Tensor, *others: Any) -> Any:
            scores = others[: self.n_scores]
            return _one_or_all(tuple(scale.new_empty(len(scale), 0) if x is None else empty(x) for x in scores))

        self.log_z_op.register_fake(lambda first, *_: first.new_empty(first.shape[0]))
        self.keep_op.register_fake(
            lambda first, *others: (first.new_empty(first.shape[0]), *self._kept_shapes(first, *others))
        )
        self.gradients_op.register_fake(gradients)
        for op in (self.log_z_op, self.keep_op, self.gradients_op):
            fold_vmap(op)

    def _saved(self, ctx: Any) -> list[Any]:
        """The arguments of the operator, and what was kept after them."""
        saved = list(ctx.saved_tensors)
        if not ctx.constants:
            return saved
        for place, constant in sorted(ctx.constants.items()):
            saved.insert(place, constant)
        return saved

    def _by_arguments(self, grad: Tensor, arguments: list[Any], kept: list[Tensor]) -> tuple[Tensor | None, ...]:
        direct = not torch.is_grad_enabled() and is_plain()  # a few µs less than finding it out in each layer
        found = (self.gradients_op.kernel if direct else self.gradients)(grad, *arguments, *kept)
        by_scores = (found,) if isinstance(found, Tensor) else found
        scores = arguments[: self.n_scores]
        others = [None] * (self.n_arguments - self.n_scores)
        return *(None if x is None else g for x, g in zip(scores, by_scores, strict=True)), *others

    def back_log_z(self, ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """The gradients by the arguments that ``ctx`` has saved, from nothing else."""
        arguments = self._saved(ctx)
        return self._by_arguments(grad, arguments, [x.detach() for x in self.log_z_and_kept(*arguments)[1:]])

    def _back_kept(self, ctx: Any, grad: Tensor | None, *_: Any) -> tuple[Tensor | None, ...]:
        if grad is None:
            return (None,) * self.n_arguments
        saved = self._saved(ctx)
        return self._by_arguments(grad, saved[: self.n_arguments], saved[self.n_arguments :])

    def _back_gradients(self, ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        scale, *saved = self._saved(ctx)
        scores, others = saved[: self.n_scores], saved[self.n_scores : self.n_arguments]
        given = [i for i, x in enumerate(scores) if x is not None]

        def log_z(*chosen: Tensor) -> Tensor:
            whole: list[Tensor | None] = [None] * self.n_scores
            for i, x in zip(given, chosen, strict=True):
                whole[i] = x
            return self.reference(*whole, *others)

        by_scale, *by_scores = second_derivative(log_z, scale, [scores[i] for i in given], [grads[i] for i in given])
        found: list[Tensor | None] = [None] * len(saved)
        for i, x in zip(given, by_scores, strict=True):
            found[i] = x
        return by_scale, *found


def _tensors(n: int) -> str:
    return "Tensor" if n == 1 else f"({', '.join(['Tensor'] * n)})"


def _one_or_all(tensors: tuple[Tensor, ...]) -> Any:
    return tensors[0] if len(tensors) == 1 else tensors
