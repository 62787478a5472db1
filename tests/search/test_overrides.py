"""The search of a config with prediction options applied; the limits of the config stay."""

from __future__ import annotations

import pytest

from catena.search.config import BaseSearchConfig, BeamConfig, DiverseBeamConfig, GreedyConfig, SampleConfig
from catena.search.overrides import best_search, drawn_search

LIMITS = {"max_length": 30, "min_length": 2, "no_repeat": 3}


@pytest.mark.parametrize("own", [GreedyConfig, SampleConfig, BeamConfig, DiverseBeamConfig])
def test_search_options_keep_the_limits_of_the_config(own: type[BaseSearchConfig]) -> None:
    how = own.model_validate(LIMITS)
    assert how.limits() == LIMITS
    for found in (best_search(how, 3), best_search(how, 7, 6), drawn_search(how, 4)):
        assert found.limits() == LIMITS
        assert found == type(found).model_validate(found.model_dump()), "a valid search config"


def test_best_search_has_the_smallest_sufficient_beam() -> None:
    assert best_search(GreedyConfig(), 2).beam_size == 5
    assert best_search(GreedyConfig(), 9).beam_size == 9
    assert best_search(BeamConfig(beam_size=3), 2).beam_size == 3
    assert best_search(BeamConfig(beam_size=3), 2, width=1).beam_size == 2
    assert best_search(DiverseBeamConfig(beam_size=6, groups=3), 7).beam_size == 9


def test_sampling_search_keeps_the_options_of_the_config() -> None:
    cool = SampleConfig(temperature=0.5)
    assert drawn_search(cool, 4) == cool.model_copy(update={"n": 4})
    assert drawn_search(BeamConfig(), 4) == SampleConfig(n=4)
