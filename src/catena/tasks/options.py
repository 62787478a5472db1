"""Options of prediction of several tasks. Imports no torch."""

from __future__ import annotations

import math
from typing import Literal, Self

from pydantic import Field, model_validator

from catena.config import Config
from catena.randomness import Randomness

_FOR_THE_BEST = ("n_best", "beam_size", "length_penalty")
"""Options that do not apply to samples."""


class PredictOptions(Config):
    """Base of the options of ``predict``. Each task adds its own; a field becomes a keyword and an option."""

    def continued(self, n: int) -> Self:
        """The options for the examples after the first ``n`` of a stream: sampling gets another seed."""
        seed = getattr(self, "seed", None)
        return self if n == 0 or seed is None else self.model_copy(update={"seed": Randomness(seed).number("after", n)})


class SampledOptions(PredictOptions):
    """Base of the options of tasks that return the n best or several sampled outputs."""

    n_best: int = Field(1, ge=1)
    """Return the N best outputs, best first."""
    samples: int = Field(0, ge=0)
    """Sample N outputs instead of returning the best ones."""
    seed: int = Field(0, ge=0)
    """The random seed for sampling."""

    @property
    def several(self) -> bool:
        """Whether more than one output is returned."""
        return self.n_best > 1 or self.samples > 0


class RankedOptions(SampledOptions):
    """Options of tasks with a distribution over the structures of an input: tag sequences, trees."""

    n_best: int = Field(1, ge=1)
    """Return the N most probable outputs, best first."""
    confidence: bool = False
    """Add the probability of each part of the output: a tag, a span, an arc, a bracket."""
    scores: bool = False
    """Add the log-probability of the output."""

    @property
    def missing_score(self) -> float | None:
        """The log-probability of an input that has no output: nan if log-probabilities are returned."""
        return math.nan if self.scores or self.several else None

    @model_validator(mode="after")
    def _samples_or_best(self) -> Self:
        if self.n_best > 1 and self.samples:
            raise ValueError("n_best and samples cannot be combined. Remove one of them.")
        return self


class GenerationOptions(SampledOptions):
    """Options of tasks that search for a text."""

    max_length: int | None = Field(None, ge=1)
    """Maximum number of tokens of an output, including the end symbol. Default: as in the config."""
    scores: bool = False
    """Add the log-probability of the output."""

    @model_validator(mode="after")
    def _samples_or_best(self) -> Self:
        for name in _FOR_THE_BEST:
            field = type(self).model_fields.get(name)
            if self.samples and field is not None and getattr(self, name) != field.default:
                raise ValueError(
                    f"samples = {self.samples} cannot be combined with {name}, which is for the best outputs. Remove "
                    f"one of them."
                )
        return self


class BeamOptions(GenerationOptions):
    """Options of tasks that search for a text by beam search."""

    beam_size: int | None = Field(None, ge=1)
    """Beam size of the search. 1 is greedy search. Default: as in the config."""
    length_penalty: float | None = Field(None, ge=0)
    """Scores are divided by ((5 + length) / 6)^length_penalty: 0 prefers short outputs. Default: as in the config."""


class AttentionOptions(PredictOptions):
    """Options of pictures of attention weights."""

    layer: int | None = Field(None, ge=1)
    """In a picture: show only this layer, counted from 1."""
    head: int | None = Field(None, ge=1)
    """In a picture: show only this head, counted from 1."""
    word: str | None = None
    """In a picture: show the attention of this word in every layer and head."""
    within: Literal["source", "target"] | None = None
    """In a picture: show self-attention of the source or the target instead of attention to the source."""
