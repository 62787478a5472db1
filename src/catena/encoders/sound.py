r"""Scores of sounds: an encoder over frames, a score of each class at each frame, and a pooling over time.

.. math::  Y_t = W h_t + b, \qquad Y = \max_t Y_t

The maximum over time is taken of the scores, not of the features, so that the frame where the maximum is reached shows
where the sound occurs, and the score of a stream is a running maximum. Other poolings: the mean; ``log_sum_exp``, a
smooth maximum :math:`\log \frac{1}{n} \sum_t \exp Y_t` whose gradient reaches every frame; ``last``, the score of
the last state; and ``ends``, the score of the last states of both directions of a bidirectional encoder. Padding scores
-inf. Time of the head O(t d k). Tested in tests/encoders/test_sound.py.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from catena.data.media_config import SoundConfig
from catena.encoders.base import Encoder, read_lengths
from catena.encoders.build import build_encoder
from catena.encoders.config import FramePoolingName, SoundEncoderConfig
from catena.encoders.pooling import EndsPooling, LastPooling
from catena.numerics import NEG_INF, log_sum_exp
from catena.shapes import mask_from_lengths


@dataclass(frozen=True, eq=False)
class SoundScores:
    """Scores of sounds and of their frames, which are -inf at padding."""

    scores: Float[Tensor, "b k"]
    frames: Float[Tensor, "b t k"]


class FeatureNorm(nn.Module):
    """Each feature minus its mean, divided by its deviation; both are fitted once and saved with the weights."""

    mean: Tensor
    deviation: Tensor

    def __init__(self, d: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(d))
        self.register_buffer("deviation", torch.ones(d))

    @torch.no_grad()
    def fit(self, x: Float[Tensor, "n d"]) -> None:
        """Take mean and deviation from the frames of the training set; constant features are only centered."""
        deviation = x.double().std(dim=0, correction=0)
        self.mean.copy_(x.double().mean(dim=0))
        self.deviation.copy_(torch.where(deviation > 1e-6, deviation, 1.0))

    def forward(self, x: Float[Tensor, "*batch d"]) -> Float[Tensor, "*batch d"]:
        return (x - self.mean) / self.deviation


class SoundNetwork(nn.Module):
    """Scores of ``k`` classes from the feature vectors of frames.

    Args:
        encoder: reads normalized feature vectors.
        k: number of classes; 1 for a keyword.
        pooling: how the scores of frames become the score of a sound.
        dropout: probability of dropping a unit of the encoder's output.
    """

    def __init__(self, encoder: Encoder, k: int, pooling: FramePoolingName = "max", dropout: float = 0.0) -> None:
        super().__init__()
        self.encoder, self.pooling = encoder, pooling
        self.norm = FeatureNorm(encoder.d_in)
        self.dropout = nn.Dropout(dropout)
        self.head = nn.Linear(encoder.d_out, k)
        self.states = {"last": LastPooling, "ends": EndsPooling}.get(pooling, nn.Identity)(encoder.d_out)

    def forward(self, x: Float[Tensor, "b t d"], lengths: Int[Tensor, " b"] | None = None) -> SoundScores:
        """The scores of feature vectors that are not normalized yet; a sound without frames scores -inf."""
        lengths = read_lengths(lengths, *x.shape[:2]).to(x.device)
        states = self.dropout(self.encoder(self.norm(x), lengths))
        mask = mask_from_lengths(lengths, x.shape[1])
        frames = self.head(states).masked_fill(~mask[..., None], NEG_INF)
        if self.pooling in ("last", "ends"):
            scores = self.head(self.states(states, lengths)).masked_fill((lengths == 0)[:, None], NEG_INF)
        else:
            scores = pool_scores(frames, mask, self.pooling)
        return SoundScores(scores, frames)


def pool_scores(
    frames: Float[Tensor, "b t k"], mask: Bool[Tensor, "b t"], pooling: FramePoolingName
) -> Float[Tensor, "b k"]:
    """The maximum, mean or smooth maximum of the scores of the real frames; -inf without frames."""
    n = mask.sum(dim=1)[:, None]
    if frames.shape[1] == 0:
        return frames.new_full((frames.shape[0], frames.shape[2]), NEG_INF)
    if pooling == "max":
        return frames.amax(dim=1)
    if pooling == "log_sum_exp":
        return log_sum_exp(frames, dim=1) - n.clamp(min=1).to(frames.dtype).log()
    total = frames.masked_fill(~mask[..., None], 0.0).sum(dim=1)
    return (total / n.clamp(min=1)).masked_fill(n == 0, NEG_INF)


def frame_loss(
    frames: Float[Tensor, "b t k"], targets: Float[Tensor, "b t k"], known: Bool[Tensor, "b t"]
) -> Float[Tensor, ""]:
    """Mean binary cross-entropy of the frames whose target is known; 0 if there is none."""
    losses = F.binary_cross_entropy_with_logits(frames[known], targets[known], reduction="sum")
    return losses / (known.sum() * frames.shape[-1]).clamp(min=1)


def build_sound_network(
    encoder: SoundEncoderConfig, features: SoundConfig, k: int, pooling: FramePoolingName = "max", dropout: float = 0.0
) -> SoundNetwork:
    """The network of a config for ``k`` classes.

    Args:
        encoder: the encoder of the frames.
        features: how samples become frames.
        k: number of classes.
        pooling: how the frames of a recording are combined.
        dropout: fraction of features before the output layer that are set to 0 in training.
    """
    return SoundNetwork(build_encoder(encoder, features.d), k, pooling, dropout)
