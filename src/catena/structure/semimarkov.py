r"""Semi-Markov distributions: sequences divided into labeled segments, each scored as a whole.

.. math::  p(y) \propto \exp \Big( \sum_{(i, j, y_n)} s_{i, j}(y_n) + \sum_n a(y_{n-1}, y_n) + \dots \Big)

where the segments :math:`[i, j)` follow one another and cover the sequence. With segments of length 1 it is a linear
chain.
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
from catena.structure.segment_constraints import SegmentConstraint
from catena.structure.semirings import Semiring
from catena.structure.tensors import uniform_numbers


@dataclass(frozen=True, eq=False, repr=False)
class SemiMarkov(SemiringDistribution):
    """Distribution over segmentations into segments of at most ``m`` positions with one of ``k`` labels.

    Structures are ``segments``: Int ``[*batch, t, 3]``, rows (begin, end, label) in order, where ``end`` is the first
    position after the segment, padded with -1. Parts and marginals are ``[*batch, t, m, k]``, like the scores.

    Args:
        segments: ``segments[..., i, l, y]`` is the score of a segment of ``l + 1`` positions that begins at ``i`` and
            has label ``y``. Scores of segments that would end after the length are not read.
        transitions: ``transitions[..., x, y]`` is the score of a segment labeled ``y`` right after one labeled ``x``.
            Without batch axes it is shared by the batch. If omitted, all transitions score 0.
        start: ``start[..., y]`` is the score of starting with a segment labeled ``y``.
        end: ``end[..., y]`` is the score of ending with a segment labeled ``y``.
        lengths: number of positions in each sequence; all ``t`` if omitted.
        constraint: the allowed segments and transitions. The distribution is conditioned on it.
        on_infeasible: what to do if the constraint allows no segmentation. ``"error"`` raises
            :class:`~catena.errors.ImpossibleError`; ``"-inf"`` sets log Z to -inf.

    A sequence without positions has one structure, the empty one, with score 0.

    Time O(t k (m + k)), memory O(t m k). Sarawagi & Cohen (2004), section 2.3.
    """

    segments: Float[Tensor, "*batch t m k"]
    transitions: Float[Tensor, "*#batch k k"] | None = None
    start: Float[Tensor, "*#batch k"] | None = None
    end: Float[Tensor, "*#batch k"] | None = None
    lengths: Int[Tensor, "*#batch"] | None = None
    constraint: InitVar[SegmentConstraint | None] = None
    on_infeasible: InitVar[OnInfeasible] = "error"

    ranks: ClassVar[tuple[int, ...]] = (3, 2, 1, 1)

    def __post_init__(self, constraint: SegmentConstraint | None, on_infeasible: OnInfeasible) -> None:
        check_tensors(self, "segments", "transitions", "start", "end", "lengths")
        check_floating(self.score_tensors())
        self._check_shapes()
        set_lengths(self, {"lengths": self.segments.shape[-3]}, {"segments": 3})
        if constraint is not None:
            for name, scores in constraint.applied(self.segments, self.transitions).items():
                object.__setattr__(self, name, scores)
            check_feasible(self, on_infeasible)

    @classmethod
    def from_emissions(
        cls,
        emissions: Float[Tensor, "*batch t k"],
        durations: Float[Tensor, "m k"],
        transitions: Float[Tensor, "k k"] | None = None,
        lengths: Int[Tensor, "*batch"] | None = None,
    ) -> SemiMarkov:
        """A distribution whose segment scores are sums of position scores plus a duration score.

        Args:
            emissions: ``emissions[..., i, y]`` is the score of position ``i`` in a segment labeled ``y``.
            durations: ``durations[l, y]`` is the score of a segment labeled ``y`` of ``l + 1`` positions.
            transitions: as in the constructor.
            lengths: as in the constructor.
        """
        t, m = emissions.shape[-2], durations.shape[-2]
        pad = emissions.new_zeros(*emissions.shape[:-2], m - 1, emissions.shape[-1])
        longer = torch.cat((emissions, pad), dim=-2)
        sums, running = [], torch.zeros_like(emissions)
        for length in range(m):
            running = running + longer[..., length : length + t, :]
            sums.append(running)
        return cls(torch.stack(sums, dim=-2) + durations, transitions, lengths=lengths)

    # --- interface ----------------------------------------------------------------------------------------------------

    @property
    def batch_shape(self) -> torch.Size:
        return self.segments.shape[:-3]

    def score_tensors(self) -> tuple[Tensor | None, ...]:
        return self.segments, self.transitions, self.start, self.end

    def with_score_tensors(self, tensors: Sequence[Tensor | None]) -> SemiMarkov:
        segments, transitions, start, end = tensors
        assert segments is not None
        return SemiMarkov(segments, transitions, start, end, self.lengths)

    def extent(self) -> tuple[Shaped[Tensor, "..."], ...]:
        return (self._lengths(),)

    def from_parts(self, value: Tensor) -> SemiMarkov:
        if value.dim() < 3 or value.shape[-3:] != self.segments.shape[-3:]:
            raise ShapeError(
                f"value must end in the axes [t, m, k] = {list(self.segments.shape[-3:])}, got {list(value.shape)}. "
                "For values of adjacent segments pass a SemiMarkov with transitions."
            )
        return SemiMarkov(value.to(self.segments.dtype), lengths=self.lengths)

    def given(self, constraint: SegmentConstraint, on_infeasible: OnInfeasible = "error") -> SemiMarkov:
        """This distribution conditioned on ``constraint``.

        Args:
            constraint: the allowed segments and transitions.
            on_infeasible: what to do if no segmentation is allowed, as in the constructor.
        """
        return replace(self, constraint=constraint, on_infeasible=on_infeasible)

    def score(self, y: Int[Tensor, "*batch t 3"]) -> Float[Tensor, "*batch"]:
        y = validate_structures(y, self.batch_shape, {"t": None, "triple": 3})
        t, m, k = self.segments.shape[-3:]
        begin, label = y[..., 0], y[..., 2]
        there = begin >= 0
        picked = self.segments.flatten(-3).expand(*y.shape[:-2], t * m * k).gather(-1, self._places(y).clamp_min(0))
        label = label.clamp(0, k - 1)
        after = torch.cat((there[..., :1] & False, there[..., 1:] & there[..., :-1]), dim=-1)
        before = torch.cat((label[..., :1], label[..., :-1]), dim=-1)
        if self.transitions is not None:
            table = self.transitions.flatten(-2).expand(*y.shape[:-2], k * k)
            picked = picked + torch.where(after, table.gather(-1, before * k + label), 0.0)
        if self.start is not None:
            first = there & ~after
            picked = picked + torch.where(first, self.start.expand(*y.shape[:-2], k).gather(-1, label), 0.0)
        if self.end is not None:
            last = there & ~torch.cat((there[..., 1:], there[..., :1] & False), dim=-1)
            picked = picked + torch.where(last, self.end.expand(*y.shape[:-2], k).gather(-1, label), 0.0)
        return torch.where(self._covers(y), torch.where(there, picked, 0.0).sum(-1), NEG_INF)

    def parts(self, y: Int[Tensor, "*batch t 3"]) -> Float[Tensor, "*batch t m k"]:
        y = validate_structures(y, self.batch_shape, {"t": None, "triple": 3})
        t, m, k = self.segments.shape[-3:]
        places = self._places(y)
        flat = self.segments.new_zeros(*y.shape[:-2], t * m * k + 1)
        flat = flat.scatter(-1, torch.where(places < 0, t * m * k, places), 1.0)
        return flat[..., :-1].unflatten(-1, (t, m, k))

    def marginals(self) -> Float[Tensor, "*batch t m k"]:
        """``[..., i, l, y]`` is the probability of a segment of ``l + 1`` positions from ``i`` with label ``y``."""
        if not can_use_kernels(*self.score_tensors()):
            return self.gradients([0])[1][0]
        if can_skip_kernels(3 * self._microseconds):
            with use_backend("reference"):
                return self.gradients([0])[1][0]
        from catena.kernels.semimarkov.ops import marginals

        return marginals(*self._rows()).reshape(self.segments.shape)

    def log_partition(self) -> Float[Tensor, "*batch"]:
        if not can_use_kernels(*self.score_tensors()):
            return self.plain_log_partition()
        from catena.kernels.semimarkov.ops import log_partition

        return log_partition(*self._rows()).reshape(self.batch_shape)

    def _argmax(self) -> Int[Tensor, "*batch t 3"]:
        if not can_use_kernels(*self.score_tensors()) or can_skip_kernels(self._microseconds):
            return super()._argmax()
        from catena.kernels.semimarkov.ops import best

        return best(*self._rows()).reshape(*self.segments.shape[:-2], 3)

    def _topk(self, k: int) -> TopK:
        if not can_use_kernels(*self.score_tensors()):
            return super()._topk(k)
        from catena.kernels.semimarkov.ops import top

        segments, found = top(*self._rows(), k)
        structures = segments.transpose(0, 1).reshape(k, *self.segments.shape[:-2], 3)
        return self._best_first(structures, found)

    def _sample(self, n: int, generator: torch.Generator | None) -> Int[Tensor, "n *batch t 3"]:
        if not can_use_kernels(*self.score_tensors()):
            return super()._sample(n, generator)
        from catena.kernels.semimarkov.ops import sample

        rows = self._rows()
        uniforms = uniform_numbers(n, *rows[0].shape[:2], 2, generator=generator)
        return sample(*rows, uniforms).reshape(n, *self.segments.shape[:-2], 3)

    @property
    def _microseconds(self) -> int:
        """The approximate time of the reference program."""
        return 300 * self.segments.shape[-3] + self.segments.numel() // 50

    # --- reference program --------------------------------------------------------------------------------------------

    def read_parts(self) -> tuple[Tensor | None, ...]:
        t, m = self.segments.shape[-3:-1]
        places = torch.arange(max(t, m), device=self.segments.device)
        ends = places[:t, None] + places[:m] + 1
        return (ends <= self._lengths()[..., None, None])[..., None], None, None, None

    def _total(
        self, semiring: Semiring, *values: StructuredDistribution | Shaped[Tensor, "..."]
    ) -> Shaped[Tensor, "..."]:
        segments, transitions, start, end = self.lifted(semiring, values)
        assert segments is not None
        t, m = segments.shape[-3:-1]
        lengths = self._lengths()
        entry = [semiring.one(semiring.shape(segments[..., 0, 0, :]), segments) if start is None else start]
        result = semiring.one(self.batch_shape, segments[..., 0, 0, 0])
        for j in range(1, t + 1):
            ways = [semiring.mul(entry[i], segments[..., i, j - i - 1, :]) for i in range(max(0, j - m), j)]
            here = semiring.sum(torch.stack(ways, dim=-2), dim=-2)
            done = semiring.sum(here if end is None else semiring.mul(here, end), dim=-1)
            result = torch.where(lengths == j, done, result)
            paths = here[..., :, None]
            paths = paths if transitions is None else semiring.mul(paths, transitions)
            entry.append(semiring.sum(paths, dim=-2).expand(here.shape))
        return result

    def read_structure(self, gradients: Sequence[Tensor | None]) -> Int[Tensor, "*batch t 3"]:
        there = gradients[0]
        assert there is not None
        t, k = there.shape[-3], there.shape[-1]
        best, which = there.flatten(-2).max(dim=-1)
        begin = torch.arange(t, device=there.device).expand(best.shape)
        triples = torch.stack((begin, begin + which // k + 1, which % k), dim=-1)
        triples = torch.where((best > 0.5)[..., None], triples, -1)
        order = (best <= 0.5).to(torch.int8).argsort(dim=-1, stable=True)
        return triples.gather(-2, order[..., None].expand(triples.shape))

    # --- helpers ------------------------------------------------------------------------------------------------------

    def _rows(self) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """Segments, transitions, start, end and lengths for the kernels, with one batch axis."""
        k, batch = self.segments.shape[-1], self.batch_shape
        zeros = self.segments.new_zeros
        table = zeros(k, k) if self.transitions is None else self.transitions
        start = zeros(k) if self.start is None else self.start
        end = zeros(k) if self.end is None else self.end
        if table.dim() == 2 and start.dim() == 1 and end.dim() == 1:
            shared = table[None], start[None], end[None]
        else:
            table = table.expand(*batch, k, k).reshape(-1, k, k)
            shared = table, start.expand(*batch, k).reshape(-1, k), end.expand(*batch, k).reshape(-1, k)
        return self.segments.reshape(-1, *self.segments.shape[-3:]), *shared, self._lengths().reshape(-1)

    def _lengths(self) -> Int[Tensor, "*batch"]:
        t = self.segments.shape[-3]
        if self.lengths is None:
            return torch.full(self.batch_shape, t, device=self.segments.device)
        return self.lengths.expand(self.batch_shape)

    def _places(self, y: Tensor) -> Tensor:
        """The index of each row (begin, end, label) in the flattened scores; -1 if it is out of range."""
        t, m, k = self.segments.shape[-3:]
        begin, size, label = y[..., 0], y[..., 1] - y[..., 0], y[..., 2]
        fits = (begin >= 0) & (begin < t) & (size >= 1) & (size <= m) & (label >= 0) & (label < k)
        return torch.where(fits, (begin * m + size - 1) * k + label, -1)

    def _covers(self, y: Tensor) -> Tensor:
        """Whether the rows are valid segments that follow one another from 0 to the length."""
        there, lengths = y[..., 0] >= 0, self._lengths()
        ends = torch.where(there, y[..., 1], 0)
        previous = torch.cat((torch.zeros_like(ends[..., :1]), ends[..., :-1]), dim=-1)
        in_line = torch.where(there, (self._places(y) >= 0) & (y[..., 0] == previous), True).all(-1)
        packed = (there[..., 1:] <= there[..., :-1]).all(-1)
        return in_line & packed & (ends.amax(-1) == lengths)

    def _check_shapes(self) -> None:
        if self.segments.dim() < 3 or 0 in self.segments.shape[-3:]:
            raise ShapeError(
                "segments must have shape [*batch, t, m, k] with sizes of at least 1, got "
                f"{list(self.segments.shape)}. Pass at least one position, one length and one label."
            )
        *batch, _, _, k = self.segments.shape
        for name, own in {"transitions": (k, k), "start": (k,), "end": (k,), "lengths": ()}.items():
            given: Tensor | None = getattr(self, name)
            if given is not None and not broadcasts_to_batch(given.shape, (*batch, *own), len(own)):
                raise ShapeError(
                    f"{name} must have shape {[*batch, *own]}, where batch axes may be 1 or missing, got "
                    f"{list(given.shape)}. Fit it to segments of shape {list(self.segments.shape)}."
                )
