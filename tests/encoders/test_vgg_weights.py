"""Files of VGG weights: names, layouts and 8 bits give the same network, and each bad file raises one sentence."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from catena.encoders.vgg_weights import read_vgg
from catena.errors import ConfigError, FormatError

CHANNELS = (3, 64, 64, 128, 128, 256)
X = torch.rand(1, 3, 16, 16, generator=torch.Generator().manual_seed(1))


@pytest.fixture(scope="module")
def layers() -> list[tuple[Tensor, Tensor]]:
    """The first five convolutions of VGG 16 with random weights."""
    generator = torch.Generator().manual_seed(0)
    return [
        (torch.randn(n, c, 3, 3, generator=generator) / (9 * c) ** 0.5, torch.randn(n, generator=generator))
        for c, n in pairwise(CHANNELS)
    ]


def torchvision_names(layers: list[tuple[Tensor, Tensor]]) -> dict[str, Tensor]:
    numbers = (0, 2, 5, 7, 10)
    found = {f"features.{i}.weight": weight for i, (weight, _) in zip(numbers, layers, strict=True)}
    return found | {f"features.{i}.bias": bias for i, (_, bias) in zip(numbers, layers, strict=True)}


def expected(layers: list[tuple[Tensor, Tensor]]) -> Tensor:
    mean, deviation = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
    x = (X - mean[:, None, None]) / deviation[:, None, None]
    for i, (weight, bias) in enumerate(layers):
        x = torch.nn.functional.avg_pool2d(x, 2) if i in (2, 4) else x
        x = torch.conv2d(x, weight, bias, padding=1).relu()
    return x


def test_state_dict_of_torchvision_is_read_in_the_order_of_its_numbers(
    tmp_path: Path, layers: list[tuple[Tensor, Tensor]]
) -> None:
    arrays = torchvision_names(layers) | {"classifier.0.weight": torch.zeros(2, 2), "classifier.0.bias": torch.zeros(2)}
    save_file(arrays, tmp_path / "vgg.safetensors")
    network = read_vgg(tmp_path / "vgg.safetensors", "torchvision")
    assert network.names == ("conv1_1", "conv1_2", "conv2_1", "conv2_2", "conv3_1")
    torch.testing.assert_close(network(X, ["conv3_1"])["conv3_1"], expected(layers))


def test_npz_with_other_names_and_layout_gives_the_same_maps(
    tmp_path: Path, layers: list[tuple[Tensor, Tensor]]
) -> None:
    names = ("conv1_1", "conv1_2", "conv2_1", "conv2_2", "conv3_1")
    arrays = {f"{name}_W": weight.permute(2, 3, 1, 0).numpy() for name, (weight, _) in zip(names, layers, strict=True)}
    arrays |= {f"{name}_b": bias.numpy() for name, (_, bias) in zip(names, layers, strict=True)}
    np.savez(tmp_path / "vgg.npz", **arrays, fc6_W=np.zeros((2, 3)))
    network = read_vgg(tmp_path / "vgg.npz", "torchvision")
    torch.testing.assert_close(network(X, ["conv3_1"])["conv3_1"], expected(layers))


def test_int8_weights_are_multiplied_by_their_scales(tmp_path: Path, layers: list[tuple[Tensor, Tensor]]) -> None:
    arrays, rounded = {}, []
    for i, (weight, bias) in enumerate(layers):
        scale = weight.abs().amax((1, 2, 3)) / 127
        eight = (weight / scale[:, None, None, None]).round().to(torch.int8)
        arrays |= {f"vgg16.{i}.weight": eight, f"vgg16.{i}.scale": scale, f"vgg16.{i}.bias": bias}
        rounded.append((eight.float() * scale[:, None, None, None], bias))
    save_file(arrays, tmp_path / "vgg.safetensors", {"preprocessing": "torchvision"})
    network = read_vgg(tmp_path / "vgg.safetensors")
    torch.testing.assert_close(network(X, ["conv3_1"])["conv3_1"], expected(rounded))
    del arrays["vgg16.3.scale"]
    save_file(arrays, tmp_path / "bad.safetensors")
    with pytest.raises(FormatError, match=r"must have 128 values vgg16.3.scale for vgg16.3.weight, got none"):
        read_vgg(tmp_path / "bad.safetensors", "torchvision")


def test_preprocessing_is_never_guessed(tmp_path: Path, layers: list[tuple[Tensor, Tensor]]) -> None:
    save_file(torchvision_names(layers), tmp_path / "a.safetensors")
    with pytest.raises(ConfigError, match=r"does not say which input .* Pass --preprocessing torchvision"):
        read_vgg(tmp_path / "a.safetensors")
    save_file(torchvision_names(layers), tmp_path / "b.safetensors", {"preprocessing": "keras"})
    with pytest.raises(ConfigError, match=r"preprocessing must be one of torchvision, caffe, caffe_rgb, got 'keras'"):
        read_vgg(tmp_path / "b.safetensors")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"features.0.weight": torch.zeros(64, 1, 3, 3)}, r"must have the convolutions of VGG .*, got 64x1x3x3, 64x64"),
        ({"features.2.bias": torch.zeros(3)}, r"must have 64 values features.2.bias .*, got shape \(3,\)"),
        ({"features.1.running_mean": torch.zeros(64)}, r"must be VGG without batch normalization, got features.1.runn"),
        (
            {"features.2.weight": torch.full((64, 64, 3, 3), torch.nan)},
            r"has weights that are not finite in features.2",
        ),
    ],
)
def test_wrong_arrays_raise(
    tmp_path: Path, layers: list[tuple[Tensor, Tensor]], change: dict[str, Tensor], message: str
) -> None:
    save_file(torchvision_names(layers) | change, tmp_path / "a.safetensors")
    with pytest.raises(FormatError, match=message):
        read_vgg(tmp_path / "a.safetensors", "torchvision")


def test_other_files_raise(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"File not found: .*none.safetensors. Check"):
        read_vgg(tmp_path / "none.safetensors", "torchvision")
    (tmp_path / "text.safetensors").write_text("weights", encoding="utf-8")
    with pytest.raises(FormatError, match=r"must be a safetensors or npz file, got .* Convert"):
        read_vgg(tmp_path / "text.safetensors", "torchvision")
    torch.save({"features.0.weight": torch.zeros(2)}, tmp_path / "vgg.pth")
    with pytest.raises(FormatError, match=r"got a pickle of torch. Save it with safetensors."):
        read_vgg(tmp_path / "vgg.pth", "torchvision")
    np.savez(tmp_path / "dense.npz", a=np.zeros((2, 2)))
    with pytest.raises(FormatError, match=r"got no array with four axes. Use"):
        read_vgg(tmp_path / "dense.npz", "torchvision")


@pytest.mark.data
def test_archive_with_8_bits_has_the_layers_of_the_paper(real_data: Path) -> None:
    path = real_data / "vgg16_int8" / "vgg16_conv_int8.safetensors"
    if not path.exists():
        pytest.skip("vgg16_int8 is missing")
    network = read_vgg(path, "torchvision")
    assert len(network.names) == 11
    assert {"conv1_1", "conv2_1", "conv3_1", "conv4_1", "conv4_2", "conv5_1"} <= set(network.names)
    assert network(X, ["conv4_2"])["conv4_2"].shape == (1, 512, 2, 2)
