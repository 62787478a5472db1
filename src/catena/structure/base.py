r"""What every structure answers.

.. math::  p(y) = \exp(\mathrm{score}(y)) / Z, \qquad  Z = \sum_y \exp \mathrm{score}(y)

The score of a member ``y`` is a sum over its *parts* (a tag at a position, a segment, an arc). So log Z is all there is
to know: its gradient by the scores are the probabilities of the parts, and its second derivatives their covariances
(Eisner 2016). :class:`StructuredDistribution` derives the questions from that and demands no more of a structure than
log Z, the
best members and samples. :class:`SemiringDistribution` is a structure whose sum is one dynamic program
``total(semiring)``;
it gets those three for free.

**Members** are compact tensors of ids (``tags``, ``segments``, ``heads``), -1 where there is nothing. Several
members come on a new first axis. :meth:`StructuredDistribution.parts` turns a member into its 0/1 parts, which have the
shape of the marginals.

**Values** are additive: a number for every part. A value is given as a structure of the same class, whose
scores are read as the values, or as a tensor in the shape of the marginals.

Knows no parameters, no devices and no kernels.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, ClassVar, NamedTuple, TypeVar, cast

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from catena.errors import ShapeError
from catena.numerics import NEG_INF, without_nan
from catena.shapes import can_read_values, can_use_control_flow
from catena.structure.checks import check_count, check_generator
from catena.structure.semirings import KBestSemiring, LogSemiring, MaxSemiring, SamplingSemiring, Semiring
from catena.structure.tensors import (
    expand_row_mask,
    fill_invalid_rows,
    map_tensors,
    neg_inf_to_zero,
    or_nan,
    or_zeros,
    outside_inference_mode,
    value_and_grad,
)

S = TypeVar("S", bound="StructuredDistribution")

_HALVES = (torch.bfloat16, torch.float16)

_SAMPLED_TOGETHER = 2**22
"""Samples are drawn in one pass as long as their scores, copied for each, are no more numbers than this."""


class TopK(NamedTuple):
    """The k best members, best first. Where a structure has fewer than k, scores are -inf and ids -1."""

    scores: Float[Tensor, "n *batch"]
    members: Int[Tensor, "n *batch ..."]


class StructuredDistribution(ABC):
    """A distribution over the members of a structure. An interface without state;

    The classes below it are frozen.
    """

    ranks: ClassVar[tuple[int, ...]]
    """For each tensor of :meth:`score_tensors`, how many axes it has behind the batch axes."""

    # --- what a structure says of itself --------------------------------------------------------------------

    @property
    @abstractmethod
    def batch_shape(self) -> torch.Size:
        """The sizes of the batch axes; empty for a single distribution."""

    @abstractmethod
    def score_tensors(self) -> tuple[Tensor | None, ...]:
        """The tensors whose entries, added up over the parts of ``y``, are its score; None where one is not
        used.

        They are what log Z is differentiated by. A tensor may lack batch axes (it is shared) or have size 1
        there.
        """

    @abstractmethod
    def with_score_tensors(self: S, tensors: Sequence[Tensor | None]) -> S:
        """The same structure over other scores, which may have more batch axes in front."""

    @abstractmethod
    def from_parts(self: S, value: Tensor) -> S:
        """A structure whose score of ``y`` adds up ``value``, shaped like the marginals, over its parts."""

    def to(self: S, device: torch.device | str) -> S:
        """The same distribution with all its tensors on a device; as ``Tensor.to``, differentiable."""
        return map_tensors(lambda x: x.to(device), self)

    def extent(self) -> tuple[Shaped[Tensor, "..."], ...]:
        """What says, beside the scores, which members there are: lengths, masks, targets."""
        return ()

    @abstractmethod
    def log_partition(self) -> Float[Tensor, "*batch"]:
        """log Z, the log of the summed weights of all members, in nats; -inf where none is possible."""

    @abstractmethod
    def score(self, y: Int[Tensor, "..."]) -> Float[Tensor, "..."]:
        """The unnormalized log-weight of members;

        Any further axes of ``y`` come in front of the batch axes.
        """

    @abstractmethod
    def parts(self, y: Int[Tensor, "..."]) -> Float[Tensor, "..."]:
        """Members as 0/1 tensors in the shape of :meth:`marginals`."""

    @abstractmethod
    def marginals(self) -> Float[Tensor, "..."]:
        """The probability of every part; 0 everywhere where no member is possible."""

    @abstractmethod
    def _argmax(self) -> Int[Tensor, "..."]:
        """The best member, where all scores that are read are numbers or -inf."""

    @abstractmethod
    def _topk(self, k: int) -> TopK:
        """The k best, likewise; ``k`` is at least 1."""

    @abstractmethod
    def _sample(self, n: int, generator: torch.Generator | None) -> Int[Tensor, "..."]:
        """``n`` members, likewise; ``n`` may be 0."""

    # --- what follows from it --------------------------------------------------------------------------

    def argmax(self) -> Int[Tensor, "..."]:
        """The best member; one of them where several tie; all -1 where none is possible or a score is no number."""
        spoiled = self.spoiled()
        return self._argmax() if spoiled is None else fill_invalid_rows(self._searchable()._argmax(), spoiled)

    def topk(self, k: int) -> TopK:
        """The ``k`` best members and their scores, best first."""
        check_count("k", k, 1)
        spoiled = self.spoiled()
        if spoiled is None:
            return self._topk(k)
        scores, members = self._searchable()._topk(k)
        scores = torch.where(scores == NEG_INF, NEG_INF, self.score(members))
        return TopK(torch.where(spoiled, torch.nan, scores), fill_invalid_rows(members, spoiled, 1))

    def _best_first(self, members: Int[Tensor, "k *batch ..."], found: Int[Tensor, "..."]) -> TopK:
        """What a kernel found with its scores; ``found`` is the number of structures of each row, on any batch axes."""
        ranks = torch.arange(len(members), device=found.device).reshape(-1, *(1 for _ in self.batch_shape))
        there = ranks < found.reshape(self.batch_shape)
        return TopK(torch.where(there, self.score(members), NEG_INF), members)

    def sample(self, n: int, generator: torch.Generator | None = None) -> Int[Tensor, "..."]:
        """``n`` independent members on a new first axis; -1 where none is possible or a score is no number."""
        check_count("n", n, 0)
        check_generator(generator)
        spoiled = self.spoiled()
        if spoiled is None:
            return self._sample(n, generator)
        return fill_invalid_rows(self._searchable()._sample(n, generator), spoiled, 1)

    def spoiled(self) -> Bool[Tensor, "*batch"] | None:
        """True for the rows that read a score of nan or +inf, of which nothing can be said; None where there is none.

        Where the numbers of a tensor cannot be looked at (in torch.compile and torch.func) it takes log Z to tell.
        """
        given = [x.detach() for x in self.score_tensors() if x is not None and x.numel()]
        if can_use_control_flow() and all(float(x.amax()) < torch.inf for x in given):
            return None
        return ~(self.log_partition().detach() < torch.inf)

    def _sound(self: S) -> S:
        """With -inf for every score that is no number, so that no search meets one."""
        return self.with_score_tensors([x if x is None else without_nan(x) for x in self.score_tensors()])

    def _searchable(self: S) -> S:
        """:meth:`_sound` without gradients: torch.func rejects the operators of searches where a score has one."""
        return self.with_score_tensors([x if x is None else x.detach() for x in self._sound().score_tensors()])

    def log_prob(self, y: Int[Tensor, "..."]) -> Float[Tensor, "..."]:
        """log p(y) in nats; -inf for an impossible member."""
        mine = self._single()
        log_z = mine.log_partition()
        return self._narrow(
            torch.where(log_z == NEG_INF, NEG_INF, mine.score(y) - torch.where(log_z == NEG_INF, 0.0, log_z))
        )

    def max(self) -> Float[Tensor, "*batch"]:
        """The score of the best member; -inf where none is possible, nan where a score is no number."""
        return self._or_nan(self.score(self.argmax()))

    def _or_nan(self, scores: Float[Tensor, "*batch"]) -> Float[Tensor, "*batch"]:
        spoiled = self.spoiled()
        return scores if spoiled is None else torch.where(spoiled, torch.nan, scores)

    def entropy(self) -> Float[Tensor, "*batch"]:
        """-E[log p(y)] in nats; 0 where no member is possible."""
        mine = self._wide()
        log_z, mean = mine._log_partition_and_mean(mine)
        return self._narrow(neg_inf_to_zero(log_z) - mean)

    def cross_entropy(self, other: StructuredDistribution) -> Float[Tensor, "*batch"]:
        """-E[log q(y)] under this distribution p, in nats, for ``other`` = q;

        +inf where q lacks a member of p.
        """
        mine, theirs = self._wide(), self._same_members(other)._wide()
        mean = mine._log_partition_and_mean(theirs)[1]
        return self._narrow(
            torch.where(mean == NEG_INF, -NEG_INF, neg_inf_to_zero(theirs.log_partition()) - neg_inf_to_zero(mean))
        )

    def kl(self, other: StructuredDistribution) -> Float[Tensor, "*batch"]:
        """E[log p(y) - log q(y)] under this distribution p, in nats, for ``other`` = q;

        +inf where q lacks a member.
        """
        mine, theirs = self._wide(), self._same_members(other)._wide()
        log_z, my_mean = mine._log_partition_and_mean(mine)
        mean = mine._log_partition_and_mean(theirs)[1]
        gap = (my_mean - neg_inf_to_zero(mean)) + (neg_inf_to_zero(theirs.log_partition()) - neg_inf_to_zero(log_z))
        return self._narrow(torch.where(mean == NEG_INF, -NEG_INF, gap))

    def expectation(self, value: StructuredDistribution | Shaped[Tensor, "..."]) -> Float[Tensor, "*batch"]:
        """E[value(y)] for an additive value: a structure of the same class, or a tensor shaped like the
        marginals.

        Batch axes broadcast, so several values may come on axes in front. Differentiable by the scores and
        the value.
        """
        return self._log_partition_and_mean(self._as_value(value))[1]

    def variance(self, value: StructuredDistribution | Shaped[Tensor, "..."]) -> Float[Tensor, "*batch"]:
        """Var[value(y)] for an additive value."""
        return self.covariance(value, value)

    @outside_inference_mode
    def covariance(
        self,
        value: StructuredDistribution | Shaped[Tensor, "..."],
        other: StructuredDistribution | Shaped[Tensor, "..."],
    ) -> Float[Tensor, "*batch"]:
        """Cov[value(y), other(y)]:

        How fast the expectation of one moves when the other is added to the scores.
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

    # --- how it follows -------------------------------------------------------------------------------------

    @outside_inference_mode
    def gradients(self, wanted: Sequence[int]) -> tuple[Float[Tensor, "*batch"], tuple[Tensor, ...]]:
        """log Z and its gradients, summed over the batch, by the score tensors with these numbers.

        The gradients are differentiable themselves, and work under vmap, no_grad and inference_mode.
        """

        spoiled = self.spoiled()
        if spoiled is None:
            return self._gradients(wanted)
        # An unread nan would reach the gradient of the reference program, and second derivatives: 0 times nan is nan.
        total, gradients = self._sound()._gradients(wanted)
        ranks = [self.ranks[i] for i in wanted]
        return or_nan(total, spoiled), tuple(
            or_nan(x, expand_row_mask(spoiled, x, rank)) for x, rank in zip(gradients, ranks, strict=True)
        )

    def _gradients(self, wanted: Sequence[int]) -> tuple[Float[Tensor, "*batch"], tuple[Tensor, ...]]:
        """:meth:`gradients` where all scores are finite or -inf."""

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
        """Σ weight × score over all parts, for each of the batch. A part of weight 0 counts 0, whatever its score."""
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
        """The same distributions with every score tensor expanded to all batch axes: none is shared."""
        try:
            batch = torch.broadcast_shapes(*batches)
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
                f"a value must be a tensor shaped like the marginals or a {type(self).__name__}, but it is of type "
                f"{type(value).__name__}"
            )
        return self._same_kind(value)

    def _same_kind(self: S, other: StructuredDistribution) -> S:
        if type(other) is not type(self):
            raise ShapeError(
                f"both distributions must be of one kind, but they are {type(self).__name__} and {type(other).__name__}"
            )
        for a, b, rank in zip(self.score_tensors(), other.score_tensors(), self.ranks, strict=True):
            if a is not None and b is not None and a.shape[a.dim() - rank :] != b.shape[b.dim() - rank :]:
                raise ShapeError(
                    f"scores of both must be of one size, but their shapes are {list(a.shape)} and {list(b.shape)}"
                )
        return other

    def _same_members(self: S, other: StructuredDistribution) -> S:
        found = self._same_kind(other)
        try:
            torch.broadcast_shapes(self.batch_shape, found.batch_shape)
        except RuntimeError:
            raise ShapeError(
                "the batch axes of both distributions must fit, but their sizes are "
                f"{list(self.batch_shape)} and {list(found.batch_shape)}"
            ) from None
        for mine, theirs in zip(self.extent(), found.extent(), strict=True):
            if can_read_values(mine) and can_read_values(theirs) and not bool((mine == theirs).all()):
                raise ShapeError(
                    "both distributions must be over the same members, but their lengths, masks or targets differ"
                )
        return found

    def _wide(self: S) -> S:
        """In float64, for differences of large numbers."""
        return self.with_score_tensors([x if x is None else x.double() for x in self.score_tensors()])

    def _single(self: S) -> S:
        """With float32 for scores of half precision: what a sum of many has lost would be nats, not digits."""
        tensors = self.score_tensors()
        if not any(x is not None and x.dtype in _HALVES for x in tensors):
            return self
        return self.with_score_tensors([x if x is None or x.dtype not in _HALVES else x.float() for x in tensors])

    def _narrow(self, x: Tensor) -> Tensor:
        return x.to(reduce(torch.promote_types, (s.dtype for s in self.score_tensors() if s is not None)))


