r"""Stochastic beam search: sequences sampled without replacement, by a beam over perturbed log-probabilities.

.. math::  G_y = \log p(y) + \mathrm{Gumbel}_y

The sequences with the k largest G are k samples without replacement.
The maximum of the G of all continuations of a prefix is a Gumbel shifted by the prefix's log-probability, so a beam
samples it first and its parts after it, given their maximum. With κ, the largest G that was left out, a sequence is
included with probability :math:`q_\kappa(y) = 1 - \exp(-\exp(\log p(y) - \kappa))`, which makes estimates unbiased.
If a minimum length or a constraint forbids some ids, the others are sampled with renormalized probabilities: then
:math:`q_\kappa` refers to the sampling distribution, while a sequence counts with its probability p under the model.

Kool, van Hoof & Welling (2019), algorithm 1 and eq. 22.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from catena.errors import ConfigError
from catena.numerics import NEG_INF, log1mexp
from catena.search.filters import Filter, apply, log_normalize
from catena.search.hypothesis import Hypothesis
from catena.search.next_scores import mask_id
from catena.search.prefix_tree import PrefixTree, flat_rows
from catena.search.prompts import Prompt, start_state
from catena.search.single_path import check_lengths
from catena.search.stepper import Stepper, check_log_probs, check_no_nan


@dataclass(frozen=True)
class WeightedSamples:
    """Sequences sampled without replacement, the largest perturbed log-probability first.

    A hypothesis' ``score`` is its perturbed log-probability.
    """

    hypotheses: list[Hypothesis]
    log_drawn: list[float]
    """The log-probability with which each is sampled first: its ``log_prob`` if no id is forbidden."""
    threshold: float
    """κ: the largest perturbed log-probability that was left out; -inf if nothing was left out."""

    def inclusion(self) -> list[float]:
        """The probability with which each was included, given the threshold."""
        return [-math.expm1(-_exp(log_drawn - self.threshold)) for log_drawn in self.log_drawn]

    def mean(self, value: Callable[[Hypothesis], float], normalize: bool = True) -> float:
        """An estimate of E[value] under the model, restricted to allowed sequences.

        Args:
            value: the function of a hypothesis.
            normalize: divide by the sum of the weights, which adds some bias and reduces variance. Without it, the
                result is an unbiased estimate of Σ p(y) value(y).
        """
        weights = [math.exp(h.log_prob) / q for h, q in zip(self.hypotheses, self.inclusion(), strict=True)]
        total = math.fsum(w * value(h) for w, h in zip(weights, self.hypotheses, strict=True))
        return total / math.fsum(weights) if normalize else total


def _exp(x: float) -> float:
    return math.exp(x) if x < 700 else math.inf


@torch.no_grad()
def stochastic_beam(
    stepper: Stepper[Any],
    state: Any = None,
    generator: torch.Generator | int = 0,
    n: int = 4,
    max_length: int = 100,
    filters: Sequence[Filter] = (),
    min_length: int = 0,
    *,
    prompt: Prompt | None = None,
) -> list[WeightedSamples]:
    """``n`` distinct samples for each prefix of ``state``, fewer if there are fewer sequences.

    Filters change the model that is sampled, so ``log_prob`` is the log-probability under the filtered model.

    Args:
        stepper: the model.
        state: a state of ``stepper``, one row for each prefix; that of ``prompt`` if None.
        generator: the source of randomness, or a seed.
        n: the number of samples for each row.
        max_length: the maximum number of steps, including the end.
        filters: applied in their order; see ``filters``.
        min_length: the minimum number of ids before the end.
        prompt: ids that the model reads first, of one prefix or of several; nothing if None.
    """
    state = start_state(stepper, state, prompt)
    generator = torch.Generator().manual_seed(generator) if isinstance(generator, int) else generator
    check_lengths(min_length, max_length)
    if n < 1:
        raise ConfigError(f"n must be at least 1, got {n}. Use the number of sequences to sample.")
    log_probs = check_log_probs(stepper.log_probs(state), stepper.v)
    b, v = log_probs.shape
    total = torch.zeros(b, 1, dtype=torch.float64, device=log_probs.device)
    # Sampled, not 0: given its maximum the order of the samples is the same, but the estimates would be biased.
    perturbed, finished = _gumbel(total, generator), torch.zeros_like(total, dtype=torch.bool)
    drawn = total
    tree = PrefixTree()
    for t in range(max_length):
        k = total.shape[1]
        log_probs = mask_id(log_probs, stepper.end) if t < min_length else log_probs
        log_probs = apply(filters, log_probs).double().view(b, k, v)
        log_probs = log_probs.where(~finished[:, :, None], _certain(stepper, log_probs))
        check_no_nan(log_probs.sum(dim=2).where(total > NEG_INF, 0.0), t, torch.arange(b, device=total.device))
        child = drawn[:, :, None] + log_normalize(log_probs.flatten(0, 1)).view(b, k, v)
        noisy = _given_maximum(child + _gumbel(child, generator), perturbed)
        # One slot more than n: its final value is the threshold.
        perturbed, places = noisy.flatten(1).topk(min(n + 1, k * v), dim=1)
        parents, ids = places // v, places % v
        drawn = child.flatten(1).gather(1, places)
        total = (total[:, :, None] + log_probs).flatten(1).gather(1, places)
        tree.grow(parents, ids)
        finished = ids == stepper.end
        if t + 1 == max_length or bool((finished | (total == NEG_INF)).all()):
            break
        state = stepper.advance(stepper.select(state, flat_rows(parents, k)), ids.flatten())
        log_probs = stepper.log_probs(state)
    return _read(tree, (total, drawn, perturbed, finished), stepper.end, n)


def _certain(stepper: Stepper[Any], log_probs: Float[Tensor, "b k v"]) -> Float[Tensor, " v"]:
    """Log-probabilities of a finished row: the end with probability 1."""
    certain = log_probs.new_full((stepper.v,), NEG_INF)
    certain[stepper.end] = 0.0
    return certain


def _gumbel(like: Float[Tensor, "..."], generator: torch.Generator) -> Float[Tensor, "..."]:
    uniform = torch.rand(like.shape, generator=generator, dtype=like.dtype, device=generator.device)
    return -(-uniform.clamp(min=1e-300).log()).log().to(like.device)


def _given_maximum(noisy: Float[Tensor, "b k v"], maximum: Float[Tensor, "b k"]) -> Float[Tensor, "b k v"]:
    """Gumbels, shifted so that the largest of each slot is its ``maximum``. Kool et al. (2019), appendix B.3."""
    largest = noisy.amax(dim=2, keepdim=True)
    possible = noisy > NEG_INF
    safe = torch.where(possible, noisy, largest)
    shift = maximum[:, :, None] - safe + log1mexp((safe - largest).where(possible, -1.0))
    moved = maximum[:, :, None] - shift.clamp(min=0.0) - torch.log1p((-shift.abs()).exp())
    return moved.where(possible, NEG_INF)


def _read(tree: PrefixTree, slots: Sequence[Shaped[Tensor, "b k"]], end: int, n: int) -> list[WeightedSamples]:
    prefixes, length = tree.read(), len(tree)
    columns = [x.tolist() for x in slots]
    found = []
    for row in range(len(slots[0])):
        hypotheses, log_drawn = [], []
        for slot, (log_prob, drawn, score, done) in enumerate(zip(*(column[row] for column in columns), strict=True)):
            ids = prefixes.of(row, length, slot)
            if log_prob > NEG_INF:
                ids = ids[: ids.index(end)] if done else ids
                hypotheses.append(Hypothesis(ids, log_prob, score, done))
                log_drawn.append(drawn)
        left_out = hypotheses[n].score if len(hypotheses) > n else NEG_INF
        found.append(WeightedSamples(hypotheses[:n], log_drawn[:n], left_out))
    return found
