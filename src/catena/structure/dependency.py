r"""Common base of projective and non-projective dependency trees: arcs, labels, roots and queries.

.. math::  p(y) \propto \exp \sum_{m=1}^{t} \big( a_{h_m m} + l_{h_m m}(q_m) \big)

Node 0 is the root, an artificial word before the sentence; words are numbered from 1. A tree gives every word a head,
and no word is its own ancestor. Labels are independent of each other given the arcs.

The subclasses implement how trees are summed and searched.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeVar

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from catena.errors import ShapeError
from catena.numerics import NEG_INF, log_sum_exp, masked_softmax, without_nan
from catena.shapes import broadcast_shapes, check_mask, mask_from_lengths
from catena.structure.backend import can_use_kernels
from catena.structure.base import StructuredDistribution, TopK
from catena.structure.checks import check_floating, check_tensors, set_lengths, validate_structures
from catena.structure.constraints import OnInfeasible, check_feasible, intersect_masks, mask_scores
from catena.structure.tensors import uniform_like

T = TypeVar("T", bound="DependencyDistribution")


@dataclass(frozen=True, eq=False)
class ArcConstraint:
    """Constraint on the arcs and labels of dependency trees. None allows everything; combine two by ``&``.

    Args:
        arcs: ``arcs[..., h, m]`` is True if ``h`` may be the head of ``m``; node 0 is the root.
        labels: ``labels[..., h, m, q]`` is True if that arc may have label ``q``.
    """

    arcs: Bool[Tensor, "*batch n n"] | None = None
    labels: Bool[Tensor, "*batch n n k"] | None = None

    @classmethod
    def partial(
        cls, heads: Int[Tensor, "*batch t"], labels: Int[Tensor, "*batch t"] | None = None, k: int = 0
    ) -> ArcConstraint:
        """Constraint from a partial annotation.

        Args:
            heads: the known head of each word (0 is the root); -1 where any head is allowed.
            labels: the known label of each word; -1 where any label is allowed. All are allowed if omitted.
            k: number of labels, needed with ``labels``.
        """
        known = _at_words(heads, -1)[..., None, :]
        nodes = torch.arange(heads.shape[-1] + 1, device=heads.device)
        arcs = (known == nodes[:, None]) | (known < 0)
        if labels is None:
            return cls(arcs)
        known = _at_words(labels, -1)[..., None, :, None]
        allowed = (known == torch.arange(k, device=labels.device)) | (known < 0)
        return cls(arcs, allowed.expand(*arcs.shape, k))

    @classmethod
    def required(cls, arcs: Bool[Tensor, "*batch n n"]) -> ArcConstraint:
        """Constraint that every word with a True entry gets its head by one of its True arcs."""
        return cls(arcs | ~arcs.any(-2, keepdim=True))

    @classmethod
    def forbidden(cls, arcs: Bool[Tensor, "*batch n n"]) -> ArcConstraint:
        """Constraint that no tree has an arc that is True."""
        return cls(~arcs)

    def __and__(self, other: ArcConstraint) -> ArcConstraint:
        """The constraint that allows what both allow."""
        return ArcConstraint(intersect_masks(self.arcs, other.arcs), intersect_masks(self.labels, other.labels))


class DependencyDistribution(StructuredDistribution):
    """Abstract distribution over dependency trees; subclasses implement sums, searches and sampling."""

    arcs: Tensor
    labels: Tensor | None
    lengths: Tensor | None
    mask: Tensor | None
    single_root: bool

    ranks: ClassVar[tuple[int, ...]] = (2, 3)

    def __post_init__(self, constraint: ArcConstraint | None, on_infeasible: OnInfeasible) -> None:
        check_tensors(self, "arcs", "labels", "lengths", "mask")
        check_floating(self.score_tensors())
        check_mask(self.mask)
        self._check_shapes()
        set_lengths(self, {"lengths": self.arcs.shape[-1] - 1}, {"arcs": 2})
        if constraint is not None:
            self._apply(constraint)
            check_feasible(self, on_infeasible)

    # --- what a subclass defines ----------------------------------------------------------------------------

    @abstractmethod
    def _like(self: T, arcs: Tensor, labels: Tensor | None) -> T:
        """A copy with other scores."""

    @abstractmethod
    def _allows(self, heads: Tensor, real: Tensor) -> Tensor:
        """Whether trees, which have no cycle and a valid number of roots, belong to this class of trees."""

    @abstractmethod
    def _arc_marginals(self, arcs: Tensor, lengths: Tensor) -> Tensor:
        """The probabilities of arcs, computed by a kernel."""

    # --- interface ------------------------------------------------------------------------------------------

    @property
    def batch_shape(self) -> torch.Size:
        return self.arcs.shape[:-2]

    def score_tensors(self) -> tuple[Tensor | None, ...]:
        return self.arcs, self.labels

    def with_score_tensors(self: T, tensors: Sequence[Tensor | None]) -> T:
        arcs, labels = tensors
        assert arcs is not None
        return self._like(arcs, labels)

    def extent(self) -> tuple[Shaped[Tensor, "..."], ...]:
        return (self.real(),)

    def from_parts(self: T, value: Tensor) -> T:
        own = self.arcs.shape[-2:] if self.labels is None else self.labels.shape[-3:]
        if value.shape[-len(own) :] != own:
            axes = "[n, n]" if self.labels is None else "[n, n, k]"
            raise ShapeError(
                f"value must end in the axes {axes} = {list(own)}, got {list(value.shape)}. Pass one for each arc."
            )
        value = value.to(self.arcs.dtype)
        if self.labels is None:
            return self._like(value, None)
        return self._like(value.new_zeros(()).expand(value.shape[:-1]), value)

    def unlabeled(self: T) -> T:
        """The distribution over heads only, with the labels of every arc summed out."""
        return self if self.labels is None else self._like(self.arcs + log_sum_exp(self._read_labels(), -1), None)

    def score(self, y: Int[Tensor, "..."]) -> Float[Tensor, "..."]:
        """Unnormalized log-score of trees; -inf for anything that is not a tree of this class."""
        return torch.where(self.are_trees(y), self._added(y), NEG_INF)

    def are_trees(self, y: Int[Tensor, "..."]) -> Bool[Tensor, "..."]:
        """Whether heads (and labels) are valid trees: no cycle, a valid number of roots, projective if required."""
        heads, labels = self._split(y)
        real = self.real().expand(heads.shape)
        n = self.arcs.shape[-1]
        nodes = _at_words(real, True)
        known = (heads >= 0) & (heads < n)
        up = torch.where(real & known, heads, 0)
        known = known & nodes.gather(-1, up)
        if labels is not None:
            known = known & (labels >= 0) & (labels < self._n_labels())
        ways = _at_words(up, 0)
        for _ in range(math.ceil(math.log2(n)) + 1):
            ways = ways.gather(-1, ways)
        sound = (known | ~real).all(-1) & (ways == 0).all(-1)
        if self.single_root:
            sound = sound & ((real & (heads == 0)).sum(-1) == real.any(-1).to(torch.int64))
        return sound & self._allows(torch.where(real, up, torch.arange(1, n, device=up.device)), real)

    def parts(self, y: Int[Tensor, "..."]) -> Float[Tensor, "..."]:
        heads, labels = self._split(y)
        n = self.arcs.shape[-1]
        heads = _at_words(torch.where(self.real(), heads, -1), -1)
        found = heads[..., None, :] == torch.arange(n, device=y.device)[:, None]
        if labels is not None:
            kinds = torch.arange(self._n_labels(), device=y.device)
            found = found[..., None] & (_at_words(labels, -1)[..., None, :, None] == kinds)
        return found.to(self.arcs.dtype)

    def marginals(self) -> Float[Tensor, "..."]:
        """``[..., h, m]`` is the probability of the arc from ``h`` to ``m``; with labels ``[..., h, m, q]``."""
        if not can_use_kernels(*self.score_tensors()):
            return self._spread_over(self.batch_shape).gradients([0 if self.labels is None else 1])[1][0]
        chances = self.arc_marginals()
        if self.labels is None:
            return chances
        return chances[..., None] * masked_softmax(without_nan(self.labels))

    def arc_marginals(self) -> Float[Tensor, "*batch n n"]:
        """``[..., h, m]`` is the probability of the arc from ``h`` to ``m`` with any label."""
        if not can_use_kernels(*self.score_tensors()):
            return self.gradients([0])[1][0]
        return self._arcs_in_place(self._arc_marginals(*self._rows()))

    def max(self) -> Float[Tensor, "*batch"]:
        return self._or_nan(self._added(self.argmax()))

    def _sample(self, n: int, generator: torch.Generator | None) -> Int[Tensor, "..."]:
        heads = self._sampled_heads(n, generator)
        return heads if self.labels is None else torch.stack((heads, self._sampled_labels(heads, generator)), -1)

    @abstractmethod
    def _sampled_heads(self, n: int, generator: torch.Generator | None) -> Tensor:
        """Heads ``[n, *batch, t]``, sampled with the labels summed out."""

    def cross_entropy(self, other: StructuredDistribution) -> Float[Tensor, "*batch"]:
        return torch.where(self._has_too_many_roots_for(other), -NEG_INF, super().cross_entropy(other))

    def kl(self, other: StructuredDistribution) -> Float[Tensor, "*batch"]:
        return torch.where(self._has_too_many_roots_for(other), -NEG_INF, super().kl(other))

    # --- conversion for the programs and the kernels --------------------------------------------------------

    def real(self) -> Bool[Tensor, "*batch t"]:
        """True for real words: inside the length and not masked."""
        t = self.arcs.shape[-1] - 1
        real = torch.ones((*self.batch_shape, t), dtype=torch.bool, device=self.arcs.device)
        if self.lengths is not None:
            real = real & mask_from_lengths(self.lengths, t)
        return real if self.mask is None else real & self.mask

    def readable(self) -> Bool[Tensor, "*batch n n"]:
        """True for every arc between real words, or from the root to one."""
        real = self.real()
        itself = torch.eye(self.arcs.shape[-1], dtype=torch.bool, device=real.device)
        return _at_words(real, True)[..., :, None] & _at_words(real, False)[..., None, :] & ~itself

    def arc_scores(self) -> Float[Tensor, "*batch n n"]:
        """The scores of arcs with their labels summed out; -inf for impossible arcs."""
        return torch.where(self.readable(), self.unlabeled().arcs, NEG_INF)

    def _read_labels(self) -> Float[Tensor, "*batch n n k"]:
        """Scores of labels with 0 at impossible arcs, where a nan would reach the gradient."""
        assert self.labels is not None
        return torch.where(self.readable()[..., None], self.labels, 0.0)

    def _rows(self, arcs: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Arcs, by default with labels summed out, and lengths, with one batch axis and without masked words.

        The kernels do not read impossible arcs.
        """
        arcs, lengths = self._closed(self._summed_arcs() if arcs is None else arcs)
        if len(self.batch_shape) == 1:
            return arcs, lengths
        return arcs.reshape(-1, *arcs.shape[-2:]), lengths.reshape(-1)

    def _summed_arcs(self) -> Tensor:
        """Arcs with their labels summed out, for the kernels."""
        if self.labels is None:
            return self.arcs
        from catena.kernels.dependency.ops import sum_labels

        return self.arcs + sum_labels(self.labels)

    def _closed(self, arcs: Tensor) -> tuple[Tensor, Tensor]:
        """Arcs with the real words first, and the number of real words."""
        if self.mask is not None:
            return _reordered(arcs, _at_words(self._order() + 1, 0)), self.real().sum(-1)
        if self.lengths is not None:
            return arcs, self.lengths.expand(self.batch_shape)
        return arcs, torch.full(self.batch_shape, arcs.shape[-1] - 1, device=arcs.device)

    def _arcs_in_place(self, x: Tensor) -> Tensor:
        """Undo :meth:`_closed` on arcs ``[b, n, n]``."""
        x = x.reshape(*self.batch_shape, *x.shape[-2:])
        return x if self.mask is None else _reordered(x, _at_words(self._order().argsort(-1) + 1, 0))

    def _words_in_place(self, x: Tensor) -> Tensor:
        """Undo :meth:`_closed` on numbers for words ``[..., b, t]``."""
        if len(self.batch_shape) != 1:
            x = x.reshape(*x.shape[:-2], *self.batch_shape, x.shape[-1])
        return x if self.mask is None else x.gather(-1, self._order().argsort(-1).expand(x.shape))

    def _heads_in_place(self, heads: Tensor) -> Tensor:
        """Undo :meth:`_closed` on heads ``[..., b, t]``, including their word numbers."""
        heads = self._words_in_place(heads)
        if self.mask is None:
            return heads
        names = _at_words(self._order().expand(heads.shape) + 1, 0)
        return torch.where(heads < 0, -1, names.gather(-1, heads.clamp_min(0)))

    def _order(self) -> Int[Tensor, "*batch t"]:
        """Indices of the real words, in order, followed by the masked ones."""
        return (~self.real()).to(torch.int8).argsort(dim=-1, stable=True)

    # --- trees ----------------------------------------------------------------------------------------------

    def _split(self, y: Tensor) -> tuple[Tensor, Tensor | None]:
        """Heads, and labels if there are any."""
        own = {"t": self.arcs.shape[-1] - 1}
        y = validate_structures(y, self.batch_shape, own if self.labels is None else {**own, "head and label": 2})
        return (y, None) if self.labels is None else (y[..., 0], y[..., 1])

    def _added(self, y: Tensor) -> Tensor:
        """The summed scores of trees, without a check that they are trees; -inf if a real word has head -1."""
        heads, labels = self._split(y)
        n = self.arcs.shape[-1]
        batch = broadcast_shapes(self.batch_shape, heads.shape[:-1])
        table = self.arcs[..., :, 1:].expand(*batch, n, n - 1)
        index = heads.clamp(0, n - 1).expand(*batch, n - 1)
        picked = table.gather(-2, index[..., None, :])[..., 0, :]
        if labels is not None:
            table = self._label_table(heads)
            picked = picked + table.gather(-1, labels.clamp(0, table.shape[-1] - 1)[..., None])[..., 0]
        real = self.real().expand(heads.shape)
        return torch.where((real & (heads < 0)).any(-1), NEG_INF, torch.where(real, picked, 0.0).sum(-1))

    def _label_table(self, heads: Tensor) -> Tensor:
        """``[..., t, k]``: the scores of the labels of the arc to each word, given its head."""
        assert self.labels is not None
        *_, n, _, k = self.labels.shape
        batch = broadcast_shapes(self.labels.shape[:-3], heads.shape[:-1])
        table = self.labels[..., :, 1:, :].expand(*batch, n, n - 1, k)
        index = heads.clamp(0, n - 1).expand(*batch, n - 1)
        return table.gather(-3, index[..., None, :, None].expand(*batch, 1, n - 1, k))[..., 0, :, :]

    def _sampled_labels(self, heads: Tensor, generator: torch.Generator | None) -> Tensor:
        reach = masked_softmax(self._label_table(heads).detach().double()).cumsum(-1)
        drawn = uniform_like(heads.double(), generator)
        labels = (reach <= (drawn * reach[..., -1])[..., None]).sum(-1).clamp_max(reach.shape[-1] - 1)
        return torch.where(heads < 0, -1, labels)

    def _with_best_labels(self, heads: Tensor) -> Tensor:
        """Trees with these heads and the best label for each arc; the heads themselves if there are no labels."""
        if self.labels is None:
            return heads
        return torch.stack((heads, torch.where(heads < 0, -1, self._label_table(heads).argmax(-1))), -1)

    def _best_rows(self) -> tuple[Tensor, Tensor]:
        """:meth:`_rows` with the best label of each arc instead of the sum over its labels."""
        arcs = self.arcs.detach()
        return self._rows(arcs if self.labels is None else arcs + self.labels.detach().amax(-1))

    def _ranked_rows(self, k: int) -> tuple[Tensor, Tensor, Tensor]:
        """Scores ``[b, n, n, j]`` of each arc with its best labels, best first; the lengths; and the labels' ids."""
        if self.labels is None:
            arcs, lengths = self._rows(self.arcs.detach())
            return arcs[..., None], lengths, torch.zeros_like(arcs, dtype=torch.int64)[..., None]
        each = (self.arcs[..., None] + self.labels).detach().movedim(-1, 0)
        closed, lengths = self._closed(each)
        best = closed.movedim(0, -1).topk(min(k, len(each)), dim=-1)
        shape = (-1, *best.values.shape[-3:])
        return best.values.reshape(shape), lengths.reshape(-1), best.indices.reshape(shape)

    def _top(self, heads: Tensor, ranks: Tensor, found: Tensor, which: Tensor) -> TopK:
        """Trees, best first, from ``found`` heads and ranks of labels ``[b, k, t]`` without masked words."""
        b, k, t = heads.shape
        structures = self._heads_in_place(heads.movedim(1, 0))
        if self.labels is not None:
            arc = heads.clamp_min(0) * (t + 1) + torch.arange(1, t + 1, device=heads.device)
            labels = which.flatten(1, 3).gather(1, (arc * which.shape[-1] + ranks.clamp_min(0)).flatten(1))
            labels = self._words_in_place(labels.reshape(b, k, t).movedim(1, 0))
            structures = torch.stack((structures, torch.where(structures < 0, -1, labels)), -1)
        there = torch.arange(k, device=found.device)[:, None] < found
        scores = torch.where(there.reshape(k, *self.batch_shape), self._added(structures), NEG_INF)
        order = scores.detach().sort(dim=0, descending=True, stable=True).indices
        places = order.reshape(*order.shape, *(1 for _ in structures.shape[order.dim() :])).expand(structures.shape)
        return TopK(scores.gather(0, order), structures.gather(0, places))

    def _n_labels(self) -> int:
        return 0 if self.labels is None else self.labels.shape[-1]

    # --- helpers --------------------------------------------------------------------------------------------

    def _has_too_many_roots_for(self, other: StructuredDistribution) -> Tensor:
        """Where some tree has several roots but ``other`` allows only one."""
        if not isinstance(other, DependencyDistribution) or self.single_root or not other.single_root:
            return torch.zeros((), dtype=torch.bool, device=self.arcs.device)
        roots = torch.zeros_like(self.arcs)
        roots[..., 0, :] = 1.0
        counted = self._like(torch.where(self.arc_scores().detach() > NEG_INF, roots, NEG_INF), None)
        return counted.max() > 1.5

    def _apply(self, constraint: ArcConstraint) -> None:
        if constraint.arcs is not None:
            object.__setattr__(self, "arcs", mask_scores("arcs", self.arcs, constraint.arcs))
        if constraint.labels is not None:
            if self.labels is None:
                raise ShapeError(
                    "The constraint has labels, but the trees have none. Pass labels to the distribution, or drop them "
                    "from the constraint."
                )
            object.__setattr__(self, "labels", mask_scores("labels", self.labels, constraint.labels))

    def _check_shapes(self) -> None:
        if self.arcs.dim() < 2 or self.arcs.shape[-1] != self.arcs.shape[-2] or self.arcs.shape[-1] < 2:
            raise ShapeError(
                f"arcs must have shape [*batch, n, n] with n >= 2, got {list(self.arcs.shape)}. Pass one row and "
                "column for each word, and row and column 0 for the root."
            )
        *batch, n, _ = self.arcs.shape
        axes = {"labels": (n, n, -1), "lengths": (), "mask": (n - 1,)}
        for name, own in axes.items():
            given: Tensor | None = getattr(self, name)
            if given is not None and not _fits(given.shape, batch, own):
                named = [*batch, *("k" if size < 0 else size for size in own)]
                raise ShapeError(
                    f"{name} must have shape {named}, where batch axes may be 1 or missing, got {list(given.shape)}. "
                    f"Fit it to arcs of shape {[*batch, n, n]}."
                )


def _fits(shape: Sequence[int], batch: Sequence[int], own: Sequence[int]) -> bool:
    """Whether a shape ends in ``own`` (-1 is any size except 0) and broadcasts to the batch before it."""
    lead, rest = shape[: len(shape) - len(own)], shape[len(shape) - len(own) :]
    if len(shape) < len(own) or len(lead) > len(batch):
        return False
    if any(a != b and (b >= 0 or a == 0) for a, b in zip(rest, own, strict=True)):
        return False
    return all(a in (1, b) for a, b in zip(reversed(lead), reversed(batch), strict=False))


def _at_words(x: Tensor, root: int | bool) -> Tensor:
    """``[..., t]`` to ``[..., t + 1]``, with a value for the root in front."""
    return torch.cat((torch.full_like(x[..., :1], root), x), dim=-1)


def _reordered(arcs: Tensor, order: Tensor) -> Tensor:
    """``[..., n, n]`` with both axes permuted by ``order`` ``[..., n]``."""
    order = order.expand(arcs.shape[:-1])
    rows = arcs.gather(-2, order[..., :, None].expand(arcs.shape))
    return rows.gather(-1, order[..., None, :].expand(arcs.shape))
