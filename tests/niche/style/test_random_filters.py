"""Random filters: feature maps against loops, the Fourier transform against convolution, seeds and bad sizes."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from catena.errors import ConfigError, DataError
from catena.niche.style import RandomFilters
from catena.niche.style.random_filters import CENTER, DEVIATION, correlate_by_fft, transform_filters
from tests.oracle import images as oracle

X = torch.rand(1, 3, 9, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def test_maps_equal_loops_over_positions() -> None:
    network = RandomFilters((3, 5), n_filters=2).double()
    maps = network(X, ["random3", "random5"])
    centered = ((X[0] - CENTER) / DEVIATION).numpy()
    for size, name in ((3, "random3"), (5, "random5")):
        filters = network.get_buffer(name).numpy()
        expected = oracle.correlate(centered, filters, np.zeros(2), padding=size // 2)
        np.testing.assert_allclose(maps[name][0], np.maximum(expected, 0), atol=1e-12)


def test_correlation_by_fft_equals_convolution_and_its_gradient() -> None:
    filters = torch.randn(4, 3, 5, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    x = X.clone().requires_grad_()
    by_fft = correlate_by_fft(x, transform_filters(filters, (9, 8)), 5)
    direct = F.conv2d(x, filters)
    torch.testing.assert_close(by_fft, direct, atol=1e-10, rtol=0)
    weights = torch.arange(by_fft.numel(), dtype=torch.float64).view_as(by_fft)
    for one, other in zip(
        torch.autograd.grad((by_fft * weights).sum(), x), torch.autograd.grad((direct * weights).sum(), x), strict=True
    ):
        torch.testing.assert_close(one, other, atol=1e-8, rtol=0)


def test_large_filters_equal_convolution_also_from_the_stored_transform() -> None:
    network = RandomFilters((13,), n_filters=3).double()
    x = torch.rand(1, 3, 20, 17, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    centered = (x - CENTER) / DEVIATION
    expected = F.relu(F.conv2d(F.pad(centered, (6, 6, 6, 6), mode="reflect"), network.get_buffer("random13")))
    for _ in range(2):
        found = network(x, ["random13"], "reflect")["random13"]
        torch.testing.assert_close(found, expected, atol=1e-10, rtol=0)
    smaller = F.pad(centered[..., :16], (6, 6, 6, 6), mode="reflect")
    expected = F.relu(F.conv2d(smaller, network.get_buffer("random13")))
    found = network(x[..., :16], ["random13"], "reflect")["random13"]
    torch.testing.assert_close(found, expected, atol=1e-10, rtol=0)


def test_filters_have_norm_one_and_depend_on_the_seed_and_size_only() -> None:
    network = RandomFilters((3, 7), n_filters=5, seed=1)
    norms = network.get_buffer("random7").flatten(1).norm(dim=1)
    torch.testing.assert_close(norms, torch.ones(5))
    same = RandomFilters((7,), n_filters=5, seed=1)
    other = RandomFilters((7,), n_filters=5, seed=2)
    assert torch.equal(same.get_buffer("random7"), network.get_buffer("random7"))
    assert not torch.equal(other.get_buffer("random7"), network.get_buffer("random7"))


def test_even_sizes_and_small_pictures_raise() -> None:
    with pytest.raises(ConfigError, match=r"sizes must be odd and positive, got \(4,\). Use"):
        RandomFilters((4,))
    with pytest.raises(DataError, match=r"must be at least 28 pixels for the layer random55, got 9 x 8"):
        RandomFilters((3, 55), n_filters=1).double()(X, ["random55"])
