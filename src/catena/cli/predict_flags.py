"""Options of the commands that predict: n-best lists, samples, probabilities, attention, search."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from catena.cli.flags import arg, check_minimum
from catena.cli.usage import UsageError

if TYPE_CHECKING:
    from catena.tasks.application import PredictOptions


@dataclass(frozen=True, kw_only=True)
class PredictOptionFlags:
    """Options of a prediction. Each task states which of them it supports."""

    n_best: Annotated[int, arg("N")] = 1
    """Number of predictions for each text, best first."""
    samples: Annotated[int, arg("N")] = 0
    """Sample N predictions from the model's distribution instead of returning the best."""
    confidence: bool = False
    """Show the probability of every part of a prediction: each tag, span or arc."""
    scores: bool = False
    """Show the log-probability of every prediction."""
    alignment: bool = False
    """Show which part of a prediction is aligned to which part of the text."""
    constraint: Annotated[Path | None, arg("FILE")] = None
    """File that fixes or forbids parts of the predictions for each text."""
    beam_size: Annotated[int | None, arg("N", shown="(default: as trained)")] = None
    """Beam size of the search. 1 is greedy search."""
    length_penalty: Annotated[float | None, arg("X", shown="(default: as trained)")] = None
    """Exponent of the length by which scores are divided. 0: no normalization, prefers short output; 1: roughly per
    token."""
    max_length: Annotated[int | None, arg("N", shown="(default: as trained)")] = None
    """Maximum number of tokens of a prediction, for models that generate. Longer output is truncated with a warning."""

    def options(self, seed: int) -> PredictOptions:
        from catena.tasks.application import PredictOptions

        check_minimum("--n-best", self.n_best, 1)
        check_minimum("--samples", self.samples, 0)
        check_minimum("--beam-size", self.beam_size, 1)
        check_minimum("--length-penalty", self.length_penalty, 0)
        check_minimum("--max-length", self.max_length, 1)
        if self.n_best > 1 and self.samples:
            raise UsageError("--n-best and --samples cannot be combined. Remove one of them.")
        for flag, value in (("--beam-size", self.beam_size), ("--length-penalty", self.length_penalty)):
            if value is not None and self.samples:
                raise UsageError(f"{flag} and --samples cannot be combined. Remove one of them.")
        return PredictOptions(
            self.n_best,
            self.samples,
            self.confidence,
            self.scores,
            self.alignment,
            self.constraint,
            seed,
            self.beam_size,
            self.length_penalty,
            self.max_length,
        )
