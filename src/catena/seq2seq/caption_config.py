"""Configs of models that describe pictures. Does not import torch. Tested in tests/seq2seq/test_caption.py."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from catena.config import Config
from catena.data.media_config import ImageAugmentationConfig, ImageConfig
from catena.encoders.config import Probability
from catena.encoders.image_config import (
    AlexNetConfig,
    GoogLeNetConfig,
    HighwayImageConfig,
    ResNetConfig,
    VGGConfig,
)
from catena.outputs.config import SoftmaxConfig
from catena.seq2seq.config import ScheduledSamplingConfig


class FeatureEncoderConfig(Config):
    """Features that another network computed, read from a file (data.features)."""

    kind: Literal["features"] = "features"
    """Features of a file."""
    d_features: int = Field(0, ge=0)
    """Size of a feature vector; read from the file in training."""
    n_positions: int = Field(0, ge=0)
    """Largest number of feature vectors of a picture; read from the file in training."""
    n_rows: int = Field(0, ge=0)
    """Rows of the grid of positions, for drawings; the square root of n_positions if 0."""


CaptionEncoderConfig = Annotated[
    AlexNetConfig | VGGConfig | GoogLeNetConfig | ResNetConfig | HighwayImageConfig | FeatureEncoderConfig,
    Field(discriminator="kind"),
]


class SoftCaptionConfig(Config):
    """Soft attention: each word attends to all parts of a picture (Xu et al. 2015, section 4.2)."""

    kind: Literal["soft"] = "soft"
    """Soft attention."""
    encoder: CaptionEncoderConfig = ResNetConfig(depth=20, width=32)
    """The network over pixels (resnet, vgg, alexnet, googlenet, highway_image), whose last grid is attended to, or
    features of a file (features, the default if data.features is set)."""
    encoder_run: str | None = None
    """Run of 'catena train classify' on pictures whose network is the initial encoder. It also sets encoder and input,
    unless they are set."""
    frozen: bool = False
    """Do not train the encoder."""
    blind: bool = False
    """Replace every picture by zeros, to measure how much the captions depend on it."""
    input: ImageConfig = ImageConfig(height=64, width=64)
    """How files become pixels."""
    augmentation: ImageAugmentationConfig = ImageAugmentationConfig()
    """Random changes of training pictures."""
    directions: tuple[str, ...] = ("left", "right")
    """Pictures with one of these words in a caption are never flipped."""
    cell: Literal["lstm", "gru"] = "lstm"
    """The recurrent cell."""
    d: int = Field(512, gt=0)
    """Units of the recurrent cell."""
    d_embedding: int = Field(256, gt=0)
    """Size of a word vector, and of the vector before the output layer."""
    d_attention: int | None = Field(None, gt=0)
    """Hidden units of the attention score; d if not set."""
    gate: bool = True
    """Multiply what is attended to by a learned factor between 0 and 1, for words that do not depend on the picture."""
    doubly_stochastic: float = Field(1.0, ge=0)
    """Weight of the squared difference between 1 and the attention that each part gets over all words."""
    word_weight: float = Field(0.0, ge=0)
    """Weight of a second loss: the mean of the parts of a picture predicts each word of a caption, without their order.
    Helps an encoder that is trained from scratch on few pictures."""
    output: SoftmaxConfig = SoftmaxConfig()
    """The output layer."""
    sampling: ScheduledSamplingConfig = ScheduledSamplingConfig()
    """Scheduled sampling."""
    dropout: Probability = 0.5
    """Probability of dropping a feature of a word vector, or of the vector before the output layer."""

    @model_validator(mode="after")
    def _encoder_fits(self) -> SoftCaptionConfig:
        encoder = self.encoder
        if isinstance(encoder, HighwayImageConfig) and encoder.form == "dense":
            raise ValueError(
                "encoder.form must be 'convolution' for captions, which attend to parts of the picture, got 'dense'. "
                "Remove it."
            )
        if isinstance(encoder, FeatureEncoderConfig) and self.encoder_run is not None:
            raise ValueError(
                f"encoder_run must not be set if the encoder is 'features', got {self.encoder_run!r}. Remove it, or "
                f"data.features."
            )
        return self


class HardCaptionConfig(SoftCaptionConfig):
    """Hard attention: each word attends to one sampled part of a picture (Xu et al. 2015, section 4.1)."""

    kind: Literal["hard"] = "hard"  # type: ignore[assignment]
    """Hard attention, trained by REINFORCE."""
    doubly_stochastic: float = Field(0.0, ge=0)
    """Weight of the squared difference between 1 and the attention probability that each part gets over all words."""
    reward_weight: float = Field(1.0, ge=0)
    """Factor of the gradient of the sampled positions' log-probabilities."""
    baseline_momentum: float = Field(0.9, ge=0, lt=1)
    """Weight of the old mean in the moving mean of log-probabilities, the baseline of the reward."""
    baseline: Literal["mean", "caption"] = "mean"
    """What is subtracted from the log-probability of a caption with sampled positions: a moving mean over captions, as
    in the paper, or the log-probability of the same caption with the attention of evaluation, which has less variance
    and takes another pass."""
    entropy_weight: float = Field(0.01, ge=0)
    """Weight of the entropy of the attention probabilities, which keeps them from collapsing."""
    mixing: float = Field(0.5, ge=0, le=1)
    """Probability that a training caption attends to the expectation instead of samples."""
    evaluation: Literal["expectation", "best"] = "expectation"
    """After training, attend to the expectation over all parts, or to the most probable one."""

    @model_validator(mode="before")
    @classmethod
    def _needs_log_probs(cls, data: Any) -> Any:
        output = data.get("output") if isinstance(data, dict) else None
        smoothing = output.get("smoothing", 0) if isinstance(output, dict) else getattr(output, "smoothing", 0)
        if smoothing:
            raise ValueError(
                f"output.smoothing must be 0 for hard attention, whose reward is a log-probability, got {smoothing}. "
                f"Remove it."
            )
        return data


CaptionModelConfig = Annotated[SoftCaptionConfig | HardCaptionConfig, Field(discriminator="kind")]
