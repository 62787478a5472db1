"""Texture synthesis and style transfer: a picture whose feature maps have wanted statistics, found by optimization.

The pixels are the variables. They start as noise, or as the content picture, and L-BFGS or Adam lowers the loss
of :mod:`catena.niche.style.objective`. With several levels, a small picture is made first and then enlarged. The same
seed gives the same picture on the same machine and number of threads. Tested in tests/niche/style/test_synthesis.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float, UInt8
from torch import Tensor
from torch.nn import functional as F

from catena.encoders.image_features import ImageFeatures, PaddingName
from catena.errors import ConfigError
from catena.niche.style.colors import color_scales, match_colors, match_luminance, replace_luminance, to_gray
from catena.niche.style.losses import gram_matrix
from catena.niche.style.minimize import Minimization, OptimizerName, minimize
from catena.niche.style.objective import LossForm, LossWeights, Objective, StepLosses
from catena.niche.style.pictures import PictureInput, open_picture, resize_picture, to_bytes, to_unit, write_picture
from catena.niche.style.random_filters import RandomFilters
from catena.niche.style.starts import TextureStart, make_noise, make_start
from catena.training.device import Interruption, choose_device

ColorName = Literal["style", "luminance", "histogram"]
StyleStart = Literal["content", "noise"]
STYLE_LAYERS = ("conv1_1", "conv2_1", "conv3_1", "conv4_1", "conv5_1")
"""The style layers of the paper, for VGG. Random filters use all of their layers."""
CONTENT_LAYERS = ("conv4_2", "random5")
"""The content layer of the paper, for VGG, and the one for random filters."""
MAX_PIXELS = 100_000_000
"""Largest number of pixels of a file that is read."""
MAX_SIDE = 4096
"""Largest height and width of a result."""

_Pixels = Float[np.ndarray, "_ _ 3"]


@dataclass(frozen=True)
class SynthesisProgress:
    """A synthesis in progress.

    Args:
        losses: the losses after the last step.
        n_steps: largest number of steps of all levels.
        picture: makes the best picture so far.
    """

    losses: StepLosses
    n_steps: int
    picture: Callable[[], UInt8[np.ndarray, "height width 3"]]


OnStep = Callable[[SynthesisProgress], object]
"""Called after each step; if it returns True, the synthesis stops."""


@dataclass(frozen=True, eq=False)
class SynthesisResult:
    """A picture and how it was found.

    Args:
        picture: the pixels in RGB, with the lowest loss of all steps.
        losses: the losses after each step.
        best: the losses of the picture, before it was rounded to 8 bits.
        interrupted: whether Ctrl-C or ``on_step`` stopped it.
    """

    picture: UInt8[np.ndarray, "height width 3"]
    losses: tuple[StepLosses, ...]
    best: StepLosses
    interrupted: bool = False

    def save(self, path: Path | str) -> None:
        """Write the picture to a file, complete or not at all; the extension decides the format."""
        write_picture(self.picture, Path(path))


def synthesize_texture(
    sample: PictureInput,
    *,
    network: ImageFeatures | None = None,
    size: int = 256,
    height: int | None = None,
    width: int | None = None,
    layers: Sequence[str] | None = None,
    layer_weights: Sequence[float] | None = None,
    variation_weight: float = 0.0,
    loss: LossForm = "relative",
    tileable: bool = False,
    start: TextureStart = "spectrum",
    optimizer: OptimizerName = "lbfgs",
    steps: int = 200,
    learning_rate: float = 0.05,
    history: int = 20,
    levels: int = 1,
    tile: int = 512,
    seed: int = 0,
    device: str = "auto",
    max_pixels: int = MAX_PIXELS,
    on_step: OnStep | None = None,
) -> SynthesisResult:
    """A new picture with the texture of a sample (Gatys et al. 2015).

    Ctrl-C stops after the current step and keeps the best picture.

    Args:
        sample: a picture file, or 8-bit pixels in RGB.
        network: the feature maps; random filters, which need no weights, if None.
        size: longest side of the sample in pixels. A larger sample is reduced.
        height: height of the result; that of the reduced sample if None.
        width: width of the result; that of the reduced sample if None.
        layers: the style layers; conv1_1, conv2_1, … conv5_1 of VGG, or all random filters, if None.
        layer_weights: weights of the style layers; equal if None.
        variation_weight: weight of the total variation, which removes noise. Too much of it gives a solid color.
        loss: ``relative``, or ``paper`` for the sums of the paper.
        tileable: make a picture that can be repeated without seams.
        start: the picture before the first step: noise with the spectrum of the sample, white noise, or patches of the
            sample at random positions.
        optimizer: ``lbfgs`` or ``adam``.
        steps: largest number of steps in all. Each coarse level gets a sixth of them.
        learning_rate: of Adam, in deviations of the pixels.
        history: number of past steps that L-BFGS stores, at most 1 GB.
        levels: number of resolutions, from coarse to fine, each half of the next one.
        tile: largest side of the tiles in which the loss is computed. Smaller tiles need less memory.
        seed: seed of the noise and of the random filters.
        device: device, such as ``cpu``; ``auto`` is a GPU if there is one.
        max_pixels: largest number of pixels of a file.
        on_step: called after each step; it stops the synthesis if it returns True.
    """
    pixels = open_picture(sample, size, max_pixels, "sample")
    shape = _check_shape(height or pixels.shape[0], width or pixels.shape[1])
    network = _place_network(network, seed, device)
    weights = LossWeights(_weigh_layers(network, layers, layer_weights), variation=variation_weight, form=loss)
    padding: PaddingName = "circular" if tileable else "zeros"

    def make(scale: int) -> Objective:
        grams = measure_grams(network, [to_unit(_reduce(pixels, scale))], weights.layers)
        return Objective(network, grams, {}, weights, padding, tile)

    scales = _list_scales(levels)
    first = make_start(start, to_unit(_reduce(pixels, scales[0])), _divide(shape, scales[0]), seed)
    how = Minimization(optimizer, steps, learning_rate, history, color_scales([to_unit(pixels)]))
    painting = _Painting(to_tensor(first, network), how, to_bytes, on_step)
    return painting.run(shape, scales, make)


def transfer_style(
    content: PictureInput,
    style: PictureInput | Sequence[PictureInput],
    *,
    network: ImageFeatures | None = None,
    size: int = 512,
    style_size: int | None = None,
    style_weight: float | None = None,
    content_weight: float = 1.0,
    mix: Sequence[float] | None = None,
    layers: Sequence[str] | None = None,
    layer_weights: Sequence[float] | None = None,
    content_layers: Sequence[str] | None = None,
    variation_weight: float = 0.0,
    loss: LossForm = "relative",
    color: ColorName = "style",
    start: StyleStart = "content",
    optimizer: OptimizerName = "lbfgs",
    steps: int = 200,
    learning_rate: float = 0.05,
    history: int = 20,
    levels: int = 1,
    tile: int = 512,
    seed: int = 0,
    device: str = "auto",
    max_pixels: int = MAX_PIXELS,
    on_step: OnStep | None = None,
) -> SynthesisResult:
    """The content of one picture in the style of others (Gatys et al. 2016).

    Ctrl-C stops after the current step and keeps the best picture.

    Args:
        content: a picture file, or 8-bit pixels in RGB.
        style: one or several pictures.
        network: the feature maps; random filters, which need no weights, if None.
        size: longest side of the result in pixels. A smaller content picture keeps its size.
        style_size: longest side of the style pictures; ``size`` if None. A smaller one gives finer strokes.
        style_weight: weight of the style loss; 10, or with ``loss="paper"`` 1000, if None.
        content_weight: weight of the content loss.
        mix: weights of the style pictures; equal if None.
        layers: the style layers; conv1_1, conv2_1, … conv5_1 of VGG, or all random filters, if None.
        layer_weights: weights of the style layers; equal if None.
        content_layers: the content layers; conv4_2 of VGG, or the smallest random filters but one, if None.
        variation_weight: weight of the total variation, which removes noise. Too much of it gives a solid color.
        loss: ``relative``, or ``paper`` for the sums of the paper.
        color: ``style``; ``luminance`` or ``histogram`` keep the colors of the content.
        start: the picture before the first step.
        optimizer: ``lbfgs`` or ``adam``.
        steps: largest number of steps in all. Each coarse level gets a sixth of them.
        learning_rate: of Adam, in deviations of the pixels.
        history: number of past steps that L-BFGS stores, at most 1 GB.
        levels: number of resolutions, from coarse to fine, each half of the next one.
        tile: largest side of the tiles in which the loss is computed. Smaller tiles need less memory.
        seed: seed of the noise and of the random filters.
        device: device, such as ``cpu``; ``auto`` is a GPU if there is one.
        max_pixels: largest number of pixels of a file.
        on_step: called after each step; it stops the synthesis if it returns True.
    """
    pixels = open_picture(content, size, max_pixels, "content")
    shape = _check_shape(*pixels.shape[:2])
    several = list(style) if isinstance(style, Sequence) and not isinstance(style, str) else [style]
    styles = [open_picture(one, style_size or size, max_pixels, "style") for one in several]
    network = _place_network(network, seed, device)
    weight = style_weight if style_weight is not None else 10.0 if loss == "relative" else 1000.0
    weights = LossWeights(_weigh_layers(network, layers, layer_weights), weight, content_weight, variation_weight, loss)
    chosen = content_layers or [layer for layer in CONTENT_LAYERS if layer in network.names] or network.names[:1]
    fractions = _normalize("mix", mix, len(styles), "style pictures")

    def make(scale: int) -> Objective:
        own, others = recolor(to_unit(_reduce(pixels, scale)), [to_unit(_reduce(one, scale)) for one in styles], color)
        grams = measure_grams(network, others, weights.layers, fractions)
        with torch.no_grad():
            maps = network(to_tensor(own, network), chosen)
        return Objective(network, grams, maps, weights, "zeros", tile)

    def finish(found: _Pixels) -> UInt8[np.ndarray, "height width 3"]:
        if color != "luminance":
            return to_bytes(found)
        return to_bytes(replace_luminance(to_unit(resize_picture(pixels, found.shape[:2])), found))

    scales = _list_scales(levels)
    own, others = recolor(to_unit(_reduce(pixels, scales[0])), [to_unit(one) for one in styles], color)
    first = own if start == "content" else make_noise(_divide(shape, scales[0]), seed)
    how = Minimization(optimizer, steps, learning_rate, history, color_scales([own, *others], [1.0, *fractions]))
    painting = _Painting(to_tensor(first, network), how, finish, on_step)
    return painting.run(shape, scales, make)


# --- targets ----------------------------------------------------------------------------------------------------------


@torch.no_grad()
def measure_grams(
    network: ImageFeatures,
    pictures: Sequence[Float[np.ndarray, "_ _ 3"]],
    layers: Iterable[str],
    fractions: Sequence[float] = (1.0,),
) -> dict[str, Float[Tensor, "_ _"]]:
    """The Gram matrix of each layer: the mean over pictures, weighted by ``fractions``."""
    layers = list(layers)
    grams: dict[str, Tensor] = {}
    for picture, fraction in zip(pictures, fractions, strict=True):
        for name, maps in network(to_tensor(picture, network), layers).items():
            grams[name] = grams.get(name, 0) + fraction * gram_matrix(maps[0])
    return grams


def recolor(content: _Pixels, styles: Sequence[_Pixels], color: ColorName) -> tuple[_Pixels, list[_Pixels]]:
    """The content and the style pictures in the colors in which the style is transferred."""
    if color == "luminance":
        return to_gray(content), [match_luminance(style, content) for style in styles]
    if color == "histogram":
        return content, [match_colors(style, content) for style in styles]
    return content, list(styles)


def to_tensor(
    picture: Float[np.ndarray, "height width 3"], network: ImageFeatures
) -> Float[Tensor, "1 3 height width"]:
    """A picture in the axes, the type and the device of a network."""
    return torch.as_tensor(picture).permute(2, 0, 1)[None].contiguous().to(next(network.buffers()))


def _place_network(network: ImageFeatures | None, seed: int, device: str) -> ImageFeatures:
    return (RandomFilters(seed=seed) if network is None else network).to(choose_device(device))


def _weigh_layers(
    network: ImageFeatures, layers: Sequence[str] | None, weights: Sequence[float] | None
) -> dict[str, float]:
    """The weights of the style layers, which sum to 1."""
    chosen = layers or [layer for layer in STYLE_LAYERS if layer in network.names] or network.names
    network.check_layers(chosen)
    return dict(zip(chosen, _normalize("layer_weights", weights, len(chosen), "layers"), strict=True))


def _normalize(name: str, weights: Sequence[float] | None, n: int, what: str) -> list[float]:
    values = [1.0] * n if weights is None else list(weights)
    if len(values) != n or min(values) < 0 or sum(values) <= 0:
        raise ConfigError(
            f"{name} must be {n} values of at least 0, one for each of the {what}, got {values}. Add or remove values."
        )
    return [value / sum(values) for value in values]


# --- levels -----------------------------------------------------------------------------------------------------------


class _Painting:
    """A synthesis in progress.

    Args:
        start: the picture before the first step.
        how: the optimizer.
        finish: makes 8-bit pixels of values from 0 to 1.
        on_step: called after each step.
    """

    def __init__(
        self,
        start: Float[Tensor, "1 3 _ _"],
        how: Minimization,
        finish: Callable[[_Pixels], UInt8[np.ndarray, "_ _ 3"]],
        on_step: OnStep | None,
    ) -> None:
        self.picture, self.how, self.finish, self.on_step = start, how, finish, on_step
        self.losses: list[StepLosses] = []
        self.best: StepLosses | None = None

    def run(self, shape: tuple[int, int], scales: Sequence[int], make: Callable[[int], Objective]) -> SynthesisResult:
        """Minimize at each scale, from coarse to fine. Each starts with the best picture of the one before."""
        with Interruption() as interruption:
            stopped = any(
                self._report(losses) or interruption.requested
                for scale, steps in zip(scales, split_steps(self.how.steps, len(scales)), strict=True)
                for losses in self._steps(make(scale), _divide(shape, scale), steps)
            )
        self._resize(shape)  # it may have been stopped at a coarse scale
        assert self.best is not None
        return SynthesisResult(self.pixels(), tuple(self.losses), self.best, stopped)

    def pixels(self) -> UInt8[np.ndarray, "_ _ 3"]:
        """The best picture so far."""
        return self.finish(self.picture[0].permute(1, 2, 0).double().cpu().numpy())

    def _steps(self, objective: Objective, size: tuple[int, int], steps: int) -> Iterator[StepLosses]:
        """Minimize at one scale and yield the losses after each step."""
        self._resize(size)
        before = self.losses[-1].step if self.losses else 0
        self.best = None
        for picture, found in minimize(objective, self.picture, replace(self.how, steps=steps)):
            losses = replace(found, step=before + found.step)
            self.losses.append(losses)
            if self.best is None or losses.total < self.best.total:
                self.picture, self.best = picture, losses
            yield losses

    def _report(self, losses: StepLosses) -> bool:
        return self.on_step is not None and self.on_step(SynthesisProgress(losses, self.how.steps, self.pixels)) is True

    def _resize(self, size: tuple[int, int]) -> None:
        if tuple(self.picture.shape[-2:]) != size:
            self.picture = F.interpolate(self.picture, size, mode="bicubic")


def _list_scales(levels: int) -> list[int]:
    """What height and width are divided by at each level."""
    return [2**i for i in reversed(range(levels))]


def split_steps(steps: int, levels: int) -> list[int]:
    """The number of steps at each level: a sixth of all at each coarse one, the rest at the last."""
    coarse = max(1, steps // max(6, 2 * levels))
    return [coarse] * (levels - 1) + [max(1, steps - coarse * (levels - 1))]


def _divide(shape: tuple[int, int], scale: int) -> tuple[int, int]:
    return max(1, shape[0] // scale), max(1, shape[1] // scale)


def _reduce(picture: UInt8[np.ndarray, "_ _ 3"], scale: int) -> UInt8[np.ndarray, "_ _ 3"]:
    return resize_picture(picture, _divide((picture.shape[0], picture.shape[1]), scale))


def _check_shape(height: int, width: int) -> tuple[int, int]:
    if max(height, width) > MAX_SIDE:
        raise ConfigError(
            f"Height and width must be at most {MAX_SIDE} pixels, got {height} x {width}. Use a smaller size."
        )
    return height, width
