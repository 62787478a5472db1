r"""Markov chains over sequences whose stationary distribution is a given target.

Metropolis and Hastings propose x' from q(· | x) and accept with probability

.. math::  \min\Bigl(1, \frac{\pi(x')\,q(x \mid x')}{\pi(x)\,q(x' \mid x)}\Bigr)

Gibbs sampling resamples one position given all the others, and always accepts; it keeps the length.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from catena.errors import ConfigError, DataError
from catena.numerics import NEG_INF
from catena.search.mcmc_moves import EditMoves
from catena.search.mcmc_target import TargetDensity, TokenIds


@dataclass(frozen=True)
class Samples:
    """The samples of the chains after burn-in."""

    chains: list[list[TokenIds]]
    """The sequences of each chain, in order."""
    log_weights: list[list[float]]
    """Their log-weights under the target."""
    accepted: dict[str, float]
    """The acceptance rate of each kind of move; ``all`` for all together."""

    @property
    def effective(self) -> float:
        """The effective sample size, by the log-weights."""
        return effective_sample_size(np.array(self.log_weights))

    def frequencies(self) -> dict[TokenIds, float]:
        """The relative frequency of each sequence among all samples, the most frequent first."""
        counts = Counter(chain.from_iterable(self.chains))
        return {ids: n / counts.total() for ids, n in counts.most_common()}

    @property
    def best(self) -> TokenIds:
        """The sampled sequence with the largest weight."""
        return max(zip(chain.from_iterable(self.log_weights), chain.from_iterable(self.chains), strict=True))[1]


@dataclass(frozen=True)
class AnnealingSchedule:
    """The length of chains: ``burn_in`` steps are dropped, then every ``thin``-th of ``steps`` is kept."""

    steps: int
    burn_in: int = 0
    thin: int = 1
    chains: int = 1

    def __post_init__(self) -> None:
        if self.steps < 1 or self.burn_in < 0 or self.thin < 1 or self.chains < 1:
            raise ConfigError(
                f"steps, thin and chains must be at least 1 and burn_in at least 0, got {self}. Raise the wrong value."
            )

    def keeps(self, step: int) -> bool:
        return step >= self.burn_in and (step - self.burn_in) % self.thin == 0

    @property
    def total(self) -> int:
        return self.burn_in + self.steps


def metropolis_hastings(
    target: TargetDensity,
    start: Sequence[int],
    moves: EditMoves,
    schedule: AnnealingSchedule,
    generator: np.random.Generator,
) -> Samples:
    """Chains of small edits from one start, all scored together.

    Args:
        target: the unnormalized target distribution.
        start: the first sequence of every chain, with a positive probability.
        moves: proposes the edits.
        schedule: the number of chains and their steps.
        generator: the source of randomness.
    """
    states, weights = _begun(target, start, schedule)
    tried, accepted = Counter[str](), Counter[str]()
    kept: list[list[tuple[TokenIds, float]]] = [[] for _ in states]
    for step in range(schedule.total):
        proposed = [moves.propose(ids, generator) for ids in states]
        new = target.log_weights([move.ids for move in proposed])
        chances = np.log(generator.random(len(states)))
        for c, move in enumerate(proposed):
            tried[move.kind] += 1
            if chances[c] < new[c] - weights[c] + move.log_ratio:
                states[c], weights[c] = move.ids, new[c]
                accepted[move.kind] += 1
            if schedule.keeps(step):
                kept[c].append((states[c], weights[c]))
    shares = {kind: accepted[kind] / tried[kind] for kind in moves.KINDS if tried[kind]}
    return _samples(kept, {**shares, "all": accepted.total() / tried.total()})


def gibbs(
    target: TargetDensity,
    start: Sequence[int],
    candidates: Sequence[int] | Sequence[Sequence[int]],
    schedule: AnnealingSchedule,
    generator: np.random.Generator,
) -> Samples:
    """Chains that resample one random position at each step from its distribution given all others.

    Args:
        target: the unnormalized target distribution.
        start: the first sequence of every chain, with a positive probability.
        candidates: the ids allowed at every position; or a list of ids for each position, including its start.
        schedule: the number of chains and their steps.
        generator: the source of randomness.
    """
    states, weights = _begun(target, start, schedule)
    options = _options(start, candidates)
    kept: list[list[tuple[TokenIds, float]]] = [[] for _ in states]
    for step in range(schedule.total):
        for c, ids in enumerate(states):
            if ids:
                i = int(generator.integers(len(ids)))
                changed = [(*ids[:i], symbol, *ids[i + 1 :]) for symbol in options[i]]
                new = np.array(target.log_weights(changed))
                chances = np.exp(new - new.max())
                drawn = int(generator.choice(len(changed), p=chances / chances.sum()))
                states[c], weights[c] = changed[drawn], float(new[drawn])
            if schedule.keeps(step):
                kept[c].append((states[c], weights[c]))
    return _samples(kept, {"all": 1.0})


def _begun(
    target: TargetDensity, start: Sequence[int], schedule: AnnealingSchedule
) -> tuple[list[TokenIds], list[float]]:
    (weight,) = target.log_weights([tuple(start)])
    if weight == NEG_INF:
        raise DataError(f"start must be a possible sequence, got {list(start)} of probability 0. Use another start.")
    return [tuple(start)] * schedule.chains, [weight] * schedule.chains


def _options(start: Sequence[int], candidates: Sequence[int] | Sequence[Sequence[int]]) -> list[list[int]]:
    each = [list(x) if isinstance(x, Sequence) else None for x in candidates]
    given = [x for x in each if x is not None] or [list(candidates)] * len(start)  # type: ignore[arg-type]
    options = [list(dict.fromkeys(some)) for some in given]  # duplicates must not raise a probability
    if len(options) != len(start):
        raise ConfigError(
            f"candidates must have a list for each of {len(start)} positions, got {len(options)}. "
            f"Pass {len(start)} lists."
        )
    for i, (id, some) in enumerate(zip(start, options, strict=True)):
        if id not in some:
            raise ConfigError(f"candidates[{i}] must contain the start id {id}, got {some[:20]}. Add {id}.")
    return options


def _samples(kept: list[list[tuple[TokenIds, float]]], accepted: dict[str, float]) -> Samples:
    return Samples([[ids for ids, _ in one] for one in kept], [[weight for _, weight in one] for one in kept], accepted)


def effective_sample_size(traces: np.ndarray) -> float:
    """The number of independent samples that ``traces[chain, draw]`` are worth.

    n / (1 + 2 Σ ρ), the sum of autocorrelations cut off where the sum of two neighbors is not positive any more (Geyer
    1992). Chains that never moved are worth one sample each.
    """
    chains, n = traces.shape
    centered = traces - traces.mean()
    variance = float((centered**2).mean())
    if n < 2 or variance <= 1e-20 * max(1.0, float(np.abs(traces).max()) ** 2):
        return float(chains)
    size = 1 << (2 * n - 1).bit_length()
    spectrum = np.abs(np.fft.rfft(centered, size, axis=1)) ** 2
    correlation = np.fft.irfft(spectrum, size, axis=1)[:, :n].mean(axis=0) / (n * variance)
    pairs = correlation[: n - n % 2].reshape(-1, 2).sum(axis=1)
    positive = pairs[: int(np.argmax(pairs <= 0))] if (pairs <= 0).any() else pairs
    time = max(2.0 * float(positive.sum()) - 1.0, 1.0 / math.log10(chains * n + 10))
    return float(min(chains * n / time, chains * n * math.log10(chains * n + 10)))
