"""Fused functions inside torch.func and with dual tensors equal finite differences; see also tests/structure."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.func import functional_call, hessian, jvp, vmap

from catena.encoders.text_convolution import TextConvolution
from catena.encoders.tree_batch import TreeBatchBuilder
from catena.encoders.tree_lstm import NaryTreeLSTM
from catena.kernels.dependency.ops import sum_labels
from catena.kernels.softmax.ops import softmax_log_prob, softmax_loss

STEP = 1e-5
TARGETS = torch.tensor([2, 0, 4, 4])
BATCH = TreeBatchBuilder.of([[2, 2, 4, 4, -1], [-1]]).batch(np.arange(2))


def softmax(which: Callable[..., Tensor]) -> Callable[..., Tensor]:
    return lambda hidden, weight, bias: which(hidden, weight, bias, TARGETS, scale=0.7, rows=3)


def tree_lstm() -> Callable[..., Tensor]:
    encoder = NaryTreeLSTM(3, 2).double()
    return lambda x, weight: functional_call(encoder, {"weight_h": weight}, (x, BATCH))


def convolution() -> Callable[..., Tensor]:
    encoder = TextConvolution(3, [2, 3], 2, activation="tanh").double()
    return lambda x: encoder(x, torch.tensor([4, 2]))


FUSED: dict[str, tuple[Callable[..., Tensor], list[tuple[int, ...]]]] = {
    "softmax_loss": (softmax(softmax_loss), [(4, 3), (5, 3), (5,)]),
    "softmax_log_prob": (softmax(softmax_log_prob), [(4, 3), (5, 3), (5,)]),
    "sum_labels": (sum_labels, [(2, 3, 4)]),
    "tree_lstm": (tree_lstm(), [(len(BATCH.inputs), 3), (10, 4)]),
    "convolution": (convolution(), [(2, 4, 3)]),
}


def inputs(name: str, seed: int) -> tuple[Tensor, ...]:
    generator = torch.Generator().manual_seed(seed)
    return tuple(torch.randn(shape, generator=generator, dtype=torch.float64) for shape in FUSED[name][1])


@pytest.mark.parametrize("name", FUSED)
def test_tangents_equal_finite_differences(name: str) -> None:
    function, given, tangents = FUSED[name][0], inputs(name, 0), inputs(name, 1)
    before, after = (function(*(x + h * t for x, t in zip(given, tangents, strict=True))) for h in (-STEP, STEP))
    expected = (after - before) / (2 * STEP)
    assert torch.allclose(jvp(function, given, tangents)[1], expected, atol=1e-8)
    with forward_ad.dual_level():
        duals = [forward_ad.make_dual(x, t) for x, t in zip(given, tangents, strict=True)]
        assert torch.allclose(forward_ad.unpack_dual(function(*duals)).tangent, expected, atol=1e-8)


@pytest.mark.parametrize("name", FUSED)
def test_hessian_equals_finite_differences_of_the_gradient(name: str) -> None:
    function, (first, *rest) = FUSED[name][0], inputs(name, 0)
    (tangent, *_) = inputs(name, 1)

    def gradient(x: Tensor) -> Tensor:
        x = x.detach().requires_grad_()
        return torch.autograd.grad(function(x, *rest).square().sum(), x)[0]

    found = hessian(lambda x: function(x, *rest).square().sum())(first).reshape(first.numel(), -1) @ tangent.flatten()
    expected = (gradient(first + STEP * tangent) - gradient(first - STEP * tangent)) / (2 * STEP)
    assert torch.allclose(found, expected.flatten(), atol=1e-7)


@pytest.mark.parametrize("name", ["softmax_loss", "softmax_log_prob", "sum_labels"])
def test_vmap_equals_a_loop(name: str) -> None:
    function, pairs = FUSED[name][0], list(zip(inputs(name, 0), inputs(name, 1), strict=True))
    found = vmap(function)(*(torch.stack(pair) for pair in pairs))
    assert torch.allclose(found, torch.stack([function(*(pair[i] for pair in pairs)) for i in (0, 1)]))


@pytest.mark.parametrize("name", ["softmax_loss", "softmax_log_prob", "sum_labels"])
def test_second_derivatives_in_reverse_mode_are_exact(name: str) -> None:
    assert torch.autograd.gradgradcheck(FUSED[name][0], [x.requires_grad_() for x in inputs(name, 0)])


@pytest.mark.parametrize("name", ["tree_lstm", "convolution"])
def test_second_derivatives_in_reverse_mode_raise_where_there_are_none(name: str) -> None:
    given = [x.requires_grad_() for x in inputs(name, 0)]
    (gradient,) = torch.autograd.grad(FUSED[name][0](*given).square().sum(), given[0], create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        gradient.sum().backward()