class SemiringDistribution(StructuredDistribution):
    """A structure whose sum is one dynamic program over any semiring.

    The plain program defines what is right.
    """

    def total(
        self, semiring: Semiring, *values: StructuredDistribution | Shaped[Tensor, "..."]
    ) -> Shaped[Tensor, "..."]:
        """⊕ over all members of the ⊗ over their parts, for each of the batch, as elements of the semiring.

        Args:
            semiring: what ⊕ and ⊗ are.
            values: the additive values that the expectation semirings take. Their batch axes broadcast with those of
                the distribution.
        """
        batches = [self._as_value(value).batch_shape for value in values]
        mine = self._spread_over(self.batch_shape, *batches) if batches else self
        return mine._total(semiring, *values)

    @abstractmethod
    def _total(
        self, semiring: Semiring, *values: StructuredDistribution | Shaped[Tensor, "..."]
    ) -> Shaped[Tensor, "..."]:
        """:meth:`total`, for values whose batch axes are no more than those of the distribution."""

    @abstractmethod
    def member(self, gradients: Sequence[Tensor | None]) -> Int[Tensor, "..."]:
        """The compact form of a member, given the 0/1 gradients of its score by the score tensors."""

    def read_parts(self) -> Sequence[Bool[Tensor, "..."] | None]:
        """For each score tensor, True where :meth:`total` uses it (batch axes may be missing); None if everywhere."""
        return [None] * len(self.ranks)

    def log_partition(self) -> Float[Tensor, "*batch"]:
        return self.plain_log_partition()

    def plain_log_partition(self) -> Float[Tensor, "*batch"]:
        """log Z by the plain program; nan where a score is no number, be it +inf or nan."""
        log_z = self._single().total(LogSemiring())
        return self._narrow(torch.where(log_z == torch.inf, torch.nan, log_z))

    @outside_inference_mode
    def _argmax(self) -> Int[Tensor, "..."]:
        best, pull = self._pullback(MaxSemiring())
        return self.member(pull(torch.ones_like(best)))

    @outside_inference_mode
    def _topk(self, k: int) -> TopK:
        scores, pull = self._pullback(KBestSemiring(k))
        basis = torch.eye(k, dtype=scores.dtype, device=scores.device)
        basis = basis.reshape(k, k, *(1 for _ in self.batch_shape)).expand(k, *scores.shape)
        # Each rank is a way back through the program, of which those that no row has a member for need none.
        n = max(1, int((scores > NEG_INF).reshape(k, -1).any(1).sum())) if can_use_control_flow() else k
        found = [self.member(pull(one)) for one in basis[:n]]
        members = torch.stack(found + [torch.full_like(found[0], -1)] * (k - n))
        # The program ran on detached scores; those of its members can be differentiated.
        return TopK(torch.where(scores == NEG_INF, NEG_INF, self.score(members)), members)

    @outside_inference_mode
    def _sample(self, n: int, generator: torch.Generator | None) -> Int[Tensor, "..."]:
        size = sum(x.numel() for x in self._spread_over(self.batch_shape).score_tensors() if x is not None)
        together = max(1, min(n, _SAMPLED_TOGETHER // max(size, 1)))
        drawn = []
        for first in range(0, max(n, 1), together):
            copies = self._spread_over(torch.Size((min(together, n - first), *self.batch_shape)))
            log_z, pull = copies._pullback(SamplingSemiring(generator))
            drawn.append(copies.member(pull(torch.ones_like(log_z))))
        return torch.cat(drawn)

    def lifted(self, semiring: Semiring, values: Sequence[StructuredDistribution | Tensor]) -> list[Tensor | None]:
        """The score tensors, expanded over the batch, as elements of the semiring."""
        mine = self._spread_over(self.batch_shape)
        if len(values) != semiring.n_values:
            raise ValueError(
                f"{type(semiring).__name__} takes {semiring.n_values} additive values, but {len(values)} are given"
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
            if read is not None:  # nan in a cell that is not read would reach the gradient: 0 times nan is nan
                parts = [torch.where(read, y, 0.0) for y in parts]
            lifted.append(semiring.lift(*parts))
        return lifted

    def _pullback(self, semiring: Semiring) -> tuple[Tensor, Callable[[Tensor], list[Tensor | None]]]:
        """The total in a semiring, and the function from its gradient to those by the score tensors."""
        mine = self._single()._spread_over(self.batch_shape)
        tensors = [x if x is None else x.detach() for x in mine.score_tensors()]
        given = [i for i, x in enumerate(tensors) if x is not None]

        def total(*chosen: Tensor) -> Tensor:
            return mine._replaced(given, chosen).total(semiring)

        value, pull = cast(Any, torch.func.vjp(total, *(cast(Tensor, tensors[i]) for i in given)))

        def spread(grad: Tensor) -> list[Tensor | None]:
            found: list[Tensor | None] = [None] * len(tensors)
            for i, x in zip(given, pull(grad), strict=True):
                found[i] = x
            return found

        return value, spread


def _with_tensors_of(a: S, b: StructuredDistribution) -> S:
    """``a`` with zeros where ``b`` alone has scores:

    They change nothing, and are there to differentiate by.
    """
    tensors = [
        torch.zeros_like(y).expand(*a.batch_shape, *y.shape[y.dim() - rank :]) if x is None and y is not None else x
        for x, y, rank in zip(a.score_tensors(), b.score_tensors(), a.ranks, strict=True)
    ]
    return a.with_score_tensors(tensors)
