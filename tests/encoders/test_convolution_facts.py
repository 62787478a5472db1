"""Facts about convolution: kernels, distributions, commutativity, equivariance and receptive fields."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from catena.encoders.build import build_encoder
from catena.encoders.config import ConvolutionConfig, DilatedConfig
from catena.encoders.image_base import ImageEncoder
from catena.encoders.image_config import ResNetConfig
from catena.encoders.images import build_image_encoder
from tests.oracle import images as oracle

BLUR = np.zeros((5, 5))
BLUR[1:4, 1:4] = 1 / 9
EDGE = np.zeros((5, 5))
EDGE[2, 1:3] = (-1, 1)
"""The two kernels of Goodfellow et al. 2016, chapter 9, as 5x5 grids."""


def convolve2d(x: np.ndarray, kernel: np.ndarray) -> np.ndarray:
    """(x * k)(i, j) = Σ x(i - a, j - b) k(a, b), with a and b from the center of the kernel, by loops."""
    reach = kernel.shape[0] // 2
    y = np.zeros_like(x)
    for (i, j), (a, b) in product(np.ndindex(x.shape), product(range(-reach, reach + 1), repeat=2)):
        if 0 <= i - a < x.shape[0] and 0 <= j - b < x.shape[1]:
            y[i, j] += x[i - a, j - b] * kernel[a + reach, b + reach]
    return y


def correlate_torch(x: np.ndarray, kernel: np.ndarray) -> np.ndarray:
    return F.conv2d(torch.tensor(x)[None, None], torch.tensor(kernel)[None, None], padding=2)[0, 0].numpy()


@pytest.mark.parametrize("kernel", [BLUR, EDGE], ids=["blur", "edge"])
def test_convolution_is_correlation_with_the_flipped_kernel(kernel: np.ndarray) -> None:
    x = np.random.default_rng(0).standard_normal((9, 8))
    wanted = convolve2d(x, kernel)
    np.testing.assert_allclose(correlate_torch(x, kernel[::-1, ::-1].copy()), wanted, atol=1e-12)
    unflipped = oracle.correlate(x[None], kernel[None, None], np.zeros(1), padding=2)[0]
    np.testing.assert_allclose(correlate_torch(x, kernel), unflipped, atol=1e-12)


def test_blur_kernel_averages_nine_neighbors() -> None:
    x = np.random.default_rng(1).standard_normal((9, 9))
    found = correlate_torch(x, BLUR)
    for i, j in product(range(1, 8), repeat=2):
        assert found[i, j] == pytest.approx(x[i - 1 : i + 2, j - 1 : j + 2].mean(), abs=1e-12)


def test_edge_kernel_is_the_difference_of_neighbors_and_zero_on_constant_areas() -> None:
    x = np.random.default_rng(2).standard_normal((9, 9))
    found = correlate_torch(x, EDGE)
    for i, j in product(range(9), range(1, 9)):
        assert found[i, j] == pytest.approx(x[i, j] - x[i, j - 1], abs=1e-12)
    flat = np.where(np.arange(9) < 4, 1.0, 7.0)[None].repeat(9, 0)
    edges = correlate_torch(flat, EDGE)[:, 1:]
    assert set(np.nonzero(edges)[1].tolist()) == {3}  # only where 1 meets 7
    assert (edges[:, 3] == 6).all()


def test_distribution_of_a_sum_is_the_convolution_of_the_distributions() -> None:
    f = {1: Fraction(1, 2), 2: Fraction(1, 3), 5: Fraction(1, 6)}
    g = {0: Fraction(1, 4), 3: Fraction(3, 4)}
    by_enumeration: dict[int, Fraction] = {}
    for (a, p), (b, q) in product(f.items(), g.items()):
        by_enumeration[a + b] = by_enumeration.get(a + b, Fraction(0)) + p * q
    assert sum(by_enumeration.values()) == 1
    dense_f, dense_g = (np.array([float(d.get(i, 0)) for i in range(6)]) for d in (f, g))
    sums = F.conv1d(torch.tensor(dense_f)[None, None], torch.tensor(dense_g[::-1].copy())[None, None], padding=5)[0, 0]
    np.testing.assert_allclose(sums, [float(by_enumeration.get(c, 0)) for c in range(11)], atol=1e-15)


def test_convolution_commutes_and_correlation_does_not() -> None:
    a, b = (np.random.default_rng(seed).standard_normal(6) for seed in (3, 4))

    def convolve(x: np.ndarray, y: np.ndarray, sign: int) -> torch.Tensor:
        return F.conv1d(torch.tensor(x)[None, None], torch.tensor(y[::sign].copy())[None, None], padding=5)[0, 0]

    torch.testing.assert_close(convolve(a, b, -1), convolve(b, a, -1))
    assert not torch.allclose(convolve(a, b, 1), convolve(b, a, 1))


# --- equivariance -----------------------------------------------------------------------------------------------------


def shift(x: torch.Tensor, by: int) -> torch.Tensor:
    return torch.roll(x, (by, by), (2, 3))


def test_shift_then_convolve_equals_convolve_then_shift() -> None:
    layer = nn.Conv2d(2, 3, 5, padding=2).double()
    x = torch.randn(1, 2, 20, 20, dtype=torch.float64)
    inside = (..., slice(6, -6), slice(6, -6))  # away from the border, where zeros enter
    torch.testing.assert_close(layer(shift(x, 3))[inside], shift(layer(x), 3)[inside])


@pytest.mark.parametrize(("by", "equal"), [(4, True), (8, True), (1, False), (2, False), (3, False)])
def test_strided_network_is_equivariant_for_multiples_of_its_stride_only(by: int, equal: bool) -> None:
    encoder = build_image_encoder(ResNetConfig(depth=8, width=4), (96, 96)).double().eval()
    assert isinstance(encoder, ImageEncoder)
    x = torch.randn(1, 3, 96, 96, dtype=torch.float64)
    moved, grid = encoder.encode_grid(shift(x, by)), encoder.encode_grid(x)
    inside = (..., slice(9, -9), slice(9, -9))
    assert torch.allclose(moved[inside], shift(grid, by // 4)[inside], rtol=0, atol=1e-10) == equal


def test_maximum_over_time_does_not_change_if_the_pattern_moves() -> None:
    encoder = build_encoder(ConvolutionConfig(windows=(3,), filters=4), 2).double()
    pattern, gap = torch.randn(1, 3, 2, dtype=torch.float64), torch.zeros(1, 4, 2, dtype=torch.float64)
    early = encoder(torch.cat((gap, pattern, gap, gap), dim=1))
    late = encoder(torch.cat((gap, gap, pattern, gap), dim=1))
    torch.testing.assert_close(early.amax(1), late.amax(1))


# --- receptive fields -------------------------------------------------------------------------------------------------


def positions_with_gradient(network: nn.Module, x: torch.Tensor, output: tuple[int, ...]) -> torch.Tensor:
    """The input positions that one output depends on, all positive so that nothing cancels."""
    for parameter in network.parameters():
        parameter.data = parameter.data.abs() + 0.01
    x.requires_grad_()
    network(x)[output].backward()
    assert x.grad is not None
    return x.grad != 0


@pytest.mark.parametrize("depth", [8, 14, 20])
def test_receptive_field_of_a_small_resnet_by_gradient(depth: int) -> None:
    """Each 3x3 convolution adds twice the product of the strides below it (Goodfellow et al. 2016, figure 9.4)."""
    encoder = build_image_encoder(ResNetConfig(depth=depth, width=2), (160, 160)).double().eval()
    n = (depth - 2) // 6
    field = 1 + 2 * 1  # stem
    for stage in range(3):
        for layer in range(2 * n):
            below = 2 ** max(0, stage - 1) if stage and layer == 0 else 2**stage
            field += 2 * below
    for parameter in encoder.parameters():
        parameter.data = parameter.data.abs() + 0.01
    x = torch.rand(1, 3, 160, 160, dtype=torch.float64, requires_grad=True)
    encoder.encode_grid(x)[0, :, 20, 20].sum().backward()
    assert x.grad is not None
    rows = (x.grad != 0).any(dim=(0, 1, 3)).nonzero().flatten()
    assert rows[-1] - rows[0] + 1 == field == len(rows)


@pytest.mark.parametrize(("n_layers", "window"), [(1, 3), (4, 3), (3, 5)])
def test_receptive_field_grows_linearly_with_plain_layers(n_layers: int, window: int) -> None:
    config = ConvolutionConfig(windows=(window,), filters=2, n_layers=n_layers, activation="identity")
    encoder = build_encoder(config, 2).double()
    used = positions_with_gradient(encoder, torch.rand(1, 41, 2, dtype=torch.float64), (0, 20, 0))
    assert used.any(dim=-1).sum() == n_layers * (window - 1) + 1


@pytest.mark.parametrize("n_layers", [1, 3, 5])
def test_receptive_field_doubles_with_dilated_layers(n_layers: int) -> None:
    encoder = build_encoder(DilatedConfig(d=3, n_layers=n_layers), 2).double()
    used = positions_with_gradient(encoder, torch.rand(1, 41, 2, dtype=torch.float64), (0, 40, 0)).any(dim=-1)[0]
    assert used.sum() == 2**n_layers == encoder.field  # type: ignore[comparison-overlap]
    assert used[-(2**n_layers) :].all()  # causal: nothing after the output's own position
