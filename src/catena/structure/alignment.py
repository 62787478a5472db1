r"""Alignments of two sequences by substitutions, insertions and deletions.

.. math::  p(y) \propto \exp \Big( \sum_{(i, j) \in \mathrm{sub}(y)} a_{ij} + \sum_{(i, j) \in \mathrm{ins}(y)} b_{ij}
           + \sum_{(i, j) \in \mathrm{del}(y)} c_{ij} \Big)

A structure is a sequence of operations: an insertion followed by a deletion differs from a deletion followed by an
insertion. If this difference has no meaning, use
:class:`catena.structure.alignment_one_to_one.OneToOneAlignment`. With a score of -1 for every edit, the best score is
minus the edit distance. With scores of visited cells, the best structure is dynamic time warping.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import InitVar, dataclass, replace
from typing import ClassVar

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from catena.errors import ShapeError
from catena.numerics import NEG_INF
from catena.shapes import as_int64
from catena.structure.alignment_constraints import AlignmentConstraint
from catena.structure.alignment_operations import (
    DELETE,
    INSERT,
    SUBSTITUTE,
    Operations,
    gather_points,
    operation_mask,
    operations_to_steps,
    shift_right,
    to_diagonals,
    to_operations,
)
from catena.structure.backend import can_use_kernels
from catena.structure.base import SemiringDistribution, StructuredDistribution, TopK
from catena.structure.checks import (
    broadcasts_to_batch,
    check_floating,
    check_tensors,
    known_symbols,
    set_lengths,
    validate_structures,
)
from catena.structure.constraints import OnInfeasible, check_feasible
from catena.structure.semirings import Semiring
from catena.structure.tensors import uniform_numbers


@dataclass(frozen=True, eq=False, repr=False)
class Alignment(SemiringDistribution):
    """Distribution over alignments of a source of ``s`` positions with a target of ``t`` positions.

    Structures are ``operations``: Int ``[*batch, s + t]``, 0 for a substitution, 1 for an insertion, 2 for a deletion,
    padded with -1. Parts and marginals are ``[*batch, s, t]``, the alignment matrix of substitutions. For all three
    kinds of operations see :meth:`operation_marginals`.

    Args:
        substitutions: ``[..., i, j]`` is the score of aligning source position ``i`` with target position ``j``.
        insertions: ``[..., i, j]``, with ``s + 1`` rows, is the score of inserting target position ``j`` after the
            first ``i`` source positions. An axis may have size 1 if the score does not depend on it, which saves time
            and memory. If omitted, insertions score 0.
        deletions: ``[..., i, j]``, with ``t + 1`` columns, is the score of deleting source position ``i`` after the
            first ``j`` target positions. Axes of size 1 and None as for ``insertions``.
        source_lengths: number of positions in each source; all ``s`` if omitted.
        target_lengths: number of positions in each target; all ``t`` if omitted.
        constraint: the allowed operations. The distribution is conditioned on it.
        on_infeasible: what to do if the constraint allows no alignment. ``"error"`` raises
            :class:`~catena.errors.ImpossibleError`; ``"-inf"`` sets log Z to -inf.

    Two empty sequences have one structure, the empty one, with score 0.

    Time and memory O(s t). Ristad & Yianilos (1998), section 2; McCallum et al. (2005), section 3.
    """

    substitutions: Float[Tensor, "*batch s t"]
    insertions: Float[Tensor, "*#batch _ _"] | None = None
    deletions: Float[Tensor, "*#batch _ _"] | None = None
    source_lengths: Int[Tensor, "*#batch"] | None = None
    target_lengths: Int[Tensor, "*#batch"] | None = None
    constraint: InitVar[AlignmentConstraint | None] = None
    on_infeasible: InitVar[OnInfeasible] = "error"

    ranks: ClassVar[tuple[int, ...]] = (2, 2, 2)

    def __post_init__(self, constraint: AlignmentConstraint | None, on_infeasible: OnInfeasible) -> None:
        check_tensors(self, "substitutions", "insertions", "deletions", "source_lengths", "target_lengths")
        for name in ("insertions", "deletions"):
            if getattr(self, name) is None:
                object.__setattr__(self, name, self.substitutions.new_zeros(1, 1))
        self._check_shapes()
        check_floating(self.score_tensors())
        s, t = self.substitutions.shape[-2:]
        ranks = {"substitutions": 2, "insertions": 2, "deletions": 2}
        set_lengths(self, {"source_lengths": s, "target_lengths": t}, ranks)
        if constraint is not None:
            for name, scores in constraint.applied(*self._spread_over(self.batch_shape).score_tensors()).items():
                object.__setattr__(self, name, scores)
            check_feasible(self, on_infeasible)

    @classmethod
    def edit(
        cls,
        source: Int[Tensor, "*batch s"],
        target: Int[Tensor, "*batch t"],
        substitutions: Float[Tensor, "v w"],
        insertions: Float[Tensor, " w"] | None = None,
        deletions: Float[Tensor, " v"] | None = None,
        source_lengths: Int[Tensor, "*batch"] | None = None,
        target_lengths: Int[Tensor, "*batch"] | None = None,
    ) -> Alignment:
        """Alignments of two symbol sequences with scores from symbol tables (weighted edit distance).

        Args:
            source: symbol ids. Ids after the end of a sequence are not read and may be negative.
            target: symbol ids, as for ``source``.
            substitutions: ``[a, b]`` is the score of replacing ``a`` by ``b``, or of a match if ``a`` = ``b``.
            insertions: ``[b]`` is the score of inserting ``b``; 0 if omitted.
            deletions: ``[a]`` is the score of deleting ``a``; 0 if omitted.
            source_lengths: number of symbols in each source; all if omitted.
            target_lengths: number of symbols in each target; all if omitted.
        """
        v, w = substitutions.shape
        source, known_source = known_symbols("source", source, source_lengths, v)
        target, known_target = known_symbols("target", target, target_lengths, w)
        known = known_source[..., :, None] & known_target[..., None, :]
        return cls(
            torch.where(known, substitutions[source[..., :, None], target[..., None, :]], torch.nan),
            None if insertions is None else torch.where(known_target, insertions[target], torch.nan)[..., None, :],
            None if deletions is None else torch.where(known_source, deletions[source], torch.nan)[..., :, None],
            source_lengths,
            target_lengths,
        )

    @classmethod
    def many_to_many(
        cls,
        scores: Float[Tensor, "*batch s t"],
        source_lengths: Int[Tensor, "*batch"] | None = None,
        target_lengths: Int[Tensor, "*batch"] | None = None,
    ) -> Alignment:
        """Monotone paths through the cells of a table from its first to its last corner.

        A path moves down (a deletion), right (an insertion) or diagonally (a substitution). The best path is dynamic
        time warping; log Z is soft dynamic time warping (Cuturi & Blondel 2017, section 2.1).

        Args:
            scores: ``scores[..., i, j]`` is the score of visiting a cell.
            source_lengths: number of rows; all if omitted.
            target_lengths: number of columns; all if omitted.
        """
        never = scores.new_full((), NEG_INF)
        return cls(
            scores,
            torch.cat((never.expand_as(scores[..., :1, :]), scores), dim=-2),
            torch.cat((never.expand_as(scores[..., :, :1]), scores), dim=-1),
            source_lengths,
            target_lengths,
        )

    @classmethod
    def one_to_many(
        cls,
        scores: Float[Tensor, "*batch s t"],
        source_lengths: Int[Tensor, "*batch"] | None = None,
        target_lengths: Int[Tensor, "*batch"] | None = None,
    ) -> Alignment:
        """Segmentations of the target into ``s`` non-empty runs, each aligned with one source position in order.

        Args:
            scores: ``scores[..., i, j]`` is the score of target position ``j`` in run ``i``.
            source_lengths: number of runs; all ``s`` if omitted.
            target_lengths: number of target positions; all if omitted.
        """
        walks = cls.many_to_many(scores, source_lengths, target_lengths)
        return replace(walks, deletions=scores.new_full((1, 1), NEG_INF))

    # --- interface ------------------------------------------------------------------------------------------

    @property
    def batch_shape(self) -> torch.Size:
        return self.substitutions.shape[:-2]

    def score_tensors(self) -> Operations:
        (s, t), (insertions, deletions) = self.substitutions.shape[-2:], self._gaps()
        return Operations(
            self.substitutions,
            insertions.expand(*insertions.shape[:-2], s + 1, t),
            deletions.expand(*deletions.shape[:-2], s, t + 1),
        )

    def with_score_tensors(self, tensors: Sequence[Tensor | None]) -> Alignment:
        substitutions, insertions, deletions = tensors
        assert substitutions is not None
        return Alignment(substitutions, insertions, deletions, self.source_lengths, self.target_lengths)

    def extent(self) -> tuple[Shaped[Tensor, "..."], ...]:
        return self._source_lengths(), self._target_lengths()

    def from_parts(self, value: Tensor) -> Alignment:
        if value.dim() < 2 or value.shape[-2:] != self.substitutions.shape[-2:]:
            raise ShapeError(
                f"value must end in the axes [s, t] = {list(self.substitutions.shape[-2:])}, got {list(value.shape)}. "
                "For values of insertions and deletions pass an Alignment."
            )
        value = value.to(self.substitutions.dtype)
        return Alignment(value, None, None, self.source_lengths, self.target_lengths)

    def given(self, constraint: AlignmentConstraint, on_infeasible: OnInfeasible = "error") -> Alignment:
        """This distribution conditioned on ``constraint``.

        Args:
            constraint: the allowed operations.
            on_infeasible: what to do if no alignment is allowed, as in the constructor.
        """
        return replace(self, constraint=constraint, on_infeasible=on_infeasible)

    def score(self, y: Int[Tensor, "*batch n"]) -> Float[Tensor, "*batch"]:
        y = validate_structures(y, self.batch_shape, {"n": None})
        steps = operations_to_steps(y)
        substituted, inserted, deleted = (gather_points(x, steps.i, steps.j) for x in self.score_tensors())
        picked = torch.where(y == SUBSTITUTE, substituted, torch.where(y == INSERT, inserted, deleted))
        whole = steps.well_formed & (steps.s == self._source_lengths()) & (steps.t == self._target_lengths())
        return torch.where(whole, torch.where(y >= 0, picked, 0.0).sum(-1), NEG_INF)

    def parts(self, y: Int[Tensor, "*batch n"]) -> Float[Tensor, "*batch s t"]:
        y = validate_structures(y, self.batch_shape, {"n": None})
        return operation_mask(operations_to_steps(y), SUBSTITUTE, *self.substitutions.shape[-2:]).to(
            self.substitutions.dtype
        )

    def operation_parts(self, y: Int[Tensor, "*batch n"]) -> Operations:
        """Structures as 0/1 tensors in the shape of :meth:`operation_marginals`."""
        steps, (s, t), dtype = (
            operations_to_steps(as_int64("operations", y)),
            self.substitutions.shape[-2:],
            self.substitutions.dtype,
        )
        kinds = ((SUBSTITUTE, s, t), (INSERT, s + 1, t), (DELETE, s, t + 1))
        return Operations(*(operation_mask(steps, *kind).to(dtype) for kind in kinds))

    def pairs(self, y: Int[Tensor, "*batch n"]) -> Int[Tensor, "*batch n 2"]:
        """Structures as rows ``(source, target)`` of positions, -1 on the side of a gap, padded with rows of -1."""
        y = as_int64("operations", y)
        steps = operations_to_steps(y)
        source = torch.where((y == SUBSTITUTE) | (y == DELETE), steps.i, -1)
        target = torch.where((y == SUBSTITUTE) | (y == INSERT), steps.j, -1)
        return torch.stack((source, target), dim=-1)

    def log_partition(self) -> Float[Tensor, "*batch"]:
        if not can_use_kernels(*self.score_tensors()):
            return self.plain_log_partition()
        from catena.kernels.alignment.ops import log_partition

        return log_partition(*self._rows()).reshape(self.batch_shape)

    def marginals(self) -> Float[Tensor, "*batch s t"]:
        """``[..., i, j]`` is the probability that source position ``i`` is aligned with target position ``j``."""
        return self.operation_marginals().substitutions

    def operation_marginals(self) -> Operations:
        """The probability of every substitution, insertion and deletion."""
        if not can_use_kernels(*self.score_tensors()):
            return Operations(*self._spread_over(self.batch_shape).gradients([0, 1, 2])[1])
        from catena.kernels.alignment.ops import log_partition_and_marginals

        rows = self._spread_over(self.batch_shape)._rows()
        return Operations(*(x.reshape(*self.batch_shape, *x.shape[1:]) for x in log_partition_and_marginals(*rows)[1:]))

    def cell_marginals(self) -> Float[Tensor, "*batch s t"]:
        """``[..., i, j]`` is the probability that a path visits the cell.

        The path visits it if some operation ends at ``i + 1`` source positions and ``j + 1`` target positions.
        """
        substitutions, insertions, deletions = self.operation_marginals()
        return substitutions + insertions[..., 1:, :] + deletions[..., :, 1:]

    def _argmax(self) -> Int[Tensor, "*batch n"]:
        if not can_use_kernels(*self.score_tensors()):
            return super()._argmax()
        from catena.kernels.alignment.ops import best

        return best(*self._rows()).reshape(*self.batch_shape, -1)

    def _topk(self, k: int) -> TopK:
        if not can_use_kernels(*self.score_tensors()):
            return super()._topk(k)
        from catena.kernels.alignment.ops import top

        operations, found = top(*self._rows(), k)
        structures = operations.transpose(0, 1).reshape(k, *self.batch_shape, -1)
        return self._best_first(structures, found)

    def _sample(self, n: int, generator: torch.Generator | None) -> Int[Tensor, "n *batch m"]:
        if not can_use_kernels(*self.score_tensors()):
            return super()._sample(n, generator)
        from catena.kernels.alignment.ops import sample

        rows, (s, t) = self._rows(), self.substitutions.shape[-2:]
        uniforms = uniform_numbers(n, len(rows[0]), s + t, generator=generator)
        return sample(*rows, uniforms).reshape(n, *self.batch_shape, s + t)

    # --- reference program ----------------------------------------------------------------------------------

    def read_parts(self) -> tuple[Tensor | None, ...]:
        s, t = self.substitutions.shape[-2:]
        n, m = self._source_lengths()[..., None], self._target_lengths()[..., None]
        rows, columns = (torch.arange(size + 1, device=n.device) for size in (s, t))
        source, target = (rows[:s] < n)[..., None], (columns[:t] < m)[..., None, :]
        return source & target, (rows <= n)[..., None] & target, source & (columns <= m)[..., None, :]

    def _total(
        self, semiring: Semiring, *values: StructuredDistribution | Shaped[Tensor, "..."]
    ) -> Shaped[Tensor, "..."]:
        by_diagonal = [to_diagonals(x, semiring) for x in self.lifted(semiring, values) if x is not None]
        substitutions, insertions, deletions = by_diagonal
        (s, t), batch = self.substitutions.shape[-2:], self.batch_shape
        n, ends = self._source_lengths(), self._source_lengths() + self._target_lengths()
        # alpha[..., i] is the sum over paths to the point of the diagonal with i consumed source positions.
        start = semiring.one((*batch, 1), insertions)
        alpha = torch.cat((start, semiring.zero((*batch, s), insertions)), dim=-1)
        before, total = alpha, start[..., 0]
        for d in range(1, s + t + 1):
            terms = [
                semiring.mul(alpha, insertions[..., d - 1]),
                shift_right(semiring.mul(alpha[..., :-1], deletions[..., d - 1]), semiring),
            ]
            if d > 1:
                paired = semiring.mul(before[..., :-1], substitutions[..., d - 2])
                terms.append(shift_right(paired, semiring))
            before, alpha = alpha, semiring.sum(torch.stack(terms, dim=-1), dim=-1)
            here = alpha.gather(-1, n[..., None].expand(*alpha.shape[:-1], 1))[..., 0]
            total = torch.where(ends == d, here, total)
        return total

    def read_structure(self, gradients: Sequence[Tensor | None]) -> Int[Tensor, "*batch n"]:
        return to_operations(Operations(*gradients))  # type: ignore[arg-type]

    # --- helpers --------------------------------------------------------------------------------------------

    def _gaps(self) -> tuple[Tensor, Tensor]:
        assert self.insertions is not None
        assert self.deletions is not None
        return self.insertions, self.deletions

    def _rows(self) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """Scores and lengths with one batch axis. Insertions may have a single row, deletions a single column."""
        (s, t), batch = self.substitutions.shape[-2:], self.batch_shape
        insertions, deletions = (x.to(self.substitutions.dtype) for x in self._gaps())
        return (
            self.substitutions.reshape(-1, s, t),
            insertions.expand(*batch, -1, t).reshape(-1, insertions.shape[-2], t),
            deletions.expand(*batch, s, -1).reshape(-1, s, deletions.shape[-1]),
            self._source_lengths().reshape(-1),
            self._target_lengths().reshape(-1),
        )

    def _source_lengths(self) -> Int[Tensor, "*batch"]:
        return self._lengths(self.source_lengths, self.substitutions.shape[-2])

    def _target_lengths(self) -> Int[Tensor, "*batch"]:
        return self._lengths(self.target_lengths, self.substitutions.shape[-1])

    def _lengths(self, lengths: Tensor | None, most: int) -> Tensor:
        if lengths is None:
            return torch.full(self.batch_shape, most, device=self.substitutions.device)
        return lengths.expand(self.batch_shape)

    def _check_shapes(self) -> None:
        if self.substitutions.dim() < 2:
            raise ShapeError(
                f"substitutions must have shape [*batch, s, t], got {list(self.substitutions.shape)}. Pass one score "
                "for each source and target position."
            )
        *batch, s, t = self.substitutions.shape
        for name, own in {"insertions": (s + 1, t), "deletions": (s, t + 1)}.items():
            shape = getattr(self, name).shape
            if len(shape) < 2 or not broadcasts_to_batch(shape, (*batch, *own), 0):
                raise ShapeError(
                    f"{name} must have shape {[*batch, *own]}, where axes may be 1, got {list(shape)}. Fit it to "
                    f"substitutions of shape {[*batch, s, t]}."
                )
        for name in ("source_lengths", "target_lengths"):
            given: Tensor | None = getattr(self, name)
            if given is not None and not broadcasts_to_batch(given.shape, batch, 0):
                raise ShapeError(
                    f"{name} must have shape {batch}, got {list(given.shape)}. Pass one length for each pair."
                )


def edit_distance(
    source: Int[Tensor, "*batch s"],
    target: Int[Tensor, "*batch t"],
    source_lengths: Int[Tensor, "*batch"] | None = None,
    target_lengths: Int[Tensor, "*batch"] | None = None,
) -> Int[Tensor, "*batch"]:
    """Levenshtein distance: the smallest number of insertions, deletions and substitutions from source to target.

    Args:
        source: symbol ids.
        target: symbol ids.
        source_lengths: number of symbols in each source; all if omitted.
        target_lengths: number of symbols in each target; all if omitted.

    Levenshtein (1966).

    >>> edit_distance(torch.tensor([1, 2, 3]), torch.tensor([1, 3, 3, 4]))
    tensor(2)
    """
    differs = (source[..., :, None] != target[..., None, :]).double()
    one = differs.new_full((1, 1), -1.0)
    return (-Alignment(-differs, one, one, source_lengths, target_lengths).max()).long()
