r"""Convolution and max over time: one vector for a whole text.

.. math::  c^w_i = f\Big(b + \sum_{j=0}^{w-1} K_j\, x_{i - \ell + j}\Big), \qquad y^w = \max_i c^w_i

Kim 2014, section 2, with the wide convolution of Kalchbrenner et al. 2014, section 3.1 (:math:`\ell = w - 1`,
i from 1 to n + w - 1), or with one window centered on each position. The text is padded with zeros, so a
window may be longer than the text; windows without a real position are not counted.

Time O(t d_in filters Σw). If the activation is monotonic, the maximum is taken before bias and
activation, and only the winning window receives a gradient; on the CPU every product :math:`K_j x_i` is then
computed once, by one matrix product, and the backward pass costs O(d_in filters Σw), without the factor t.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from catena.encoders.base import read_lengths
from catena.encoders.config import (
    TextConvolutionConfig,
)
from catena.encoders.layers import NONDECREASING, NoNorm, Norm, build_activation, build_norm
from catena.encoders.pooling import KMaxPooling, MaxPooling
from catena.kernels.common.derivatives import is_transformed
from catena.numerics import NEG_INF
from catena.shapes import mask_from_lengths, match_shape


class TextConvolution(nn.Module):
    """Maps ``b t d_in`` to ``b d_out``, with ``k`` features for each filter of each window size.

    ``kernels[n][j, f]`` are the weights of filter ``f`` of window ``n`` for its ``j``-th position.

    Args:
        d_in: the size of an input vector.
        windows: window sizes in positions.
        filters: the number of filters for each window size.
        padding: ``wide``, every window that overlaps the text; ``same``, one window for each position.
        activation: its name.
        norms: a normalization for the features of each window, before the activation; None for none.
        k: keep the ``k`` largest values of each filter in the order of the text.
        scale: filters are initialized from U(-scale, scale), with biases of 0; as torch's convolutions if None.
    """

    def __init__(
        self,
        d_in: int,
        windows: Sequence[int] = (3, 4, 5),
        filters: int = 100,
        *,
        padding: Literal["wide", "same"] = "wide",
        activation: str = "relu",
        norms: Sequence[Norm] | None = None,
        k: int = 1,
        scale: float | None = None,
    ) -> None:
        super().__init__()
        self.d_in, self.d_out = d_in, filters * len(windows) * k
        self.windows, self.filters, self.wide = tuple(windows), filters, padding == "wide"
        self.kernels = nn.ParameterList(torch.empty(window, filters, d_in) for window in windows)
        self.biases = nn.ParameterList(torch.empty(filters) for _ in windows)
        for kernel, bias in zip(self.kernels, self.biases, strict=True):
            bound = scale or 1 / math.sqrt(kernel.shape[0] * d_in)  # as torch initializes a convolution
            nn.init.uniform_(kernel, -bound, bound)
            nn.init.zeros_(bias) if scale else nn.init.uniform_(bias, -bound, bound)
        self.activation = build_activation(activation)
        self.norms = nn.ModuleList(norms) if norms is not None else None
        self.pooling = KMaxPooling(filters, k) if k > 1 else MaxPooling(filters)
        plain = norms is None or all(isinstance(norm, NoNorm) for norm in norms)
        self.largest_first = k == 1 and plain and activation in NONDECREASING

    def forward(self, x: Float[Tensor, "b t d_in"], lengths: Int[Tensor, "b"]) -> Float[Tensor, "b d_out"]:
        """The features of each text, whose first ``lengths[i]`` positions are real; zeros for an empty one."""
        b, t, _ = match_shape("the input of the convolution", tuple(x.shape), "b t d_in", d_in=self.d_in).values()
        lengths = read_lengths(lengths, b, t).to(x.device)
        if t == 0:
            return x.new_zeros(b, self.d_out)
        x = x.masked_fill(~mask_from_lengths(lengths, t)[..., None], 0.0)
        if not self.largest_first:
            return self._all_windows(x, lengths)
        if x.device.type == "cpu" and not torch.is_autocast_enabled("cpu") and not is_transformed():
            largest = _LargestWindow.apply(x, lengths, self.wide, *self.kernels)
        else:
            largest = largest_window(x, lengths, self.wide, list(self.kernels))
        features = self.activation(largest + torch.cat(list(self.biases)))
        return features.masked_fill((lengths == 0)[:, None], 0.0)

    def _all_windows(self, x: Float[Tensor, "b t d_in"], lengths: Int[Tensor, "b"]) -> Float[Tensor, "b d_out"]:
        """The general case, for any norm, activation and k: every window is computed before the maximum."""
        pooled = []
        for i, kernel in enumerate(self.kernels):
            counted = _counted(lengths, self.windows[i], self.wide)
            found = _convolve(x, kernel, self.wide) + self.biases[i]
            if self.norms is not None:
                found = self.norms[i](found, mask_from_lengths(counted, found.shape[1]))
            pooled.append(self.pooling(self.activation(found), counted))
        return torch.cat(pooled, dim=-1)


def largest_window(
    x: Float[Tensor, "b t d"], lengths: Int[Tensor, "b"], wide: bool, kernels: Sequence[Tensor]
) -> Float[Tensor, "b features"]:
    """The largest window sum of each filter, 0 for an empty text. The reference for :class:`_LargestWindow`."""
    sums = [_convolve(x, kernel, wide) for kernel in kernels]
    return torch.cat([largest for largest, _ in _largest(sums, lengths, wide, kernels)], dim=-1)


def _convolve(x: Float[Tensor, "b t d"], kernel: Float[Tensor, "w f d"], wide: bool) -> Float[Tensor, "b places f"]:
    """The sum of every window, without bias: t + w - 1 windows if ``wide``, else t. ``x`` is 0 at padding."""
    window = kernel.shape[0]
    before = _before(window, wide)
    padded = F.pad(x.transpose(1, 2), (before, window - 1 if wide else window - 1 - before))
    return F.conv1d(padded, kernel.permute(1, 2, 0)).transpose(1, 2)


def _window_sums(x: Float[Tensor, "b t d"], kernels: Sequence[Tensor], wide: bool) -> list[Tensor]:
    """As :func:`_convolve` for each kernel, from one product; adds in place, so without gradients."""
    b, t, _ = x.shape
    products = F.linear(x, _rows(kernels))  # b t (Σ w f)
    sums, at = [], 0
    for kernel in kernels:
        window, filters, _ = kernel.shape
        before, places = _before(window, wide), t + window - 1 if wide else t
        total = products.new_zeros(b, places, filters)
        for j in range(window):
            # The product of weight j with position i belongs to the window with index i - j + before.
            first, last = max(0, j - before), min(t, places + j - before)
            if first < last:
                total[:, first - j + before : last - j + before] += products[:, first:last, at : at + filters]
            at += filters
        sums.append(total)
    return sums


def _rows(kernels: Sequence[Tensor]) -> Float[Tensor, "n d"]:
    """The weights of all kernels as rows, those of one offset together."""
    return torch.cat([kernel.flatten(0, 1) for kernel in kernels])


def _largest(
    sums: Sequence[Tensor], lengths: Int[Tensor, "b"], wide: bool, kernels: Sequence[Tensor]
) -> list[tuple[Float[Tensor, "b f"], Int[Tensor, "b f"]]]:
    """The largest sum of each filter and its index."""
    found = []
    for total, kernel in zip(sums, kernels, strict=True):
        counted = mask_from_lengths(_counted(lengths, kernel.shape[0], wide), total.shape[1])
        largest, place = total.masked_fill(~counted[..., None], NEG_INF).max(dim=1)
        found.append((largest.masked_fill((lengths == 0)[:, None], 0.0), place))
    return found


def _before(window: int, wide: bool) -> int:
    """The number of positions before the first one at which the window of index 0 begins."""
    return window - 1 if wide else (window - 1) // 2


def _counted(lengths: Int[Tensor, "b"], window: int, wide: bool) -> Int[Tensor, "b"]:
    """The number of windows that overlap the text (``wide``) or are centered on it; 0 for an empty one."""
    return torch.where(lengths > 0, lengths + window - 1, 0) if wide else lengths


class _LargestWindow(torch.autograd.Function):
    """:func:`largest_window` with a backward pass over the winning windows only.

    One of the t windows of a filter has won, so the gradients are weighted sums of few rows, which
    ``embedding_bag`` computes without materializing the rows: for a kernel's weights over the b winners,
    for x over the weights that were applied to it.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, lengths: Tensor, wide: bool, *kernels: Tensor) -> Tensor:
        found = _largest(_window_sums(x, kernels, wide), lengths, wide, kernels)
        ctx.save_for_backward(x, lengths, *kernels, *(place for _, place in found))
        ctx.wide = wide
        return torch.cat([largest for largest, _ in found], dim=-1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, lengths, *saved = ctx.saved_tensors
        kernels, places = saved[: len(saved) // 2], saved[len(saved) // 2 :]
        b, t, d = x.shape
        met, weights = [], []
        for kernel, place, g in zip(kernels, places, grad.split([k.shape[1] for k in kernels], dim=1), strict=True):
            window = kernel.shape[0]
            # position[j, f, i] is the position that weight j of filter f read in text i
            offsets = torch.arange(window)[:, None, None] - _before(window, ctx.wide)
            position = place.t() + offsets
            real = (position >= 0) & (position < lengths)
            met.append((position + torch.arange(b) * t).masked_fill_(~real, 0).flatten(0, 1))
            weights.append((g.t() * real).flatten(0, 1))
        rows, weight = torch.cat(met), torch.cat(weights)  # (Σ w filters) b
        to_kernels: list[Tensor | None] = [None] * len(kernels)
        if any(ctx.needs_input_grad[3:]):
            summed = _bags(rows, x.reshape(-1, d), weight)
            sizes = [kernel.shape[0] * kernel.shape[1] for kernel in kernels]
            to_kernels = [s.view_as(k) for s, k in zip(summed.split(sizes), kernels, strict=True)]
        to_x = None
        if ctx.needs_input_grad[0]:
            to_x = _scattered(rows, _rows(kernels), weight, b * t).view_as(x)
        return to_x, None, None, *to_kernels


def _bags(rows: Int[Tensor, "n b"], table: Float[Tensor, "m d"], weight: Float[Tensor, "n b"]) -> Float[Tensor, "n d"]:
    """The weighted sums Σ_i weight[n, i] table[rows[n, i]]."""
    return F.embedding_bag(rows, table, per_sample_weights=weight, mode="sum")


def _scattered(
    rows: Int[Tensor, "n b"], table: Float[Tensor, "n d"], weight: Float[Tensor, "n b"], m: int
) -> Float[Tensor, "m d"]:
    """result[r] = Σ weight[n, i] table[n] over all n, i with rows[n, i] = r."""
    order = rows.flatten().int().argsort()
    starts = F.pad(rows.flatten().bincount(minlength=m).cumsum(0), (1, 0))
    return F.embedding_bag(
        order // rows.shape[1],
        table,
        starts,
        mode="sum",
        per_sample_weights=weight.flatten()[order],
        include_last_offset=True,
    )


def build_text_convolution(settings: TextConvolutionConfig, d_in: int) -> TextConvolution:
    """Convolution and max over time, with one vector for a whole text."""
    return TextConvolution(
        d_in,
        settings.windows,
        settings.filters,
        padding=settings.padding,
        activation=settings.activation,
        norms=[build_norm(settings.norm, settings.filters) for _ in settings.windows],
        k=settings.k,
        scale=settings.scale,
    )
