r"""Projective dependency trees: no two arcs cross; sums by Eisner's algorithm.

.. math::
    I_{hm} = a_{hm} \sum_{k=i}^{j-1} C_{ik}\, C_{j,k+1} \quad (\{i, j\} = \{h, m\},\ i < j), \qquad
    C_{he} = \sum_{m \in (h, e]} I_{hm}\, C_{me}

``C[h, e]`` is the weight of all half-trees with head ``h`` that extend to ``e``, on either side; ``I[h, m]`` the weight
of those whose last arc is from ``h`` to ``m``. Each tree has exactly one derivation, so every semiring counts it once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import InitVar, dataclass, replace

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from catena.accelerators import can_skip_kernels
from catena.numerics import NEG_INF
from catena.structure.backend import can_use_kernels
from catena.structure.base import SemiringDistribution, StructuredDistribution, TopK
from catena.structure.constraints import OnInfeasible
from catena.structure.dependency import ArcConstraint, DependencyDistribution
from catena.structure.semirings import Semiring
from catena.structure.tensors import uniform_numbers


@dataclass(frozen=True, eq=False, repr=False)
class ProjectiveTree(DependencyDistribution, SemiringDistribution):
    """Distribution over projective dependency trees: no two arcs cross.

    Every word between a head and its dependent is a descendant of that head.

    Structures are ``heads``: Int ``[*batch, t]``, the head of each word: 0 for the root, otherwise a word number from 1
    (the HEAD column of CoNLL-U); -1 for padding. With labels ``[*batch, t, 2]``: head and label. Parts and marginals
    are ``[*batch, n, n]``, with labels ``[*batch, n, n, k]``, where ``n = t + 1``.

    Args:
        arcs: ``arcs[..., h, m]`` is the score of the arc from head ``h`` to word ``m``; node 0 is the root. Entries
            with ``m = 0`` or ``h = m`` are not read.
        labels: ``labels[..., h, m, q]`` is the score of label ``q`` on that arc, added to it. Trees have no labels if
            omitted.
        lengths: number of words in each sentence; all ``t`` if omitted.
        mask: True for real words. Masked words are not in the tree.
        single_root: if True, exactly one word has the root as its head, as in Universal Dependencies; otherwise one or
            more.
        constraint: the allowed arcs and labels. The distribution is conditioned on it.
        on_infeasible: what to do if the constraint allows no tree. ``"error"`` raises
            :class:`~catena.errors.ImpossibleError`; ``"-inf"`` sets log Z to -inf.

    A sentence without words has one structure, the empty tree, with score 0.

    Time O(t³ + t² k), memory O(t² k). Eisner (1996); Kübler et al. (2009), section 4.1.
    """

    arcs: Float[Tensor, "*batch n n"]
    labels: Float[Tensor, "*#batch n n k"] | None = None
    lengths: Int[Tensor, "*#batch"] | None = None
    mask: Bool[Tensor, "*#batch t"] | None = None
    single_root: bool = True
    constraint: InitVar[ArcConstraint | None] = None
    on_infeasible: InitVar[OnInfeasible] = "error"

    def given(self, constraint: ArcConstraint, on_infeasible: OnInfeasible = "error") -> ProjectiveTree:
        """This distribution conditioned on ``constraint``.

        Args:
            constraint: the allowed arcs and labels.
            on_infeasible: what to do if no tree is allowed, as in the constructor.
        """
        return replace(self, constraint=constraint, on_infeasible=on_infeasible)

    def log_partition(self) -> Float[Tensor, "*batch"]:
        if not can_use_kernels(*self.score_tensors()):
            return self.plain_log_partition()
        from catena.kernels.dependency.ops_projective import log_partition

        return log_partition(*self._rows(), self.single_root).reshape(self.batch_shape)

    def _argmax(self) -> Int[Tensor, "..."]:
        if not can_use_kernels(*self.score_tensors()) or can_skip_kernels(_cold_microseconds(self.arcs)):
            return SemiringDistribution._argmax(self)
        from catena.kernels.dependency.ops_projective import best

        return self._with_best_labels(self._heads_in_place(best(*self._best_rows(), self.single_root)))

    def _topk(self, k: int) -> TopK:
        if not can_use_kernels(*self.score_tensors()):
            return SemiringDistribution._topk(self, k)
        from catena.kernels.dependency.ops_projective import top

        scores, lengths, which = self._ranked_rows(k)
        return self._top(*top(scores, lengths, self.single_root, k), which)

    def _sample(self, n: int, generator: torch.Generator | None) -> Int[Tensor, "..."]:
        if not can_use_kernels(*self.score_tensors()):
            return SemiringDistribution._sample(self, n, generator)
        return DependencyDistribution._sample(self, n, generator)

    # --- reference program ----------------------------------------------------------------------------------

    def read_parts(self) -> tuple[Tensor | None, ...]:
        return None, self.readable()[..., None]

    def _total(
        self, semiring: Semiring, *values: StructuredDistribution | Shaped[Tensor, "..."]
    ) -> Shaped[Tensor, "..."]:
        arcs, labels = self._like(torch.where(self.readable(), self.arcs, NEG_INF), self.labels).lifted(
            semiring, values
        )
        assert arcs is not None
        if labels is not None:
            arcs = semiring.sum(semiring.mul(arcs[..., None], labels), dim=-1)
        arcs, lengths = self._closed(arcs)
        reached = _half_trees_of_root(semiring, arcs, self.single_root)
        total = reached[0]
        for t, half in enumerate(reached):
            total = torch.where(lengths == t, half, total)
        return total

    def read_structure(self, gradients: Sequence[Tensor | None]) -> Int[Tensor, "..."]:
        arcs, labels = gradients
        assert arcs is not None
        best, heads = arcs[..., :, 1:].max(dim=-2)
        heads = torch.where(best > 0.5, heads, -1)
        if labels is None:
            return heads
        which = labels[..., :, 1:, :].sum(-3).argmax(-1)
        return torch.stack((heads, torch.where(best > 0.5, which, -1)), dim=-1)

    # --- what the base class requires -----------------------------------------------------------------------

    def _like(self, arcs: Tensor, labels: Tensor | None) -> ProjectiveTree:
        return ProjectiveTree(arcs, labels, self.lengths, self.mask, self.single_root)

    def _allows(self, heads: Tensor, real: Tensor) -> Tensor:
        """Whether no two arcs cross. Masked words are their own head here, and such an arc crosses none."""
        words = torch.arange(1, heads.shape[-1] + 1, device=heads.device)
        low, high = torch.minimum(heads, words), torch.maximum(heads, words)
        begins_inside = (low[..., :, None] < low[..., None, :]) & (low[..., None, :] < high[..., :, None])
        return ~(begins_inside & (high[..., :, None] < high[..., None, :])).flatten(-2).any(-1)

    def _arc_marginals(self, arcs: Tensor, lengths: Tensor) -> Tensor:
        from catena.kernels.dependency.ops_projective import log_partition_and_marginals

        return log_partition_and_marginals(arcs, lengths, self.single_root)[1]

    def _sampled_heads(self, n: int, generator: torch.Generator | None) -> Tensor:
        from catena.kernels.dependency.ops_projective import sample

        arcs, lengths = self._rows()
        uniforms = uniform_numbers(n, len(arcs), 2 * arcs.shape[-1], generator=generator)
        return self._heads_in_place(sample(arcs, lengths, self.single_root, uniforms))


def _cold_microseconds(arcs: Tensor) -> int:
    """About how long the reference program takes to find the best trees."""
    n = arcs.shape[-1]
    return 1000 + 500 * n + 20 * n * n + arcs.numel()  # measured for 5 to 40 words, 1 to 32 sentences


def _half_trees_of_root(semiring: Semiring, arcs: Tensor, single_root: bool) -> list[Tensor]:
    """For every number of words, the total of the root's half-trees over these words, that is, of all their trees."""
    n = arcs.shape[-1]
    # right[w][..., i]: half-trees from their head i to i + w; left[w][..., i]: from their head i + w back to i.
    # right_arc and left_arc: those whose last arc is between i and i + w.
    right = [semiring.one((*semiring.shape(arcs)[:-2], n), arcs)]
    left, right_arc, left_arc = list(right), list(right), list(right)
    for w in range(1, n):
        near, far = (
            [right[k][..., : n - w] for k in range(w)],
            [left[w - 1 - k][..., k + 1 : k + 1 + n - w] for k in range(w)],
        )
        joined = _summed(semiring, near, far)
        if single_root:  # only the dependent's own half-tree may be between the root and its single dependent
            joined = torch.cat((left[w - 1][..., 1:2], joined[..., 1:]), dim=-1)
        right_arc.append(semiring.mul(joined, arcs.diagonal(w, -2, -1)))
        left_arc.append(semiring.mul(joined, arcs.diagonal(-w, -2, -1)))
        heads, tails = (
            [right_arc[k][..., : n - w] for k in range(1, w + 1)],
            [right[w - k][..., k : k + n - w] for k in range(1, w + 1)],
        )
        right.append(_summed(semiring, heads, tails))
        heads, tails = (
            [left_arc[w - k][..., k : k + n - w] for k in range(w)],
            [left[k][..., : n - w] for k in range(w)],
        )
        left.append(_summed(semiring, heads, tails))
    return [half[..., 0] for half in right]


def _summed(semiring: Semiring, a: list[Tensor], b: list[Tensor]) -> Tensor:
    return semiring.dot(torch.stack(a, dim=-1), torch.stack(b, dim=-1), dim=-1)
