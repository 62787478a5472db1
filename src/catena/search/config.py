"""Settings of searches: typed values, checked before any model is loaded. Imports no torch.

``SearchConfig`` is any of them, told apart by ``kind``, so that every task that writes sequences has the same flags.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from catena.config import Config

_Fraction = Annotated[float, Field(gt=0, le=1)]


class BaseSearchConfig(Config):
    """What every search has: how long its hypotheses are, and what they must not repeat."""

    max_length: int = Field(200, ge=0)
    """The most steps: so many tokens are written, the end among them."""
    min_length: int = Field(0, ge=0)
    """The end is not chosen before so many tokens are written."""
    no_repeat: int = Field(0, ge=0)
    """No so many tokens in a row are written twice; 0 allows all repeats."""

    @model_validator(mode="after")
    def _lengths_fit(self) -> BaseSearchConfig:
        if 0 < self.min_length >= self.max_length:
            raise ValueError(
                f"max_length = {self.max_length} must hold min_length = {self.min_length} tokens and the end: make it "
                f"at least {self.min_length + 1}"
            )
        return self

    def limits(self) -> dict[str, int]:
        """What every search has, as another search takes it."""
        return {name: getattr(self, name) for name in BaseSearchConfig.model_fields}


class GreedyConfig(BaseSearchConfig):
    """The likeliest token at every step."""

    kind: Literal["greedy"] = "greedy"
    """Greedy search."""


class FilterConfig(BaseSearchConfig):
    """Filters of what is drawn from, applied in this order."""

    temperature: float = Field(1.0, gt=0)
    """Below 1 sharper, above 1 flatter."""
    top_k: int | None = Field(None, gt=0)
    """Draw from so many of the likeliest tokens; 'none' draws from all."""
    top_p: _Fraction | None = None
    """Draw from the fewest likeliest tokens that hold this mass (also called top-p); 'none' draws from all."""
    typical: _Fraction | None = None
    """Draw from the tokens nearest to the expected surprise that hold this mass; 'none' draws from all."""
    min_p: _Fraction | None = None
    """Draw from the tokens at least this many times as likely as the likeliest; 'none' draws from all."""


class SampleConfig(FilterConfig):
    """Tokens drawn one after another."""

    kind: Literal["sample"] = "sample"
    """Sampling."""
    n: int = Field(1, gt=0)
    """How many texts are drawn for each prompt."""


class StochasticBeamConfig(FilterConfig):
    """Different texts, drawn without replacement."""

    kind: Literal["stochastic"] = "stochastic"
    """Stochastic beam search."""
    n: int = Field(5, gt=0)
    """How many texts are drawn for each prompt."""


class RankingConfig(BaseSearchConfig):
    """What beams have: how hypotheses are ranked, and when the search stops."""

    width: int = Field(5, gt=0)
    """How many beginnings are kept."""
    n_best: int = Field(1, gt=0)
    """How many texts are given for each prompt."""
    normalize: Literal["nothing", "average", "gnmt"] = "nothing"
    """What the log-probability of a text is divided by: nothing (short texts win), its length, or GNMT's formula."""
    alpha: float = Field(0.6, ge=0)
    """The power of GNMT's formula, ((5 + length) / 6)^alpha."""
    coverage: float = Field(0.0, ge=0)
    """The weight of how much of the source was looked at, for models that look at one; 0 does not ask."""
    stop: Literal["sure", "length", "count"] = "sure"
    """When to stop: when no unfinished text can win any more, at the maximum length, or when enough are finished."""
    stop_count: int | None = Field(None, gt=0)
    """With stop = 'count', how many are enough; 'none' is as many as the beam is wide."""

    @model_validator(mode="after")
    def _ranking_fits(self) -> RankingConfig:
        if self.n_best > self.width:
            raise ValueError(f"n_best = {self.n_best} needs a beam as wide: make width = {self.width} at least that")
        if self.stop_count is not None and self.stop != "count":
            raise ValueError(f"stop_count = {self.stop_count} is for stop = 'count', but stop is {self.stop!r}")
        return self


class BeamConfig(RankingConfig):
    """The best of many beginnings, all continued at once."""

    kind: Literal["beam"] = "beam"
    """Beam search."""


class DiverseBeamConfig(RankingConfig):
    """Beams in groups that keep from repeating each other."""

    kind: Literal["diverse"] = "diverse"
    """Diverse beam search."""
    groups: int = Field(5, gt=0)
    """How many groups share the beam."""
    strength: float = Field(0.5, ge=0)
    """What a token costs that an earlier group has chosen, in nats."""
    stop: Literal["sure", "length", "count"] = "length"
    """When to stop; groups may find the same text, so the maximum length is the safe choice."""

    @model_validator(mode="after")
    def _groups_fit(self) -> DiverseBeamConfig:
        if self.width % self.groups:
            raise ValueError(f"width = {self.width} must be a multiple of groups = {self.groups}")
        return self


SearchConfig = Annotated[
    GreedyConfig | SampleConfig | BeamConfig | DiverseBeamConfig | StochasticBeamConfig, Field(discriminator="kind")
]
"""How a sequence is chosen."""
