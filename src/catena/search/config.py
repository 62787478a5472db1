"""Configs of searches: typed values, checked before any model is loaded. Does not import torch.

``SearchConfig`` is the union of them, selected by ``kind``, so all tasks that generate sequences have the same options.

Tested in tests/search/test_build.py and tests/search/test_overrides.py.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from catena.config import Config

_Fraction = Annotated[float, Field(gt=0, le=1)]


class BaseSearchConfig(Config):
    """Options of every search: the length of hypotheses, and repetitions."""

    max_length: int = Field(200, ge=0)
    """Maximum number of generated tokens, including the end."""
    min_length: int = Field(0, ge=0)
    """Minimum number of generated tokens before the end."""
    no_repeat: int = Field(0, ge=0)
    """Never generate an n-gram of this size twice. 0 allows all repetitions."""

    @model_validator(mode="after")
    def _lengths_fit(self) -> BaseSearchConfig:
        if 0 < self.min_length >= self.max_length:
            raise ValueError(
                f"max_length must be above min_length = {self.min_length}, got {self.max_length}. Use at least "
                f"{self.min_length + 1}."
            )
        return self

    def limits(self) -> dict[str, int]:
        """The options that every search has, as keywords for another config."""
        return {name: getattr(self, name) for name in BaseSearchConfig.model_fields}


class GreedyConfig(BaseSearchConfig):
    """The most probable token at every step."""

    kind: Literal["greedy"] = "greedy"
    """Greedy search."""


class FilterConfig(BaseSearchConfig):
    """Filters of the sampling distribution, applied in this order."""

    temperature: float = Field(1.0, gt=0)
    """Below 1 sharpens the distribution, above 1 flattens it."""
    top_k: int | None = Field(None, gt=0)
    """Sample from the k most probable tokens only; 'none' disables it."""
    top_p: _Fraction | None = None
    """Sample from the fewest most probable tokens with this total probability (nucleus); 'none' disables it."""
    typical: _Fraction | None = None
    """Sample from the tokens closest to the expected surprisal with this total probability; 'none' disables it."""
    min_p: _Fraction | None = None
    """Sample from tokens with at least this fraction of the largest probability; 'none' disables it."""


class SampleConfig(FilterConfig):
    """Ancestral sampling, token by token."""

    kind: Literal["sample"] = "sample"
    """Sampling."""
    n: int = Field(1, gt=0)
    """Number of samples for each prompt."""


class StochasticBeamConfig(FilterConfig):
    """Distinct texts, sampled without replacement."""

    kind: Literal["stochastic"] = "stochastic"
    """Stochastic beam search."""
    n: int = Field(5, gt=0)
    """Number of samples for each prompt."""


class RankingConfig(BaseSearchConfig):
    """Options of beam searches: how hypotheses are ranked, and when the search stops."""

    beam_size: int = Field(5, gt=0)
    """Beam size."""
    n_best: int = Field(1, gt=0)
    """Number of texts to return for each prompt."""
    normalize: Literal["nothing", "average", "gnmt"] = "nothing"
    """Length penalty that divides the log-probability: nothing (prefers short texts), the length, or GNMT's formula."""
    length_penalty: float = Field(0.6, ge=0)
    """Exponent of GNMT's length penalty, ((5 + length) / 6)^length_penalty."""
    coverage: float = Field(0.0, ge=0)
    """Weight of the coverage penalty, for models that attend to a source. 0 disables it."""
    stop: Literal["sure", "length", "count"] = "sure"
    """When to stop: when no unfinished text can win any more, at the maximum length, or when enough are finished."""
    stop_count: int | None = Field(None, gt=0)
    """Number of finished texts for stop = 'count'; 'none' is the beam size."""

    @model_validator(mode="after")
    def _ranking_fits(self) -> RankingConfig:
        if self.n_best > self.beam_size:
            raise ValueError(
                f"n_best must be at most beam_size = {self.beam_size}, got {self.n_best}. Raise beam_size."
            )
        if self.stop_count is not None and self.stop != "count":
            raise ValueError(f"stop must be 'count' if stop_count is set, got {self.stop!r}. Set stop = 'count'.")
        return self


class BeamConfig(RankingConfig):
    """The most probable prefixes of each length, continued in parallel."""

    kind: Literal["beam"] = "beam"
    """Beam search."""


class DiverseBeamConfig(RankingConfig):
    """Groups of beams that avoid each other's tokens."""

    kind: Literal["diverse"] = "diverse"
    """Diverse beam search."""
    groups: int = Field(5, gt=0)
    """Number of groups that divide the beam."""
    strength: float = Field(0.5, ge=0)
    """Penalty of a token that an earlier group has chosen, in nats."""
    stop: Literal["sure", "length", "count"] = "length"
    """When to stop; groups may find the same text, so the maximum length is the safe choice."""

    @model_validator(mode="after")
    def _groups_fit(self) -> DiverseBeamConfig:
        if self.beam_size % self.groups:
            raise ValueError(
                f"beam_size must be a multiple of groups = {self.groups}, got {self.beam_size}. Change beam_size."
            )
        return self


SearchConfig = Annotated[
    GreedyConfig | SampleConfig | BeamConfig | DiverseBeamConfig | StochasticBeamConfig, Field(discriminator="kind")
]
"""How a sequence is generated."""
