"""Searches from their configs.

Wrap the stepper first, then read the prompt, then search::

    stepper = wrap_stepper(config, model)
    state = stepper.extend(stepper.start(len(prompts)), ids, lengths)
    hypotheses = search(config, stepper, state, generator)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import zip_longest
from typing import Any

import torch

from catena.errors import ConfigError
from catena.search.beam_search import beam
from catena.search.config import (
    BaseSearchConfig,
    BeamConfig,
    DiverseBeamConfig,
    FilterConfig,
    GreedyConfig,
    RankingConfig,
    SampleConfig,
    StochasticBeamConfig,
)
from catena.search.diverse import diverse_beam
from catena.search.filters import Filter, min_p, temperature, top_k, top_p, typical
from catena.search.greedy_search import SCORE_TOP_ID, argmax_ids, greedy
from catena.search.hypothesis import Hypotheses
from catena.search.ranking import (
    LengthPenalty,
    Stop,
    average_length_penalty,
    gnmt_length_penalty,
    no_length_penalty,
    stop_after,
    stop_at_max_length,
    stop_when_optimal,
)
from catena.search.repeats import NoRepeatNgram
from catena.search.sampling import Generators, sample
from catena.search.sampling import stream as stream_sample
from catena.search.single_path import single_path, stream_ids
from catena.search.stepper import Stepper
from catena.search.stochastic import stochastic_beam


def wrap_stepper(settings: BaseSearchConfig, stepper: Stepper[Any]) -> Stepper[Any]:
    """The stepper with the constraints of the config."""
    return NoRepeatNgram(stepper, settings.no_repeat) if settings.no_repeat else stepper


def build_filters(settings: FilterConfig) -> list[Filter]:
    """The filters of the config, in the order of its fields."""
    filters: list[Filter] = []
    if settings.temperature != 1.0:
        filters.append(partial(temperature, t=settings.temperature))
    if settings.top_k is not None:
        filters.append(partial(top_k, k=settings.top_k))
    shares: list[tuple[Callable[..., Any], float | None]] = [
        (top_p, settings.top_p),
        (typical, settings.typical),
        (min_p, settings.min_p),
    ]
    return filters + [partial(each, p=share) for each, share in shares if share is not None]


def search(settings: BaseSearchConfig, stepper: Stepper[Any], state: Any, generators: Generators) -> Hypotheses:
    """The hypotheses for each prefix of ``state``. Searches without randomness do not use the generators."""
    return _SEARCHES[type(settings)](settings, stepper, state, generators)


def stream(
    settings: BaseSearchConfig, stepper: Stepper[Any], state: Any, generators: Generators
) -> Iterator[list[int | None]]:
    """Yields the ids of each row at each step, None for finished rows; beams yield their best hypothesis at the end."""
    if isinstance(settings, SampleConfig):
        more = build_filters(settings), settings.min_length
        return stream_sample(stepper, state, generators, settings.max_length, *more)
    if isinstance(settings, GreedyConfig):
        return stream_ids(
            single_path(stepper, state, argmax_ids, settings.max_length, settings.min_length, look=SCORE_TOP_ID)
        )
    best = [row[0].ids if row else () for row in search(settings, stepper, state, generators)]
    return (list(ids) for ids in zip_longest(*best))


def _greedy(settings: GreedyConfig, stepper: Stepper[Any], state: Any, _: Generators) -> Hypotheses:
    return greedy(stepper, state, settings.max_length, settings.min_length)


def _sample(settings: SampleConfig, stepper: Stepper[Any], state: Any, generators: Generators) -> Hypotheses:
    filters = build_filters(settings)
    return sample(stepper, state, generators, settings.max_length, filters, settings.min_length, settings.n)


def _stochastic(
    settings: StochasticBeamConfig, stepper: Stepper[Any], state: Any, generators: Generators
) -> Hypotheses:
    if not isinstance(generators, torch.Generator):
        raise ConfigError(
            f"generators must be one torch.Generator for a stochastic beam, got a list of {len(generators)}. Pass one."
        )
    more = build_filters(settings), settings.min_length
    drawn = stochastic_beam(stepper, state, generators, settings.n, settings.max_length, *more)
    return [row.hypotheses for row in drawn]


def _beam(settings: BeamConfig, stepper: Stepper[Any], state: Any, _: Generators) -> Hypotheses:
    return beam(stepper, state, settings.beam_size, settings.max_length, settings.min_length, *_ranking(settings))


def _diverse(settings: DiverseBeamConfig, stepper: Stepper[Any], state: Any, _: Generators) -> Hypotheses:
    sizes = settings.beam_size, settings.groups, settings.max_length, settings.strength, settings.min_length
    return diverse_beam(stepper, state, *sizes, *_ranking(settings))


def _ranking(settings: RankingConfig) -> tuple[int, LengthPenalty, float, Stop]:
    normalize = {
        "nothing": no_length_penalty,
        "average": average_length_penalty,
        "gnmt": gnmt_length_penalty(settings.length_penalty),
    }[settings.normalize]
    enough = settings.beam_size if settings.stop_count is None else settings.stop_count
    stop = {"sure": stop_when_optimal, "length": stop_at_max_length, "count": stop_after(enough)}[settings.stop]
    return settings.n_best, normalize, settings.coverage, stop


_SEARCHES: dict[type[BaseSearchConfig], Callable[..., Hypotheses]] = {
    GreedyConfig: _greedy,
    SampleConfig: _sample,
    BeamConfig: _beam,
    DiverseBeamConfig: _diverse,
    StochasticBeamConfig: _stochastic,
}
