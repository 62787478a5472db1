"""Constraints that condition a distribution on a set of allowed structures.

A constraint holds masks, **True = allowed**. Combine two by ``&``. A constraint sets the scores of forbidden parts to
-inf, so their probability is exactly 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from catena.errors import ConfigError, ImpossibleError, ShapeError
from catena.numerics import NEG_INF
from catena.registry import did_you_mean
from catena.shapes import broadcast_shapes
from catena.structure.base import StructuredDistribution

OnInfeasible = Literal["error", "-inf"]
"""What to do if a constraint allows no structure: raise :class:`ImpossibleError`, or set log Z to -inf."""

_Scheme = Literal["bio", "bilou"]


def check_feasible(structure: StructuredDistribution, on_infeasible: OnInfeasible) -> None:
    """Raise ImpossibleError if a distribution of the batch has no structure left, unless -inf was requested."""
    if on_infeasible not in get_args(OnInfeasible):
        raise ValueError(f"on_infeasible must be 'error' or '-inf', got {on_infeasible!r}. Use one of the two.")
    if on_infeasible == "-inf":
        return
    with torch.no_grad():
        empty = structure.log_partition() == NEG_INF
    if bool(empty.any()):
        rows = empty.nonzero().tolist()
        named = ", ".join(str(row[0] if len(row) == 1 else tuple(row)) for row in rows[:5])
        where = (
            f" (batch {'row' if len(rows) == 1 else 'rows'} {named}{', …' if len(rows) > 5 else ''})" if rows[0] else ""
        )
        raise ImpossibleError(
            f"The constraint allows no structure for {len(rows)} of {empty.numel()} distributions{where}. Loosen it, "
            "or pass on_infeasible='-inf' to get log Z = -inf there."
        )


@dataclass(frozen=True, eq=False)
class ChainConstraint:
    """Constraint on the tags and tag pairs of a :class:`LinearChain`. None allows everything.

    Args:
        tags: ``tags[..., i, q]`` is True if position ``i`` may have tag ``q``.
        transitions: ``transitions[p, q]`` is True if tag ``q`` may follow tag ``p``.
        start: ``start[q]`` is True if a sequence may start with tag ``q``.
        end: ``end[q]`` is True if a sequence may end with tag ``q``.
    """

    tags: Bool[Tensor, "*batch t k"] | None = None
    transitions: Bool[Tensor, "k k"] | None = None
    start: Bool[Tensor, " k"] | None = None
    end: Bool[Tensor, " k"] | None = None

    @classmethod
    def partial(cls, tags: Int[Tensor, "*batch t"], k: int) -> ChainConstraint:
        """Constraint from a partial annotation.

        Args:
            tags: the known tag of each position; -1 where any tag is allowed.
            k: number of tags.
        """
        return cls(tags=(tags[..., None] == torch.arange(k, device=tags.device)) | (tags[..., None] < 0))

    @classmethod
    def scheme(cls, labels: Sequence[str], scheme: _Scheme) -> ChainConstraint:
        """Constraint to valid sequences of a span labeling scheme.

        Args:
            labels: the name of each tag, such as ``O``, ``B-PER``, ``I-PER``.
            scheme: ``"bio"`` (IOB2) allows I-x only after B-x or I-x. ``"bilou"`` allows B-x, then any number of I-x,
                then L-x; or a single U-x. It reads E and S (BIOES) and M (BMES) as L, U and I.
        """
        if scheme not in get_args(_Scheme):
            raise ConfigError(f"unknown labeling scheme {scheme!r}: {did_you_mean(scheme, get_args(_Scheme))}")
        parsed = [_prefix_and_type(label, scheme) for label in labels]
        follows = [[_may_follow(p, q, scheme) for q in parsed] for p in parsed]
        edge = ("O", "")
        return cls(
            transitions=torch.tensor(follows, dtype=torch.bool),
            start=torch.tensor([_may_follow(edge, q, scheme) for q in parsed], dtype=torch.bool),
            end=torch.tensor([_may_follow(p, edge, scheme) for p in parsed], dtype=torch.bool),
        )

    def __and__(self, other: ChainConstraint) -> ChainConstraint:
        """The constraint that allows what both allow."""
        return ChainConstraint(
            intersect_masks(self.tags, other.tags),
            intersect_masks(self.transitions, other.transitions),
            intersect_masks(self.start, other.start),
            intersect_masks(self.end, other.end),
        )

    def applied(
        self,
        emissions: Float[Tensor, "*batch t k"],
        transitions: Float[Tensor, "*#batch k k"] | None,
        start: Float[Tensor, "*#batch k"] | None,
        end: Float[Tensor, "*#batch k"] | None,
    ) -> dict[str, Tensor]:
        """The score tensors that this constraint changes, with -inf where it forbids, by name."""
        k = emissions.shape[-1]
        changed = {}
        if self.tags is not None:
            changed["emissions"] = mask_scores("tags", emissions, self.tags)
        if self.transitions is not None:
            changed["transitions"] = mask_scores(
                "transitions", _or_zeros(transitions, emissions, k, k), self.transitions
            )
        if self.start is not None:
            changed["start"] = mask_scores("start", _or_zeros(start, emissions, k), self.start)
        if self.end is not None:
            changed["end"] = mask_scores("end", _or_zeros(end, emissions, k), self.end)
        return changed


def mask_scores(name: str, scores: Float[Tensor, "..."], allowed: Bool[Tensor, "..."]) -> Float[Tensor, "..."]:
    """Scores with -inf where a part is not allowed."""
    if not isinstance(allowed, Tensor) or allowed.dtype is not torch.bool:
        kind = f"dtype {allowed.dtype}" if isinstance(allowed, Tensor) else f"{type(allowed).__name__}"
        raise ShapeError(f"The mask {name} of a constraint must be a bool tensor, got {kind}. Use True for allowed.")
    try:
        fits = broadcast_shapes(scores.shape, allowed.shape) == scores.shape
    except RuntimeError:
        fits = False
    if not fits:
        raise ShapeError(
            f"The mask {name} of a constraint must broadcast to the scores of shape {list(scores.shape)}, got "
            f"{list(allowed.shape)}. Check its sizes."
        )
    return torch.where(allowed.to(scores.device), scores, NEG_INF)


def intersect_masks(a: Tensor | None, b: Tensor | None) -> Tensor | None:
    """The mask of what both masks allow; None allows everything."""
    if a is None or b is None:
        return a if b is None else b
    return a & b


def _or_zeros(scores: Tensor | None, like: Tensor, *shape: int) -> Tensor:
    return like.new_zeros(shape) if scores is None else scores


_LETTERS = {
    "bio": {"B": "B", "I": "I"},
    "bilou": {"B": "B", "I": "I", "M": "I", "L": "L", "E": "L", "U": "U", "S": "U"},
}


def _prefix_and_type(label: str, scheme: str) -> tuple[str, str]:
    if label == "O":
        return "O", ""
    letter, _, kind = label.partition("-")
    if letter not in _LETTERS[scheme]:
        raise ConfigError(
            f"Labels of the scheme {scheme!r} must be O or one of {', '.join(sorted(_LETTERS[scheme]))} with a hyphen "
            f"and a type, got {label!r}. Rename it, as in B-PER."
        )
    return _LETTERS[scheme][letter], kind


def _may_follow(p: tuple[str, str], q: tuple[str, str], scheme: str) -> bool:
    (before, kind), (letter, next_kind) = p, q
    if scheme == "bio":
        return letter != "I" or (before in "BI" and kind == next_kind)
    inside = before in "BI"
    continues = letter in "IL"
    return inside == continues and (not inside or kind == next_kind)
