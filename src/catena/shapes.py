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

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Int, Shaped
from torch import Tensor

from catena.errors import ShapeError


def match_shape(name: str, shape: tuple[int, ...], axes: str, **known: int) -> dict[str, int]:
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


def cat_padded(parts: Sequence[Shaped[Tensor, "_ ..."]], fill: float | bool = 0) -> Shaped[Tensor, "n ..."]:
    """The rows of several tensors, one after another, each filled up at the end of every other axis to the longest."""
    sizes = [max(size) for size in zip(*(part.shape[1:] for part in parts), strict=True)]
    filled = []
    for part in parts:
        missing = [size - own for size, own in zip(sizes, part.shape[1:], strict=True)]
        more = [n for size in reversed(missing) for n in (0, size)]
        filled.append(torch.nn.functional.pad(part, more, value=fill) if any(missing) else part)
    return torch.cat(filled)


def last_real(mask: Bool[Tensor, "b t"]) -> int:
    """How many positions there are up to the last one that is real in any row."""
    real = mask.any(dim=0).nonzero()
    return int(real[-1]) + 1 if len(real) else 0


# --- whether what is given can be used --------------------------------------------------------------------------------


def can_read_values(x: Shaped[Tensor, "..."]) -> bool:
    """Whether a check may read the numbers of a tensor: not of another device, in torch.compile or in torch.func."""
    return x.device.type == "cpu" and can_use_control_flow()


def can_use_control_flow() -> bool:
    """Whether what is done next may depend on numbers of a tensor: not in torch.compile or in torch.func."""
    if torch.compiler.is_compiling():
        return False
    return not torch._C._are_functorch_transforms_active() and torch._C._len_torch_dispatch_stack() == 0


def check_tensor(name: str, x: object) -> None:
    """Raise where a value is no tensor, such as a list or an array."""
    if not isinstance(x, Tensor):
        raise ShapeError(f"{name} must be a tensor, but it is of type {type(x).__name__}: call torch.as_tensor first")


def check_mask(mask: Shaped[Tensor, "..."] | None, says: str = "a position is real") -> None:
    """Raise where a mask is of numbers, which might say the opposite, or how much; ``says`` is what True does."""
    if mask is not None and mask.dtype is not torch.bool:
        raise ShapeError(f"mask must be bool, True where {says}, but its dtype is {mask.dtype}: call .bool() first")


def as_int64(name: str, ids: Shaped[Tensor, "..."]) -> Int[Tensor, "..."]:
    """Ids or counts as int64, of whatever integer type they are; raises for what is no tensor of whole numbers."""
    check_tensor(name, ids)
    if ids.is_floating_point() or ids.is_complex() or ids.dtype is torch.bool:
        raise ShapeError(f"{name} must be whole numbers, but their dtype is {ids.dtype}: make them int64")
    return ids.to(torch.int64)


def checked_lengths(
    name: str, lengths: Int[Tensor, "*batch"] | None, most: int, least: int = 0
) -> Int[Tensor, "*batch"] | None:
    """Lengths as int64, none of them below ``least`` or above ``most``: a kernel would read beyond the scores.

    On a GPU the check does not wait for the values: lengths out of range end the program with a device-side assertion,
    as an index out of range does in torch. In torch.compile and torch.func, lengths are clamped.
    """
    if lengths is None:
        return None
    lengths = as_int64(name, lengths)
    if not can_read_values(lengths):
        if lengths.is_cuda and can_use_control_flow():
            in_range = ((lengths >= least) & (lengths <= most)).all()
            torch._assert_async(in_range, f"{name} must be from {least} to {most}")
        return lengths.clamp(least, most)
    if lengths.numel():
        smallest, largest = (int(x) for x in lengths.aminmax())
        if smallest < least or largest > most:
            wrong = smallest if smallest < least else largest
            raise ShapeError(
                f"{name} must lie from {least} to {most}, the number of positions there are, but one is {wrong}"
            )
    return lengths
