r"""Non-projective dependency trees: all trees over the words, with crossing arcs or not.

.. math::  Z = \det(L + \operatorname{diag} r), \qquad  L_{mm} = \sum_h w_{hm}, \quad L_{hm} = -w_{hm}

by the matrix-tree theorem, where :math:`w` are the weights of arcs between words and :math:`r` those from the root. It
is not a sum over a semiring, because the terms of a determinant have signs, so each method has its own algorithm. The
determinant is computed without a subtraction (:mod:`catena.kernels.dependency.reference`), so that no digits are lost
even if scores differ by orders of magnitude.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import InitVar, dataclass, replace
from typing import cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from catena.accelerators import can_skip_kernels
from catena.kernels.dependency.reference import nonprojective_log_partition, nonprojective_marginals
from catena.numerics import NEG_INF
from catena.structure.backend import can_use_kernels
from catena.structure.base import TopK
from catena.structure.constraints import OnInfeasible
from catena.structure.dependency import ArcConstraint, DependencyDistribution
from catena.structure.tensors import random_seeds, uniform_like


@dataclass(frozen=True, eq=False, repr=False)
class NonProjectiveTree(DependencyDistribution):
    """Distribution over all dependency trees of a sentence, projective or not.

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

    Time O(t³ + t² k) for sums, O(t² k) for the best tree and each of the k best; memory O(t² k). Koo et al.
    (2007); McDonald et al. (2005); Zmigrod et al. (2020, 2021).
    """

    arcs: Float[Tensor, "*batch n n"]
    labels: Float[Tensor, "*#batch n n k"] | None = None
    lengths: Int[Tensor, "*#batch"] | None = None
    mask: Bool[Tensor, "*#batch t"] | None = None
    single_root: bool = True
    constraint: InitVar[ArcConstraint | None] = None
    on_infeasible: InitVar[OnInfeasible] = "error"

    def given(self, constraint: ArcConstraint, on_infeasible: OnInfeasible = "error") -> NonProjectiveTree:
        """This distribution conditioned on ``constraint``.

        Args:
            constraint: the allowed arcs and labels.
            on_infeasible: what to do if no tree is allowed, as in the constructor.
        """
        return replace(self, constraint=constraint, on_infeasible=on_infeasible)

    def log_partition(self) -> Float[Tensor, "*batch"]:
        if not can_use_kernels(*self.score_tensors()):
            log_z = nonprojective_log_partition(*self._single()._rows(), self.single_root)
            return self._narrow(log_z.reshape(self.batch_shape))
        from catena.kernels.dependency.ops_nonprojective import log_partition

        return log_partition(*self._rows(), self.single_root).reshape(self.batch_shape)

    def _gradients(self, wanted: Sequence[int]) -> tuple[Float[Tensor, "*batch"], tuple[Tensor, ...]]:
        """Gradients by an explicit formula in the reference program: differentiating the elimination would subtract."""
        if can_use_kernels(*self.score_tensors()):
            return super()._gradients(wanted)
        tensors = self.score_tensors()

        def arcs(*chosen: Tensor) -> Tensor:
            return self._replaced(wanted, chosen)._single()._rows()[0]

        chances = nonprojective_marginals(*self._single()._rows(), self.single_root)
        pull = torch.func.vjp(arcs, *(cast(Tensor, tensors[i]) for i in wanted))[1]
        return self.log_partition(), pull(chances)

    def _argmax(self) -> Int[Tensor, "..."]:
        if can_use_kernels(*self.score_tensors()) and not can_skip_kernels(2000 + 5 * self.arcs.numel()):
            from catena.kernels.dependency.ops_nonprojective import best
        else:
            from catena.structure.nonprojective_search import best
        return self._with_best_labels(self._heads_in_place(best(*self._best_rows(), self.single_root)))

    def _topk(self, k: int) -> TopK:
        if can_use_kernels(*self.score_tensors()):
            from catena.kernels.dependency.ops_nonprojective import top
        else:
            from catena.structure.nonprojective_search import top
        scores, lengths, which = self._ranked_rows(k)
        return self._top(*top(scores, lengths, self.single_root, k), which)

    # --- what the base class requires -----------------------------------------------------------------------

    def _like(self, arcs: Tensor, labels: Tensor | None) -> NonProjectiveTree:
        return NonProjectiveTree(arcs, labels, self.lengths, self.mask, self.single_root)

    def _allows(self, heads: Tensor, real: Tensor) -> Tensor:
        return torch.ones_like(real[..., 0])

    def _arc_marginals(self, arcs: Tensor, lengths: Tensor) -> Tensor:
        from catena.kernels.dependency.ops_nonprojective import log_partition_and_marginals

        return log_partition_and_marginals(arcs, lengths, self.single_root)[1]

    def _sampled_heads(self, n: int, generator: torch.Generator | None) -> Tensor:
        arcs, lengths = (x.detach() for x in self._rows())
        if not can_use_kernels(*self.score_tensors()):
            return self._heads_in_place(_plain_sample(arcs, lengths, self.single_root, n, generator))
        from catena.kernels.dependency.ops_nonprojective import sample

        seeds = random_seeds(n, len(arcs), generator=generator)
        return self._heads_in_place(sample(arcs, lengths, self.single_root, seeds))


def _plain_sample(
    arcs: Tensor, lengths: Tensor, single_root: bool, n: int, generator: torch.Generator | None
) -> Tensor:
    """Heads ``[n, b, t]``, sampled word by word, each given the previous ones."""
    b, nodes, _ = arcs.shape
    arcs, lengths = arcs.double().repeat(n, 1, 1), lengths.repeat(n)
    places = torch.arange(nodes, device=arcs.device)
    heads = []
    for m in range(1, nodes):
        reach = nonprojective_marginals(arcs, lengths, single_root)[:, :, m].cumsum(-1)
        drawn = uniform_like(reach[:, -1], generator) * reach[:, -1]
        head = (reach <= drawn[:, None]).sum(-1)
        heads.append(torch.where(reach[:, -1] > 0, head, -1))
        arcs = torch.where((places == m) & (places[:, None] != head[:, None, None]), NEG_INF, arcs)
    return torch.stack(heads, dim=-1).reshape(n, b, nodes - 1)
