"""The models of pictures and sounds. Imports no torch. Tested in tests/tasks/classify/media/test_task.py."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from catena.config import Config
from catena.data.media_config import ImageAugmentationConfig, ImageConfig, SoundAugmentationConfig, SoundConfig
from catena.encoders.config import ConvolutionConfig, FramePoolingName, Probability, SoundEncoderConfig
from catena.encoders.image_config import ImageEncoderConfig, ResNetConfig


class MediaClassifierConfig(Config):
    """Base of the models that read files of pictures or sounds."""


class PictureClassifierConfig(MediaClassifierConfig):
    """A convolutional network over the pixels of pictures."""

    kind: Literal["picture"] = "picture"
    """The model."""
    encoder: ImageEncoderConfig = ResNetConfig()
    """The network: resnet (plain with residual = false), vgg, alexnet, googlenet or highway_image."""
    input: ImageConfig = ImageConfig()
    """How files become pixels."""
    augmentation: ImageAugmentationConfig = ImageAugmentationConfig()
    """Random changes of training pictures."""


class SoundClassifierConfig(MediaClassifierConfig):
    """A network over the frames of sounds; the scores of the frames are pooled over time."""

    kind: Literal["sound"] = "sound"
    """The model."""
    encoder: SoundEncoderConfig = ConvolutionConfig(
        windows=(3,), filters=64, n_layers=4, dilations=(1, 2, 4, 8), norm="batch", residual=True
    )
    """The network: convolution (a time-delay network, TDNN), dilated, recurrent, or spectrogram, which convolves over
    time and frequency first."""
    input: SoundConfig = SoundConfig()
    """How files become frames."""
    augmentation: SoundAugmentationConfig = SoundAugmentationConfig()
    """Random changes of training sounds, for log-mel energies."""
    pooling: FramePoolingName = "log_sum_exp"
    """Score of a sound: the maximum over its frames (max), a smooth maximum (log_sum_exp), the mean, the last frame, or
    the last states of both directions (ends)."""
    dropout: Probability = 0.2
    """Probability of dropping a unit of the encoder's output."""
    max_seconds: float = Field(60.0, gt=0)
    """Longest sound in seconds. Longer ones are dropped and listed in dropped.tsv; 'catena spot' reads any length."""
