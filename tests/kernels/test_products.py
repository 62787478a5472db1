"""Products of few rows: the same as those of torch, for all sizes, and after the weights have changed."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from catena.kernels.linear.ops import MAX_ROWS, MAX_WEIGHTS, CachedLinear, PackedLinear


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 40), st.integers(0, 70), st.integers(1, 110), st.integers(0, 2**31))
def test_result_equals_the_reference_for_every_size(n: int, d_in: int, d_out: int, seed: int) -> None:
    draw = torch.Generator().manual_seed(seed)
    x, weight = torch.randn(n, d_in, generator=draw), torch.randn(d_out, d_in, generator=draw)
    wanted = (x.double() @ weight.double().t()).float()
    torch.testing.assert_close(PackedLinear(weight)(x), wanted, rtol=1e-5, atol=1e-5)


def test_rows_with_other_strides() -> None:
    x, weight = torch.randn(7, 5).t(), torch.randn(3, 7)
    torch.testing.assert_close(PackedLinear(weight)(x), x @ weight.t())


def test_infinity_and_nan_propagate() -> None:
    x = torch.tensor([[1.0, float("inf")], [float("nan"), 1.0], [1.0, 2.0]])
    found = PackedLinear(torch.tensor([[1.0, 1.0]]))(x)[:, 0].tolist()
    assert [str(number) for number in found] == ["inf", "nan", "3.0"]


def test_copy_is_updated_when_the_weights_change() -> None:
    weight = torch.nn.Parameter(torch.randn(4, 3))
    product = PackedLinear(weight)
    assert product.is_current(weight)
    assert not product.is_current(torch.nn.Parameter(weight.detach().clone()))
    with torch.no_grad():
        weight.mul_(2)
    assert not product.is_current(weight)


@pytest.mark.parametrize("threads", [1, 2])
def test_threads_split_the_columns(threads: int) -> None:
    x, weight = torch.randn(9, 130), torch.randn(1000, 130)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        torch.testing.assert_close(PackedLinear(weight)(x), x @ weight.t(), rtol=1e-4, atol=1e-4)
    finally:
        torch.set_num_threads(before)


def test_supported_inputs() -> None:
    x, weight = torch.randn(2, 3), torch.randn(4, 3)
    assert not PackedLinear.suits(x, weight), "gradients are wanted"
    with torch.no_grad():
        assert PackedLinear.suits(x, weight)
        assert not PackedLinear.suits(x.double(), weight.double())
        assert not PackedLinear.suits(torch.randn(MAX_ROWS + 1, 3), weight)
        assert not PackedLinear.suits(x, torch.empty(1).expand(MAX_WEIGHTS // 3 + 1, 3))


@pytest.mark.parametrize("shape", [(3, 5), (2, 7, 5), (MAX_ROWS + 3, 5), (0, 5)])
@pytest.mark.parametrize("with_bias", [False, True])
def test_cached_product_equals_torch_and_notices_new_weights(shape: tuple[int, ...], with_bias: bool) -> None:
    x, weight = torch.randn(shape), torch.nn.Parameter(torch.randn(4, 3, 5))
    bias = torch.randn(12) if with_bias else None
    linear = CachedLinear()
    for _ in range(2):
        with torch.inference_mode():
            found = linear(x, weight.flatten(0, 1), bias)
        torch.testing.assert_close(found, torch.nn.functional.linear(x, weight.flatten(0, 1), bias))
        with torch.no_grad():
            weight.mul_(-2.0)


def test_cached_product_has_a_gradient() -> None:
    x, weight = torch.randn(3, 5), torch.nn.Parameter(torch.randn(4, 5))
    CachedLinear()(x, weight).sum().backward()
    torch.testing.assert_close(weight.grad, x.sum(0).expand(4, 5))
