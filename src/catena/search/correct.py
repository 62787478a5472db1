"""Correction of text: the true sequence behind an observed one, by Markov chains over the posterior."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from catena.search.channel import EditChannel
from catena.search.mcmc import AnnealingSchedule, Samples, metropolis_hastings
from catena.search.mcmc_moves import EditMoves, ModelProposal
from catena.search.mcmc_target import NoisyChannelPosterior, TokenIds
from catena.search.stepper import Stepper


@dataclass(frozen=True)
class Correction:
    """The most frequent sequence of the chains, and its probability."""

    ids: TokenIds
    probability: float
    """The fraction of the samples equal to this sequence, an estimate of its posterior probability."""
    log_weights: tuple[float, float]
    """log p(text) + log p(observed | text) of the observed text itself, and of the correction."""
    samples: Samples
    """The chains, with acceptance rates and the effective sample size."""

    def alternatives(self) -> dict[TokenIds, float]:
        """Every sampled sequence with its relative frequency, the most frequent first."""
        return self.samples.frequencies()


def correct(
    stepper: Stepper[Any],
    channel: EditChannel,
    observed: Sequence[int],
    schedule: AnnealingSchedule,
    generator: np.random.Generator,
    sharpness: float = 1.0,
    longer: int = 2,
) -> Correction:
    """The intended text, given an observed text, a language model and a channel of errors.

    Chains start from the observed text. Their moves are the errors of the channel, with its confusions, and samples of
    the language model.

    Args:
        stepper: the language model.
        channel: the model of errors.
        observed: the ids of the observed text.
        schedule: the number of chains and their steps.
        generator: the source of randomness.
        sharpness: the exponent of the language model; above 1 gives it more weight than the channel.
        longer: the maximum number of symbols that the true text has more than the observed one.
    """
    observed = tuple(observed)
    target = NoisyChannelPosterior(stepper, channel, observed, sharpness)
    moves = EditMoves(
        channel.symbols,
        len(observed) + longer,
        confusions=channel.confusions,
        favorites=observed,
        near=0.4,
        guide=ModelProposal(stepper, channel.symbols),
    )
    samples = metropolis_hastings(target, observed, moves, schedule, generator)
    best, share = next(iter(samples.frequencies().items()))
    before, after = target.log_weights([observed, best])
    return Correction(best, share, (before, after), samples)
