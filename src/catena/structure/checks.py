"""What every structure checks of the tensors it is given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from jaxtyping import Bool, Int, Shaped
from torch import Tensor

from catena.errors import DataError, ShapeError
from catena.shapes import (
    as_int64,
    can_read_values,
    can_use_control_flow,
    check_tensor,
    checked_lengths,
    mask_from_lengths,
)


def check_tensors(structure: object, *names: str) -> None:
    """Raise where what a structure was given by these names is no tensor, such as a list or an array."""
    for name in names:
        x = getattr(structure, name)
        if x is not None:
            check_tensor(name, x)


def check_floating(tensors: Sequence[Shaped[Tensor, "..."] | None]) -> None:
    """Raise where scores are no floating-point numbers: a logarithm would be cut to a whole number."""
    for x in tensors:
        if x is not None and not x.is_floating_point():
            raise ShapeError(
                f"scores must be floating-point numbers, but their dtype is {x.dtype}: call .float() first"
            )


def set_lengths(structure: object, most: Mapping[str, int], ranks: Mapping[str, int]) -> None:
    """Check the lengths of a structure, and replace them by int64.

    Where their numbers cannot be looked at (on another device, in torch.compile, in torch.func), a row whose length is
    out of range gets scores of nan: with a clamped length it would get the answer for another sequence.

    Args:
        structure: a frozen dataclass.
        most: the greatest length, for the name of each tensor of lengths.
        ranks: the number of axes behind the batch, for the names of score tensors of which every row reads one.
    """
    for name, limit in most.items():
        given: Tensor | None = getattr(structure, name)
        lengths = checked_lengths(name, given, limit)
        if given is not None and lengths is not None and not can_read_values(given):
            fits = (given >= 0) & (given <= limit)
            lengths = torch.where(fits, lengths, limit)  # all is read then, also the nan
            for scores, rank in ranks.items():
                over = fits.reshape(*fits.shape, *(1 for _ in range(rank)))
                object.__setattr__(structure, scores, torch.where(over, getattr(structure, scores), torch.nan))
        object.__setattr__(structure, name, lengths)


def known_symbols(
    name: str, ids: Shaped[Tensor, "*batch t"], lengths: Int[Tensor, "..."] | None, v: int
) -> tuple[Int[Tensor, "*batch t"], Bool[Tensor, "*batch t"]]:
    """Symbols to look up in a table of ``v``, 0 where there is none, and which of them are symbols.

    Raises :class:`DataError` for one inside its length that is not, where numbers can be looked at; elsewhere the
    caller must not use what it finds for it.
    """
    ids = as_int64(name, ids)
    known = (ids >= 0) & (ids < v)
    if can_read_values(ids) and (lengths is None or can_read_values(lengths)):
        wrong = ~known if lengths is None else ~known & mask_from_lengths(lengths, ids.shape[-1])
        if bool(wrong.any()):
            raise DataError(
                f"{name} must be symbols from 0 to {v - 1}, got {int(ids.expand(wrong.shape)[wrong][0])}. Give the "
                "lengths if it is padding."
            )
    return torch.where(known, ids, 0), known


def broadcasts_to_batch(shape: Sequence[int], whole: Sequence[int], own: int) -> bool:
    """Whether a shape ends in the last ``own`` axes of the whole exactly and broadcasts to it on the batch axes."""
    if not own <= len(shape) <= len(whole):
        return False
    # Axis by axis from the last: torch.compile finds slices of sizes unequal where some are symbols.
    return all(shape[-i] == whole[-i] or (i > own and shape[-i] == 1) for i in range(1, len(shape) + 1))


def validate_structures(
    y: Shaped[Tensor, "..."], batch: Sequence[int], own: Mapping[str, int | None]
) -> Int[Tensor, "..."]:
    """Members as int64; raises unless they end in the batch axes and their own, of any size where it is None."""
    y = as_int64("members", y)
    whole = (*batch, *own.values())
    ends = y.shape[max(0, y.dim() - len(whole)) :]
    if len(ends) < len(whole) or any(b is not None and a != b for a, b in zip(ends, whole, strict=True)):
        named = ", ".join([*map(str, batch), *(name if n is None else f"{name} = {n}" for name, n in own.items())])
        raise ShapeError(f"members must end in the axes [{named}], but their shape is {list(y.shape)}")
    return y


def check_count(name: str, count: int, least: int) -> None:
    """Raise where fewer members are asked for than can be, or no number of them."""
    if can_use_control_flow() and not hasattr(count, "__index__"):
        raise ValueError(f"{name}, the number of members, must be a whole number, but it is {count!r}")
    if count < least:
        raise ValueError(f"{name}, the number of members, must be at least {least}, but it is {count}")


def check_generator(generator: object) -> None:
    """Raise for a seed, or whatever else is given in place of a generator."""
    if generator is not None and not isinstance(generator, torch.Generator):
        raise ValueError(
            f"generator must be a torch.Generator, but it is {generator!r}: call torch.Generator().manual_seed(seed)"
        )
