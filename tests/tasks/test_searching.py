"""What is asked for is put over the search of a config, whose limits stay."""

from __future__ import annotations

import pytest

from catena.decoding.settings import BeamSettings, DiverseSettings, GreedySettings, SampleSettings, SearchLimits
from catena.tasks.searching import best_search, drawn_search

LIMITS = {"max_length": 30, "min_length": 2, "no_repeat": 3}


@pytest.mark.parametrize("own", [GreedySettings, SampleSettings, BeamSettings, DiverseSettings])
def test_limits_stay(own: type[SearchLimits]) -> None:
    how = own.model_validate(LIMITS)
    assert how.limits() == LIMITS
    for found in (best_search(how, 3), best_search(how, 7, 6), drawn_search(how, 4)):
        assert found.limits() == LIMITS
        assert found == type(found).model_validate(found.model_dump()), "a search that fits together"


def test_beams_are_as_wide_as_they_must_be() -> None:
    assert best_search(GreedySettings(), 2).width == 5
    assert best_search(GreedySettings(), 9).width == 9
    assert best_search(BeamSettings(width=3), 2).width == 3
    assert best_search(BeamSettings(width=3), 2, width=1).width == 2
    assert best_search(DiverseSettings(width=6, groups=3), 7).width == 9


def test_what_is_drawn_is_drawn_as_the_config_says() -> None:
    cool = SampleSettings(temperature=0.5)
    assert drawn_search(cool, 4) == cool.model_copy(update={"n": 4})
    assert drawn_search(BeamSettings(), 4) == SampleSettings(n=4)
