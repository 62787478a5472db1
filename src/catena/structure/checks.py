"""What every structure checks of the tensors it is given, and whether their numbers may be looked at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from jaxtyping import Int, Shaped
from torch import Tensor

from catena.errors import ShapeError


def can_look_at(x: Shaped[Tensor, "..."]) -> bool:
    """Whether a check may read the numbers of a tensor: not of another device, in torch.compile or in torch.func."""
    return x.device.type == "cpu" and can_branch()


def can_branch() -> bool:
    """Whether what is done next may depend on numbers of a tensor: not in torch.compile or in torch.func."""
    if torch.compiler.is_compiling():
        return False
    return not torch._C._are_functorch_transforms_active() and torch._C._len_torch_dispatch_stack() == 0


def check_tensors(structure: object, *names: str) -> None:
    """Raise where what a structure was given by these names is no tensor, such as a list or an array."""
    for name in names:
        x = getattr(structure, name)
        if x is not None:
            check_tensor(name, x)


def check_tensor(name: str, x: object) -> None:
    """Raise where a value is no tensor, such as a list or an array."""
    if not isinstance(x, Tensor):
        raise ShapeError(f"{name} must be a tensor, but it is of type {type(x).__name__}: call torch.as_tensor first")


def check_mask(mask: Shaped[Tensor, "..."] | None) -> None:
    """Raise where a mask is of numbers, which might say the opposite, or how much."""
    if mask is not None and mask.dtype is not torch.bool:
        raise ShapeError(
            f"mask must be bool, True where a position is real, but its dtype is {mask.dtype}: call .bool() first"
        )


def check_floating(tensors: Sequence[Shaped[Tensor, "..."] | None]) -> None:
    """Raise where scores are no floating-point numbers: a logarithm would be cut to a whole number."""
    for x in tensors:
        if x is not None and not x.is_floating_point():
            raise ShapeError(
                f"scores must be floating-point numbers, but their dtype is {x.dtype}: call .float() first"
            )


def checked_lengths(name: str, lengths: Int[Tensor, "*batch"] | None, most: int) -> Int[Tensor, "*batch"] | None:
    """Lengths as int64, none of them below 0 or above ``most``: a kernel would read beyond the scores.

    Where their numbers cannot be looked at (on another device, in torch.compile, in torch.func) they are clamped.
    """
    if lengths is None:
        return None
    lengths = checked_ids(name, lengths)
    if not can_look_at(lengths):
        return lengths.clamp(0, most)
    if lengths.numel():
        least, largest = (int(x) for x in lengths.aminmax())
        if least < 0 or largest > most:
            wrong = least if least < 0 else largest
            raise ShapeError(f"{name} must lie from 0 to {most}, the number of positions there are, but one is {wrong}")
    return lengths


def fits_batch(shape: Sequence[int], whole: Sequence[int], own: int) -> bool:
    """Whether a shape ends in the last ``own`` axes of the whole exactly and broadcasts to it on the batch axes."""
    if not own <= len(shape) <= len(whole):
        return False
    # Axis by axis from the last: torch.compile finds slices of sizes unequal where some are symbols.
    return all(shape[-i] == whole[-i] or (i > own and shape[-i] == 1) for i in range(1, len(shape) + 1))


def checked_members(
    y: Shaped[Tensor, "..."], batch: Sequence[int], own: Mapping[str, int | None]
) -> Int[Tensor, "..."]:
    """Members as int64; raises unless they end in the batch axes and their own, of any size where it is None."""
    y = checked_ids("members", y)
    whole = (*batch, *own.values())
    ends = y.shape[max(0, y.dim() - len(whole)) :]
    if len(ends) < len(whole) or any(b is not None and a != b for a, b in zip(ends, whole, strict=True)):
        named = ", ".join([*map(str, batch), *(name if n is None else f"{name} = {n}" for name, n in own.items())])
        raise ShapeError(f"members must end in the axes [{named}], but their shape is {list(y.shape)}")
    return y


def checked_ids(name: str, ids: Shaped[Tensor, "..."]) -> Int[Tensor, "..."]:
    """Ids as int64, of whatever integer type they are; raises for what is no tensor of whole numbers."""
    check_tensor(name, ids)
    if ids.is_floating_point() or ids.is_complex() or ids.dtype is torch.bool:
        raise ShapeError(f"{name} must be whole numbers, but their dtype is {ids.dtype}: make them int64")
    return ids.to(torch.int64)


def check_count(name: str, count: int, least: int) -> None:
    """Raise where fewer members are asked for than can be, or no number of them."""
    if can_branch() and not hasattr(count, "__index__"):
        raise ValueError(f"{name}, the number of members, must be a whole number, but it is {count!r}")
    if count < least:
        raise ValueError(f"{name}, the number of members, must be at least {least}, but it is {count}")


def check_generator(generator: object) -> None:
    """Raise for a seed, or whatever else is given in place of a generator."""
    if generator is not None and not isinstance(generator, torch.Generator):
        raise ValueError(
            f"generator must be a torch.Generator, but it is {generator!r}: call torch.Generator().manual_seed(seed)"
        )
