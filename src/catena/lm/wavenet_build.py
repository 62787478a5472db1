"""WaveNets from their configs."""

from __future__ import annotations

import numpy as np
from jaxtyping import Shaped

from catena.encoders.dilated import Dilated
from catena.encoders.upsampling import LearnedUpsampling, LinearUpsampling, RepeatUpsampling, Upsampling
from catena.lm.wavenet import WaveNet
from catena.lm.wavenet_config import WaveNetConfig
from catena.lm.wavenet_prediction import LinearPredictors
from catena.outputs.base import OutputLayer
from catena.outputs.logistic import LogisticMixture
from catena.outputs.prediction import PredictionMixture
from catena.outputs.softmax import Softmax


def build_wavenet(
    config: WaveNetConfig,
    counts: Shaped[np.ndarray, " v"] | None = None,
    *,
    n_speakers: int = 0,
    d_local: int = 0,
) -> WaveNet:
    """The WaveNet of a config.

    Args:
        config: its sizes.
        counts: how often each level occurs in the training data. The model begins with these frequencies, which saves
            the first thousand steps; with even ones if None.
        n_speakers: the number of speakers that the model is conditioned on; 0 for none.
        d_local: the size of the vectors of a slower series that the model is conditioned on, such as 40 for a log-mel
            spectrogram with 40 bands; 0 for none.
    """
    predictors = LinearPredictors(config.linear_prediction, config.n_levels) if config.linear_prediction else None
    encoder = Dilated(
        config.d,
        config.d,
        window=config.window,
        n_layers=config.n_layers,
        n_blocks=config.n_blocks,
        dropout=config.dropout,
        d_skip=config.d_skip,
        final_relu=True,
        d_global=config.d_speaker if n_speakers else 0,
        d_local=d_local + (predictors.n_features if predictors else 0),
    )
    output = _build_output(config)
    if counts is not None:
        output.start_at(np.asarray(counts, np.float64) + 1)
    upsampling = _build_upsampling(config, d_local)
    return WaveNet(encoder, output, n_speakers=n_speakers, upsampling=upsampling, predictors=predictors)


def _build_output(config: WaveNetConfig) -> OutputLayer:
    if config.linear_prediction:
        return PredictionMixture(config.d_skip, config.n_levels, len(config.linear_prediction), config.n_logistics)
    if config.distribution == "softmax":
        return Softmax(config.d_skip, config.n_levels)
    return LogisticMixture(config.d_skip, config.n_levels, config.n_logistics)


def _build_upsampling(config: WaveNetConfig, d_local: int) -> Upsampling | None:
    if not d_local:
        return None
    match config.upsampling:
        case "repeat":
            return RepeatUpsampling(d_local, config.hop)
        case "linear":
            return LinearUpsampling(d_local, config.hop)
        case "learned":
            return LearnedUpsampling(d_local, config.strides)
