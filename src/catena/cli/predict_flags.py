"""Flags of the verbs that ask a trained model for more than its one best answer."""

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
    """What is asked for; each task says which of these it answers."""

    n_best: Annotated[int, arg("N")] = 1
    """So many answers for each text, the best first."""
    samples: Annotated[int, arg("N")] = 0
    """So many answers drawn from the model's distribution instead of the best."""
    confidence: bool = False
    """Give the probability of every part of an answer: each tag, span or arc."""
    scores: bool = False
    """Give the log-probability of every answer."""
    alignment: bool = False
    """Show which part of an answer comes from which part of the text."""
    constraint: Annotated[Path | None, arg("FILE")] = None
    """A file that fixes or forbids parts of the answers, text by text."""
    beam_size: Annotated[int | None, arg("N", shown="(default: as trained)")] = None
    """So many beginnings of an answer are kept while it is searched; 1 takes the likeliest word at every step."""
    length_penalty: Annotated[float | None, arg("X", shown="(default: as trained)")] = None
    """The power of the length that scores are divided by: 0 prefers short answers, 1 nearly divides by the length."""
    max_length: Annotated[int | None, arg("N", shown="(default: as trained)")] = None
    """The most tokens of an answer, for models that write; what is longer is cut, and that is said."""

    def asking(self, seed: int) -> PredictOptions:
        from catena.tasks.application import PredictOptions

        check_minimum("--n-best", self.n_best, 1)
        check_minimum("--samples", self.samples, 0)
        check_minimum("--beam-size", self.beam_size, 1)
        check_minimum("--length-penalty", self.length_penalty, 0)
        check_minimum("--max-length", self.max_length, 1)
        if self.n_best > 1 and self.samples:
            raise UsageError("--n-best asks for the best answers and --samples for drawn ones: leave one of them out")
        for flag, value in (("--beam-size", self.beam_size), ("--length-penalty", self.length_penalty)):
            if value is not None and self.samples:
                raise UsageError(
                    f"{flag} says how the best answers are found and --samples draws: leave one of them out"
                )
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
