r"""Connectionist temporal classification (CTC): labelings of frames that collapse to a target sequence.

.. math::  p(y) \propto \exp \sum_{i=1}^{t} e_i(y_i) \quad \text{for all } y \text{ with } \mathrm{collapse}(y) = x

Collapsing a labeling merges adjacent equal labels and then removes blanks. Two equal adjacent labels of the target
must therefore have a blank between them. If the emissions are log-probabilities of labels at each frame, log Z is the
log-likelihood of the target.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import InitVar, dataclass, replace
from typing import Any, ClassVar, cast

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from catena.errors import DataError, ShapeError
from catena.kernels.common.ops import needs_grad
from catena.numerics import NEG_INF
from catena.shapes import can_read_values, mask_from_lengths
from catena.structure.backend import can_use_kernels
from catena.structure.base import SemiringDistribution, StructuredDistribution, TopK
from catena.structure.checks import broadcasts_to_batch, check_floating, check_tensors, set_lengths, validate_structures
from catena.structure.constraints import OnInfeasible, check_feasible, mask_scores
from catena.structure.semirings import LogSemiring, Semiring
from catena.structure.tensors import outside_inference_mode, uniform_numbers


@dataclass(frozen=True, eq=False)
class FrameConstraint:
    """Constraint on the labels of the frames of a :class:`CTC` distribution.

    Args:
        labels: ``labels[..., i, q]`` is True if frame ``i`` may have label ``q``.
    """

    labels: Bool[Tensor, "*batch t v"]

    @classmethod
    def partial(cls, labels: Int[Tensor, "*batch t"], v: int) -> FrameConstraint:
        """Constraint from a partial labeling.

        Args:
            labels: the known label of each frame; -1 where any label is allowed.
            v: number of labels.
        """
        return cls((labels[..., None] == torch.arange(v, device=labels.device)) | (labels[..., None] < 0))

    def __and__(self, other: FrameConstraint) -> FrameConstraint:
        """The constraint that allows what both allow."""
        return FrameConstraint(self.labels & other.labels)


@dataclass(frozen=True, eq=False, repr=False)
class CTC(SemiringDistribution):
    """Distribution over labelings of ``t`` frames with ``v`` labels that collapse to a given target.

    Structures are ``labels``: Int ``[*batch, t]``, including blanks, -1 at padded frames. Parts and marginals are
    ``[*batch, t, v]``. For the target position of each frame see :meth:`positions` and :meth:`position_marginals`.

    Args:
        emissions: ``emissions[..., i, q]`` is the score of label ``q`` at frame ``i``.
        targets: the labels of each target, without blanks. Labels after the end of a target are not read.
        lengths: number of frames in each sequence; all ``t`` if omitted.
        target_lengths: number of labels in each target; all if omitted.
        blank: the id of the blank label.
        constraint: the allowed labels of each frame. The distribution is conditioned on it.
        on_infeasible: what to do if the constraint allows no labeling. ``"error"`` raises
            :class:`~catena.errors.ImpossibleError`; ``"-inf"`` sets log Z to -inf.

    A target that needs more frames than there are has no structure: log Z is -inf, and its gradient is 0.

    Time O(t s + t v), memory O(t s + t v). Graves et al. (2006), section 4.1.
    """

    emissions: Float[Tensor, "*batch t v"]
    targets: Int[Tensor, "*#batch s"]
    lengths: Int[Tensor, "*#batch"] | None = None
    target_lengths: Int[Tensor, "*#batch"] | None = None
    blank: int = 0
    constraint: InitVar[FrameConstraint | None] = None
    on_infeasible: InitVar[OnInfeasible] = "error"

    ranks: ClassVar[tuple[int, ...]] = (2,)

    def __post_init__(self, constraint: FrameConstraint | None, on_infeasible: OnInfeasible) -> None:
        check_tensors(self, "emissions", "targets", "lengths", "target_lengths")
        check_floating(self.score_tensors())
        self._check_shapes()
        most = {"lengths": self.emissions.shape[-2], "target_lengths": self.targets.shape[-1]}
        set_lengths(self, most, {"emissions": 2})
        self._check_targets()
        if constraint is not None:
            object.__setattr__(self, "emissions", mask_scores("labels", self.emissions, constraint.labels))
            check_feasible(self, on_infeasible)

    # --- interface ------------------------------------------------------------------------------------------

    @property
    def batch_shape(self) -> torch.Size:
        return self.emissions.shape[:-2]

    def score_tensors(self) -> tuple[Tensor | None, ...]:
        return (self.emissions,)

    def with_score_tensors(self, tensors: Sequence[Tensor | None]) -> CTC:
        (emissions,) = tensors
        assert emissions is not None
        return CTC(emissions, self.targets, self.lengths, self.target_lengths, self.blank)

    def extent(self) -> tuple[Shaped[Tensor, "..."], ...]:
        lengths, blank = self._target_lengths(), torch.tensor(self.blank)
        targets = torch.where(mask_from_lengths(lengths, self.targets.shape[-1]), self._targets(), self.blank)
        missing = self.emissions.shape[-2] - targets.shape[-1]  # targets may be padded to any width
        return self._lengths(), lengths, blank, torch.nn.functional.pad(targets, (0, missing), value=self.blank)

    def from_parts(self, value: Tensor) -> CTC:
        if value.dim() < 2 or value.shape[-2:] != self.emissions.shape[-2:]:
            raise ShapeError(
                f"value must end in the axes [t, v] = {list(self.emissions.shape[-2:])}, got {list(value.shape)}. Pass "
                "one value for each frame and label."
            )
        return self.with_score_tensors([value.to(self.emissions.dtype)])

    def given(self, constraint: FrameConstraint, on_infeasible: OnInfeasible = "error") -> CTC:
        """This distribution conditioned on ``constraint``.

        Args:
            constraint: the allowed labels of each frame.
            on_infeasible: what to do if no labeling is allowed, as in the constructor.
        """
        return replace(self, constraint=constraint, on_infeasible=on_infeasible)

    def score(self, y: Int[Tensor, "*batch t"]) -> Float[Tensor, "*batch"]:
        y = validate_structures(y, self.batch_shape, {"t": self.emissions.shape[-2]})
        real = self.real().expand(y.shape)
        labeled = (y >= 0) & (y < self.emissions.shape[-1])
        labels = torch.where(real & labeled, y, 0)
        picked = self.emissions.expand(*y.shape, -1).gather(-1, labels[..., None])[..., 0]
        begins, place = self._begun(y)
        targets = self._targets().expand(*y.shape[:-1], -1)
        if targets.shape[-1] == 0:
            right = ~begins
        else:
            wanted = targets.gather(-1, place.clamp(0, targets.shape[-1] - 1))
            right = ~begins | ((place < self._target_lengths()[..., None]) & (wanted == y))
        whole = (right & (labeled | ~real)).all(-1) & (begins.sum(-1) == self._target_lengths())
        return torch.where(whole, torch.where(real, picked, 0.0).sum(-1), NEG_INF)

    def parts(self, y: Int[Tensor, "*batch t"]) -> Float[Tensor, "*batch t v"]:
        y = validate_structures(y, self.batch_shape, {"t": self.emissions.shape[-2]})
        labels = torch.arange(self.emissions.shape[-1], device=y.device)
        return ((y[..., None] == labels) & self.real()[..., None]).to(self.emissions.dtype)

    def positions(self, y: Int[Tensor, "*batch t"]) -> Int[Tensor, "*batch t"]:
        """The target position of each frame of a labeling; -1 for a blank."""
        y = validate_structures(y, self.batch_shape, {"t": self.emissions.shape[-2]})
        place = self._begun(y)[1]
        return torch.where(self.real() & (y >= 0) & (y != self.blank), place, -1)

    def log_partition(self) -> Float[Tensor, "*batch"]:
        if not can_use_kernels(self.emissions):
            return self.plain_log_partition()
        from catena.kernels.ctc.ops import log_partition

        return log_partition(*self._rows(), self.blank).reshape(self.batch_shape)

    def marginals(self) -> Float[Tensor, "*batch t v"]:
        """``[..., i, q]`` is the probability of label ``q`` at frame ``i``."""
        if not can_use_kernels(self.emissions):
            return self.gradients([0])[1][0]
        from catena.kernels.ctc.ops import marginals

        return marginals(*self._rows(), self.blank).reshape(self.emissions.shape)

    @outside_inference_mode
    def position_marginals(self) -> Float[Tensor, "*batch t s"]:
        """``[..., i, j]`` is the probability that frame ``i`` belongs to position ``j`` of the target.

        The probability of a blank is 1 minus the sum over ``j``.
        """
        if can_use_kernels(self.emissions) and not needs_grad(self.emissions):
            from catena.kernels.ctc.ops import state_posteriors

            found = state_posteriors(*self._rows(), self.blank)
            return found.reshape(*self.batch_shape, *found.shape[1:])[..., :-1]
        states = self._picked(self.emissions)
        log_z, pull = cast(Any, torch.func.vjp(lambda x: self._walked(LogSemiring(), x), states))
        return pull(torch.ones_like(log_z))[0][..., 1::2]

    def _argmax(self) -> Int[Tensor, "*batch t"]:
        if not can_use_kernels(self.emissions):
            return super()._argmax()
        from catena.kernels.ctc.ops import best

        return best(*self._rows(), self.blank).reshape(self.emissions.shape[:-1])

    def _topk(self, k: int) -> TopK:
        if not can_use_kernels(self.emissions):
            return super()._topk(k)
        from catena.kernels.ctc.ops import top

        labels, found = top(*self._rows(), self.blank, k)
        structures = labels.transpose(0, 1).reshape(k, *self.emissions.shape[:-1])
        return self._best_first(structures, found)

    def _sample(self, n: int, generator: torch.Generator | None) -> Int[Tensor, "n *batch t"]:
        if not can_use_kernels(self.emissions):
            return super()._sample(n, generator)
        from catena.kernels.ctc.ops import sample

        rows, t = self._rows(), self.emissions.shape[-2]
        uniforms = uniform_numbers(n, len(rows[0]), t + 1, generator=generator)
        return sample(*rows, self.blank, uniforms).reshape(n, *self.emissions.shape[:-1])

    # --- reference program ----------------------------------------------------------------------------------

    def read_parts(self) -> tuple[Tensor | None, ...]:
        return (self.real()[..., None],)

    def _total(
        self, semiring: Semiring, *values: StructuredDistribution | Shaped[Tensor, "..."]
    ) -> Shaped[Tensor, "..."]:
        (emissions,) = self.lifted(semiring, values)
        assert emissions is not None
        return self._walked(semiring, self._picked(emissions))

    def _walked(self, semiring: Semiring, states: Shaped[Tensor, "... t m"]) -> Shaped[Tensor, "..."]:
        """The total over paths through the states: a blank, the first label, a blank, the second label, and so on."""
        t, m = states.shape[-2:]
        lengths, ends = self._lengths(), 2 * self._target_lengths()
        place = torch.arange(m, device=states.device)
        never = semiring.zero((*self.batch_shape, m), states)
        alpha = torch.where(place == 0, semiring.one((*self.batch_shape, m), states), never)
        labels = self._states()
        before = torch.nn.functional.pad(labels, (2, 0), value=self.blank)[..., :m]
        may_skip = (labels != self.blank) & (labels != before)
        for i in range(t):
            stepped = torch.cat((never[..., :1], alpha), dim=-1)[..., :m]
            skipped = torch.cat((never[..., :1], never[..., :1], alpha), dim=-1)[..., :m]
            ways = torch.stack((alpha, stepped, torch.where(may_skip, skipped, never)), dim=-1)
            moved = semiring.mul(semiring.sum(ways, dim=-1), states[..., i, :])
            alpha = torch.where((i < lengths)[..., None], moved, alpha)
        at = torch.stack((ends, (ends - 1).clamp_min(0)), dim=-1).expand(*alpha.shape[:-1], 2)
        last = torch.where(
            ends[..., None] == torch.tensor([-1, 0], device=at.device), never[..., :1], alpha.gather(-1, at)
        )
        return semiring.sum(last, dim=-1)

    def read_structure(self, gradients: Sequence[Tensor | None]) -> Int[Tensor, "*batch t"]:
        (here,) = gradients
        assert here is not None
        best, labels = here.max(dim=-1)
        return torch.where(best > 0.5, labels, -1)

    # --- helpers --------------------------------------------------------------------------------------------

    def real(self) -> Bool[Tensor, "*batch t"]:
        """True at real frames."""
        return mask_from_lengths(self._lengths(), self.emissions.shape[-2])

    def _states(self) -> Int[Tensor, "*batch m"]:
        """The labels of the states: the target with blanks around and between its labels."""
        targets = self._targets()
        blanks = torch.full_like(targets, self.blank)
        return torch.cat(
            (torch.stack((blanks, targets), dim=-1).flatten(-2), blanks.new_full((*blanks.shape[:-1], 1), self.blank)),
            dim=-1,
        )

    def _picked(self, emissions: Shaped[Tensor, "... t v"]) -> Shaped[Tensor, "... t m"]:
        """The emissions of the labels of the states."""
        states = self._states()[..., None, :]
        return emissions.gather(-1, states.expand(*emissions.shape[:-1], states.shape[-1]))

    def _begun(self, y: Tensor) -> tuple[Tensor, Tensor]:
        """Whether a target label begins at each frame, and the index of the last that has begun (-1 if none)."""
        before = torch.nn.functional.pad(y, (1, 0), value=-1)[..., :-1]
        begins = (y != before) & (y != self.blank) & (y >= 0) & self.real()
        return begins, begins.cumsum(-1) - 1

    def _rows(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Emissions, targets and both lengths with one batch axis."""
        targets, emissions = self._targets(), self.emissions.reshape(-1, *self.emissions.shape[-2:])
        return (
            emissions,
            targets.reshape(len(emissions), targets.shape[-1]),
            self._lengths().reshape(-1),
            self._target_lengths().reshape(-1),
        )

    def _targets(self) -> Int[Tensor, "*batch s"]:
        ids = self.targets.to(torch.int64).clamp(0, self.emissions.shape[-1] - 1)
        return ids.expand(*self.batch_shape, ids.shape[-1])

    def _lengths(self) -> Int[Tensor, "*batch"]:
        return self._or_all(self.lengths, self.emissions.shape[-2])

    def _target_lengths(self) -> Int[Tensor, "*batch"]:
        return self._or_all(self.target_lengths, self.targets.shape[-1])

    def _or_all(self, lengths: Tensor | None, most: int) -> Tensor:
        if lengths is None:
            return torch.full(self.batch_shape, most, device=self.emissions.device)
        return lengths.expand(self.batch_shape)

    def _check_targets(self) -> None:
        v, targets = self.emissions.shape[-1], self.targets
        wrong = (targets < 0) | (targets >= v) | (targets == self.blank)
        if self.target_lengths is not None:
            wrong = wrong & mask_from_lengths(self.target_lengths, targets.shape[-1])
        if not can_read_values(targets):
            fits = ~wrong.any(-1)[..., None, None]  # a clamped label would give the result of another target
            object.__setattr__(self, "emissions", torch.where(fits, self.emissions, torch.nan))
        elif bool(wrong.any()):
            one = int(targets.expand(wrong.shape)[wrong][0])
            raise DataError(
                f"targets must be labels from 0 to {v - 1} other than the blank {self.blank}, got {one}. Pass "
                "target_lengths if it is padding."
            )

    def _check_shapes(self) -> None:
        if self.emissions.dim() < 2 or self.emissions.shape[-1] == 0:
            raise ShapeError(
                f"emissions must have shape [*batch, t, v] with v >= 1, got {list(self.emissions.shape)}. Pass one "
                "score for each frame and label."
            )
        if not 0 <= self.blank < self.emissions.shape[-1]:
            raise ShapeError(
                f"blank must be a label from 0 to {self.emissions.shape[-1] - 1}, got {self.blank}. Use the "
                "index of the blank in the emissions."
            )
        batch = self.batch_shape
        for name, own in (("targets", 1), ("lengths", 0), ("target_lengths", 0)):
            given: Tensor | None = getattr(self, name)
            if given is None:
                continue
            if not broadcasts_to_batch(given.shape, (*batch, *given.shape[given.dim() - own :]), own):
                raise ShapeError(
                    f"{name} must have shape {list(batch)}{' and one axis of labels' * own}, got {list(given.shape)}. "
                    "Check its batch axes."
                )


def collapse(labels: Int[Tensor, "*batch t"], blank: int = 0) -> tuple[Int[Tensor, "*batch t"], Int[Tensor, "*batch"]]:
    """The label sequences of frame labelings: adjacent equal labels are merged, blanks and -1 removed.

    Args:
        labels: the label of each frame.
        blank: the id of the blank label.

    Returns:
        The labels, padded with -1, and their number.

    >>> collapse(torch.tensor([0, 3, 3, 0, 3, 1, 1]))
    (tensor([ 3,  3,  1, -1, -1, -1, -1]), tensor(3))
    """
    before = torch.nn.functional.pad(labels, (1, 0), value=-1)[..., :-1]
    kept = (labels != before) & (labels != blank) & (labels >= 0)
    order = (~kept).to(torch.int8).argsort(dim=-1, stable=True)
    return torch.where(kept, labels, -1).gather(-1, order), kept.sum(-1)
