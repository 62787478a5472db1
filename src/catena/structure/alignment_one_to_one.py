r"""One-to-one alignments: sets of pairs that do not cross, with unaligned positions on both sides.

.. math::  p(y) \propto \exp \Big( \sum_{(i, j) \in y} a_{ij} + \sum_{i \notin y} g_i + \sum_{j \notin y} h_j \Big)

A structure is only the set of its pairs. An :class:`~catena.structure.alignment.Alignment` also distinguishes the
orders in which the positions between two pairs are inserted and deleted. (One-to-one alignments whose pairs may cross
are a different problem: their sum is a permanent, for which no fast exact algorithm is known.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import InitVar, dataclass, replace
from typing import ClassVar

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from catena.errors import ShapeError
from catena.numerics import NEG_INF
from catena.shapes import mask_from_lengths
from catena.structure.alignment_constraints import hits
from catena.structure.alignment_operations import gather_points, shift_right, to_diagonals
from catena.structure.backend import can_use_kernels
from catena.structure.base import SemiringDistribution, StructuredDistribution, TopK
from catena.structure.checks import broadcasts_to_batch, check_floating, check_tensors, set_lengths, validate_structures
from catena.structure.constraints import OnInfeasible, check_feasible, mask_scores
from catena.structure.semirings import Semiring
from catena.structure.tensors import uniform_numbers


@dataclass(frozen=True, eq=False)
class PairConstraint:
    """Constraint on the pairs and gaps of a :class:`OneToOneAlignment`. None allows everything.

    Args:
        pairs: ``[..., i, j]`` is True if source position ``i`` may be paired with target position ``j``.
        source_gaps: True where a source position may be unaligned.
        target_gaps: True where a target position may be unaligned.
    """

    pairs: Bool[Tensor, "*batch s t"] | None = None
    source_gaps: Bool[Tensor, "*batch s"] | None = None
    target_gaps: Bool[Tensor, "*batch t"] | None = None

    @classmethod
    def forbidding(cls, pairs: Int[Tensor, "*batch n c"], s: int, t: int) -> PairConstraint:
        """Constraint that no alignment contains these pairs.

        Args:
            pairs: rows ``(source, target)``. Rows of -1 are padding.
            s: number of source positions.
            t: number of target positions.
        """
        rows, columns = hits(pairs, s, t)
        return cls(~(rows & columns).any(-3))

    @classmethod
    def fixing(cls, pairs: Int[Tensor, "*batch n c"], s: int, t: int) -> PairConstraint:
        """Constraint that every alignment contains these pairs.

        Args:
            pairs: rows ``(source, target)``. Rows of -1 are padding.
            s: number of source positions.
            t: number of target positions.
        """
        rows, columns = hits(pairs, s, t)
        return cls(~(rows ^ columns).any(-3), ~rows.any(-3)[..., 0], ~columns.any(-3)[..., 0, :])

    def __and__(self, other: PairConstraint) -> PairConstraint:
        """The constraint that allows what both allow."""
        masks = ((getattr(self, name), getattr(other, name)) for name in ("pairs", "source_gaps", "target_gaps"))
        return PairConstraint(*(a if b is None else b if a is None else a & b for a, b in masks))

    def applied(
        self,
        scores: Float[Tensor, "*batch s t"],
        source_gaps: Float[Tensor, "*batch s"],
        target_gaps: Float[Tensor, "*batch t"],
    ) -> dict[str, Tensor]:
        """The score tensors that this constraint changes, with -inf where it forbids, by name."""
        changed = {}
        if self.pairs is not None:
            changed["scores"] = mask_scores("pairs", scores, self.pairs)
        if self.source_gaps is not None:
            changed["source_gaps"] = mask_scores("source_gaps", source_gaps, self.source_gaps)
        if self.target_gaps is not None:
            changed["target_gaps"] = mask_scores("target_gaps", target_gaps, self.target_gaps)
        return changed


@dataclass(frozen=True, eq=False, repr=False)
class OneToOneAlignment(SemiringDistribution):
    """Distribution over monotone one-to-one alignments of ``s`` source positions with ``t`` target positions.

    Structures are ``partners``: Int ``[*batch, s]``, the target position of each source position, -1 for an unaligned
    or padded one. Parts and marginals are ``[*batch, s, t]``.

    Args:
        scores: ``scores[..., i, j]`` is the score of pairing source position ``i`` with target position ``j``.
        source_gaps: ``[..., i]`` is the score of leaving source position ``i`` unaligned; -inf if it must be paired.
            If omitted, gaps score 0.
        target_gaps: ``[..., j]`` is the score of leaving target position ``j`` unaligned, as for ``source_gaps``.
        source_lengths: number of positions in each source; all ``s`` if omitted.
        target_lengths: number of positions in each target; all ``t`` if omitted.
        constraint: the allowed pairs and gaps. The distribution is conditioned on it.
        on_infeasible: what to do if the constraint allows no alignment. ``"error"`` raises
            :class:`~catena.errors.ImpossibleError`; ``"-inf"`` sets log Z to -inf.

    Two empty sequences have one structure, the alignment without pairs, with score 0.

    Time and memory O(s t). Needleman & Wunsch (1970), with each set of pairs counted once.
    """

    scores: Float[Tensor, "*batch s t"]
    source_gaps: Float[Tensor, "*#batch s"] | None = None
    target_gaps: Float[Tensor, "*#batch t"] | None = None
    source_lengths: Int[Tensor, "*#batch"] | None = None
    target_lengths: Int[Tensor, "*#batch"] | None = None
    constraint: InitVar[PairConstraint | None] = None
    on_infeasible: InitVar[OnInfeasible] = "error"

    ranks: ClassVar[tuple[int, ...]] = (2, 1, 1)

    def __post_init__(self, constraint: PairConstraint | None, on_infeasible: OnInfeasible) -> None:
        check_tensors(self, "scores", "source_gaps", "target_gaps", "source_lengths", "target_lengths")
        if self.scores.dim() < 2:
            raise ShapeError(
                f"scores must have shape [*batch, s, t], got {list(self.scores.shape)}. Pass one score for each source "
                "and target position."
            )
        for name, size in zip(("source_gaps", "target_gaps"), self.scores.shape[-2:], strict=True):
            if getattr(self, name) is None:
                object.__setattr__(self, name, self.scores.new_zeros(size))
        self._check_shapes()
        check_floating(self.score_tensors())
        s, t = self.scores.shape[-2:]
        ranks = {"scores": 2, "source_gaps": 1, "target_gaps": 1}
        set_lengths(self, {"source_lengths": s, "target_lengths": t}, ranks)
        if constraint is not None:
            for name, scores in constraint.applied(*self._spread_over(self.batch_shape).score_tensors()).items():
                object.__setattr__(self, name, scores)
            check_feasible(self, on_infeasible)

    # --- interface ------------------------------------------------------------------------------------------

    @property
    def batch_shape(self) -> torch.Size:
        return self.scores.shape[:-2]

    def score_tensors(self) -> tuple[Tensor, Tensor, Tensor]:
        assert self.source_gaps is not None
        assert self.target_gaps is not None
        return self.scores, self.source_gaps, self.target_gaps

    def with_score_tensors(self, tensors: Sequence[Tensor | None]) -> OneToOneAlignment:
        scores, source_gaps, target_gaps = tensors
        assert scores is not None
        return OneToOneAlignment(scores, source_gaps, target_gaps, self.source_lengths, self.target_lengths)

    def extent(self) -> tuple[Shaped[Tensor, "..."], ...]:
        return self._source_lengths(), self._target_lengths()

    def from_parts(self, value: Tensor) -> OneToOneAlignment:
        if value.dim() < 2 or value.shape[-2:] != self.scores.shape[-2:]:
            raise ShapeError(
                f"value must end in the axes [s, t] = {list(self.scores.shape[-2:])}, got {list(value.shape)}. For "
                "values of unaligned positions pass a OneToOneAlignment."
            )
        return OneToOneAlignment(value.to(self.scores.dtype), None, None, self.source_lengths, self.target_lengths)

    def given(self, constraint: PairConstraint, on_infeasible: OnInfeasible = "error") -> OneToOneAlignment:
        """This distribution conditioned on ``constraint``.

        Args:
            constraint: the allowed pairs and gaps.
            on_infeasible: what to do if no alignment is allowed, as in the constructor.
        """
        return replace(self, constraint=constraint, on_infeasible=on_infeasible)

    def score(self, y: Int[Tensor, "*batch s"]) -> Float[Tensor, "*batch"]:
        s, t = self.scores.shape[-2:]
        y = validate_structures(y, self.batch_shape, {"s": s})
        scores, source_gaps, target_gaps = self.score_tensors()
        real_source = mask_from_lengths(self._source_lengths(), y.shape[-1])
        real_target = mask_from_lengths(self._target_lengths(), t)
        partner = torch.where(real_source, y, -1)
        paired = partner >= 0
        highest = torch.nn.functional.pad(partner.cummax(-1).values, (1, 0), value=-1)[..., :-1]
        in_order = (~paired | ((partner > highest) & (partner < self._target_lengths()[..., None]))).all(-1)
        rows = torch.arange(y.shape[-1], device=y.device).expand(y.shape)
        used = (partner[..., None] == torch.arange(t, device=y.device)).any(-2)
        total = torch.where(paired, gather_points(scores, rows, partner), 0.0).sum(-1)
        total = total + torch.where(real_source & ~paired, source_gaps, 0.0).sum(-1)
        total = total + torch.where(real_target & ~used, target_gaps, 0.0).sum(-1)
        return torch.where(in_order, total, NEG_INF)

    def parts(self, y: Int[Tensor, "*batch s"]) -> Float[Tensor, "*batch s t"]:
        y = validate_structures(y, self.batch_shape, {"s": self.scores.shape[-2]})
        columns = torch.arange(self.scores.shape[-1], device=y.device)
        return (y[..., None] == columns).to(self.scores.dtype)

    def log_partition(self) -> Float[Tensor, "*batch"]:
        if not can_use_kernels(*self.score_tensors()):
            return self.plain_log_partition()
        from catena.kernels.one_to_one.ops import log_partition

        return log_partition(*self._rows()).reshape(self.batch_shape)

    def marginals(self) -> Float[Tensor, "*batch s t"]:
        """``[..., i, j]`` is the probability that source position ``i`` is paired with target position ``j``."""
        if not can_use_kernels(*self.score_tensors()):
            return self.gradients([0])[1][0]
        from catena.kernels.one_to_one.ops import log_partition_and_marginals

        return log_partition_and_marginals(*self._rows())[1].reshape(self.scores.shape)

    def _argmax(self) -> Int[Tensor, "*batch s"]:
        if not can_use_kernels(*self.score_tensors()):
            return super()._argmax()
        from catena.kernels.one_to_one.ops import best

        return best(*self._rows()).reshape(self.scores.shape[:-1])

    def _topk(self, k: int) -> TopK:
        if not can_use_kernels(*self.score_tensors()):
            return super()._topk(k)
        from catena.kernels.one_to_one.ops import top

        partners, found = top(*self._rows(), k)
        structures = partners.transpose(0, 1).reshape(k, *self.scores.shape[:-1])
        return self._best_first(structures, found)

    def _sample(self, n: int, generator: torch.Generator | None) -> Int[Tensor, "n *batch s"]:
        if not can_use_kernels(*self.score_tensors()):
            return super()._sample(n, generator)
        from catena.kernels.one_to_one.ops import sample

        rows, (s, t) = self._rows(), self.scores.shape[-2:]
        uniforms = uniform_numbers(n, len(rows[0]), 2 * s + t, generator=generator)
        return sample(*rows, uniforms).reshape(n, *self.scores.shape[:-1])

    # --- reference program ----------------------------------------------------------------------------------

    def read_parts(self) -> tuple[Tensor | None, ...]:
        s, t = self.scores.shape[-2:]
        source, target = mask_from_lengths(self._source_lengths(), s), mask_from_lengths(self._target_lengths(), t)
        return source[..., None] & target[..., None, :], source, target

    def _total(
        self, semiring: Semiring, *values: StructuredDistribution | Shaped[Tensor, "..."]
    ) -> Shaped[Tensor, "..."]:
        scores, drop, put = (x for x in self.lifted(semiring, values) if x is not None)
        (s, t), batch = self.scores.shape[-2:], self.batch_shape
        puts = to_diagonals(put[..., None, :].expand(*put.shape[:-1], s + 1, t), semiring)
        pairs = to_diagonals(scores, semiring)
        n, ends = self._source_lengths(), self._source_lengths() + self._target_lengths()
        # By diagonals. ahead[..., i] is the sum over prefixes whose last source position is paired (or that have none),
        # followed by any unaligned target positions. alpha[..., i] adds those that leave it unaligned.
        start = semiring.one((*batch, 1), puts)
        alpha = torch.cat((start, semiring.zero((*batch, s), puts)), dim=-1)
        before, ahead, total = alpha, alpha, start[..., 0]
        for d in range(1, s + t + 1):
            ways = [semiring.mul(ahead, puts[..., d - 1])]
            if d > 1:
                ways.append(shift_right(semiring.mul(before[..., :-1], pairs[..., d - 2]), semiring))
            ahead = semiring.sum(torch.stack(ways, dim=-1), dim=-1)
            dropped = shift_right(semiring.mul(alpha[..., :-1], drop), semiring)
            before, alpha = alpha, semiring.sum(torch.stack((ahead, dropped), dim=-1), dim=-1)
            here = alpha.gather(-1, n[..., None].expand(*alpha.shape[:-1], 1))[..., 0]
            total = torch.where(ends == d, here, total)
        return total

    def read_structure(self, gradients: Sequence[Tensor | None]) -> Int[Tensor, "*batch s"]:
        pairs = gradients[0]
        assert pairs is not None
        if pairs.shape[-1] == 0:
            return torch.full(pairs.shape[:-1], -1, device=pairs.device)
        best, partners = pairs.max(dim=-1)
        return torch.where(best > 0.5, partners, -1)

    # --- helpers --------------------------------------------------------------------------------------------

    def _rows(self) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """Scores and lengths with one batch axis."""
        _, source_gaps, target_gaps = self._spread_over(self.batch_shape).score_tensors()
        s, t = self.scores.shape[-2:]
        return (
            self.scores.reshape(-1, s, t),
            source_gaps.to(self.scores.dtype).reshape(-1, s),
            target_gaps.to(self.scores.dtype).reshape(-1, t),
            self._source_lengths().reshape(-1),
            self._target_lengths().reshape(-1),
        )

    def _source_lengths(self) -> Int[Tensor, "*batch"]:
        return self._or_all(self.source_lengths, self.scores.shape[-2])

    def _target_lengths(self) -> Int[Tensor, "*batch"]:
        return self._or_all(self.target_lengths, self.scores.shape[-1])

    def _or_all(self, lengths: Tensor | None, most: int) -> Tensor:
        if lengths is None:
            return torch.full(self.batch_shape, most, device=self.scores.device)
        return lengths.expand(self.batch_shape)

    def _check_shapes(self) -> None:
        *batch, s, t = self.scores.shape
        axes = {"source_gaps": (s,), "target_gaps": (t,), "source_lengths": (), "target_lengths": ()}
        for name, own in axes.items():
            given: Tensor | None = getattr(self, name)
            if given is not None and not broadcasts_to_batch(given.shape, (*batch, *own), len(own)):
                raise ShapeError(
                    f"{name} must have shape {[*batch, *own]}, where batch axes may be 1 or missing, got "
                    f"{list(given.shape)}. Fit it to scores of shape {[*batch, s, t]}."
                )
