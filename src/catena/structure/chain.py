r"""Linear-chain distributions: tag sequences scored by tags and by pairs of adjacent tags.

.. math::  p(y) \propto \exp \Big( \sum_i e_i(y_i) + \sum_{i > 1} a_i(y_{i-1}, y_i) + s(y_1) + f(y_n) \Big)

The same class serves CRF taggers and HMMs, which only differ in how the scores are computed. Transitions that all
positions have in common are never copied to every position, which saves time and memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import InitVar, dataclass, replace
from typing import ClassVar

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from catena.errors import DataError, ShapeError
from catena.numerics import NEG_INF
from catena.shapes import as_int64, broadcast_shapes, can_read_values, check_mask, mask_from_lengths
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
from catena.structure.constraints import ChainConstraint, OnInfeasible, check_feasible
from catena.structure.semirings import Semiring
from catena.structure.tensors import uniform_numbers


@dataclass(frozen=True, eq=False, repr=False)
class LinearChain(SemiringDistribution):
    """Distribution over sequences of ``k`` tags (linear-chain CRF or HMM posterior).

    Structures are ``tags``: Int ``[*batch, t]``, -1 at masked positions. Parts and marginals are ``[*batch, t, k]``.

    Args:
        emissions: ``emissions[..., i, q]`` is the score of tag ``q`` at position ``i``.
        transitions: ``transitions[..., p, q]`` is the score of tag ``q`` right after tag ``p``, at any position.
            Without batch axes it is shared by the batch. If omitted, all transitions score 0.
        start: ``start[..., q]`` is the score of starting with tag ``q``.
        end: ``end[..., q]`` is the score of ending with tag ``q``.
        steps: ``steps[..., i, p, q]`` is the score of tag ``q`` at position ``i`` after tag ``p`` at the previous
            position, for transitions that depend on the position. Entries at the first position are not read.
        lengths: number of positions in each sequence; all ``t`` if omitted.
        mask: True at real positions. Masked positions inside a sequence are skipped: the positions around them count
            as adjacent.
        constraint: the allowed tags and transitions. The distribution is conditioned on it.
        on_infeasible: what to do if the constraint allows no sequence. ``"error"`` raises
            :class:`~catena.errors.ImpossibleError`; ``"-inf"`` sets log Z to -inf.

    A sequence without positions has one structure, the empty one, with score 0.

    Time O(t k²), memory O(t k); O(t k²) with ``steps``. Sutton & McCallum (2012), section 4.1.

    >>> import torch
    >>> chain = LinearChain(torch.tensor([[1.0, 0.0], [0.0, 2.0]]), torch.tensor([[0.0, 0.0], [0.0, 1.0]]))
    >>> chain.argmax().tolist()
    [1, 1]
    """

    emissions: Float[Tensor, "*batch t k"]
    transitions: Float[Tensor, "*#batch k k"] | None = None
    start: Float[Tensor, "*#batch k"] | None = None
    end: Float[Tensor, "*#batch k"] | None = None
    steps: Float[Tensor, "*#batch t k k"] | None = None
    lengths: Int[Tensor, "*#batch"] | None = None
    mask: Bool[Tensor, "*#batch t"] | None = None
    constraint: InitVar[ChainConstraint | None] = None
    on_infeasible: InitVar[OnInfeasible] = "error"

    ranks: ClassVar[tuple[int, ...]] = (2, 2, 1, 1, 3)

    def __post_init__(self, constraint: ChainConstraint | None, on_infeasible: OnInfeasible) -> None:
        check_tensors(self, "emissions", "transitions", "start", "end", "steps", "lengths", "mask")
        check_floating(self.score_tensors())
        check_mask(self.mask)
        self._check_shapes()
        set_lengths(self, {"lengths": self.emissions.shape[-2]}, {"emissions": 2})
        if constraint is not None:
            for name, scores in constraint.applied(self.emissions, self.transitions, self.start, self.end).items():
                object.__setattr__(self, name, scores)
            check_feasible(self, on_infeasible)

    @classmethod
    def from_steps(
        cls, scores: Float[Tensor, "*batch t k k"], lengths: Int[Tensor, "*batch"] | None = None
    ) -> LinearChain:
        """A chain from one tensor of pair scores.

        Args:
            scores: ``scores[..., i, p, q]`` is the score of tag ``q`` at position ``i`` after tag ``p``. At position 0
                only ``p = 0`` is read.
            lengths: number of positions in each sequence; all if omitted.
        """
        first = scores[..., :1, 0, :]
        rest = torch.zeros_like(scores[..., 1:, 0, :])
        return cls(torch.cat((first, rest), dim=-2), steps=scores, lengths=lengths)

    @classmethod
    def hmm(
        cls,
        start: Float[Tensor, " k"],
        transitions: Float[Tensor, "k k"],
        emissions: Float[Tensor, "k v"],
        observations: Int[Tensor, "*batch t"],
        lengths: Int[Tensor, "*batch"] | None = None,
    ) -> LinearChain:
        """The posterior of the states of a hidden Markov model, given the observed symbols.

        Its log Z is the log-likelihood of the symbols.

        Args:
            start: log-probabilities of the first state.
            transitions: ``transitions[p, q]`` is log p(q | p).
            emissions: ``emissions[q, w]`` is the log-probability that state ``q`` emits symbol ``w``.
            observations: the symbols. Symbols after the end of a sequence are not read.
            lengths: number of symbols in each sequence; all if omitted.
        """
        seen, known = known_symbols("observations", observations, lengths, emissions.shape[-1])
        scores = torch.where(known[..., None], emissions.T[seen], torch.nan)
        return cls(scores, transitions, start, lengths=lengths)

    # --- interface ------------------------------------------------------------------------------------------

    @property
    def batch_shape(self) -> torch.Size:
        return self.emissions.shape[:-2]

    def score_tensors(self) -> tuple[Tensor | None, ...]:
        return self.emissions, self.transitions, self.start, self.end, self.steps

    def with_score_tensors(self, tensors: Sequence[Tensor | None]) -> LinearChain:
        emissions, transitions, start, end, steps = tensors
        assert emissions is not None
        return LinearChain(emissions, transitions, start, end, steps, self.lengths, self.mask)

    def extent(self) -> tuple[Shaped[Tensor, "..."], ...]:
        return (self.real(),)

    def from_parts(self, value: Tensor) -> LinearChain:
        if value.dim() < 2 or value.shape[-2:] != self.emissions.shape[-2:]:
            raise ShapeError(
                f"value must end in the axes [t, k] = {list(self.emissions.shape[-2:])}, got {list(value.shape)}. "
                "For values of tag pairs pass a LinearChain with transitions or steps."
            )
        return LinearChain(value.to(self.emissions.dtype), lengths=self.lengths, mask=self.mask)

    def given(self, constraint: ChainConstraint, on_infeasible: OnInfeasible = "error") -> LinearChain:
        """This distribution conditioned on ``constraint``.

        Args:
            constraint: the allowed tags and transitions.
            on_infeasible: what to do if no sequence is allowed, as in the constructor.
        """
        return replace(self, constraint=constraint, on_infeasible=on_infeasible)

    def log_prob(self, y: Int[Tensor, "*batch t"]) -> Float[Tensor, "*batch"]:
        y = as_int64("tags", y)
        if y.shape != self.emissions.shape[:-1] or not can_use_kernels(*self.score_tensors()):
            return super().log_prob(y)
        from catena.kernels.chain.ops_score import log_prob

        found = log_prob(*self._rows(shared=True), self._closed(y))
        return found if len(self.batch_shape) == 1 else found.reshape(self.batch_shape)

    def score(self, y: Int[Tensor, "*batch t"]) -> Float[Tensor, "*batch"]:
        y = as_int64("tags", y)
        if y.shape == self.emissions.shape[:-1] and can_use_kernels(*self.score_tensors()):
            from catena.kernels.chain.ops_score import score

            return score(*self._rows(), self._closed(y)).reshape(self.batch_shape)
        tags = self._known(y)
        real = self.real().expand(y.shape)
        before = self._tags_before(tags, real)
        has_before = real & (before >= 0)
        before = before.clamp_min(0)
        picked = _at(self.emissions, tags)
        if self.transitions is not None:
            table = self.transitions[..., None, :, :]
            picked = picked + torch.where(has_before, _at_pair(table, before, tags), 0.0)
        if self.steps is not None:
            picked = picked + torch.where(has_before, _at_pair(self.steps, before, tags), 0.0)
        if self.start is not None:
            picked = picked + torch.where(real & ~has_before, _at(self.start[..., None, :], tags), 0.0)
        if self.end is not None:
            picked = picked + torch.where(self._is_last(real), _at(self.end[..., None, :], tags), 0.0)
        on_infeasible = (real & ((y < 0) | (y >= self.emissions.shape[-1]))).any(-1)
        return torch.where(on_infeasible, NEG_INF, torch.where(real, picked, 0.0).sum(-1))

    def parts(self, y: Int[Tensor, "*batch t"]) -> Float[Tensor, "*batch t k"]:
        self._known(y)
        tags = torch.arange(self.emissions.shape[-1], device=y.device)
        return ((y[..., None] == tags) & self.real()[..., None]).to(self.emissions.dtype)

    def pairs(self, y: Int[Tensor, "*batch t"]) -> Float[Tensor, "*batch t k k"]:
        """0/1 indicators of adjacent tag pairs, in the shape of :meth:`pair_marginals`."""
        self._known(y)
        real = self.real().expand(y.shape)
        before = self._tags_before(torch.where(real, y, 0), real)
        tags = torch.arange(self.emissions.shape[-1], device=y.device)
        here = (y[..., None] == tags) & real[..., None]
        return ((before[..., None] == tags)[..., :, None] & here[..., None, :]).to(self.emissions.dtype)

    def log_partition(self) -> Float[Tensor, "*batch"]:
        if not can_use_kernels(*self.score_tensors()):
            return self.plain_log_partition()
        from catena.kernels.chain.ops import log_partition

        log_z = log_partition(*self._rows(shared=True))
        return log_z if len(self.batch_shape) == 1 else log_z.reshape(self.batch_shape)

    def _argmax(self) -> Int[Tensor, "*batch t"]:
        if not can_use_kernels(*self.score_tensors()):
            return super()._argmax()
        from catena.kernels.chain.ops_search import best

        return self._in_place(best(*self._rows()))

    def _topk(self, k: int) -> TopK:
        if not can_use_kernels(*self.score_tensors()):
            return super()._topk(k)
        from catena.kernels.chain.ops_search import top

        tags, found = top(*self._rows(), k)
        structures = self._in_place(tags.transpose(0, 1))
        return self._best_first(structures, found)

    def _sample(self, n: int, generator: torch.Generator | None) -> Int[Tensor, "n *batch t"]:
        if not can_use_kernels(*self.score_tensors()):
            return super()._sample(n, generator)
        from catena.kernels.chain.ops_search import sample

        rows = self._rows()
        uniforms = uniform_numbers(n, *rows[0].shape[:2], generator=generator)
        return self._in_place(sample(*rows, uniforms))

    def marginals(self) -> Float[Tensor, "*batch t k"]:
        """``[..., i, q]`` is the probability of tag ``q`` at position ``i``."""
        if not can_use_kernels(*self.score_tensors()):
            return self.gradients([0])[1][0]
        from catena.kernels.chain.ops import log_partition_and_marginals

        return self._in_place(log_partition_and_marginals(*self._rows())[1], own=1)

    def pair_marginals(self) -> Float[Tensor, "*batch t k k"]:
        """``[..., i, p, q]`` is the probability of tag ``q`` at ``i`` after tag ``p`` at the previous real position."""
        t, k = self.emissions.shape[-2:]
        steps = self.emissions.new_zeros(t, k, k) if self.steps is None else self.steps
        steps = steps.expand(*self.batch_shape, t, k, k)
        return replace(self, steps=steps).gradients([4])[1][0]

    # --- reference program ----------------------------------------------------------------------------------

    def read_parts(self) -> tuple[Tensor | None, ...]:
        if self.lengths is None and self.mask is None and self.steps is None:
            return (None,) * 5
        real = self.real()
        after = real & (real.cumsum(-1) > 1)
        return real[..., None], None, None, None, after[..., None, None]

    def _total(
        self, semiring: Semiring, *values: StructuredDistribution | Shaped[Tensor, "..."]
    ) -> Shaped[Tensor, "..."]:
        emissions, transitions, start, end, steps = self.lifted(semiring, values)
        assert emissions is not None
        real = self.real()
        first = real & (real.cumsum(-1) == 1)
        alpha = emissions[..., 0, :]
        for i in range(emissions.shape[-2]):
            begun = emissions[..., i, :] if start is None else semiring.mul(emissions[..., i, :], start)
            if i == 0:
                alpha = begun
                continue
            paths = alpha[..., :, None]
            if transitions is not None:
                paths = semiring.mul(paths, transitions)
            if steps is not None:
                paths = semiring.mul(paths, steps[..., i, :, :])
            moved = semiring.mul(semiring.sum(paths, dim=-2), emissions[..., i, :])
            alpha = torch.where(real[..., i, None], torch.where(first[..., i, None], begun, moved), alpha)
        total = semiring.sum(alpha if end is None else semiring.mul(alpha, end), dim=-1)
        return torch.where(real.any(-1), total, semiring.one(self.batch_shape, total))

    def read_structure(self, gradients: Sequence[Tensor | None]) -> Int[Tensor, "*batch t"]:
        here = gradients[0]
        assert here is not None
        best, tags = here.max(dim=-1)
        return torch.where(best > 0.5, tags, -1)

    # --- conversion for the kernels -------------------------------------------------------------------------

    def _rows(self, shared: bool = False) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """Emissions, transition tables, start, end and lengths, with one batch axis and without masked positions.

        With ``shared``, tensors that the whole batch has in common get no batch axis.
        """
        (t, k), batch = self.emissions.shape[-2:], self.batch_shape
        emissions, steps = self.emissions, self.steps
        if self.mask is not None:
            order, lengths = self._order(), self.real().sum(-1)
            emissions = emissions.gather(-2, order[..., None].expand(emissions.shape))
            if steps is not None:
                steps = steps.expand(*batch, t, k, k)
                steps = steps.gather(-3, order[..., None, None].expand(steps.shape))
        elif self.lengths is None:
            lengths = torch.full(batch, t)
        else:
            lengths = self.lengths.expand(batch)
        tables = emissions.new_zeros(k, k) if self.transitions is None else self.transitions
        if steps is None:
            tables = _grouped(tables, batch, (k, k), shared)
        else:
            tables = (tables[..., None, :, :] + steps).expand(*batch, t, k, k).reshape(-1, t, k, k)
        start = emissions.new_zeros(k) if self.start is None else self.start
        end = emissions.new_zeros(k) if self.end is None else self.end
        if start.dim() > 1 or end.dim() > 1:
            start, end = start.expand(*batch, k), end.expand(*batch, k)
        if not tables.dtype == start.dtype == end.dtype == emissions.dtype:
            tables, start, end = (x.to(emissions.dtype) for x in (tables, start, end))
        start, end = _grouped(start, batch, (k,), shared), _grouped(end, batch, (k,), shared)
        if len(batch) == 1:
            return emissions, tables, start, end, lengths
        return emissions.reshape(-1, t, k), tables, start, end, lengths.reshape(-1)

    def _order(self) -> Int[Tensor, "*batch t"]:
        """Indices of the real positions, in order, followed by the masked ones."""
        return (~self.real()).to(torch.int8).argsort(dim=-1, stable=True)

    def _closed(self, y: Tensor) -> Tensor:
        """Tags without masked positions, with one batch axis."""
        if self.mask is not None:
            y = y.gather(-1, self._order())
        return y if y.dim() == 2 else y.reshape(-1, y.shape[-1])

    def _in_place(self, x: Tensor, own: int = 0) -> Tensor:
        """Undo :meth:`_rows` on a kernel's result ``[..., rows, t]`` with ``own`` more axes."""
        x = x.reshape(*x.shape[: x.dim() - 2 - own], *self.batch_shape, *x.shape[x.dim() - 1 - own :])
        if self.mask is None:
            return x
        places = self._order().argsort(dim=-1)
        return x.gather(-1 - own, places.reshape(*places.shape, *(1 for _ in range(own))).expand(x.shape))

    # --- helpers --------------------------------------------------------------------------------------------

    def real(self) -> Bool[Tensor, "*batch t"]:
        """True at real positions: inside the length and not masked."""
        shape = self.emissions.shape[:-1]
        real = torch.ones(shape, dtype=torch.bool, device=self.emissions.device)
        if self.lengths is not None:
            real = real & mask_from_lengths(self.lengths, shape[-1])
        return real if self.mask is None else real & self.mask

    def _known(self, y: Tensor) -> Tensor:
        """Tags that are valid indices, with 0 at masked positions."""
        t, k = self.emissions.shape[-2:]
        y = validate_structures(y, self.batch_shape, {"t": t})
        tags = torch.where(self.real(), y, 0)
        if can_read_values(tags) and bool((tags >= k).any()):
            raise DataError(f"Tags must be below k = {k}, got {int(tags.max())}. Check the tag ids, or pass more tags.")
        return tags.clamp(0, k - 1)

    def _tags_before(self, tags: Tensor, real: Tensor) -> Tensor:
        """The tag of the nearest real position before each position; -1 if there is none."""
        t = tags.shape[-1]
        places = torch.where(real, torch.arange(t, device=tags.device), -1).cummax(-1).values
        before = torch.cat((torch.full_like(places[..., :1], -1), places[..., :-1]), dim=-1)
        return torch.where(before < 0, -1, tags.gather(-1, before.clamp_min(0)))

    def _is_last(self, real: Tensor) -> Tensor:
        behind = real.flip(-1).cumsum(-1).flip(-1)
        return real & (behind == 1)

    def _check_shapes(self) -> None:
        if self.emissions.dim() < 2 or 0 in self.emissions.shape[-2:]:
            raise ShapeError(
                f"emissions must have shape [*batch, t, k] with t >= 1 and k >= 1, got {list(self.emissions.shape)}. "
                "Pass at least one position and one tag."
            )
        *batch, t, k = self.emissions.shape
        axes = {
            "transitions": (k, k),
            "start": (k,),
            "end": (k,),
            "steps": (t, k, k),
            "lengths": (),
            "mask": (t,),
        }
        for name, own in axes.items():
            given: Tensor | None = getattr(self, name)
            if given is not None and not broadcasts_to_batch(given.shape, (*batch, *own), len(own)):
                raise ShapeError(
                    f"{name} must have shape {[*batch, *own]}, where batch axes may be 1 or missing, got "
                    f"{list(given.shape)}. Fit it to emissions of shape {[*batch, t, k]}."
                )


def _grouped(x: Tensor, batch: torch.Size, own: tuple[int, ...], shared: bool) -> Tensor:
    """A shared tensor as it is or as ``[1, ...]``, one with batch axes as ``[n, ...]``."""
    if x.dim() == len(own) and shared:
        return x
    return x[None] if x.dim() == len(own) else x.expand(*batch, *own).reshape(-1, *own)


def _at(table: Tensor, tags: Tensor) -> Tensor:
    """``table[..., i, tags[..., i]]``, broadcast from the right."""
    shape = broadcast_shapes(table.shape[:-1], tags.shape)
    table = table.expand(*shape, table.shape[-1])
    return table.gather(-1, tags.expand(shape)[..., None])[..., 0]


def _at_pair(table: Tensor, before: Tensor, tags: Tensor) -> Tensor:
    """``table[..., i, before[..., i], tags[..., i]]``, broadcast from the right."""
    k = table.shape[-1]
    return _at(table.flatten(-2), before * k + tags)
