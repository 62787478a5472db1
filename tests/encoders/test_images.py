"""Picture encoders: the laws, published parameter counts, and each kind of block compared to plain loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from catena.encoders.highway import HighwayLayer
from catena.encoders.image_base import ImageEncoder, PixelNorm
from catena.encoders.image_config import (
    AlexNetConfig,
    GoogLeNetConfig,
    HighwayImageConfig,
    ImageEncoderConfig,
    ResNetConfig,
    VGGConfig,
)
from catena.encoders.image_highway import HighwayConvolution
from catena.encoders.image_inception import BLOCKS, Branches, InceptionBlock
from catena.encoders.image_plain import VGG_LAYERS, AlexNet, response_norm
from catena.encoders.image_residual import ResidualBlock, ResNet, ZeroPadding
from catena.encoders.images import ImageNetwork, build_image_encoder
from catena.errors import ConfigError
from tests.laws.image_laws import SIZE, ImageEncoderLaws
from tests.oracle import images as oracle

SMALL: dict[str, ImageEncoderConfig] = {
    "alexnet": AlexNetConfig(small=True, width=0.05, d_dense=8, dropout=0),
    "alexnet-normal": AlexNetConfig(small=True, width=0.05, d_dense=8, dropout=0, init="normal"),
    "vgg": VGGConfig(variant="A", width=0.05, d_dense=8, dropout=0),
    "vgg-norm": VGGConfig(variant="B", width=0.05, d_dense=8, dropout=0, batch_norm=True),
    "googlenet": GoogLeNetConfig(small=True, width=0.15, dropout=0),
    "googlenet-norm": GoogLeNetConfig(width=0.05, dropout=0, batch_norm=True),
    "resnet": ResNetConfig(depth=8, width=3),
    "resnet-B": ResNetConfig(depth=8, width=3, shortcut="B"),
    "resnet-full": ResNetConfig(depth=18, width=2, small=False),
    "bottleneck": ResNetConfig(depth=50, width=2, small=False),
    "plain": ResNetConfig(depth=14, width=3, residual=False),
    "highway": HighwayImageConfig(n_layers=3, d=4),
    "highway-norm": HighwayImageConfig(n_layers=3, d=4, batch_norm=True),
    "highway-dense": HighwayImageConfig(n_layers=3, d=6, form="dense", activation="tanh"),
}


class TestImageEncoders(ImageEncoderLaws):
    @pytest.fixture(params=SMALL)
    def make(self, request: pytest.FixtureRequest) -> Callable[[], ImageEncoder]:
        return lambda: build_image_encoder(SMALL[request.param], SIZE)


# --- parameter counts -------------------------------------------------------------------------------------------------


def count(config: ImageEncoderConfig, size: int, k: int) -> int:
    with torch.device("meta"):  # no memory for 143 million weights
        network = ImageNetwork(config, (size, size), k)
        assert network.encoder(torch.empty(1, 3, size, size)).shape == (1, network.encoder.d_out)
    return sum(parameter.numel() for parameter in network.parameters())


@pytest.mark.parametrize(
    ("config", "size", "k", "published"),
    [
        (AlexNetConfig(), 227, 1000, 60_965_224),
        (AlexNetConfig(), 224, 1000, 60_965_224),
        (VGGConfig(variant="A"), 224, 1000, 132_863_336),
        (VGGConfig(variant="B"), 224, 1000, 133_047_848),
        (VGGConfig(variant="D"), 224, 1000, 138_357_544),
        (VGGConfig(variant="E"), 224, 1000, 143_667_240),
        (GoogLeNetConfig(auxiliary=False), 224, 1000, 6_998_552),
        (GoogLeNetConfig(), 224, 1000, 13_378_280),
        (ResNetConfig(depth=20), 32, 10, 269_722),
        (ResNetConfig(depth=56), 32, 10, 853_018),
        (ResNetConfig(depth=110), 32, 10, 1_727_962),
        (ResNetConfig(depth=18, stages=4, width=64, shortcut="B"), 64, 10, 11_173_962),  # ResNet-18 for CIFAR-10
        (ResNetConfig(depth=18, small=False), 224, 1000, 11_689_512),
        (ResNetConfig(depth=34, small=False), 224, 1000, 21_797_672),
        (ResNetConfig(depth=50, small=False), 224, 1000, 25_557_032),
        (ResNetConfig(depth=101, small=False), 224, 1000, 44_549_160),
        (ResNetConfig(depth=152, small=False), 224, 1000, 60_192_808),
    ],
    ids=str,
)
def test_full_size_networks_have_the_published_number_of_parameters(
    config: ImageEncoderConfig, size: int, k: int, published: int
) -> None:
    assert count(config, size, k) == published


@pytest.mark.parametrize(("variant", "published", "layers"), [("D", 14_714_688, 16), ("E", 20_024_384, 19)])
def test_vgg_convolutions_have_the_published_number_of_parameters(variant: Any, published: int, layers: int) -> None:
    with torch.device("meta"):
        encoder = build_image_encoder(VGGConfig(variant=variant), (224, 224))
    convolutions = [part for part in encoder.modules() if isinstance(part, nn.Conv2d)]
    assert sum(p.numel() for c in convolutions for p in c.parameters()) == published
    assert sum(map(len, VGG_LAYERS[variant])) + 3 == layers


@pytest.mark.parametrize("depth", [20, 32, 44, 56, 110])
def test_small_resnet_has_the_parameters_of_its_formula(depth: int) -> None:
    n = (depth - 2) // 6
    convolution = lambda c, o: 9 * c * o + 2 * o  # noqa: E731  (weights and the two vectors of the norm)
    wanted = convolution(3, 16) + 2 * n * convolution(16, 16)
    wanted += convolution(16, 32) + (2 * n - 1) * convolution(32, 32)
    wanted += convolution(32, 64) + (2 * n - 1) * convolution(64, 64) + 64 * 10 + 10
    assert count(ResNetConfig(depth=depth), 32, 10) == wanted
    assert count(ResNetConfig(depth=depth, residual=False), 32, 10) == wanted  # option A has no parameters
    more = sum(c * o + 2 * o for c, o in ((16, 32), (32, 64)))
    assert count(ResNetConfig(depth=depth, shortcut="B"), 32, 10) == wanted + more


def test_inception_blocks_join_to_the_channels_of_the_paper() -> None:
    joined = {name: b.one + b.three + b.five + b.pooled for name, b in BLOCKS.items()}
    assert joined == {
        "3a": 256,
        "3b": 480,
        "4a": 512,
        "4b": 512,
        "4c": 512,
        "4d": 528,
        "4e": 832,
        "5a": 832,
        "5b": 1024,
    }


def test_grids_of_full_size_networks_have_the_sizes_of_the_papers() -> None:
    wanted = {AlexNetConfig(): (256, 6), VGGConfig(): (512, 7), GoogLeNetConfig(): (1024, 7)}
    wanted[ResNetConfig(depth=50, small=False)] = (2048, 7)  # type: ignore[index]
    for config, (channels, side) in wanted.items():
        with torch.device("meta"):
            grid = build_image_encoder(config, (224, 224)).encode_grid(torch.empty(2, 3, 224, 224))
        assert grid.shape == (2, channels, side, side)


# --- blocks compared to loops -----------------------------------------------------------------------------------------


def unit(part: nn.Module, x: np.ndarray, relu: bool = True) -> np.ndarray:
    """A convolution unit in evaluation, by loops."""
    convolution = next(p for p in part.modules() if isinstance(p, nn.Conv2d))
    weight = convolution.weight.detach().numpy()
    bias = np.zeros(len(weight)) if convolution.bias is None else convolution.bias.detach().numpy()
    y = oracle.correlate(x, weight, bias, convolution.stride[0], int(convolution.padding[0]), convolution.groups)
    for norm in (p for p in part.modules() if isinstance(p, nn.BatchNorm2d)):
        values = (norm.running_mean, norm.running_var, norm.weight, norm.bias)
        mean, variance, scale, shift = (v.detach().numpy() for v in values if v is not None)
        y = oracle.normalize_channels(y, mean, variance, scale, shift, norm.eps)
    return np.maximum(y, 0) if relu else y


def shake_norms(module: nn.Module) -> None:
    """Give batch normalizations other statistics and scales than the initial ones."""
    for part in module.modules():
        if isinstance(part, nn.BatchNorm2d):
            for values in (part.running_mean, part.running_var, part.weight.data, part.bias.data):
                assert values is not None
                values.copy_(torch.rand_like(values) + 0.5)


@pytest.mark.parametrize("residual", [True, False])
@pytest.mark.parametrize("shortcut", ["A", "B"])
@pytest.mark.parametrize("stride", [1, 2])
def test_residual_block_equals_loops(residual: bool, shortcut: Any, stride: int) -> None:
    network = ResNet(ResNetConfig(depth=8, width=2, residual=residual, shortcut=shortcut))
    block = network._build_block(3, 3 if stride == 1 else 6, stride).double().eval()
    shake_norms(block)
    x = torch.randn(1, 3, 6, 6, dtype=torch.float64)
    first, second = block.inner
    y = unit(second, unit(first, x[0].numpy()), relu=False)
    if residual and stride == 2 and shortcut == "A":
        y[:3] += x[0, :, ::2, ::2].numpy()
    elif residual and stride == 2:
        y += unit(block.shortcut, x[0].numpy(), relu=False)
    elif residual:
        y += x[0].numpy()
    np.testing.assert_allclose(block(x)[0].detach().numpy(), np.maximum(y, 0), atol=1e-12)


def test_inception_block_equals_loops() -> None:
    block = InceptionBlock(3, Branches(2, 3, 2, 2, 3, 1), batch_norm=True).double().eval()
    shake_norms(block)
    x = np.random.default_rng(0).standard_normal((3, 7, 6))
    one, three, five, pooled = block.branches
    wanted = [unit(one, x)]
    wanted += [unit(branch[1], unit(branch[0], x)) for branch in (three, five)]
    wanted.append(unit(pooled[1], oracle.max_pool(x, 3, 1, padding=1)))
    found = block(torch.from_numpy(x)[None])[0].detach().numpy()
    np.testing.assert_allclose(found, np.concatenate(wanted), atol=1e-12)


def test_alexnet_equals_loops() -> None:
    """All layers before the dense ones: groups, response normalization and overlapping poolings."""
    encoder = AlexNet(AlexNetConfig(small=True, width=0.03), (21, 21)).double().eval()
    x = np.random.default_rng(1).standard_normal((3, 21, 21))
    units = [part for part in encoder.layers if isinstance(part, nn.Sequential)]
    assert [part[0].groups for part in units] == [1, 2, 1, 2, 2]
    y = x
    for i, part in enumerate(units):
        y = unit(part, y)
        y = oracle.normalize_responses(y) if i < 2 else y
        y = oracle.max_pool(y, 3, 2) if i in (0, 1, 4) else y
    found = encoder.encode_grid(torch.from_numpy(x)[None])[0].detach().numpy()
    np.testing.assert_allclose(found, y, atol=1e-12)


def test_response_norm_equals_the_formula_of_the_paper() -> None:
    x = 30 * np.random.default_rng(2).standard_normal((7, 2, 3))
    found = response_norm()(torch.from_numpy(x)[None])[0].numpy()
    np.testing.assert_allclose(found, oracle.normalize_responses(x), rtol=1e-12)


def test_highway_convolution_equals_loops() -> None:
    layer = HighwayConvolution(3, nn.ReLU(), bias=-1.0, batch_norm=False).double()
    x = np.random.default_rng(3).standard_normal((3, 5, 4))
    assert layer.maps.bias is not None
    weight, bias = layer.maps.weight.detach().numpy(), layer.maps.bias.detach().numpy()
    assert bias.tolist() == [0.0] * 3 + [-1.0] * 3
    maps = oracle.correlate(x, weight, bias, padding=1)
    gate = 1 / (1 + np.exp(-maps[3:]))
    wanted = np.maximum(maps[:3], 0) * gate + x * (1 - gate)
    np.testing.assert_allclose(layer(torch.from_numpy(x)[None])[0].detach().numpy(), wanted, atol=1e-12)


def test_dense_highway_uses_the_highway_layers_of_sequences() -> None:
    encoder = build_image_encoder(HighwayImageConfig(form="dense", n_layers=4, d=7), (4, 4))
    assert sum(isinstance(part, HighwayLayer) for part in encoder.modules()) == 4


# --- identities -------------------------------------------------------------------------------------------------------


def test_residual_block_with_zero_gamma_is_the_identity_after_relu() -> None:
    network = ResNet(ResNetConfig(depth=8, width=4, zero_gamma=True)).double()
    block = network.blocks[0]
    assert isinstance(block, ResidualBlock)
    x = torch.randn(2, 4, 5, 5, dtype=torch.float64)
    assert torch.equal(block(x), x.relu())
    whole = network.eval().encode_grid(torch.randn(2, 3, 32, 32, dtype=torch.float64))
    assert (whole[:, 4:] == 0).all()  # only the padded shortcuts remain


def test_plain_network_is_the_residual_one_without_the_sums() -> None:
    residual = ResNet(ResNetConfig(depth=14, width=4)).double().eval()
    plain = ResNet(ResNetConfig(depth=14, width=4, residual=False)).double().eval()
    plain.load_state_dict(residual.state_dict())
    x = torch.randn(2, 3, 16, 16, dtype=torch.float64)
    assert not torch.allclose(residual(x), plain(x))
    for block in residual.blocks:
        block.shortcut = None
    assert torch.equal(residual(x), plain(x))


def test_zero_padding_takes_every_second_position() -> None:
    x = torch.arange(32.0).reshape(1, 2, 4, 4)
    y = ZeroPadding(2, 5, 2)(x)
    assert torch.equal(y[:, :2], x[:, :, ::2, ::2])
    assert y.shape == (1, 5, 2, 2)
    assert (y[:, 2:] == 0).all()


def test_folded_batch_norm_gives_equal_outputs() -> None:
    network = ResNet(ResNetConfig(depth=8, width=4)).double()
    network.train()(torch.randn(8, 3, 16, 16, dtype=torch.float64))
    shake_norms(network)
    network.eval()
    x = torch.randn(2, 3, 16, 16, dtype=torch.float64)
    before = network(x)
    for part in network.modules():
        if isinstance(part, nn.Sequential) and len(part) > 1 and isinstance(part[1], nn.BatchNorm2d):
            part[0], part[1] = fuse_conv_bn_eval(part[0], part[1]), nn.Identity()
    torch.testing.assert_close(network(x), before, rtol=0, atol=1e-10)


# --- networks ---------------------------------------------------------------------------------------------------------


def test_auxiliary_scores_only_in_training() -> None:
    config = GoogLeNetConfig(small=True, width=0.05)
    network = ImageNetwork(config, (32, 32), 7)
    x = torch.rand(2, 3, 32, 32)
    output = network(x)
    assert [tuple(s.shape) for s in (output.scores, *output.auxiliary)] == [(2, 7)] * 3
    loss = sum(s.logsumexp(1).sum() for s in output.auxiliary)
    loss.backward()
    early = network.encoder.blocks["3a"].branches[0][0].weight.grad  # type: ignore[union-attr, index]
    late = network.encoder.blocks["5b"].branches[0][0].weight.grad  # type: ignore[union-attr, index]
    assert early.abs().sum() > 0
    assert late is None
    assert network.eval()(x).auxiliary == ()


def test_pixel_norm_uses_given_statistics() -> None:
    norm = PixelNorm(2)
    norm.set(torch.tensor([0.25, 0.5]), torch.tensor([0.5, 0.0]))
    x = torch.stack((torch.full((3, 3), 0.75), torch.full((3, 3), 0.5)))[None]
    assert torch.equal(norm(x), torch.stack((torch.ones(3, 3), torch.zeros(3, 3)))[None])
    assert set(norm.state_dict()) == {"mean", "deviation"}


@pytest.mark.parametrize(
    ("config", "options", "sentence"),
    [
        (ResNetConfig, {"depth": 21}, r"depth must be 6 n \+ 2 if small = true, got 21\. Use 20\."),
        (ResNetConfig, {"depth": 20, "stages": 4}, r"depth must be 8 n \+ 2 if .* stages = 4, got 20\. Use 18\."),
        (ResNetConfig, {"depth": 18, "small": False, "stages": 4}, "stages can be set only if small = true, got 4"),
        (ResNetConfig, {"depth": 20, "small": False}, r"depth must be 18, 34, 50, 101 or 152 .*, got 20\. Use 50"),
        (HighwayImageConfig, {"n_layers": 10}, r"n_layers must be divisible by 3, got 10\. Use 9"),
    ],
)
def test_impossible_config_raises(config: Any, options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        config(**options)


@pytest.mark.parametrize("config", [AlexNetConfig(), VGGConfig(width=0.1)])
def test_too_small_pictures_raise(config: ImageEncoderConfig) -> None:
    with pytest.raises(ConfigError, match=r"height and width must be large enough .*, got 16 x 16\. Use at least"):
        build_image_encoder(config, (16, 16))
