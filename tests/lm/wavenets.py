"""Small WaveNets for tests, and their weights in the form of the oracle."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from catena.encoders.dilated import Dilated
from catena.encoders.upsampling import LearnedUpsampling, LinearUpsampling, RepeatUpsampling, Upsampling
from catena.lm.wavenet import WaveNet
from catena.lm.wavenet_prediction import LinearPredictors
from catena.outputs.prediction import PredictionMixture
from catena.outputs.softmax import Softmax
from tests.oracle.wavenet import Layer


def small(
    *,
    d: int = 5,
    d_skip: int = 7,
    n_levels: int = 9,
    window: int = 2,
    n_layers: int = 3,
    n_blocks: int = 2,
    n_speakers: int = 0,
    upsampling: str | None = None,
    orders: tuple[int, ...] = (),
    seed: int = 0,
) -> WaveNet:
    """A WaveNet with random weights, so large that its distributions are far from even."""
    torch.manual_seed(seed)
    up: Upsampling | None = None
    if upsampling:
        kinds = {
            "repeat": RepeatUpsampling(3, 4),
            "linear": LinearUpsampling(3, 4),
            "learned": LearnedUpsampling(3, (2, 2)),
        }
        up = kinds[upsampling]
    encoder = Dilated(
        d, d, window=window, n_layers=n_layers, n_blocks=n_blocks, d_skip=d_skip, final_relu=True,
        d_global=4 if n_speakers else 0, d_local=(3 if up else 0) + 6 * len(orders),
    )  # fmt: skip
    predictors = LinearPredictors(orders, n_levels) if orders else None
    output = PredictionMixture(d_skip, n_levels, len(orders), 3) if orders else Softmax(d_skip, n_levels)
    model = WaveNet(encoder, output, n_speakers=n_speakers, upsampling=up, predictors=predictors)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * (5 / d) ** 0.5 * torch.randn_like(parameter))
        if isinstance(output, Softmax):
            output.scores.weight.mul_(3.0)
    return model.eval()


def array(x: Tensor) -> np.ndarray:
    return x.detach().double().numpy()


def oracle_layers(model: WaveNet, constant: Tensor | None = None, series: Tensor | None = None) -> list[Layer]:
    """The layers for one row: its speaker's vector, and its series, one vector for each input."""
    layers = []
    for layer in model.encoder.layers:
        d = layer.convolution.in_channels
        weight, bias = array(layer.convolution.weight), array(layer.convolution.bias)
        taps = [weight[:, :, -1 - j] for j in range(weight.shape[2])]
        added = np.zeros(2 * d)
        if constant is not None:
            added = added + array(layer.from_global.weight) @ array(constant)
        if series is not None:
            added = added + array(series) @ array(layer.from_local.weight).T
        residual = None
        if layer.onward is not None:
            residual = array(layer.onward.weight), array(layer.onward.bias)
        layers.append(
            Layer(
                layer.gap,
                [tap[:d] for tap in taps],
                [tap[d:] for tap in taps],
                bias[:d],
                bias[d:],
                residual,
                (array(layer.skip.weight), array(layer.skip.bias)),
                added[..., :d],
                added[..., d:],
            )
        )
    return layers
