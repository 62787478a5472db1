"""Searches from their settings.

A stepper is prepared first, then reads the prompt, then is searched::

    stepper = prepared(settings, model)
    state = stepper.extend(stepper.start(len(prompts)), ids, lengths)
    found = search(settings, stepper, state, generator)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import zip_longest
from typing import Any

import torch

from catena.decoding.beam import beam
from catena.decoding.diverse import diverse_beam
from catena.decoding.filters import Filter, min_p, nucleus, temperature, top_k, typical
from catena.decoding.greedy import THE_LIKELIEST, greedy, likeliest
from catena.decoding.hypothesis import Found
from catena.decoding.ranking import Normaliser, Stop, after, at_max_length, by_average, by_gnmt, by_nothing, when_sure
from catena.decoding.repeats import NoRepeat
from catena.decoding.sample import Generators, sample
from catena.decoding.sample import stream as stream_sample
from catena.decoding.settings import (
    BeamSettings,
    DiverseSettings,
    FilterSettings,
    GreedySettings,
    RankingSettings,
    SampleSettings,
    SearchLimits,
    StochasticSettings,
)
from catena.decoding.stepper import Stepper
from catena.decoding.stochastic import stochastic_beam
from catena.decoding.walk import streamed, walk
from catena.errors import ConfigError


def prepared(settings: SearchLimits, stepper: Stepper[Any]) -> Stepper[Any]:
    """The stepper that is searched: what the settings forbid is impossible."""
    return NoRepeat(stepper, settings.no_repeat) if settings.no_repeat else stepper


def build_filters(settings: FilterSettings) -> list[Filter]:
    """The filters that the settings ask for, in the order of their fields."""
    filters: list[Filter] = []
    if settings.temperature != 1.0:
        filters.append(partial(temperature, t=settings.temperature))
    if settings.top_k is not None:
        filters.append(partial(top_k, k=settings.top_k))
    shares: list[tuple[Callable[..., Any], float | None]] = [
        (nucleus, settings.nucleus),
        (typical, settings.typical),
        (min_p, settings.min_p),
    ]
    return filters + [partial(each, p=share) for each, share in shares if share is not None]


def search(settings: SearchLimits, stepper: Stepper[Any], state: Any, generators: Generators) -> Found:
    """The hypotheses for each prefix of ``state``. Searches that draw nothing leave the generators alone."""
    return _SEARCHES[type(settings)](settings, stepper, state, generators)


def stream(
    settings: SearchLimits, stepper: Stepper[Any], state: Any, generators: Generators
) -> Iterator[list[int | None]]:
    """The ids of each row as they are chosen, None where a row has stopped; of other searches the best, at the end."""
    if isinstance(settings, SampleSettings):
        more = build_filters(settings), settings.min_length
        return stream_sample(stepper, state, generators, settings.max_length, *more)
    if isinstance(settings, GreedySettings):
        return streamed(walk(stepper, state, likeliest, settings.max_length, settings.min_length, look=THE_LIKELIEST))
    best = [row[0].ids if row else () for row in search(settings, stepper, state, generators)]
    return (list(ids) for ids in zip_longest(*best))


def _greedy(settings: GreedySettings, stepper: Stepper[Any], state: Any, _: Generators) -> Found:
    return greedy(stepper, state, settings.max_length, settings.min_length)


def _sample(settings: SampleSettings, stepper: Stepper[Any], state: Any, generators: Generators) -> Found:
    filters = build_filters(settings)
    return sample(stepper, state, generators, settings.max_length, filters, settings.min_length, settings.n)


def _stochastic(settings: StochasticSettings, stepper: Stepper[Any], state: Any, generators: Generators) -> Found:
    if not isinstance(generators, torch.Generator):
        raise ConfigError(f"a stochastic beam draws from one generator for all rows, but {len(generators)} are given")
    more = build_filters(settings), settings.min_length
    drawn = stochastic_beam(stepper, state, generators, settings.n, settings.max_length, *more)
    return [row.hypotheses for row in drawn]


def _beam(settings: BeamSettings, stepper: Stepper[Any], state: Any, _: Generators) -> Found:
    return beam(stepper, state, settings.width, settings.max_length, settings.min_length, *_ranking(settings))


def _diverse(settings: DiverseSettings, stepper: Stepper[Any], state: Any, _: Generators) -> Found:
    sizes = settings.width, settings.groups, settings.max_length, settings.strength, settings.min_length
    return diverse_beam(stepper, state, *sizes, *_ranking(settings))


def _ranking(settings: RankingSettings) -> tuple[int, Normaliser, float, Stop]:
    normalise = {"nothing": by_nothing, "average": by_average, "gnmt": by_gnmt(settings.alpha)}[settings.normalise]
    enough = settings.width if settings.stop_count is None else settings.stop_count
    stop = {"sure": when_sure, "length": at_max_length, "count": after(enough)}[settings.stop]
    return settings.n_best, normalise, settings.coverage, stop


_SEARCHES: dict[type[SearchLimits], Callable[..., Found]] = {
    GreedySettings: _greedy,
    SampleSettings: _sample,
    BeamSettings: _beam,
    DiverseSettings: _diverse,
    StochasticSettings: _stochastic,
}
