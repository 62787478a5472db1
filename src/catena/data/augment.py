r"""Random changes of pictures and sounds, computed for a whole batch on its device.

Every example gets its own changes. They are functions of uniform numbers in [0, 1), which come from
:meth:`catena.randomness.Randomness.uniforms`, so that they depend on the seed, the epoch and the index of the example
only: a resumed run sees the same pictures. Time O(size of the batch). Tested in tests/data/test_augment.py.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int, UInt8
from torch import Tensor
from torch.nn import functional as F

from catena.data.media_config import ImageAugmentationConfig, SoundAugmentationConfig

N_IMAGE_UNIFORMS = 9
"""Uniform numbers that one picture needs."""
FLIP_COLUMN = 2
"""The number that decides whether a picture is flipped: if it is below the probability."""
MAX_MASKED_FRACTION = 0.2
"""Largest fraction of a sound that one time mask covers."""


# --- pictures ---------------------------------------------------------------------------------------------------------


def augment_images(
    pixels: UInt8[Tensor, "b height width c"],
    uniforms: Float[Tensor, "b n"],
    config: ImageAugmentationConfig,
    fill: Float[Tensor, " c"],
) -> Float[Tensor, "b c height width"]:
    """Pictures with values from 0 to 1, scaled, cropped, flipped, changed in color and erased at random.

    Args:
        pixels: the stored pictures.
        uniforms: ``N_IMAGE_UNIFORMS`` numbers in [0, 1) for each picture.
        config: the kinds and sizes of the changes.
        fill: the color of padding and of erased squares, from 0 to 1.
    """
    h, w = pixels.shape[1:3]
    rows = _shifted_positions(uniforms[:, 0], h, config.padding)
    columns = _shifted_positions(uniforms[:, 1], w, config.padding)
    columns = torch.where((uniforms[:, FLIP_COLUMN] < config.flip)[:, None], columns.flip(1), columns)
    if config.zoom:
        row_positions = _scaled_positions(rows, uniforms[:, 7], h, config.zoom)
        column_positions = _scaled_positions(columns, uniforms[:, 8], w, config.zoom)
        x = _interpolate_pixels(to_unit_scale(pixels), row_positions, column_positions)
        rows, columns = row_positions.round().long(), column_positions.round().long()
    else:
        x = to_unit_scale(_take_pixels(pixels, rows, columns))
    if config.brightness:
        x = x * _factor(uniforms[:, 3], config.brightness)
    if config.contrast:
        mean = x.mean(dim=(1, 2, 3), keepdim=True)
        x = mean + (x - mean) * _factor(uniforms[:, 4], config.contrast)
    outside = _outside(rows, h)[:, None, :, None] | _outside(columns, w)[:, None, None, :]
    if config.erase:
        square = _stretch(uniforms[:, 5], h, config.erase), _stretch(uniforms[:, 6], w, config.erase)
        outside = outside | (square[0][:, None, :, None] & square[1][:, None, None, :])
    return torch.where(outside, fill[:, None, None].to(x.dtype), x)


def to_unit_scale(pixels: UInt8[Tensor, "b height width c"]) -> Float[Tensor, "b c height width"]:
    """Pictures with values from 0 to 1, channels first; stored channels last, as convolutions on a GPU prefer."""
    return pixels.permute(0, 3, 1, 2).to(torch.float32) / 255


def _shifted_positions(u: Float[Tensor, " b"], size: int, padding: int) -> Int[Tensor, "b size"]:
    """The source position of each pixel on one axis, from -padding to size + padding - 1."""
    start = (u * (2 * padding + 1)).long() - padding
    return torch.arange(size, device=u.device) + start[:, None]


def _take_pixels(
    pixels: UInt8[Tensor, "b height width c"], rows: Int[Tensor, "b height"], columns: Int[Tensor, "b width"]
) -> UInt8[Tensor, "b height width c"]:
    b, h, w, _ = pixels.shape
    batch = torch.arange(b, device=pixels.device)[:, None, None]
    return pixels[batch, rows.clamp(0, h - 1)[:, :, None], columns.clamp(0, w - 1)[:, None, :]]


def _scaled_positions(
    positions: Int[Tensor, "b size"], u: Float[Tensor, " b"], size: int, zoom: float
) -> Float[Tensor, "b size"]:
    """The source positions, at distances from the center that are 1 - zoom to 1 + zoom times as large."""
    center = (size - 1) / 2
    return center + (positions - center) * (1 + zoom * (2 * u - 1))[:, None]


def _interpolate_pixels(
    x: Float[Tensor, "b c height width"], rows: Float[Tensor, "b height"], columns: Float[Tensor, "b width"]
) -> Float[Tensor, "b c height width"]:
    """Bilinear interpolation; positions outside take the value at the edge."""
    h, w = x.shape[2:]
    vertical = ((2 * rows + 1) / h - 1)[:, :, None].expand(-1, -1, w)
    horizontal = ((2 * columns + 1) / w - 1)[:, None, :].expand(-1, h, -1)
    grid = torch.stack((horizontal, vertical), dim=-1)
    return F.grid_sample(x, grid, mode="bilinear", padding_mode="border", align_corners=False)


def _outside(positions: Int[Tensor, "b n"], size: int) -> Bool[Tensor, "b n"]:
    return (positions < 0) | (positions >= size)


def _factor(u: Float[Tensor, " b"], strength: float) -> Float[Tensor, "b 1 1 1"]:
    return (1 + strength * (2 * u - 1))[:, None, None, None]


def _stretch(u: Float[Tensor, " b"], size: int, length: int) -> Bool[Tensor, "b size"]:
    """``length`` neighboring positions, centered on a random one; at the edge, part of them is cut off."""
    start = (u * size).long() - length // 2
    positions = torch.arange(size, device=u.device)
    return (positions >= start[:, None]) & (positions < start[:, None] + length)


# --- sounds -----------------------------------------------------------------------------------------------------------


class AugmentedSounds(NamedTuple):
    """Changed sounds; ``sources[i, t]`` is the position in sound i that output t comes from, -1 for silence."""

    features: Float[Tensor, "b t d"]
    lengths: Int[Tensor, " b"]
    sources: Int[Tensor, "b t"]


def count_sound_uniforms(config: SoundAugmentationConfig) -> int:
    """The number of uniform numbers that one sound needs."""
    return 4 + 2 * (config.n_time_masks + config.n_mel_masks)


def augment_sounds(
    features: Float[Tensor, "b t d"],
    lengths: Int[Tensor, " b"],
    uniforms: Float[Tensor, "b n"],
    config: SoundAugmentationConfig,
    *,
    silence: float,
    fill: Float[Tensor, " d"],
) -> AugmentedSounds:
    """Log-mel energies with other tempo, start, spectrum and level, and with masks.

    Args:
        features: natural logarithms of energies; values at padding are ignored.
        lengths: number of frames of each sound.
        uniforms: :func:`count_sound_uniforms` numbers in [0, 1) for each sound.
        config: the kinds and sizes of the changes.
        silence: the logarithm of the smallest energy.
        fill: the value of each feature in masks, such as its mean.
    """
    times, n_frames = _choose_times(lengths, uniforms, config)
    x = _interpolate_time(features, times, lengths)
    if config.mel_shift:
        x = _shift_mels(x, config.mel_shift * (2 * uniforms[:, 2] - 1))
    if config.gain:
        decibels = config.gain * (2 * uniforms[:, 3] - 1)
        x = (x + decibels[:, None, None] * math.log(10) / 10).clamp(min=silence)
    silent = _outside_times(times, lengths)
    x = torch.where(silent[..., None], silence, x)
    masked = _choose_masks(uniforms[:, 4:], n_frames, x.shape[1], x.shape[2], config)
    x = torch.where(masked, fill.to(x.dtype), x)
    nearest = torch.minimum(times.round().long().clamp(min=0), (lengths - 1)[:, None])
    return AugmentedSounds(x, n_frames, nearest.masked_fill(silent, -1))


def mix_noise(
    features: Float[Tensor, "b t d"], noise: Float[Tensor, "b t d"], decibels: Float[Tensor, " b"]
) -> Float[Tensor, "b t d"]:
    """Log-mel energies of a sound with noise added, ``decibels`` below the mean energy of the sound.

    Energies of independent sounds add up, so the logarithms are log(exp(x) + exp(noise + gain)).

    Args:
        features: the sounds, without padding.
        noise: other sounds.
        decibels: the ratio of sound to noise.
    """
    levels = [torch.logsumexp(x.flatten(1), dim=1) for x in (features, noise)]
    gain = levels[0] - levels[1] - decibels * math.log(10) / 10
    return torch.logaddexp(features, noise + gain[:, None, None])


def _choose_times(
    lengths: Int[Tensor, " b"], uniforms: Float[Tensor, "b n"], config: SoundAugmentationConfig
) -> tuple[Float[Tensor, "b t"], Int[Tensor, " b"]]:
    """The source time of each output frame, and the number of output frames."""
    speed = config.tempo ** (2 * uniforms[:, 0] - 1)
    n_frames = (lengths / speed).round().long().clamp(min=1)
    start = (uniforms[:, 1] * (2 * config.shift + 1)).floor() - config.shift
    steps = torch.arange(int(n_frames.max()), device=lengths.device)
    return (steps - start[:, None]) * speed[:, None], n_frames


def _outside_times(times: Float[Tensor, "b t"], lengths: Int[Tensor, " b"]) -> Bool[Tensor, "b t"]:
    """Times before the first frame, or a whole frame after the last one."""
    return (times < 0) | (times >= lengths[:, None])


def _interpolate_time(
    x: Float[Tensor, "b s d"], times: Float[Tensor, "b t"], lengths: Int[Tensor, " b"]
) -> Float[Tensor, "b t d"]:
    last = (lengths - 1).clamp(min=0)[:, None]
    before = torch.minimum(times.floor().long().clamp(min=0), last)
    after = torch.minimum(before + 1, last)
    weight = (times - before).clamp(0, 1)[..., None].to(x.dtype)
    rows = torch.arange(len(x), device=x.device)[:, None]
    return torch.lerp(x[rows, before], x[rows, after], weight)


def _shift_mels(x: Float[Tensor, "b t d"], shift: Float[Tensor, " b"]) -> Float[Tensor, "b t d"]:
    """Move the spectrum up by ``shift`` bands, with linear interpolation; the outermost bands are repeated."""
    d = x.shape[-1]
    source = (torch.arange(d, device=x.device) - shift[:, None]).clamp(0, d - 1)
    below = source.floor().long()
    above = (below + 1).clamp(max=d - 1)
    weight = (source - below)[:, None].to(x.dtype)
    picked = [x.gather(2, index[:, None].expand(x.shape)) for index in (below, above)]
    return torch.lerp(picked[0], picked[1], weight.expand(x.shape))


def _choose_masks(
    uniforms: Float[Tensor, "b n"], n_frames: Int[Tensor, " b"], t: int, d: int, config: SoundAugmentationConfig
) -> Bool[Tensor, "b t d"]:
    """True in stretches of frames and of bands."""
    longest = torch.minimum((MAX_MASKED_FRACTION * n_frames).long(), torch.full_like(n_frames, config.time_mask))
    masked = torch.zeros(len(uniforms), t, d, dtype=torch.bool, device=uniforms.device)
    for i in range(config.n_time_masks):
        masked |= _mask(uniforms[:, 2 * i], uniforms[:, 2 * i + 1], longest, n_frames, t)[:, :, None]
    widest = torch.full_like(n_frames, min(config.mel_mask, d))
    for i in range(config.n_time_masks, config.n_time_masks + config.n_mel_masks):
        masked |= _mask(uniforms[:, 2 * i], uniforms[:, 2 * i + 1], widest, torch.full_like(n_frames, d), d)[:, None, :]
    return masked


def _mask(
    u: Float[Tensor, " b"], v: Float[Tensor, " b"], longest: Int[Tensor, " b"], sizes: Int[Tensor, " b"], n: int
) -> Bool[Tensor, "b n"]:
    """A stretch of 0 to ``longest`` positions within the first ``sizes`` of ``n``."""
    length = (u * (longest + 1)).long()
    start = (v * (sizes - length + 1)).long()
    positions = torch.arange(n, device=u.device)
    return (positions >= start[:, None]) & (positions < (start + length)[:, None])
