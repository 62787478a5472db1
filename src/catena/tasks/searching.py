"""The search of a config with what is asked for put over it: more answers, a wider beam, drawn answers.

Whatever is asked for, the limits of the config's own search stay: how long answers are, and what they must not repeat.
"""

from __future__ import annotations

from catena.decoding.settings import BeamSettings, DiverseSettings, RankingSettings, SampleSettings, SearchLimits

WIDTH = 5
"""Beginnings that are kept where a config that has no beam is asked for several answers."""


def best_search(how: SearchLimits, n: int, width: int | None = None) -> RankingSettings:
    """A beam for the ``n`` best answers, as wide as that needs, or wider."""
    ranking = how if isinstance(how, RankingSettings) else BeamSettings.model_validate({**how.limits(), "width": WIDTH})
    wide = max(n, ranking.width if width is None else width)
    if isinstance(ranking, DiverseSettings):  # its groups are of one size
        wide += -wide % ranking.groups
    return ranking.model_copy(update={"n_best": n, "width": wide})


def drawn_search(how: SearchLimits, n: int) -> SampleSettings:
    """A search that draws ``n`` answers."""
    drawn = how if isinstance(how, SampleSettings) else SampleSettings.model_validate(how.limits())
    return drawn.model_copy(update={"n": n})
