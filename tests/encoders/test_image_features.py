"""Feature maps of VGG: against loops over positions, receptive fields by gradients, and bad layers and sizes."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from catena.encoders.image_features import PREPROCESSING, VGGFeatures, pad_borders
from catena.errors import ConfigError, DataError
from tests.niche.style.networks import small_network
from tests.oracle import images as oracle

ALL = ("conv1_1", "conv1_2", "conv2_1", "conv2_2", "conv3_1")


def picture(height: int, width: int) -> Tensor:
    return torch.rand(1, 3, height, width, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def pool(x: np.ndarray, kind: str) -> np.ndarray:
    windows = x[:, : x.shape[1] // 2 * 2, : x.shape[2] // 2 * 2]
    blocks = windows.reshape(len(x), windows.shape[1] // 2, 2, windows.shape[2] // 2, 2)
    return blocks.mean((2, 4)) if kind == "average" else blocks.max((2, 4))


@pytest.mark.parametrize("pooling", ["average", "max"])
def test_maps_equal_loops_over_positions(pooling: str) -> None:
    network = small_network()
    network.pooling = pooling  # type: ignore[assignment]
    x = picture(9, 8)
    found = network(x, ALL)
    mean, deviation = (np.array(values)[:, None, None] for values in PREPROCESSING["torchvision"][1:])
    y = (x[0].numpy() - mean) / deviation
    assert network.names == ALL
    for name in ALL:
        if name in ("conv2_1", "conv3_1"):
            y = pool(y, pooling)
        weight, bias = (network.get_buffer(f"{name}_{part}").numpy() for part in ("weight", "bias"))
        y = np.maximum(oracle.correlate(y, weight, bias, padding=1), 0)
        np.testing.assert_allclose(found[name][0], y, atol=1e-6)


def test_layers_after_the_last_are_not_computed() -> None:
    assert list(small_network()(picture(4, 4), ["conv2_1"])) == ["conv2_1"]


def test_caffe_weights_get_blue_green_red_from_0_to_255_minus_the_mean() -> None:
    identity = torch.zeros(3, 3, 3, 3)
    identity[range(3), range(3), 1, 1] = 1
    x = torch.tensor([1.0, 0.9, 0.8])[None, :, None, None].expand(1, 3, 4, 4)
    stages = [[(identity, torch.zeros(3))]]
    caffe = VGGFeatures(stages, "caffe")(x, ["conv1_1"])["conv1_1"][0, :, 1, 1]
    assert caffe.tolist() == pytest.approx([204 - 103.939, 229.5 - 116.779, 255 - 123.68], abs=1e-3)
    rgb = VGGFeatures(stages, "caffe_rgb")(x, ["conv1_1"])["conv1_1"][0, :, 1, 1]
    assert rgb.tolist() == pytest.approx([255 - 123.68, 229.5 - 116.779, 204 - 103.939], abs=1e-3)


@pytest.mark.parametrize("layer", ALL)
def test_radius_and_stride_agree_with_gradients(layer: str) -> None:
    network = small_network()
    x = picture(64, 64).requires_grad_()
    maps = network(x, [layer])[layer]
    stride = network.stride(layer)
    assert maps.shape[-1] == 64 // stride
    position = 32 // stride
    (gradient,) = torch.autograd.grad(maps[0, :, position, position].sum(), x)
    touched = gradient[0].abs().sum(0).nonzero()
    radius = network.radius([layer])
    assert len(touched)
    assert touched.min() >= 32 - radius
    assert touched.max() <= 32 + radius
    assert radius <= touched.max() - 32 + stride


def test_circular_padding_shifts_maps_with_the_picture() -> None:
    network, x = small_network(), picture(16, 16)
    maps = network(x, ["conv3_1"], "circular")["conv3_1"]
    moved = network(torch.roll(x, 4, 3), ["conv3_1"], "circular")["conv3_1"]
    torch.testing.assert_close(moved, torch.roll(maps, 1, 3), atol=1e-12, rtol=0)


def test_padding_adds_zeros_a_reflection_or_the_other_side() -> None:
    row = torch.tensor([1.0, 2, 3]).expand(1, 1, 3, 3)
    assert pad_borders(row, 1, "zeros")[0, 0, 1].tolist() == [0, 1, 2, 3, 0]
    assert pad_borders(row, 1, "reflect")[0, 0, 1].tolist() == [2, 1, 2, 3, 2]
    assert pad_borders(row, 1, "circular")[0, 0, 1].tolist() == [3, 1, 2, 3, 1]


def test_unknown_layer_and_small_picture_raise() -> None:
    network = small_network()
    with pytest.raises(ConfigError, match=r"layers must be among conv1_1, .*, got 'conv9_1'. Choose from these."):
        network(picture(32, 32), ["conv9_1"])
    with pytest.raises(DataError, match=r"must be at least 8 pixels for the layer conv3_1, got 7 x 20. Use a larger"):
        network(picture(7, 20), ["conv1_1", "conv3_1"])
