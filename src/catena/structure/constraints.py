"""What is allowed: constraints that condition a distribution, and what to say when nothing is left.

A constraint holds masks, **True = allowed**. Two of them are joined by ``&``. Knows nothing of scores beyond
setting them to -inf, so that a forbidden part has probability 0 exactly.
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
from catena.structure.base import StructuredDistribution

OnInfeasible = Literal["error", "-inf"]
"""What a constraint that allows no member does: raise :class:`ImpossibleError`, or give log Z = -inf."""

_Scheme = Literal["bio", "bilou"]


def check_feasible(structure: StructuredDistribution, on_infeasible: OnInfeasible) -> None:
    """Raise unless every distribution of the batch has a member left, or unless -inf was asked for."""
    if on_infeasible not in get_args(OnInfeasible):
        raise ValueError(f"impossible must be 'error' or '-inf', but it is {on_infeasible!r}")
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
            f"the constraint leaves no possible member for {len(rows)} of {empty.numel()} distributions"
            f"{where}: loosen it, or pass impossible='-inf' to have log Z = -inf there"
        )


@dataclass(frozen=True, eq=False)
class ChainConstraint:
    """Which tags and which neighbors are allowed in a chain. What is None allows all.

    Args:
        tags: ``tags[..., i, q]`` is True where position ``i`` may have tag ``q``.
        transitions: ``transitions[p, q]`` is True where ``q`` may follow ``p``.
        start: True where a sequence may begin with the tag.
        end: True where a sequence may end with the tag.
    """

    tags: Bool[Tensor, "*batch t k"] | None = None
    transitions: Bool[Tensor, "k k"] | None = None
    start: Bool[Tensor, " k"] | None = None
    end: Bool[Tensor, " k"] | None = None

    @classmethod
    def partial(cls, tags: Int[Tensor, "*batch t"], k: int) -> ChainConstraint:
        """Partial annotation: a tag where it is known, -1 where any of the ``k`` tags may stand."""
        return cls(tags=(tags[..., None] == torch.arange(k, device=tags.device)) | (tags[..., None] < 0))

    @classmethod
    def scheme(cls, labels: Sequence[str], scheme: _Scheme) -> ChainConstraint:
        """Sequences that are valid in a scheme of span labels such as ``O``, ``B-PER``, ``I-PER``.

        ``"bio"`` (IOB2): I-x only after B-x or I-x. ``"bilou"``: B-x, then any number of I-x, then L-x; or
        U-x alone. The letters E and S (BIOES) and M (BMES) are read as L, U and I.
        """
        if scheme not in get_args(_Scheme):
            raise ConfigError(f"no labeling scheme is called {scheme!r}: {did_you_mean(scheme, get_args(_Scheme))}")
        parsed = [_prefix_and_type(label, scheme) for label in labels]
        follows = [[_may_follow(p, q, scheme) for q in parsed] for p in parsed]
        edge = ("O", "")
        return cls(
            transitions=torch.tensor(follows, dtype=torch.bool),
            start=torch.tensor([_may_follow(edge, q, scheme) for q in parsed], dtype=torch.bool),
            end=torch.tensor([_may_follow(p, edge, scheme) for p in parsed], dtype=torch.bool),
        )

    def __and__(self, other: ChainConstraint) -> ChainConstraint:
        """What both allow."""
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
        """The scores that this constraint changes, with -inf where it forbids."""
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
        kind = (
            f"its dtype is {allowed.dtype}"
            if isinstance(allowed, Tensor)
            else f"it is of type {type(allowed).__name__}"
        )
        raise ShapeError(f"the constraint's {name} must be a tensor of bool, True where a part is allowed, but {kind}")
    try:
        fits = torch.broadcast_shapes(scores.shape, allowed.shape) == scores.shape
    except RuntimeError:
        fits = False
    if not fits:
        raise ShapeError(
            f"the constraint's {name} must fit the scores of shape {list(scores.shape)}, but its shape is "
            f"{list(allowed.shape)}"
        )
    return torch.where(allowed.to(scores.device), scores, NEG_INF)


def intersect_masks(a: Tensor | None, b: Tensor | None) -> Tensor | None:
    """What two masks allow, either of which may be left out."""
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
            f"the label {label!r} does not belong to the scheme {scheme!r}: it must be O or begin with one "
            f"of {', '.join(sorted(_LETTERS[scheme]))} and a hyphen, as in B-PER"
        )
    return _LETTERS[scheme][letter], kind


def _may_follow(p: tuple[str, str], q: tuple[str, str], scheme: str) -> bool:
    (before, kind), (letter, next_kind) = p, q
    if scheme == "bio":
        return letter != "I" or (before in "BI" and kind == next_kind)
    inside = before in "BI"
    continues = letter in "IL"
    return inside == continues and (not inside or kind == next_kind)
