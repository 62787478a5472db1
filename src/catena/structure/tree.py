r"""Span trees: distributions over binary trees whose labeled spans are scored independently (the "span CRF").

.. math::  p(y) \propto \exp \sum_{(i, j, q) \in y} s_{ij}(q)

The structures are all binary bracketings of the words with all labelings of their spans. The score of a span does not
depend on its contents, so labels are summed out span by span and trees by CKY.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import InitVar, dataclass, replace
from typing import ClassVar

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from catena.accelerators import can_skip_kernels
from catena.errors import ShapeError
from catena.numerics import NEG_INF
from catena.structure.backend import can_use_kernels, use_backend
from catena.structure.base import SemiringDistribution, StructuredDistribution, TopK
from catena.structure.checks import broadcasts_to_batch, check_floating, check_tensors, set_lengths, validate_structures
from catena.structure.constraints import OnInfeasible, check_feasible
from catena.structure.semirings import Semiring
from catena.structure.span_constraints import SpanConstraint
from catena.structure.spans import at_span, chart_of_tree, spans_inside, spans_of_width, to_nodes, tree_of_chart
from catena.structure.tensors import uniform_numbers


@dataclass(frozen=True, eq=False, repr=False)
class SpanTree(SemiringDistribution):
    """Distribution over binary trees whose spans have one of ``k`` labels.

    Structures are ``spans``: Int ``[*batch, 2 t - 1, 3]``, rows ``(first, last, label)`` in preorder, both words
    included, padded with rows of -1. As input, rows may be in any order. Parts and marginals are ``[*batch, t, t, k]``.

    Args:
        scores: ``scores[..., i, j, q]`` is the score of a span with label ``q`` over the words ``i`` to ``j``, both
            included. Single words (``i = j``) are spans of every tree. Entries with ``i > j`` are not read.
        lengths: number of words in each sentence; all ``t`` if omitted.
        constraint: the allowed spans and labels. The distribution is conditioned on it.
        on_infeasible: what to do if the constraint allows no tree. ``"error"`` raises
            :class:`~catena.errors.ImpossibleError`; ``"-inf"`` sets log Z to -inf.

    A sentence without words has one structure, the tree without spans, with score 0.

    Time O(t³ + t² k), memory O(t² k). Stern et al. (2017), section 2; Zhang et al. (2020), section 3.
    """

    scores: Float[Tensor, "*batch t t k"]
    lengths: Int[Tensor, "*#batch"] | None = None
    constraint: InitVar[SpanConstraint | None] = None
    on_infeasible: InitVar[OnInfeasible] = "error"

    ranks: ClassVar[tuple[int, ...]] = (3,)

    def __post_init__(self, constraint: SpanConstraint | None, on_infeasible: OnInfeasible) -> None:
        check_tensors(self, "scores", "lengths")
        check_floating(self.score_tensors())
        self._check_shapes()
        set_lengths(self, {"lengths": self.scores.shape[-2]}, {"scores": 3})
        if constraint is not None:
            object.__setattr__(self, "scores", constraint.applied(self.scores))
            check_feasible(self, on_infeasible)

    # --- interface ------------------------------------------------------------------------------------------

    @property
    def batch_shape(self) -> torch.Size:
        return self.scores.shape[:-3]

    def score_tensors(self) -> tuple[Tensor | None, ...]:
        return (self.scores,)

    def with_score_tensors(self, tensors: Sequence[Tensor | None]) -> SpanTree:
        (scores,) = tensors
        assert scores is not None
        return SpanTree(scores, self.lengths)

    def extent(self) -> tuple[Shaped[Tensor, "..."], ...]:
        return (self._lengths(),)

    def from_parts(self, value: Tensor) -> SpanTree:
        if value.dim() < 3 or value.shape[-3:] != self.scores.shape[-3:]:
            raise ShapeError(
                f"value must end in the axes [t, t, k] = {list(self.scores.shape[-3:])}, got {list(value.shape)}. Pass "
                "one value for each span and label."
            )
        return SpanTree(value.to(self.scores.dtype), self.lengths)

    def given(self, constraint: SpanConstraint, on_infeasible: OnInfeasible = "error") -> SpanTree:
        """This distribution conditioned on ``constraint``.

        Args:
            constraint: the allowed spans and labels.
            on_infeasible: what to do if no tree is allowed, as in the constructor.
        """
        return replace(self, constraint=constraint, on_infeasible=on_infeasible)

    def score(self, y: Int[Tensor, "*batch n 3"]) -> Float[Tensor, "*batch"]:
        y = validate_structures(y, self.batch_shape, {"n": None, "triple": 3})
        nodes = to_nodes(y, self.scores.shape[-2])
        labeled = (~nodes.real | ((nodes.label >= 0) & (nodes.label < self.scores.shape[-1]))).all(-1)
        picked = torch.where(nodes.real, at_span(self.scores, nodes, nodes.label), 0.0).sum(-1)
        return torch.where(nodes.are_trees(self._lengths()) & labeled, picked, NEG_INF)

    def parts(self, y: Int[Tensor, "*batch n 3"]) -> Float[Tensor, "*batch t t k"]:
        y = validate_structures(y, self.batch_shape, {"n": None, "triple": 3})
        return chart_of_tree(y, *self.scores.shape[-2:]).to(self.scores.dtype)

    def log_partition(self) -> Float[Tensor, "*batch"]:
        if not can_use_kernels(self.scores):
            return self.plain_log_partition()
        from catena.kernels.tree.ops import log_partition

        log_z = log_partition(*self._rows())
        return log_z if len(self.batch_shape) == 1 else log_z.reshape(self.batch_shape)

    def marginals(self) -> Float[Tensor, "*batch t t k"]:
        """``[..., i, j, q]`` is the probability that the words ``i`` to ``j`` are a span with label ``q``."""
        if not can_use_kernels(self.scores):
            return self.gradients([0])[1][0]
        if can_skip_kernels(3 * self._microseconds):
            with use_backend("reference"):
                return self.gradients([0])[1][0]
        from catena.kernels.tree.ops import log_partition_and_marginals

        return log_partition_and_marginals(*self._rows())[1].reshape(self.scores.shape)

    def _argmax(self) -> Int[Tensor, "*batch n 3"]:
        if not can_use_kernels(self.scores) or can_skip_kernels(self._microseconds):
            return super()._argmax()
        from catena.kernels.tree.ops import best

        found = best(*self._rows())
        return found.reshape(*self.batch_shape, *found.shape[1:])

    def _topk(self, k: int) -> TopK:
        if not can_use_kernels(self.scores):
            return super()._topk(k)
        from catena.kernels.tree.ops import top

        spans, found = top(*self._rows(), k)
        structures = spans.transpose(0, 1).reshape(k, *self.batch_shape, *spans.shape[2:])
        return self._best_first(structures, found)

    def _sample(self, n: int, generator: torch.Generator | None) -> Int[Tensor, "n *batch m 3"]:
        if not can_use_kernels(self.scores):
            return super()._sample(n, generator)
        from catena.kernels.tree.ops import sample

        scores, lengths = self._rows()
        uniforms = uniform_numbers(n, len(scores), 3 * scores.shape[1], generator=generator)
        found = sample(scores, lengths, uniforms)
        return found.reshape(n, *self.batch_shape, *found.shape[2:])

    @property
    def _microseconds(self) -> int:
        """The approximate time of the reference program."""
        t = self.scores.shape[-2]
        return 300 * t + self.scores.numel() * t // 50

    # --- reference program ----------------------------------------------------------------------------------

    def read_parts(self) -> tuple[Tensor | None, ...]:
        return (spans_inside(self._lengths(), self.scores.shape[-2]),)

    def _total(
        self, semiring: Semiring, *values: StructuredDistribution | Shaped[Tensor, "..."]
    ) -> Shaped[Tensor, "..."]:
        (scores,) = self.lifted(semiring, values)
        assert scores is not None
        lengths, t = self._lengths(), self.scores.shape[-2]
        total = semiring.one(self.batch_shape, scores)
        by_width: list[Tensor] = []  # by_width[w][..., i]: sum over all trees of the w + 1 words from i
        for width in range(1, t + 1):
            here = spans_of_width(scores, width)
            if width > 1:
                n = t - width + 1
                left = torch.stack([by_width[u][..., :n] for u in range(width - 1)], dim=-1)
                right = torch.stack([by_width[-1 - u][..., u + 1 : u + 1 + n] for u in range(width - 1)], dim=-1)
                here = semiring.mul(here, semiring.dot(left, right, dim=-1)[..., None])
            # The sum over labels comes last, because it stops gradients from flowing into an impossible span.
            by_width.append(semiring.sum(here, dim=-1))
            total = torch.where(lengths == width, by_width[-1][..., 0], total)
        return total

    def read_structure(self, gradients: Sequence[Tensor | None]) -> Int[Tensor, "*batch n 3"]:
        (chart,) = gradients
        assert chart is not None
        return tree_of_chart(chart)

    # --- helpers --------------------------------------------------------------------------------------------

    def _rows(self) -> tuple[Tensor, Tensor]:
        """Scores and lengths with one batch axis."""
        if len(self.batch_shape) == 1:
            return self.scores, self._lengths()
        return self.scores.reshape(-1, *self.scores.shape[-3:]), self._lengths().reshape(-1)

    def _lengths(self) -> Int[Tensor, "*batch"]:
        if self.lengths is None:
            return torch.full(self.batch_shape, self.scores.shape[-2], device=self.scores.device)
        return self.lengths.expand(self.batch_shape)

    def _check_shapes(self) -> None:
        shape = self.scores.shape
        if len(shape) < 3 or shape[-3] != shape[-2] or 0 in shape[-3:]:
            raise ShapeError(
                f"scores must have shape [*batch, t, t, k] with t >= 1 and k >= 1, got {list(shape)}. Pass one score "
                "for each first word, last word and label."
            )
        if self.lengths is not None and not broadcasts_to_batch(self.lengths.shape, shape[:-3], 0):
            raise ShapeError(
                f"lengths must have shape {list(shape[:-3])}, got {list(self.lengths.shape)}. Pass one length for each "
                "sentence of the batch."
            )
