"""Axis names, shape checks and masks.

Each letter has one meaning in the whole package:

==========  ====================================================================
``b``       examples in a batch (``*batch``: any number of batch axes, also none)
``t``       positions in time: tokens of a sentence, steps, frames
``s``       positions of a second sequence (a source that is attended to)
``k``       labels or tags; classes
``v``       words of a vocabulary
``d``       features of a vector; ``d_in`` and ``d_out`` where a layer changes it
``h``       heads of an attention
``n``       nodes, samples, or anything counted that has no letter of its own
``w``       window of a convolution
``c``       channels of an image or a waveform
``height``  rows of an image
``width``   columns of an image
==========  ====================================================================

Functions take ``lengths`` as input and use masks internally. In a mask **True = real position / attend**.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Int, Shaped
from torch import Tensor

from catena.errors import ShapeError


def broadcast_shapes(*shapes: Sequence[int]) -> torch.Size:
    """The shape that tensors of these shapes broadcast to. Raise RuntimeError if there is none.

    ``torch.broadcast_shapes`` does the same, but its first call imports sympy, which takes a second.
    """
    if torch.compiler.is_compiling() or not shapes:
        return torch.broadcast_shapes(*shapes)
    one = torch.empty(())
    return torch.broadcast_tensors(*(one.expand(tuple(shape)) for shape in shapes))[0].shape


def match_shape(name: str, shape: tuple[int, ...], axes: str, **known: int) -> dict[str, int]:
    """Match a shape with an axis string such as ``"b t d"`` and return the size of every letter.

    Args:
        name: name of the tensor, for the error message.
        shape: its shape.
        axes: the letters of its axes, separated by spaces.
        known: required sizes of letters.

    Raises:
        ShapeError: if the number of axes or a size differs.

    >>> match_shape("emissions", (2, 5, 9), "b t k", k=9)
    {'b': 2, 't': 5, 'k': 9}
    """
    letters = axes.split()
    if len(letters) != len(shape):
        raise ShapeError(
            f"{name} must have the {len(letters)} axes '{axes}', got shape {tuple(shape)}. Add or remove axes."
        )
    sizes: dict[str, int] = {}
    for letter, size in zip(letters, shape, strict=True):
        wanted = known.get(letter, sizes.get(letter, size))
        if wanted != size:
            raise ShapeError(
                f"{name} must have size {wanted} on axis '{letter}' of '{axes}', got {size} in shape {tuple(shape)}. "
                "Check the sizes of the model and its input."
            )
        sizes[letter] = size
    return sizes


def mask_from_lengths(lengths: Int[Tensor, "*batch"], t: int) -> Bool[Tensor, "*batch t"]:
    """``mask[..., i]`` is True if position ``i`` is real, that is, ``i < lengths[...]``."""
    return torch.arange(t, device=lengths.device) < lengths[..., None]


def cat_padded(parts: Sequence[Shaped[Tensor, "_ ..."]], fill: float | bool = 0) -> Shaped[Tensor, "n ..."]:
    """Concatenation of tensors on the first axis, with every other axis padded at its end to the longest."""
    sizes = [max(size) for size in zip(*(part.shape[1:] for part in parts), strict=True)]
    filled = []
    for part in parts:
        missing = [size - own for size, own in zip(sizes, part.shape[1:], strict=True)]
        more = [n for size in reversed(missing) for n in (0, size)]
        filled.append(torch.nn.functional.pad(part, more, value=fill) if any(missing) else part)
    return torch.cat(filled)


def last_real(mask: Bool[Tensor, "b t"]) -> int:
    """Number of positions up to the last one that is real in any row."""
    real = mask.any(dim=0).nonzero()
    return int(real[-1]) + 1 if len(real) else 0


# --- checks of arguments ----------------------------------------------------------------------------------------------


def can_read_values(x: Shaped[Tensor, "..."]) -> bool:
    """Whether a check can read the values of a tensor: on the CPU, outside torch.compile and torch.func."""
    return x.device.type == "cpu" and can_use_control_flow()


def can_use_control_flow() -> bool:
    """Whether control flow may depend on tensor values: outside torch.compile and torch.func."""
    if torch.compiler.is_compiling():
        return False
    return not torch._C._are_functorch_transforms_active() and torch._C._len_torch_dispatch_stack() == 0


def check_tensor(name: str, x: object) -> None:
    """Raise ShapeError if ``x`` is not a tensor, such as a list or an array."""
    if not isinstance(x, Tensor):
        raise ShapeError(f"{name} must be a tensor, got {type(x).__name__}. Call torch.as_tensor first.")


def check_mask(mask: Shaped[Tensor, "..."] | None, says: str = "a position is real") -> None:
    """Raise ShapeError if a mask is not bool, because numbers could mean the opposite; ``says`` explains True."""
    if mask is not None and mask.dtype is not torch.bool:
        raise ShapeError(f"mask must be bool, True where {says}, got {mask.dtype}. Call .bool() first.")


def as_int64(name: str, ids: Shaped[Tensor, "..."]) -> Int[Tensor, "..."]:
    """Integer ids or counts as int64; raises ShapeError for anything but a tensor of integers."""
    check_tensor(name, ids)
    if ids.is_floating_point() or ids.is_complex() or ids.dtype is torch.bool:
        raise ShapeError(f"{name} must have an integer dtype, got {ids.dtype}. Convert it to int64.")
    return ids.to(torch.int64)


def checked_lengths(
    name: str, lengths: Int[Tensor, "*batch"] | None, most: int, least: int = 0
) -> Int[Tensor, "*batch"] | None:
    """Lengths as int64, after a check that they are between ``least`` and ``most``.

    A kernel would read outside its buffers otherwise. On a GPU the check does not wait for the values: lengths out of
    range stop the program with a device-side assertion, like an index out of range in torch. In torch.compile and
    torch.func, lengths are clamped.
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
                f"{name} must be from {least} to {most}, the number of positions, got {wrong}. Check the padding."
            )
    return lengths
