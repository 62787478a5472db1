r"""Semirings, which turn one dynamic program into many algorithms.

A structured distribution sums the weights of its exponentially many structures with two operations, ⊕ (``sum``) over
alternatives and ⊗ (``mul``) over the parts of one structure. The semiring decides what the sum computes:

========================================  =====================  ====================================================
semiring                                  an element is          the total is
========================================  =====================  ====================================================
:class:`LogSemiring`                      log w                  log Z; its gradient gives the marginals
:class:`MaxSemiring`                      score                  the best score; its gradient is the best structure
:class:`RealSemiring`                     w                      Z
:class:`BooleanSemiring`                  possible or not        whether any structure is possible
:class:`TropicalSemiring`                 cost = -score          the lowest cost
:class:`CountingSemiring`                 number of structures   the number of possible structures
:class:`KBestSemiring`                    the k best scores      the k best scores; their gradients are the structures
:class:`SamplingSemiring`                 log w                  log Z; its *backward pass* samples one structure
:class:`EntropySemiring`                  log w, entropy         (log Z, entropy)
:class:`ExpectationSemiring`              log w, mean            (log Z, expectation of an additive value)
:class:`SecondOrderExpectationSemiring`   log w, 2 means, cov.   (log Z, E[r], E[s], Cov[r, s])
:class:`ProductSemiring`                  a pair                 both totals in one pass
========================================  =====================  ====================================================

**Representation.** An array of elements is one tensor. If an element is a single number (``width`` is None), the tensor
only has the axes of the program. If an element has ``width`` numbers, they are on one axis *in front of* all others. A
program that counts its axes from the right (``x[..., i, :, :]``, ``dim=-2``) therefore runs in every semiring. Zero is
exact: impossible is -inf, never a large negative number, and gradients where everything is -inf are 0, never nan.

The last five hold the log of the weight and *conditional* moments (the mean given this element) instead of the
products p·r of Li & Eisner (2009). The two are isomorphic for weights ≥ 0, and this form avoids cancellation.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Shaped
from torch import Tensor

from catena.errors import DivergentSumError
from catena.numerics import NEG_INF, log1mexp, log_sum_exp, masked_softmax
from catena.shapes import broadcast_shapes
from catena.structure.tensors import uniform_like

_Elements = Shaped[Tensor, "..."]


class Semiring(ABC):
    """Abstract semiring: two operations ⊕ and ⊗ with their neutral elements zero and one.

    ``(⊕, zero)`` is commutative, ⊗ distributes over ⊕, and zero annihilates: zero ⊗ a = zero.
    """

    width: int | None = None
    """Number of floats in an element, on an axis in front of all others; None for scalar elements without that axis."""

    n_values: int = 0
    """Number of additive values that :meth:`lift` takes in addition to the scores."""

    @abstractmethod
    def lift(self, scores: _Elements, *values: _Elements) -> _Elements:
        """The elements of parts with these scores (log-weights) and additive values."""

    @abstractmethod
    def constant(self, log_weight: float, like: _Elements) -> _Elements:
        """A single element with the dtype and device of ``like``: ``zero`` for log-weight -inf, ``one`` for 0."""

    @abstractmethod
    def mul(self, a: _Elements, b: _Elements) -> _Elements:
        """a ⊗ b, broadcast."""

    @abstractmethod
    def sum(self, x: _Elements, dim: int) -> _Elements:
        """⊕ over one axis, counted from the right (``dim`` < 0)."""

    @abstractmethod
    def star(self, x: _Elements) -> _Elements:
        """The closure one ⊕ x ⊕ x⊗x ⊕ …; raises :class:`DivergentSumError` if the sum diverges."""

    def zero(self, shape: Sequence[int], like: _Elements) -> _Elements:
        """The neutral element of ⊕ in an array of this shape (without the axis of ``width``)."""
        return self._filled(NEG_INF, shape, like)

    def one(self, shape: Sequence[int], like: _Elements) -> _Elements:
        """The neutral element of ⊗ in an array of this shape (without the axis of ``width``)."""
        return self._filled(0.0, shape, like)

    def add(self, a: _Elements, b: _Elements) -> _Elements:
        """a ⊕ b, broadcast."""
        return self.sum(torch.stack(torch.broadcast_tensors(*self._aligned(a, b)), dim=-1), dim=-1)

    def dot(self, a: _Elements, b: _Elements, dim: int) -> _Elements:
        """⊕ over ``dim`` of a ⊗ b."""
        return self.sum(self.mul(a, b), dim)

    def matmul(self, a: _Elements, b: _Elements) -> _Elements:
        """The matrix product over the last two axes."""
        return self.dot(a[..., :, :, None], b[..., None, :, :], dim=-2)

    def shape(self, x: _Elements) -> torch.Size:
        """The shape of an array of elements, without the axis of ``width``."""
        return x.shape if self.width is None else x.shape[1:]

    def _aligned(self, a: _Elements, b: _Elements) -> tuple[_Elements, _Elements]:
        """``a`` and ``b`` with axes of size 1 after the axis of ``width``, so that they broadcast from the right."""
        if self.width is None or a.dim() == b.dim():
            return a, b
        rank = max(a.dim(), b.dim())
        a = a.reshape(a.shape[0], *(1 for _ in range(rank - a.dim())), *a.shape[1:])
        return a, b.reshape(b.shape[0], *(1 for _ in range(rank - b.dim())), *b.shape[1:])

    def _filled(self, log_weight: float, shape: Sequence[int], like: _Elements) -> _Elements:
        element = self.constant(log_weight, like)
        lead = () if self.width is None else (self.width,)
        return element.reshape((*lead, *(1 for _ in shape))).expand((*lead, *shape))


# --- scalar elements ----------------------------------------------------------------------------------------


class LogSemiring(Semiring):
    """(log-sum-exp, +) on log-weights. The total is log Z."""

    def lift(self, scores: _Elements, *values: _Elements) -> _Elements:
        return scores

    def constant(self, log_weight: float, like: _Elements) -> _Elements:
        return like.new_full((), log_weight)

    def mul(self, a: _Elements, b: _Elements) -> _Elements:
        return a + b

    def sum(self, x: _Elements, dim: int) -> _Elements:
        return log_sum_exp(x, dim)

    def star(self, x: _Elements) -> _Elements:
        _check_converges(x >= 0, "log", "Make every log-weight negative")
        return -log1mexp(x)


class MaxSemiring(LogSemiring):
    """(max, +) on scores. The gradient of a maximum goes to exactly one of the largest scores, even if they tie."""

    def sum(self, x: _Elements, dim: int) -> _Elements:
        top = x.max(dim).values  # amax would spread the gradient over ties
        return torch.where(top == NEG_INF, NEG_INF, top)

    def star(self, x: _Elements) -> _Elements:
        _check_converges(x > 0, "max", "Make every score 0 or negative")
        return torch.zeros_like(x)


class RealSemiring(Semiring):
    """(+, ×) on weights. Overflows earlier than :class:`LogSemiring`; useful for checks."""

    def lift(self, scores: _Elements, *values: _Elements) -> _Elements:
        return scores.exp()

    def constant(self, log_weight: float, like: _Elements) -> _Elements:
        return like.new_full((), 0.0 if log_weight == NEG_INF else 1.0)

    def mul(self, a: _Elements, b: _Elements) -> _Elements:
        return a * b

    def sum(self, x: _Elements, dim: int) -> _Elements:
        return x.sum(dim)

    def star(self, x: _Elements) -> _Elements:
        _check_converges(x.abs() >= 1, "real", "Keep every weight between -1 and 1")
        return 1 / (1 - x)


class BooleanSemiring(Semiring):
    """(or, and) on bool elements: whether a weight is above zero."""

    def lift(self, scores: _Elements, *values: _Elements) -> _Elements:
        return scores > NEG_INF

    def constant(self, log_weight: float, like: _Elements) -> _Elements:
        return torch.full((), log_weight != NEG_INF, dtype=torch.bool, device=like.device)

    def mul(self, a: _Elements, b: _Elements) -> _Elements:
        return a & b

    def sum(self, x: _Elements, dim: int) -> _Elements:
        return x.any(dim)

    def star(self, x: _Elements) -> _Elements:
        return torch.ones_like(x)


class TropicalSemiring(Semiring):
    """(min, +) on costs, which are negated scores. Zero is +inf."""

    def lift(self, scores: _Elements, *values: _Elements) -> _Elements:
        return -scores

    def constant(self, log_weight: float, like: _Elements) -> _Elements:
        return like.new_full((), -log_weight)

    def mul(self, a: _Elements, b: _Elements) -> _Elements:
        return a + b

    def sum(self, x: _Elements, dim: int) -> _Elements:
        least = x.min(dim).values
        return torch.where(least == -NEG_INF, -NEG_INF, least)

    def star(self, x: _Elements) -> _Elements:
        _check_converges(x < 0, "tropical", "Make every cost 0 or positive")
        return torch.zeros_like(x)


class CountingSemiring(RealSemiring):
    """(+, ×) on numbers of structures, in float64: exact up to 2^53, rounded above, without integer overflow."""

    def lift(self, scores: _Elements, *values: _Elements) -> _Elements:
        return (scores > NEG_INF).double()

    def constant(self, log_weight: float, like: _Elements) -> _Elements:
        return like.new_full((), 0.0 if log_weight == NEG_INF else 1.0, dtype=torch.float64)

    def star(self, x: _Elements) -> _Elements:
        _check_converges(x > 0, "counting", "Remove the cycle")
        return torch.ones_like(x)


class SamplingSemiring(LogSemiring):
    """Log-sum-exp in the forward pass; the backward pass samples one term and gives it the whole gradient.

    A term is sampled in proportion to its weight, so the gradient of a total is the 0/1 parts of one exact sample
    (ancestral sampling). Each backward pass takes a new sample.

    Args:
        generator: source of randomness; torch's global generator if omitted.
    """

    def __init__(self, generator: torch.Generator | None = None) -> None:
        self.generator = generator

    def sum(self, x: _Elements, dim: int) -> _Elements:
        return _SampledSum.apply(x, dim, self.generator)

    def star(self, x: _Elements) -> _Elements:
        raise DivergentSumError("The sampling semiring has no closure. Sample from marginals in the log semiring.")


class _SampledSum(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, dim: int, generator: torch.Generator | None) -> Tensor:
        return log_sum_exp(x, dim)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        x, ctx.dim, ctx.generator = inputs
        ctx.save_for_backward(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        (x,) = ctx.saved_tensors
        reach = masked_softmax(x.detach(), dim=ctx.dim).cumsum(ctx.dim)
        mass = reach.select(ctx.dim, -1).unsqueeze(ctx.dim)
        threshold = uniform_like(mass, ctx.generator) * mass
        # The first index at which the running sum exceeds the threshold, which has a weight above 0.
        index = (reach <= threshold).sum(ctx.dim, keepdim=True).clamp_max(x.shape[ctx.dim] - 1)
        chosen = torch.zeros_like(x).scatter(ctx.dim, index, grad.unsqueeze(ctx.dim))
        return torch.where(mass > 0, chosen, 0.0), None, None


# --- elements of several numbers ----------------------------------------------------------------------------


class KBestSemiring(Semiring):
    """The k best scores in descending order, -inf if there are fewer.

    Args:
        k: number of scores, at least 1.

    Huang & Chiang (2005), algorithm 1.
    """

    def __init__(self, k: int) -> None:
        if k < 1:
            raise ValueError(f"k must be at least 1, got {k}. Pass the number of structures.")
        self.width: int = k

    def lift(self, scores: _Elements, *values: _Elements) -> _Elements:
        rest = scores.new_full((), NEG_INF).expand(self.width - 1, *scores.shape)
        return torch.cat((scores[None], rest))

    def constant(self, log_weight: float, like: _Elements) -> _Elements:
        return self.lift(like.new_full((), log_weight))

    def mul(self, a: _Elements, b: _Elements) -> _Elements:
        a, b = self._aligned(a, b)
        return self._best((a[:, None] + b[None, :]).flatten(0, 1))

    def sum(self, x: _Elements, dim: int) -> _Elements:
        return self._best(x.movedim(dim, 0).flatten(0, 1))

    def star(self, x: _Elements) -> _Elements:
        _check_converges(x[0] > 0, "k-best", "Make every score 0 or negative")
        # Powers never increase, so the k best are among the first k powers.
        one = self.one(self.shape(x), x)
        closure = one
        for _ in range(self.width - 1):
            closure = self.add(one, self.mul(x, closure))
        return closure

    def _best(self, x: _Elements) -> _Elements:
        top = x.topk(self.width, dim=0).values
        return torch.where(top == NEG_INF, NEG_INF, top)


class _Moments(Semiring):
    """Elements (log w, m₁, m₂, …): a log-weight and moments, which are 0 if the weight is 0."""

    def constant(self, log_weight: float, like: _Elements) -> _Elements:
        assert self.width is not None
        return torch.cat((like.new_full((1,), log_weight), like.new_zeros(self.width - 1)))

    def mul(self, a: _Elements, b: _Elements) -> _Elements:
        a, b = self._aligned(a, b)
        return _kept(a + b)


class EntropySemiring(_Moments):
    """(log w, H), where H is the entropy in nats of the choice among the summed structures.

    Hernando et al. (2005).
    """

    width = 2

    def lift(self, scores: _Elements, *values: _Elements) -> _Elements:
        return torch.stack((scores, torch.zeros_like(scores)))

    def sum(self, x: _Elements, dim: int) -> _Elements:
        log_w, entropy = x.unbind(0)
        total = log_sum_exp(log_w, dim)
        share = masked_softmax(log_w, dim=dim)
        surprise = torch.where(share > 0, total.unsqueeze(dim) - torch.where(share > 0, log_w, 0.0), 0.0)
        return torch.stack((total, (share * (entropy + surprise)).sum(dim)))

    def star(self, x: _Elements) -> _Elements:
        log_w, entropy = x.unbind(0)
        _check_converges(log_w >= 0, "entropy", "Make every log-weight negative")
        total = -log1mexp(log_w)
        repeats = (log_w + total).exp()
        surprise = torch.where(repeats > 0, -torch.where(repeats > 0, log_w, 0.0), 0.0)
        return torch.stack((total, total + repeats * (entropy + surprise)))


class ExpectationSemiring(_Moments):
    """(log w, E[r]) for an additive value r: the first-order expectation semiring of Eisner (2002)."""

    width = 2
    n_values = 1

    def lift(self, scores: _Elements, *values: _Elements) -> _Elements:
        return _kept(torch.stack(torch.broadcast_tensors(scores, *values)))

    def sum(self, x: _Elements, dim: int) -> _Elements:
        log_w, mean = x.unbind(0)
        return torch.stack((log_sum_exp(log_w, dim), (masked_softmax(log_w, dim=dim) * mean).sum(dim)))

    def star(self, x: _Elements) -> _Elements:
        log_w, mean = x.unbind(0)
        _check_converges(log_w >= 0, "expectation", "Make every log-weight negative")
        total = -log1mexp(log_w)
        return torch.stack((total, (log_w + total).exp() * mean))


class SecondOrderExpectationSemiring(_Moments):
    """(log w, E[r], E[s], Cov[r, s]) for two additive values r and s.

    The second-order expectation semiring of Li & Eisner (2009).
    """

    width = 4
    n_values = 2

    def lift(self, scores: _Elements, *values: _Elements) -> _Elements:
        scores, r, s = torch.broadcast_tensors(scores, *values)
        return _kept(torch.stack((scores, r, s, torch.zeros_like(scores))))

    def sum(self, x: _Elements, dim: int) -> _Elements:
        log_w, r, s, covariance = x.unbind(0)
        share = masked_softmax(log_w, dim=dim)
        mean_r, mean_s = (share * r).sum(dim, keepdim=True), (share * s).sum(dim, keepdim=True)
        covariance = (share * (covariance + (r - mean_r) * (s - mean_s))).sum(dim)
        return torch.stack((log_sum_exp(log_w, dim), mean_r.squeeze(dim), mean_s.squeeze(dim), covariance))

    def star(self, x: _Elements) -> _Elements:
        log_w, r, s, covariance = x.unbind(0)
        _check_converges(log_w >= 0, "second-order expectation", "Make every log-weight negative")
        # The number of repetitions is geometric: its mean is w / (1 - w), its variance w / (1 - w)².
        total = -log1mexp(log_w)
        repeats = (log_w + total).exp()
        spread = (log_w + 2 * total).exp()
        return torch.stack((total, repeats * r, repeats * s, repeats * covariance + spread * r * s))


class ProductSemiring(Semiring):
    """Two semirings in one pass, each with its own ⊕ and ⊗.

    Args:
        left: the semiring that takes the first ``left.n_values`` additive values.
        right: the semiring that takes the others.
    """

    def __init__(self, left: Semiring, right: Semiring) -> None:
        self.left, self.right = left, right
        self.n_values = left.n_values + right.n_values
        self.width: int = (left.width or 1) + (right.width or 1)

    def split(self, x: _Elements) -> tuple[_Elements, _Elements]:
        """The elements of the left and of the right semiring."""
        at = self.left.width or 1
        return _unpacked(self.left, x[:at]), _unpacked(self.right, x[at:])

    def join(self, left: _Elements, right: _Elements) -> _Elements:
        """The inverse of :meth:`split`, with both converted to one dtype."""
        a, b = self._aligned(_packed(self.left, left), _packed(self.right, right))
        shape = broadcast_shapes(a.shape[1:], b.shape[1:])
        dtype = torch.promote_types(a.dtype, b.dtype)
        return torch.cat((a.to(dtype).expand(-1, *shape), b.to(dtype).expand(-1, *shape)))

    def lift(self, scores: _Elements, *values: _Elements) -> _Elements:
        n = self.left.n_values
        return self.join(self.left.lift(scores, *values[:n]), self.right.lift(scores, *values[n:]))

    def constant(self, log_weight: float, like: _Elements) -> _Elements:
        return self.join(self.left.constant(log_weight, like), self.right.constant(log_weight, like))

    def mul(self, a: _Elements, b: _Elements) -> _Elements:
        (a_left, a_right), (b_left, b_right) = self.split(a), self.split(b)
        return self.join(self.left.mul(a_left, b_left), self.right.mul(a_right, b_right))

    def sum(self, x: _Elements, dim: int) -> _Elements:
        left, right = self.split(x)
        return self.join(self.left.sum(left, dim), self.right.sum(right, dim))

    def add(self, a: _Elements, b: _Elements) -> _Elements:
        (a_left, a_right), (b_left, b_right) = self.split(a), self.split(b)
        return self.join(self.left.add(a_left, b_left), self.right.add(a_right, b_right))

    def star(self, x: _Elements) -> _Elements:
        left, right = self.split(x)
        return self.join(self.left.star(left), self.right.star(right))


def _packed(semiring: Semiring, x: _Elements) -> _Elements:
    return x[None] if semiring.width is None else x


def _unpacked(semiring: Semiring, x: _Elements) -> _Elements:
    if isinstance(semiring, BooleanSemiring):
        x = x != 0  # bool was converted to float by join
    return x[0] if semiring.width is None else x


def _kept(x: _Elements) -> _Elements:
    """Set the moments of weight 0 to 0, so that zero has one representation, which annihilates."""
    empty = x[:1] == NEG_INF
    return torch.cat((x[:1], torch.where(empty, 0.0, x[1:])))


def _check_converges(divergent: _Elements, semiring: str, cure: str) -> None:
    """Raise DivergentSumError if any closure diverges."""
    if bool(divergent.any()):
        raise DivergentSumError(
            f"The closure in the {semiring} semiring diverges for {int(divergent.sum())} of {divergent.numel()} "
            f"elements. {cure}."
        )
