"""Checks of the tensors that are passed to a structured distribution."""

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
    """Raise ShapeError if one of these attributes is not a tensor, such as a list or an array."""
    for name in names:
        x = getattr(structure, name)
        if x is not None:
            check_tensor(name, x)


def check_floating(tensors: Sequence[Shaped[Tensor, "..."] | None]) -> None:
    """Raise ShapeError if scores are not floating-point, because log-probabilities would be cut to integers."""
    for x in tensors:
        if x is not None and not x.is_floating_point():
            raise ShapeError(f"scores must have a floating-point dtype, got {x.dtype}. Call .float() first.")


def set_lengths(structure: object, most: Mapping[str, int], ranks: Mapping[str, int]) -> None:
    """Check the lengths of a distribution and convert them to int64.

    Where tensor values cannot be read (on another device, in torch.compile, in torch.func), a row whose length is out
    of range gets nan scores: with a clamped length it would get the result of another sequence.

    Args:
        structure: a frozen dataclass.
        most: the largest length, for the name of each tensor of lengths.
        ranks: the number of axes after the batch, for the names of score tensors that every row reads.
    """
    for name, limit in most.items():
        given: Tensor | None = getattr(structure, name)
        lengths = checked_lengths(name, given, limit)
        if given is not None and lengths is not None and not can_read_values(given):
            fits = (given >= 0) & (given <= limit)
            lengths = torch.where(fits, lengths, limit)  # every entry is read then, including the nan
            for scores, rank in ranks.items():
                over = fits.reshape(*fits.shape, *(1 for _ in range(rank)))
                object.__setattr__(structure, scores, torch.where(over, getattr(structure, scores), torch.nan))
        object.__setattr__(structure, name, lengths)


def known_symbols(
    name: str, ids: Shaped[Tensor, "*batch t"], lengths: Int[Tensor, "..."] | None, v: int
) -> tuple[Int[Tensor, "*batch t"], Bool[Tensor, "*batch t"]]:
    """Symbols as indices into a table of ``v`` rows, and a mask of the valid ones; invalid symbols become 0.

    Raises :class:`DataError` for an invalid symbol inside its length if values can be read. Otherwise the caller must
    discard the results at invalid symbols.
    """
    ids = as_int64(name, ids)
    known = (ids >= 0) & (ids < v)
    if can_read_values(ids) and (lengths is None or can_read_values(lengths)):
        wrong = ~known if lengths is None else ~known & mask_from_lengths(lengths, ids.shape[-1])
        if bool(wrong.any()):
            raise DataError(
                f"{name} must be symbols from 0 to {v - 1}, got {int(ids.expand(wrong.shape)[wrong][0])}. Pass "
                "lengths if it is padding."
            )
    return torch.where(known, ids, 0), known


def broadcasts_to_batch(shape: Sequence[int], whole: Sequence[int], own: int) -> bool:
    """Whether ``shape`` ends in exactly the last ``own`` axes of ``whole`` and broadcasts to it on the batch axes."""
    if shape == whole:
        return True
    if not own <= len(shape) <= len(whole):
        return False
    # Axis by axis from the last one: torch.compile treats slices of symbolic sizes as unequal.
    return all(shape[-i] == whole[-i] or (i > own and shape[-i] == 1) for i in range(1, len(shape) + 1))


def validate_structures(
    y: Shaped[Tensor, "..."], batch: Sequence[int], own: Mapping[str, int | None]
) -> Int[Tensor, "..."]:
    """Structures as int64, after a check that they end in the batch axes and their own axes (None is any size)."""
    y = as_int64("structures", y)
    whole = (*batch, *own.values())
    ends = y.shape[max(0, y.dim() - len(whole)) :]
    if len(ends) < len(whole) or any(b is not None and a != b for a, b in zip(ends, whole, strict=True)):
        named = ", ".join([*map(str, batch), *(name if n is None else f"{name} = {n}" for name, n in own.items())])
        raise ShapeError(f"Structures must end in the axes [{named}], got shape {list(y.shape)}. Add the batch axes.")
    return y


def check_count(name: str, count: int, least: int) -> None:
    """Raise ValueError if the number of requested structures is not an integer or is below ``least``."""
    if can_use_control_flow() and not hasattr(count, "__index__"):
        raise ValueError(f"{name} must be an integer, got {count!r}. Pass the number of structures.")
    if count < least:
        raise ValueError(f"{name} must be at least {least}, got {count}. Pass the number of structures.")


def check_generator(generator: object) -> None:
    """Raise ValueError if ``generator`` is neither None nor a torch.Generator, such as a seed."""
    if generator is not None and not isinstance(generator, torch.Generator):
        raise ValueError(
            f"generator must be a torch.Generator, got {generator!r}. Pass torch.Generator().manual_seed(seed)."
        )
