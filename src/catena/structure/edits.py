r"""Edit lattices: distributions over all strings that insertions, deletions and substitutions make of a source.

.. math::  p(y \mid x) = \frac{1}{Z(x)} \sum_{\pi\,:\,x \to y} \exp \sum_{e \in \pi} s(e), \qquad
           Z(x) = \sum_{y'} \sum_{\pi\,:\,x \to y'} \exp \sum_{e \in \pi} s(e)

The score of an edit may depend on the whole source, on its position in it, and on the last output symbol. Z is a sum
over infinitely many targets. It is computed exactly with the closure of the insertions at each position
(:mod:`catena.kernels.edits.cpu`). Time O(n v³) for Z and O(n m) for one target of m symbols.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from catena.errors import ShapeError
from catena.kernels.edits.ops import best_edits, best_targets, diverges, log_sum
from catena.numerics import NEG_INF
from catena.shapes import as_int64, can_read_values, checked_lengths, mask_from_lengths
from catena.structure.checks import check_floating, check_tensors, set_lengths
from catena.structure.tensors import describe_fields

DELETE, INSERT, SUBSTITUTE = 0, 1, 2


@dataclass(frozen=True, eq=False, repr=False)
class EditLattice:
    """Distributions p(y | x) over the target strings of a batch of source strings.

    In all scores ``r`` is the source in the batch, and ``p`` is the last output symbol plus 1, or 0 before the first.

    Args:
        substitute: ``substitute[r, i, p, q]`` is the score of reading source symbol ``i`` and writing ``q`` after
            ``p``.
        insert: ``insert[r, i, p, q]`` is the score of writing ``q`` before source symbol ``i`` is read. The last ``i``
            is the end of the source.
        delete: ``delete[r, i, p]`` is the score of reading source symbol ``i`` and writing nothing.
        end: ``end[r, p]`` is the score of ending.
        lengths: the number of symbols of each source.
    """

    substitute: Float[Tensor, "b t p v"]
    insert: Float[Tensor, "b u p v"]
    delete: Float[Tensor, "b t p"]
    end: Float[Tensor, "b p"]
    lengths: Int[Tensor, " b"]

    def __post_init__(self) -> None:
        check_tensors(self, "substitute", "insert", "delete", "end", "lengths")
        check_floating(self._scores)
        self._check_shapes()
        set_lengths(self, {"lengths": self.substitute.shape[1]}, {"end": 1})

    def __repr__(self) -> str:
        return describe_fields(self)

    def _check_shapes(self) -> None:
        shape = tuple(self.substitute.shape)
        if len(shape) != 4 or shape[2] != shape[3] + 1:
            raise ShapeError(
                f"substitute must have the shape [b, t, v + 1, v], got {list(shape)}. Pass one row for the beginning "
                "and one for each of the v symbols that may be written last."
            )
        b, t, states, v = shape
        sizes = {"insert": (b, t + 1, states, v), "delete": (b, t, states), "end": (b, states), "lengths": (b,)}
        for name, size in sizes.items():
            found = tuple(getattr(self, name).shape)
            if found != size:
                raise ShapeError(
                    f"{name} must have the shape {list(size)}, got {list(found)}. Fit it to substitute of shape "
                    f"{list(shape)}."
                )
        kind = (self.substitute.dtype, self.substitute.device)
        for name in ("insert", "delete", "end"):
            x: Tensor = getattr(self, name)
            if (x.dtype, x.device) != kind:
                raise ShapeError(
                    f"{name} must be {kind[0]} on {kind[1]}, got {x.dtype} on {x.device}. Call .to(substitute)."
                )

    @property
    def _scores(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        return self.substitute, self.insert, self.delete, self.end

    def log_partition(self) -> Float[Tensor, " b"]:
        """log Z of each source; nan where a score is nan or +inf.

        Raises :class:`DivergentSumError` if the weights of insertions are too large for the sum to converge.
        """
        return log_sum(*self._scores, self.lengths)

    def log_weights(self, targets: Int[Tensor, "b s"], lengths: Int[Tensor, " b"]) -> Float[Tensor, " b"]:
        """The log of the total weight of all edit sequences that write one target for each source.

        Args:
            targets: symbols, numbered from 0. Entries after the end of a target are not read.
            lengths: the number of symbols of each target.
        """
        b, v = len(self.end), self.substitute.shape[-1]
        targets, lengths = as_int64("targets", targets), as_int64("the lengths of targets", lengths)
        if targets.dim() != 2 or len(targets) != b or lengths.shape != (b,):
            raise ShapeError(
                f"targets and their lengths must have the shapes [{b}, s] and [{b}], got {list(targets.shape)} and "
                f"{list(lengths.shape)}. Pass one target for each source."
            )
        s = targets.shape[1]
        fits = (lengths >= 0) & (lengths <= s)
        lengths = cast(Tensor, checked_lengths("lengths of targets", lengths, s))
        unknown = mask_from_lengths(lengths, s) & ((targets < 0) | (targets >= v))
        if can_read_values(targets) and bool(unknown.any()):
            raise ShapeError(
                f"targets must be symbols from 0 to {v - 1}, got {int(targets[unknown][0])}. Number the symbols from "
                "0, or pass lengths if it is padding."
            )
        found = log_sum(*self._scores, self.lengths, torch.where(unknown, 0, targets), lengths)
        return found if can_read_values(targets) else torch.where(fits & ~unknown.any(-1), found, torch.nan)

    def log_prob(self, targets: Int[Tensor, "b s"], lengths: Int[Tensor, " b"]) -> Float[Tensor, " b"]:
        """log p(y | x) in nats; -inf if no target is possible.

        Args:
            targets: symbols, numbered from 0. Entries after the end of a target are not read.
            lengths: the number of symbols of each target.
        """
        log_z = self.log_partition()
        found = self.log_weights(targets, lengths) - torch.where(log_z == NEG_INF, 0.0, log_z)
        return torch.where(log_z == NEG_INF, NEG_INF, found)

    def _row(self, r: int) -> tuple[Any, Any, Any, Any, int]:
        if not 0 <= r < len(self.end):
            raise ShapeError(f"r must be a source from 0 to {len(self.end) - 1}, got {r}. Count sources from 0.")
        sub, ins, dele, end = (x[r].detach().cpu().double().contiguous().numpy() for x in self._scores)
        return sub, ins, dele, end, int(self.lengths[r])

    def best(self, r: int, n: int = 1, width: int = 32, most: int | None = None) -> tuple[list[EditTarget], bool]:
        """The n most probable targets of one source, found by beam search.

        Args:
            r: the index of the source.
            n: the number of targets.
            width: the number of prefixes of each length that the beam keeps.
            most: the largest length of a target; by default twice the length of the source plus 10.

        Returns:
            The targets, best first, and whether they are provably the best. The list is empty if no target is possible
            or a score is nan or +inf.
        """
        for name, number, least in (("n", n, 1), ("width", width, 1), ("most", 0 if most is None else most, 0)):
            if number < least:
                raise ValueError(f"{name} must be at least {least}, got {number}. Use {least} or more.")
        sub, ins, dele, end, length = self._row(r)
        if _has_nan(ins[: length + 1], sub[:length], dele[:length], end):
            return [], False
        room = 2 * length + 10 if most is None else most
        found = best_targets((sub, ins, dele, end), length, n, max(width, n), room)
        if found is None:
            raise diverges(r)
        listed, dropped = found
        targets = [EditTarget(ids, log_prob) for log_prob, ids in listed]
        return targets, len(targets) == n and dropped <= targets[-1].log_prob

    def align(self, r: int, target: Sequence[int]) -> list[int] | None:
        """The edits of the best way to write a target for one source.

        Args:
            r: the index of the source.
            target: symbols, numbered from 0.

        Returns:
            ``DELETE``, ``INSERT`` and ``SUBSTITUTE`` in order; None if the target is impossible, or if the score of an
            edit that could write it is nan or +inf.
        """
        sub, ins, dele, end, length = self._row(r)
        for symbol in target:
            if not 0 <= symbol < len(end) - 1:
                raise ShapeError(
                    f"target must be symbols from 0 to {len(end) - 2}, got {symbol}. Number the symbols from 0."
                )
        y = np.array(target, np.int64)
        before = np.concatenate(([0], y + 1))
        read = ins[: length + 1, before[:-1], y], sub[:length, before[:-1], y], dele[:length, before]
        if _has_nan(*read):
            return None
        return best_edits((sub, ins, dele, end), y, length)


@dataclass(frozen=True)
class EditTarget:
    """A target string as symbols numbered from 0, and its log p(y | x)."""

    ids: tuple[int, ...]
    log_prob: float


def _has_nan(insertions: Any, *others: Any) -> bool:
    """Whether a score is nan or +inf. Insertions of +inf are reported as divergence later."""
    return bool(np.isnan(insertions).any()) or not all((x < np.inf).all() for x in others)
