r"""Likelihood of a softmax layer, computed in blocks of rows instead of the logits of the whole batch.

.. math::  \ell_i = \log \sum_w \exp z_{iw} - z_{i y_i}, \qquad z = (h W^\top + b) / \tau

The gradient of a block of logits is its softmax less the target, so a loss whose weight on each row is known in advance
(the mean) gets its gradients in the forward pass, at three matrix products in all and no product done twice. The same
numbers as ``cross_entropy(linear(...))``: nothing is approximated. Gradients of gradients go through the plain form.

Half precision: sums, exponentials and the gradient of the weights are float32 always.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from catena.kernels.common.derivatives import is_transformed
from catena.kernels.softmax.reference import log_prob_reference, wide

BLOCK_ON_CPU = 13_000_000
"""Logits in one block, about 50 MB: smaller blocks make the gradient of the weights be read and written more often."""

_BLOCK_ON_GPU = 1 << 27
_FAINT = 1e-30
"""A probability below which its log is taken from the logits."""


def rows_in_block(n: int, v: int, device: torch.device) -> int:
    """Rows whose logits are held at once, such that the blocks are of equal size."""
    most = max(1, (_BLOCK_ON_GPU if device.type == "cuda" else BLOCK_ON_CPU) // max(v, 1))
    blocks = max(1, -(-n // most))
    return max(1, -(-n // blocks))


def softmax_loss(
    hidden: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor, scale: float = 1.0, rows: int | None = None
) -> Tensor:
    """The mean of -log p(target) over the rows; 0 for no rows. Inside torch.func it holds all logits."""
    if is_transformed():
        found = log_prob_reference(hidden, weight, bias, targets, scale, _product_dtype(hidden))
        return -found.sum() / max(len(hidden), 1)
    rows = rows or rows_in_block(len(hidden), len(weight), hidden.device)
    inputs = (hidden, weight, bias)
    wanted = torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in inputs)
    loss: Tensor = _MeanLoss.apply(*inputs, targets, scale, rows, _product_dtype(hidden), wanted)
    return loss


def softmax_log_prob(
    hidden: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor, scale: float = 1.0, rows: int | None = None
) -> Tensor:
    """log p(target) of each row. The backward pass computes the logits again. Inside torch.func it holds all logits."""
    if is_transformed():
        return log_prob_reference(hidden, weight, bias, targets, scale, _product_dtype(hidden))
    rows = rows or rows_in_block(len(hidden), len(weight), hidden.device)
    found: Tensor = _LogProb.apply(hidden, weight, bias, targets, scale, rows, _product_dtype(hidden))
    return found


def _product_dtype(hidden: Tensor) -> torch.dtype:
    """The dtype of the factors of matrix products: half precision only where torch can sum their products wide."""
    device = hidden.device.type
    dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else hidden.dtype
    return dtype if device == "cuda" else wide(dtype)


class _Blocks:
    """The layer as blocks of rows see it: factors in the dtype of products, everything else wide."""

    def __init__(self, hidden: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor, scale: float, rows: int):
        self.hidden = hidden
        self.weight = weight
        self.bias = bias
        self.targets = targets
        self.scale = scale
        self.cuts = [(low, min(low + rows, len(hidden))) for low in range(0, len(hidden), rows)]
        self.wide = wide(hidden.dtype)
        self.buffer = hidden.new_empty(0)
        if hidden.dtype == self.wide:
            self.buffer = hidden.new_empty(min(rows, len(hidden)), len(weight))

    def probabilities(self, low: int, high: int) -> tuple[Tensor, Tensor]:
        """p of every word at these rows, in memory that the next block takes over; and log p of the targets."""
        logits = self._logits(low, high)
        target = self.targets[low:high, None]
        if logits.device.type == "cpu":
            p = torch.softmax(logits, dim=-1, out=logits)
            of_target = p.gather(1, target).squeeze(1)
            # One pass over the block instead of two, unless the log of a target would feel where floats end.
            if bool((of_target >= _FAINT).all()):
                return p, of_target.log()
            logits = self._logits(low, high)
        torch.log_softmax(logits, dim=-1, out=logits)
        found = logits.gather(1, target).squeeze(1)
        return logits.exp_(), found

    def _logits(self, low: int, high: int) -> Tensor:
        x = self.hidden[low:high]
        if x.dtype != self.wide:
            logits = torch.mm(x, self.weight.T, out_dtype=self.wide).mul_(self.scale)
            return logits if self.bias is None else logits.add_(self.bias, alpha=self.scale)
        out = self.buffer[: high - low]
        if self.bias is None:
            torch.mm(x, self.weight.T, out=out)
            return out if self.scale == 1 else out.mul_(self.scale)
        return torch.addmm(self.bias, x, self.weight.T, beta=self.scale, alpha=self.scale, out=out)

    def gradients(self, coefficients: Tensor | float, wanted: tuple[bool, ...]) -> tuple[Tensor, list[Tensor | None]]:
        """log p of the targets, and the gradients of -Σ coefficient · log p(target)."""
        found = self.hidden.new_empty(len(self.hidden), dtype=self.wide)
        shapes = (self.hidden.shape, self.weight.shape, self.weight.shape[:1])
        make = self.hidden.new_empty if self.cuts else self.hidden.new_zeros
        sums: list[Tensor | None] = [
            make(shape, dtype=self.wide) if w else None for shape, w in zip(shapes, wanted, strict=True)
        ]
        for low, high in self.cuts:
            p, found[low:high] = self.probabilities(low, high)
            if any(wanted):
                c = coefficients if isinstance(coefficients, float) else coefficients[low:high, None]
                self._add_gradients(p, c, low, high, sums)
        return found, sums

    def _add_gradients(
        self, p: Tensor, coefficients: Tensor | float, low: int, high: int, sums: list[Tensor | None]
    ) -> None:
        """Add those of one block; the first block finds memory that nothing was written to."""
        target = self.targets[low:high, None]
        p.scatter_add_(1, target, p.new_full((1, 1), -1.0).expand(high - low, 1))
        if isinstance(coefficients, float):
            factor = self.scale * coefficients
        else:
            p.mul_(coefficients)
            factor = self.scale
        x = self.hidden[low:high]
        narrow = p.to(self.hidden.dtype)
        for_hidden, for_weight, for_bias = sums
        if for_hidden is not None:
            _add_product(for_hidden[low:high], narrow, self.weight, factor, fresh=True)
        if for_weight is not None:
            _add_product(for_weight, narrow.T, x, factor, fresh=low == 0)
        if for_bias is not None:
            total = p.sum(0).mul_(factor)
            for_bias.copy_(total) if low == 0 else for_bias.add_(total)


def _add_product(to: Tensor, a: Tensor, b: Tensor, factor: float, fresh: bool) -> None:
    """Add factor · a b, or put it there if ``to`` is fresh."""
    if a.dtype == to.dtype:
        to.addmm_(a, b, beta=0 if fresh else 1, alpha=factor)
        return
    product = torch.mm(a, b, out_dtype=to.dtype).mul_(factor)
    to.copy_(product) if fresh else to.add_(product)


def _blocks(inputs: tuple[Tensor, ...], scale: float, rows: int, dtype: torch.dtype) -> _Blocks:
    hidden, weight, bias, targets = inputs
    bias = None if bias is None else bias.to(wide(dtype))
    return _Blocks(hidden.to(dtype), weight.to(dtype), bias, targets, scale, rows)


def _cast(gradients: list[Tensor | None], like: tuple[Tensor, ...]) -> tuple[Tensor | None, ...]:
    return tuple(None if g is None else g.to(x.dtype) for g, x in zip(gradients, like, strict=False))


def _through_plain(ctx: Any, outer: Tensor, reduce_mean: bool) -> tuple[Tensor | None, ...]:
    """The gradients as a function that can be differentiated again."""
    *inputs, targets = ctx.saved_tensors
    hidden, weight, bias = inputs
    found = log_prob_reference(hidden, weight, bias, targets, ctx.scale, ctx.dtype)
    value = -found.sum() / max(len(hidden), 1) if reduce_mean else found
    places = [i for i, wanted in enumerate(ctx.needs_input_grad[:3]) if wanted]
    gradients = torch.autograd.grad(value, [inputs[i] for i in places], outer.to(value.dtype), create_graph=True)
    by_place = dict(zip(places, gradients, strict=True))
    return tuple(by_place.get(i) for i in range(3))


class _MeanLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        targets: Tensor,
        scale: float,
        rows: int,
        dtype: torch.dtype,
        wanted: bool,
    ) -> Tensor:
        with torch.autocast(hidden.device.type, enabled=False):
            blocks = _blocks((hidden, weight, bias, targets), scale, rows, dtype)  # type: ignore[arg-type]
            needs = tuple(wanted and need for need in ctx.needs_input_grad[:3])
            found, sums = blocks.gradients(1.0 / max(len(hidden), 1), needs)
        ctx.save_for_backward(hidden, weight, bias, targets)
        ctx.scale = scale
        ctx.rows = rows
        ctx.dtype = dtype
        ctx.gradients = sums
        return -found.sum() / max(len(hidden), 1)

    @staticmethod
    def backward(ctx: Any, outer: Tensor) -> tuple[Tensor | None, ...]:
        none = (None,) * 5
        if torch.is_grad_enabled():
            return (*_through_plain(ctx, outer, reduce_mean=True), *none)
        inputs = ctx.saved_tensors
        # The sums are given away, and scaled where they lie: a copy would be as large as the weights.
        sums = ctx.gradients
        ctx.gradients = None
        if sums is None:
            with torch.autocast(inputs[0].device.type, enabled=False):
                blocks = _blocks(inputs, ctx.scale, ctx.rows, ctx.dtype)
                _, sums = blocks.gradients(1.0 / max(len(inputs[0]), 1), ctx.needs_input_grad[:3])
        scaled = [None if g is None else g.mul_(outer.to(g.dtype)) for g in sums]
        return (*_cast(scaled, inputs), *none)


class _LogProb(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        targets: Tensor,
        scale: float,
        rows: int,
        dtype: torch.dtype,
    ) -> Tensor:
        with torch.autocast(hidden.device.type, enabled=False):
            blocks = _blocks((hidden, weight, bias, targets), scale, rows, dtype)  # type: ignore[arg-type]
            found, _ = blocks.gradients(0.0, (False, False, False))
        ctx.save_for_backward(hidden, weight, bias, targets)
        ctx.scale = scale
        ctx.rows = rows
        ctx.dtype = dtype
        return found

    @staticmethod
    def backward(ctx: Any, outer: Tensor) -> tuple[Tensor | None, ...]:
        none = (None,) * 4
        if torch.is_grad_enabled():
            return (*_through_plain(ctx, outer, reduce_mean=False), *none)
        inputs = ctx.saved_tensors
        with torch.autocast(inputs[0].device.type, enabled=False):
            blocks = _blocks(inputs, ctx.scale, ctx.rows, ctx.dtype)
            _, sums = blocks.gradients(-outer.to(blocks.wide), ctx.needs_input_grad[:3])
        return (*_cast(sums, inputs), *none)
