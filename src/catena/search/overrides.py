"""The search of a config with the user's options applied: more outputs, a larger beam, samples.

The config's own limits stay: the length of outputs and what they must not repeat.
"""

from __future__ import annotations

from typing import TypeVar

from catena.errors import DataError
from catena.search.config import BaseSearchConfig, BeamConfig, DiverseBeamConfig, RankingConfig, SampleConfig

S = TypeVar("S", bound=BaseSearchConfig)

_WIDTH = 5
"""Beam size for several outputs if the config has no beam."""


def best_search(how: BaseSearchConfig, n: int, width: int | None = None) -> RankingConfig:
    """Beam search for the ``n`` best outputs, with a beam of at least ``width``."""
    ranking = (
        how if isinstance(how, RankingConfig) else BeamConfig.model_validate({**how.limits(), "beam_size": _WIDTH})
    )
    wide = max(n, ranking.beam_size if width is None else width)
    if isinstance(ranking, DiverseBeamConfig):  # its groups have the same size
        wide += -wide % ranking.groups
    return ranking.model_copy(update={"n_best": n, "beam_size": wide})


def drawn_search(how: BaseSearchConfig, n: int) -> SampleConfig:
    """A search that samples ``n`` outputs."""
    drawn = how if isinstance(how, SampleConfig) else SampleConfig.model_validate(how.limits())
    return drawn.model_copy(update={"n": n})


def with_max_length(how: S, max_length: int) -> S:
    """The same search with another maximum length."""
    if 0 < how.min_length >= max_length:
        raise DataError(
            f"--max-length must be at least {how.min_length + 1} for the {how.min_length} tokens of search.min_length "
            f"and the end token, got {max_length}. Use {how.min_length + 1} or more."
        )
    return how.model_copy(update={"max_length": max_length})


def truncation_warning(what: str, asked: int | None, own: str) -> str:
    """The warning about outputs truncated at ``--max-length`` or at the config's own limit.

    Args:
        what: the name of one output, such as "translation".
        own: a description of the config's own limit.
    """
    where = own if asked is None else f"--max-length {asked}"
    return (
        f"{{n}} {what}{{s}} {{was}} cut at {where}, before the end. Raise --max-length; if a model rarely ends, train "
        f"it longer"
    )
