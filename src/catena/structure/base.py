r"""Abstract base classes of all structured distributions.

.. math::  p(y) = \exp(\mathrm{score}(y)) / Z, \qquad  Z = \sum_y \exp \mathrm{score}(y)

The score of a structure ``y`` is a sum over its *parts* (a tag at a position, a segment, an arc). Everything follows
from log Z: its gradient with respect to the scores gives the probabilities of the parts (the marginals), and its
second derivatives give their covariances (Eisner 2016). :class:`StructuredDistribution` derives all methods from
log Z, the best structures and samples, so a subclass only implements those three. A :class:`SemiringDistribution`
defines its sum as one dynamic program ``total(semiring)`` and gets the three from it.

**Structures** are compact integer tensors (``tags``, ``segments``, ``heads``), padded with -1. Several structures
are stacked on a new first axis. :meth:`StructuredDistribution.parts` converts structures to 0/1 tensors in the shape
of the marginals.

**Values** are additive functions of a structure: one number for each part. Pass a value as a distribution of the same
class, whose scores are the values, or as a tensor in the shape of the marginals.

This module contains no learned parameters, no device code and no kernels.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import reduce
from typing import ClassVar, NamedTuple, TypeVar, cast

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from catena.errors import ShapeError
from catena.numerics import NEG_INF, without_nan
from catena.shapes import broadcast_shapes, can_read_values, can_use_control_flow
from catena.structure.checks import check_count, check_generator
from catena.structure.semirings import KBestSemiring, LogSemiring, MaxSemiring, SamplingSemiring, Semiring
from catena.structure.tensors import (
    describe_fields,
    expand_row_mask,
    fill_invalid_rows,
    map_tensors,
    neg_inf_to_zero,
    or_nan,
    or_zeros,
    outside_inference_mode,
    value_and_grad,
    vjp,
)

S = TypeVar("S", bound="StructuredDistribution")

_HALVES = (torch.bfloat16, torch.float16)

_SAMPLED_TOGETHER = 2**22
"""Largest number of score entries, copied once for each sample, for which samples are taken in one pass."""


class TopK(NamedTuple):
    """The k best structures with their scores, best first.

    If a distribution has fewer than k structures, the remaining scores are -inf and the remaining ids are -1.

    Args:
        scores: ``scores[r]`` is the score of the structure of rank r.
        structures: ``structures[r]`` is the structure of rank r.
    """

    scores: Float[Tensor, "n *batch"]
    """``[r]`` is the score of the structure of rank r."""
    structures: Int[Tensor, "n ..."]
    """``[r]`` is the structure of rank r."""


class StructuredDistribution(ABC):
    """Abstract distribution over structures (tag sequences, trees, alignments).

    p(y) = exp(score(y)) / Z, where score(y) is a sum over the parts of y. All methods are exact, batched over any
    number of leading batch axes, and differentiable where their result is a float. Results are in nats.

    =====================================  =====================================================================
    method                                 result
    =====================================  =====================================================================
    ``log_partition()``                    log Z
    ``score(y)``, ``log_prob(y)``          unnormalized and normalized log-probability of structures
    ``marginals()``                        probability of every part
    ``argmax()``, ``max()``, ``topk(k)``   best structures and their scores
    ``sample(n)``                          exact independent samples
    ``entropy()``                          Shannon entropy
    ``cross_entropy(q)``, ``kl(q)``        comparison with another distribution over the same structures
    ``expectation(f)``, ``variance(f)``,   moments of additive functions of a structure
    ``covariance(f, g)``
    =====================================  =====================================================================

    A score of -inf makes a part impossible. A score of nan or +inf invalidates only its own row of the batch: sums
    are nan there, and searches return -1 with score nan. Subclasses are frozen dataclasses.
    """

    ranks: ClassVar[tuple[int, ...]]
    """For each tensor of :meth:`score_tensors`, its number of axes after the batch axes."""

    def __repr__(self) -> str:
        return describe_fields(self)

    # --- what a subclass defines ----------------------------------------------------------------------------

    @property
    @abstractmethod
    def batch_shape(self) -> torch.Size:
        """Sizes of the batch axes, empty for a single distribution."""

    @abstractmethod
    def score_tensors(self) -> tuple[Tensor | None, ...]:
        """The tensors whose entries, summed over the parts of ``y``, give its score; None for an unused one.

        log Z is differentiated with respect to them. A tensor may lack batch axes (it is shared by the batch) or have
        size 1 there.
        """

    @abstractmethod
    def with_score_tensors(self: S, tensors: Sequence[Tensor | None]) -> S:
        """A copy with other scores, which may have additional batch axes in front."""

    @abstractmethod
    def from_parts(self: S, value: Tensor) -> S:
        """A distribution whose score of ``y`` is the sum of ``value``, shaped like the marginals, over its parts."""

    def to(self: S, device: torch.device | str) -> S:
        """A copy with all tensors on ``device``. Differentiable, like ``Tensor.to``."""
        return map_tensors(lambda x: x.to(device), self)

    def extent(self) -> tuple[Shaped[Tensor, "..."], ...]:
        """The tensors other than scores that determine the set of structures (lengths, masks, targets)."""
        return ()

    @abstractmethod
    def log_partition(self) -> Float[Tensor, "*batch"]:
        """log Z, the log of the sum of exp(score(y)) over all structures, in nats; -inf if none is possible."""

    @abstractmethod
    def score(self, y: Int[Tensor, "..."]) -> Float[Tensor, "..."]:
        """Unnormalized log-score of structures.

        Args:
            y: structures as integer tensors. Leading axes before the batch axes are sample axes.

        Returns:
            Scores ``[*sample, *batch]``; -inf for an impossible structure.
        """

    @abstractmethod
    def parts(self, y: Int[Tensor, "..."]) -> Float[Tensor, "..."]:
        """Structures as 0/1 tensors in the shape of :meth:`marginals`."""

    @abstractmethod
    def marginals(self) -> Float[Tensor, "..."]:
        """The probability of every part; all 0 if no structure is possible."""

    @abstractmethod
    def _argmax(self) -> Int[Tensor, "..."]:
        """The best structure, given that all scores that are read are finite or -inf."""

    @abstractmethod
    def _topk(self, k: int) -> TopK:
        """The ``k`` >= 1 best structures, given that all scores that are read are finite or -inf."""

    @abstractmethod
    def _sample(self, n: int, generator: torch.Generator | None) -> Int[Tensor, "..."]:
        """``n`` >= 0 samples, given that all scores that are read are finite or -inf."""

    # --- derived methods -------------------------------------------------------------------------------

    def argmax(self) -> Int[Tensor, "..."]:
        """The structure with the highest score.

        Ties are broken arbitrarily. All ids are -1 if no structure is possible or a score is nan or +inf.
        """
        spoiled = self.spoiled()
        return self._argmax() if spoiled is None else fill_invalid_rows(self._searchable()._argmax(), spoiled)

    def topk(self, k: int) -> TopK:
        """The ``k`` best structures and their scores, best first."""
        check_count("k", k, 1)
        spoiled = self.spoiled()
        if spoiled is None:
            return self._topk(k)
        scores, structures = self._searchable()._topk(k)
        scores = torch.where(scores == NEG_INF, NEG_INF, self.score(structures))
        return TopK(torch.where(spoiled, torch.nan, scores), fill_invalid_rows(structures, spoiled, 1))

    def _best_first(self, structures: Int[Tensor, "k ..."], found: Int[Tensor, "..."]) -> TopK:
        """Structures of a kernel with their scores; ``found`` is the number of structures in each row of the batch."""
        ranks = torch.arange(len(structures), device=found.device).reshape(-1, *(1 for _ in self.batch_shape))
        there = ranks < found.reshape(self.batch_shape)
        return TopK(torch.where(there, self.score(structures), NEG_INF), structures)

    def sample(self, n: int, generator: torch.Generator | None = None) -> Int[Tensor, "..."]:
        """``n`` independent exact samples.

        Args:
            n: number of samples for each distribution of the batch.
            generator: source of randomness; torch's global generator if omitted.

        Returns:
            Structures ``[n, *batch, ...]``; -1 where no structure is possible or a score is nan or +inf.
        """
        check_count("n", n, 0)
        check_generator(generator)
        spoiled = self.spoiled()
        if spoiled is None:
            return self._sample(n, generator)
        return fill_invalid_rows(self._searchable()._sample(n, generator), spoiled, 1)

    def spoiled(self) -> Bool[Tensor, "*batch"] | None:
        """True for rows of the batch that read a score of nan or +inf, which have no valid result; None if none does.

        Where tensor values cannot be read (in torch.compile and torch.func), the mask is computed from log Z.
        """
        given = [x.detach() for x in self.score_tensors() if x is not None and x.numel()]
        if can_use_control_flow() and all(float(x.amax()) < torch.inf for x in given):
            return None
        return ~(self.log_partition().detach() < torch.inf)

    def _sound(self: S) -> S:
        """A copy with -inf for every score of nan or +inf, so that no search reads one."""
        return self.with_score_tensors([x if x is None else without_nan(x) for x in self.score_tensors()])

    def _searchable(self: S) -> S:
        """:meth:`_sound` without gradients: torch.func rejects search operators whose inputs require gradients."""
        return self.with_score_tensors([x if x is None else x.detach() for x in self._sound().score_tensors()])

    def log_prob(self, y: Int[Tensor, "..."]) -> Float[Tensor, "..."]:
        """Log-probability of structures in nats.

        Args:
            y: structures as integer tensors. Leading axes before the batch axes are sample axes.

        Returns:
            log p(y) ``[*sample, *batch]``; -inf for an impossible structure.
        """
        mine = self._single()
        log_z = mine.log_partition()
        return self._narrow(
            torch.where(log_z == NEG_INF, NEG_INF, mine.score(y) - torch.where(log_z == NEG_INF, 0.0, log_z))
        )

    def max(self) -> Float[Tensor, "*batch"]:
        """The score of the best structure; -inf if none is possible, nan if a score is nan or +inf."""
        return self._or_nan(self.score(self.argmax()))

    def _or_nan(self, scores: Float[Tensor, "*batch"]) -> Float[Tensor, "*batch"]:
        spoiled = self.spoiled()
        return scores if spoiled is None else torch.where(spoiled, torch.nan, scores)

    def entropy(self) -> Float[Tensor, "*batch"]:
        """Entropy -E[log p(y)] in nats; 0 if no structure is possible."""
        mine = self._wide()
        log_z, mean = mine._log_partition_and_mean(mine)
        return self._narrow(neg_inf_to_zero(log_z) - mean)

    def cross_entropy(self, other: StructuredDistribution) -> Float[Tensor, "*batch"]:
        """Cross-entropy -E[log q(y)] in nats, where y is distributed as this distribution p.

        Args:
            other: the distribution q, of the same class and over the same structures.

        Returns:
            The cross-entropy; +inf where q gives probability 0 to a structure that p allows.
        """
        mine, theirs = self._wide(), self._same_structures(other)._wide()
        mean = mine._log_partition_and_mean(theirs)[1]
        return self._narrow(
            torch.where(mean == NEG_INF, -NEG_INF, neg_inf_to_zero(theirs.log_partition()) - neg_inf_to_zero(mean))
        )

    def kl(self, other: StructuredDistribution) -> Float[Tensor, "*batch"]:
        """Kullback-Leibler divergence KL(p || q) = E[log p(y) - log q(y)] in nats, where p is this distribution.

        Args:
            other: the distribution q, of the same class and over the same structures.

        Returns:
            The divergence; +inf where q gives probability 0 to a structure that p allows.
        """
        mine, theirs = self._wide(), self._same_structures(other)._wide()
        log_z, my_mean = mine._log_partition_and_mean(mine)
        mean = mine._log_partition_and_mean(theirs)[1]
        gap = (my_mean - neg_inf_to_zero(mean)) + (neg_inf_to_zero(theirs.log_partition()) - neg_inf_to_zero(log_z))
        return self._narrow(torch.where(mean == NEG_INF, -NEG_INF, gap))

    def expectation(self, value: StructuredDistribution | Shaped[Tensor, "..."]) -> Float[Tensor, "*batch"]:
        """E[value(y)] for an additive value.

        Differentiable with respect to the scores and the value.

        Args:
            value: a distribution of the same class, whose scores are the values, or a tensor shaped like the
                marginals. Batch axes broadcast; put several values on additional axes in front.
        """
        return self._log_partition_and_mean(self._as_value(value))[1]

    def variance(self, value: StructuredDistribution | Shaped[Tensor, "..."]) -> Float[Tensor, "*batch"]:
        """Var[value(y)] for an additive value, given as in :meth:`expectation`."""
        return self.covariance(value, value)

    @outside_inference_mode
    def covariance(
        self,
        value: StructuredDistribution | Shaped[Tensor, "..."],
        other: StructuredDistribution | Shaped[Tensor, "..."],
    ) -> Float[Tensor, "*batch"]:
        """Cov[value(y), other(y)] for two additive values, given as in :meth:`expectation`.

        It is the derivative of E[value(y)] when ``other`` is added to the scores.
        """
        first, second = self._as_value(value)._wide(), self._as_value(other)._wide()
        mine = self._spread_over(self.batch_shape, first.batch_shape, second.batch_shape)._wide()
        mine = _with_tensors_of(_with_tensors_of(mine, first), second)
        tensors = mine.score_tensors()
        wanted = [i for i, x in enumerate(second.score_tensors()) if x is not None]

        def mean(*chosen: Tensor) -> Tensor:
            return mine._replaced(wanted, chosen)._log_partition_and_mean(first)[1]

        gradients = value_and_grad(mean, [cast(Tensor, tensors[i]) for i in wanted])[1]
        return self._narrow(second._inner(wanted, gradients, mine.batch_shape))

    # --- implementation -------------------------------------------------------------------------------------

    @outside_inference_mode
    def gradients(self, wanted: Sequence[int]) -> tuple[Float[Tensor, "*batch"], tuple[Tensor, ...]]:
        """log Z and its gradients, summed over the batch, with respect to the score tensors with these indices.

        The gradients are differentiable themselves, and work under vmap, no_grad and inference_mode.
        """

        spoiled = self.spoiled()
        if spoiled is None:
            return self._gradients(wanted)
        # A nan that is not read would reach the gradient of the reference program: 0 times nan is nan.
        total, gradients = self._sound()._gradients(wanted)
        ranks = [self.ranks[i] for i in wanted]
        return or_nan(total, spoiled), tuple(
            or_nan(x, expand_row_mask(spoiled, x, rank)) for x, rank in zip(gradients, ranks, strict=True)
        )

    def _gradients(self, wanted: Sequence[int]) -> tuple[Float[Tensor, "*batch"], tuple[Tensor, ...]]:
        """:meth:`gradients`, given that all scores are finite or -inf."""

        def log_z(*chosen: Tensor) -> Tensor:
            return self._replaced(wanted, chosen).log_partition()

        tensors = self.score_tensors()
        return value_and_grad(log_z, [cast(Tensor, tensors[i]) for i in wanted])

    def _replaced(self: S, wanted: Sequence[int], chosen: Sequence[Tensor]) -> S:
        tensors = list(self.score_tensors())
        for i, x in zip(wanted, chosen, strict=True):
            tensors[i] = x
        return self.with_score_tensors(tensors)

    def _log_partition_and_mean(self, value: StructuredDistribution) -> tuple[Tensor, Tensor]:
        """log Z and E[value(y)], from one gradient."""
        mine = _with_tensors_of(self._spread_over(self.batch_shape, value.batch_shape), value)
        wanted = [i for i, x in enumerate(value.score_tensors()) if x is not None]
        log_z, chances = mine.gradients(wanted)
        return log_z, value._inner(wanted, chances, mine.batch_shape)

    def _inner(self, wanted: Sequence[int], weights: Sequence[Tensor], batch: torch.Size) -> Tensor:
        """Σ weight × score over all parts, for each row of the batch. A part of weight 0 adds 0, even at score ±inf."""
        total: Tensor = weights[0].new_zeros(batch)
        for i, weight in zip(wanted, weights, strict=True):
            score = cast(Tensor, self.score_tensors()[i])
            own = tuple(range(-self.ranks[i], 0))
            never = score == NEG_INF
            counted = torch.where(never | (~score.isfinite() & (weight == 0)), 0.0, score)
            total = total + (weight * counted).sum(own)
            total = torch.where((never & (weight != 0)).flatten(-self.ranks[i]).any(-1), NEG_INF, total)
        return total

    def _spread_over(self: S, *batches: torch.Size) -> S:
        """A copy with every score tensor expanded to all batch axes."""
        try:
            batch = broadcast_shapes(*batches)
        except RuntimeError:
            sizes = " and ".join(str(list(x)) for x in batches)
            raise ShapeError(
                f"The batch axes of a distribution and its values must broadcast, got {sizes}. Give the axis of "
                "several values size 1 for each batch axis of the distribution behind it."
            ) from None
        return self.with_score_tensors(
            [
                x if x is None else x.expand(*batch, *x.shape[x.dim() - rank :])
                for x, rank in zip(self.score_tensors(), self.ranks, strict=True)
            ]
        )

    def _as_value(self: S, value: StructuredDistribution | Tensor) -> S:
        if isinstance(value, Tensor):
            return self.from_parts(value)
        if not isinstance(value, StructuredDistribution):
            raise ShapeError(
                f"value must be a tensor shaped like the marginals or a {type(self).__name__}, got "
                f"{type(value).__name__}. Pass one of the two."
            )
        return self._same_kind(value)

    def _same_kind(self: S, other: StructuredDistribution) -> S:
        if type(other) is not type(self):
            raise ShapeError(
                f"other must be a {type(self).__name__}, got {type(other).__name__}. Pass distributions of one class."
            )
        for a, b, rank in zip(self.score_tensors(), other.score_tensors(), self.ranks, strict=True):
            if a is not None and b is not None and a.shape[a.dim() - rank :] != b.shape[b.dim() - rank :]:
                raise ShapeError(
                    f"other must have scores of shape {list(a.shape)}, got {list(b.shape)}. Pass scores of equal sizes."
                )
        return other

    def _same_structures(self: S, other: StructuredDistribution) -> S:
        found = self._same_kind(other)
        try:
            broadcast_shapes(self.batch_shape, found.batch_shape)
        except RuntimeError:
            raise ShapeError(
                f"The batch axes of other must broadcast to {list(self.batch_shape)}, got {list(found.batch_shape)}. "
                "Pass two distributions of one batch size."
            ) from None
        for mine, theirs in zip(self.extent(), found.extent(), strict=True):
            if can_read_values(mine) and can_read_values(theirs) and not bool((mine == theirs).all()):
                raise ShapeError(
                    "The lengths, masks or targets of the two distributions differ. Pass the same ones to both, so "
                    "that they are distributions over the same structures."
                )
        return found

    def _wide(self: S) -> S:
        """A copy with scores in float64, for differences of large numbers."""
        return self.with_score_tensors([x if x is None else x.double() for x in self.score_tensors()])

    def _single(self: S) -> S:
        """A copy with half-precision scores in float32: a sum of many scores would lose whole nats."""
        tensors = self.score_tensors()
        if not any(x is not None and x.dtype in _HALVES for x in tensors):
            return self
        return self.with_score_tensors([x if x is None or x.dtype not in _HALVES else x.float() for x in tensors])

    def _narrow(self, x: Tensor) -> Tensor:
        return x.to(reduce(torch.promote_types, (s.dtype for s in self.score_tensors() if s is not None)))


class SemiringDistribution(StructuredDistribution):
    """Distribution whose sum is one dynamic program over any semiring.

    A subclass implements its two abstract methods. The program is the reference implementation: it defines the
    correct result of the kernels.
    """

    def total(
        self, semiring: Semiring, *values: StructuredDistribution | Shaped[Tensor, "..."]
    ) -> Shaped[Tensor, "..."]:
        """⊕ over all structures of the ⊗ over their parts, for each row of the batch, as elements of the semiring.

        Args:
            semiring: the operations ⊕ and ⊗.
            values: the additive values of an expectation semiring, ``semiring.n_values`` of them. Their batch axes
                broadcast with those of the distribution.

        Returns:
            Elements ``[*batch]``, or ``[width, *batch]`` for a semiring with a ``width``.
        """
        batches = [self._as_value(value).batch_shape for value in values]
        mine = self._spread_over(self.batch_shape, *batches) if batches else self
        return mine._total(semiring, *values)

    @abstractmethod
    def _total(
        self, semiring: Semiring, *values: StructuredDistribution | Shaped[Tensor, "..."]
    ) -> Shaped[Tensor, "..."]:
        """:meth:`total`, for values without batch axes that the distribution lacks."""

    @abstractmethod
    def read_structure(self, gradients: Sequence[Tensor | None]) -> Int[Tensor, "..."]:
        """The compact form of a structure, given the 0/1 gradients of its score with respect to the score tensors."""

    def read_parts(self) -> Sequence[Bool[Tensor, "..."] | None]:
        """For each score tensor, a mask of the entries that :meth:`total` reads; None if it reads all.

        The masks may lack batch axes.
        """
        return [None] * len(self.ranks)

    def log_partition(self) -> Float[Tensor, "*batch"]:
        return self.plain_log_partition()

    def plain_log_partition(self) -> Float[Tensor, "*batch"]:
        """log Z by the reference program; nan if a score that is read is nan or +inf."""
        log_z = self._single().total(LogSemiring())
        return self._narrow(torch.where(log_z == torch.inf, torch.nan, log_z))

    @outside_inference_mode
    def _argmax(self) -> Int[Tensor, "..."]:
        best, pull = self._pullback(MaxSemiring())
        return self.read_structure(pull(torch.ones_like(best)))

    @outside_inference_mode
    def _topk(self, k: int) -> TopK:
        scores, pull = self._pullback(KBestSemiring(k))
        basis = torch.eye(k, dtype=scores.dtype, device=scores.device)
        basis = basis.reshape(k, k, *(1 for _ in self.batch_shape)).expand(k, *scores.shape)
        # Each rank takes one backward pass. Ranks without a structure in any row need none.
        n = max(1, int((scores > NEG_INF).reshape(k, -1).any(1).sum())) if can_use_control_flow() else k
        found = [self.read_structure(pull(one)) for one in basis[:n]]
        structures = torch.stack(found + [torch.full_like(found[0], -1)] * (k - n))
        # The program ran on detached scores. Scores that are computed again from the structures can be differentiated.
        return TopK(torch.where(scores == NEG_INF, NEG_INF, self.score(structures)), structures)

    @outside_inference_mode
    def _sample(self, n: int, generator: torch.Generator | None) -> Int[Tensor, "..."]:
        size = sum(x.numel() for x in self._spread_over(self.batch_shape).score_tensors() if x is not None)
        together = max(1, min(n, _SAMPLED_TOGETHER // max(size, 1)))
        drawn = []
        for first in range(0, max(n, 1), together):
            copies = self._spread_over(torch.Size((min(together, n - first), *self.batch_shape)))
            log_z, pull = copies._pullback(SamplingSemiring(generator))
            drawn.append(copies.read_structure(pull(torch.ones_like(log_z))))
        return torch.cat(drawn)

    def lifted(self, semiring: Semiring, values: Sequence[StructuredDistribution | Tensor]) -> list[Tensor | None]:
        """The score tensors, expanded over the batch, as elements of the semiring."""
        mine = self._spread_over(self.batch_shape)
        if len(values) != semiring.n_values:
            raise ValueError(
                f"values must have length {semiring.n_values} for {type(semiring).__name__}, got {len(values)}. Pass "
                "one distribution or tensor for each additive value."
            )
        given = [self._as_value(value) for value in values]
        for value in given:
            mine = _with_tensors_of(mine, value)
        numbers = [value.score_tensors() for value in given]
        lifted: list[Tensor | None] = []
        for i, (x, read) in enumerate(zip(mine.score_tensors(), self.read_parts(), strict=True)):
            if x is None:
                lifted.append(None)
                continue
            parts = [x, *(or_zeros(n[i], x) for n in numbers)]
            if read is not None:  # a nan in an entry that is not read would reach the gradient: 0 times nan is nan
                parts = [torch.where(read, y, 0.0) for y in parts]
            lifted.append(semiring.lift(*parts))
        return lifted

    def _pullback(self, semiring: Semiring) -> tuple[Tensor, Callable[[Tensor], list[Tensor | None]]]:
        """The total in a semiring, and the function that maps its gradient to gradients of the score tensors."""
        mine = self._single()._spread_over(self.batch_shape)
        tensors = [x if x is None else x.detach() for x in mine.score_tensors()]
        given = [i for i, x in enumerate(tensors) if x is not None]

        def total(*chosen: Tensor) -> Tensor:
            return mine._replaced(given, chosen).total(semiring)

        with torch.no_grad():  # the scores are detached, so that nothing differentiates the result
            value, pull = vjp(total, *(cast(Tensor, tensors[i]) for i in given))

        def spread(grad: Tensor) -> list[Tensor | None]:
            found: list[Tensor | None] = [None] * len(tensors)
            for i, x in zip(given, pull(grad), strict=True):
                found[i] = x
            return found

        return value, spread


def _with_tensors_of(a: S, b: StructuredDistribution) -> S:
    """``a`` with zeros for score tensors that only ``b`` has, so that there is something to differentiate by."""
    tensors = [
        torch.zeros_like(y).expand(*a.batch_shape, *y.shape[y.dim() - rank :]) if x is None and y is not None else x
        for x, y, rank in zip(a.score_tensors(), b.score_tensors(), a.ranks, strict=True)
    ]
    return a.with_score_tensors(tensors)
