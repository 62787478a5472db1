r"""The loss of a picture and its gradient, computed tile by tile in bounded memory.

A Gram matrix is a sum over positions, so it is the sum over tiles. A first pass computes it, and with it the gradient C
of the style loss with respect to G. In a second pass, the gradients of :math:`\langle C, F F^\top \rangle / M` with
respect to the pixels of each tile add up to the gradient of the loss. Each tile has a margin as wide as the receptive
field, so the result does not depend on the tiles (up to rounding). A single tile needs one pass.

Tested in tests/niche/style/test_objective.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from catena.encoders.image_features import ImageFeatures, PaddingName
from catena.niche.style.losses import content_loss, gram_loss, gram_matrix, relative_loss, total_variation

LossForm = Literal["relative", "paper"]


@dataclass(frozen=True)
class StepLosses:
    """The losses of a picture.

    Args:
        step: the step, from 1.
        total: the minimized value.
        style: relative Gram loss, the weighted mean over the layers.
        content: relative content loss, the mean over the layers; 0 without a content picture.
        variation: total variation of the pixels.
    """

    step: int
    total: float
    style: float
    content: float
    variation: float


@dataclass(frozen=True)
class LossWeights:
    """Weights of the parts of the loss.

    Args:
        layers: the weight of each style layer; they sum to 1.
        style: weight of the style loss; beta in the paper.
        content: weight of the content loss; alpha in the paper.
        variation: weight of the total variation.
        form: ``relative`` divides by the squares of the targets; ``paper`` has the sums of the paper.
    """

    layers: Mapping[str, float]
    style: float = 1.0
    content: float = 0.0
    variation: float = 0.0
    form: LossForm = "relative"


class TileSide(NamedTuple):
    """Rows or columns of a tile: from ``start`` to ``end`` with margins, and the inner ones."""

    start: int
    inner_start: int
    inner_end: int
    end: int

    def inner(self, stride: int) -> slice:
        """The inner positions of a layer, counted from the start of the tile."""
        return slice((self.inner_start - self.start) // stride, self.inner_end // stride - self.start // stride)

    def within_picture(self, stride: int) -> slice:
        """The inner positions of a layer, counted from the start of the picture."""
        return slice(self.inner_start // stride, self.inner_end // stride)


class Tile(NamedTuple):
    """A part of a picture."""

    rows: TileSide
    columns: TileSide


class Objective:
    """The loss of a picture with values from 0 to 1, and its gradient.

    Args:
        network: the feature maps.
        grams: the target of each style layer.
        contents: the target maps of each content layer; they may be empty.
        weights: weights of the losses.
        padding: padding of the network. ``circular`` makes pictures that can be put side by side, always in one tile.
        tile: largest side of a tile in pixels, without margins.
    """

    def __init__(
        self,
        network: ImageFeatures,
        grams: Mapping[str, Float[Tensor, "_ _"]],
        contents: Mapping[str, Float[Tensor, "1 _ _ _"]],
        weights: LossWeights,
        padding: PaddingName = "zeros",
        tile: int = 512,
    ) -> None:
        self.network, self.grams, self.contents = network, grams, contents
        self.weights, self.padding, self.tile = weights, padding, tile
        self.style_scales = {
            name: weights.style * weight * self._unit(grams[name], gram_loss) for name, weight in weights.layers.items()
        }
        self.content_scales = {
            name: weights.content / len(contents) * self._unit(target, content_loss)
            for name, target in contents.items()
        }

    def _unit(self, target: Tensor, loss: Callable[[Tensor, Tensor], Tensor]) -> float:
        """The loss that corresponds to a relative loss of 1."""
        return 1.0 if self.weights.form == "relative" else loss(torch.zeros_like(target), target).item()

    def __call__(self, x: Float[Tensor, "1 3 height width"]) -> tuple[StepLosses, Float[Tensor, "1 3 height width"]]:
        """The losses, as step 0, and the gradient of the total."""
        x = x.detach().requires_grad_()
        tiles = split_tiles((x.shape[-2], x.shape[-1]), self._tile_size(x), self._margin())
        only = self._compute(x, tiles[0]) if len(tiles) == 1 else None
        grams = self._sum_grams(x, tiles, only)
        styles = {name: relative_loss(gram, self.grams[name]) for name, gram in grams.items()}
        style = torch.stack([self.style_scales[name] * loss for name, loss in styles.items()]).sum()
        coefficients = dict(zip(grams, torch.autograd.grad(style, list(grams.values())), strict=True))
        variation = total_variation(x)
        (gradient,) = torch.autograd.grad(self.weights.variation * variation, x)
        contents = dict.fromkeys(self.contents, 0.0)
        for tile in tiles:
            maps = self._compute(x, tile) if only is None else only
            gradient += self._tile_gradient(x, tile, maps, coefficients, contents)
        content = sum(self.content_scales[name] * loss for name, loss in contents.items())
        losses = StepLosses(
            0,
            style.item() + content + self.weights.variation * variation.item(),
            sum(w * styles[name].item() for name, w in self.weights.layers.items()),
            sum(contents.values()) / max(1, len(contents)),
            variation.item(),
        )
        return losses, gradient

    def _tile_gradient(
        self,
        x: Tensor,
        tile: Tile,
        maps: Mapping[str, Tensor],
        coefficients: Mapping[str, Tensor],
        contents: dict[str, float],
    ) -> Tensor:
        """The part of the gradient that comes from one tile. Its content losses are added to ``contents``."""
        parts = [(coefficients[name] * self._gram_part(x, maps[name], name)).sum() for name in self.grams]
        for name, target in self.contents.items():
            stride = self.network.stride(name)
            own = target[..., tile.rows.within_picture(stride), tile.columns.within_picture(stride)]
            loss = (maps[name] - own).square().sum() / target.square().sum()
            parts.append(self.content_scales[name] * loss)
            contents[name] += loss.item()
        return torch.autograd.grad(torch.stack(parts).sum(), x)[0]

    @torch.no_grad()
    def _sum_grams(self, x: Tensor, tiles: list[Tile], only: Mapping[str, Tensor] | None) -> dict[str, Tensor]:
        """The Gram matrix of the whole picture in each style layer, as a leaf."""
        sums = {name: torch.zeros_like(target) for name, target in self.grams.items()}
        for tile in tiles:
            maps = self._compute(x, tile) if only is None else only
            for name in sums:
                sums[name] += self._gram_part(x, maps[name], name)
        return {name: gram.requires_grad_() for name, gram in sums.items()}

    def _gram_part(self, x: Tensor, maps: Tensor, name: str) -> Tensor:
        """What the positions of one tile add to the Gram matrix of the picture."""
        stride = self.network.stride(name)
        n = (x.shape[-2] // stride) * (x.shape[-1] // stride)
        return gram_matrix(maps[0]) * (maps[0, 0].numel() / n)

    def _compute(self, x: Tensor, tile: Tile) -> dict[str, Tensor]:
        """The feature maps of the inner part of a tile."""
        rows, columns = tile
        part = x[..., rows.start : rows.end, columns.start : columns.end]
        maps = self.network(part, {*self.grams, *self.contents}, self.padding)
        strides = {name: self.network.stride(name) for name in maps}
        return {name: maps[name][..., rows.inner(s), columns.inner(s)] for name, s in strides.items()}

    def _tile_size(self, x: Tensor) -> int:
        return max(x.shape) if self.padding == "circular" else self.tile

    def _margin(self) -> tuple[int, int]:
        """The width of margins and the divisor of the borders of tiles, in pixels."""
        layers = {*self.grams, *self.contents}
        divisor = max(map(self.network.stride, layers))
        return -(-self.network.radius(layers) // divisor) * divisor, divisor


def split_tiles(size: tuple[int, int], tile: int, margin: tuple[int, int]) -> list[Tile]:
    """Tiles of about equal size that cover a picture of ``size`` = height, width.

    Args:
        size: height and width.
        tile: largest height and width of a tile without margins.
        margin: the width of margins, and a divisor of the borders between tiles.
    """
    rows, columns = (_split_side(side, tile, *margin) for side in size)
    return [Tile(row, column) for row in rows for column in columns]


def _split_side(side: int, tile: int, margin: int, divisor: int) -> list[TileSide]:
    n = -(-side // max(tile, divisor))
    borders = [round(i * side / n / divisor) * divisor for i in range(n)] + [side]
    return [TileSide(max(0, a - margin), a, b, min(side, b + margin)) for a, b in pairwise(borders)]
