"""The search of a config with what is asked for put over it: more answers, a wider beam, drawn answers.

Whatever is asked for, the limits of the config's own search stay: how long answers are, and what they must not repeat.
"""

from __future__ import annotations

from typing import TypeVar

from catena.errors import DataError
from catena.search.config import BaseSearchConfig, BeamConfig, DiverseBeamConfig, RankingConfig, SampleConfig

S = TypeVar("S", bound=BaseSearchConfig)

_WIDTH = 5
"""Beginnings that are kept where a config that has no beam is asked for several answers."""


def best_search(how: BaseSearchConfig, n: int, width: int | None = None) -> RankingConfig:
    """A beam for the ``n`` best answers, as wide as that needs, or wider."""
    ranking = how if isinstance(how, RankingConfig) else BeamConfig.model_validate({**how.limits(), "width": _WIDTH})
    wide = max(n, ranking.width if width is None else width)
    if isinstance(ranking, DiverseBeamConfig):  # its groups are of one size
        wide += -wide % ranking.groups
    return ranking.model_copy(update={"n_best": n, "width": wide})


def drawn_search(how: BaseSearchConfig, n: int) -> SampleConfig:
    """A search that draws ``n`` answers."""
    drawn = how if isinstance(how, SampleConfig) else SampleConfig.model_validate(how.limits())
    return drawn.model_copy(update={"n": n})


def with_max_length(how: S, max_length: int) -> S:
    """The same search with another length at most."""
    if 0 < how.min_length >= max_length:
        raise DataError(
            f"--max-length {max_length} must hold the {how.min_length} tokens of search.min_length and the end: make "
            f"it at least {how.min_length + 1}"
        )
    return how.model_copy(update={"max_length": max_length})


def truncation_warning(what: str, asked: int | None, own: str) -> str:
    """The remark on answers that a search cut: at the length that was asked for, or at the config's own.

    Args:
        what: one answer, such as "translation".
        own: words for the config's own.
    """
    where = own if asked is None else f"--max-length {asked}"
    return (
        f"{{n}} {what}{{s}} {{was}} cut at {where}, before the end: a larger --max-length leaves more room, and a "
        f"model that hardly ever ends needs more training"
    )
