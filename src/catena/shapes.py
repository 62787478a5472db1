"""The alphabet of axes, one meaning for each letter in the whole package.

=========  =====================================================================
``b``      examples in a batch (``*batch``: any number of batch axes, also none)
``t``      positions in time: tokens of a sentence, steps, frames
``s``      positions of a second sequence (a source that is attended to)
``k``      labels or tags; classes
``v``      words of a vocabulary
``d``      features of a vector; ``d_in`` and ``d_out`` where a layer changes it
``h``      heads of an attention
``n``      nodes, samples, or anything counted that has no letter of its own
``w``      window of a convolution
``c``      channels of a picture or a wave
=========  =====================================================================

``lengths`` are used at the boundary of a function, masks inside; in a mask **True = real / may look**.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from catena.errors import ShapeError


def read_axes(name: str, shape: tuple[int, ...], axes: str, **known: int) -> dict[str, int]:
    """Match a shape with an axis string such as ``"b t d"`` and return the size of every letter.

    ``known`` sizes must agree. Raises :class:`ShapeError` that names the tensor, the axes and both shapes.

    >>> read_axes("emissions", (2, 5, 9), "b t k", k=9)
    {'b': 2, 't': 5, 'k': 9}
    """
    letters = axes.split()
    if len(letters) != len(shape):
        raise ShapeError(f"{name} must have the {len(letters)} axes '{axes}', but its shape is {tuple(shape)}")
    sizes: dict[str, int] = {}
    for letter, size in zip(letters, shape, strict=True):
        wanted = known.get(letter, sizes.get(letter, size))
        if wanted != size:
            raise ShapeError(
                f"{name} has size {size} on axis '{letter}' of '{axes}', where {wanted} is needed "
                f"(its shape is {tuple(shape)})"
            )
        sizes[letter] = size
    return sizes


def mask_from_lengths(lengths: Int[Tensor, "*batch"], t: int) -> Bool[Tensor, "*batch t"]:
    """``mask[..., i]`` is True where position ``i`` is real, that is, ``i < lengths[...]``."""
    return torch.arange(t, device=lengths.device) < lengths[..., None]
