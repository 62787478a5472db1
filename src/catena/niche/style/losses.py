r"""Losses of texture synthesis and style transfer, and their definitions.

The feature maps of a layer are :math:`F \in \mathbb{R}^{N \times M}`, N channels at M positions. Their Gram matrix has
no positions, so it describes a texture and not an arrangement:

.. math::  G = F F^\top / M, \qquad E = \frac{1}{4 N^2} \sum_{ij} (G_{ij} - A_{ij})^2,
           \qquad L_{content} = \frac{1}{2} \sum_{ij} (F_{ij} - P_{ij})^2

(Gatys et al. 2015, equations 1 to 5; they divide by M outside of the square, which is the same for pictures of one
size). The relative forms divide by the size of the target, so that layers and networks have one scale:

.. math::  \frac{\sum (G - A)^2}{\sum A^2}, \qquad \frac{\sum (F - P)^2}{\sum P^2}

Tested in tests/niche/style/test_losses.py against double loops.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from jaxtyping import Float
from torch import Tensor


def gram_matrix(maps: Float[Tensor, "*batch c rows columns"]) -> Float[Tensor, "*batch c c"]:
    """The mean over positions of the products of two channels. Time O(rows columns c^2)."""
    flat = maps.flatten(-2)
    return flat @ flat.mT / flat.shape[-1]


def gram_loss(gram: Float[Tensor, "*batch c c"], target: Float[Tensor, "*batch c c"]) -> Float[Tensor, ""]:
    """Sum of squared differences of Gram matrices, divided by 4 c^2 (equation 4 of the paper)."""
    return (gram - target).square().sum() / (4 * gram.shape[-1] ** 2)


def relative_loss(x: Float[Tensor, "..."], target: Float[Tensor, "..."]) -> Float[Tensor, ""]:
    """Sum of squared differences divided by the sum of squares of the target."""
    return (x - target).square().sum() / target.square().sum().clamp(min=torch.finfo(x.dtype).tiny)


def relative_gram_loss(grams: Mapping[str, Tensor], targets: Mapping[str, Tensor]) -> float:
    """The mean over layers of the relative loss of their Gram matrices; 0 for the picture itself."""
    return sum(relative_loss(grams[name], targets[name]).item() for name in targets) / len(targets)


def content_loss(maps: Float[Tensor, "..."], target: Float[Tensor, "..."]) -> Float[Tensor, ""]:
    """Half the sum of squared differences of feature maps (equation 1 of the paper)."""
    return (maps - target).square().sum() / 2


def total_variation(x: Float[Tensor, "*batch c height width"]) -> Float[Tensor, ""]:
    """The mean of the squared differences of neighboring pixels, in both directions."""
    down = x[..., 1:, :] - x[..., :-1, :]
    right = x[..., :, 1:] - x[..., :, :-1]
    return (down.square().sum() + right.square().sum()) / (down.numel() + right.numel())
