"""Predictions of a conversation model: the responses to a context."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

from catena.data.conversations import END_OF_TURN
from catena.tasks.base import RankedPrediction, first_ranked


@dataclass(frozen=True)
class ScoredResponse:
    """A response and its score. ``finished`` is None if it was retrieved, False if it was generated and truncated."""

    text: str
    score: float
    finished: bool | None = None


@dataclass(frozen=True)
class ResponsePrediction(RankedPrediction):
    """The response to a context. Prints as the response.

    Args:
        context: the turns, oldest first.
        response: the best response; None if the context is empty.
        score: the score of a retrieved response.
        log_prob: the log-probability of a generated response.
        truncated: whether a generated response reached the maximum length before its end; None if it was retrieved.
        known: whether any word of the context is in the vocabulary; if not, the response is a guess.
        n_best: the n best predictions, if several were requested.
        scores: whether scores are shown in tables.
    """

    context: tuple[str, ...]
    response: str | None = None
    score: float | None = None
    log_prob: float | None = None
    truncated: bool | None = None
    known: bool = True
    n_best: tuple[Self, ...] = ()
    scores: bool = field(default=False, repr=False)

    def respond(self, responses: Sequence[ScoredResponse], *, several: bool) -> ResponsePrediction:
        """This prediction with the first of some responses, best first, and with all of them if ``several``."""
        return first_ranked([self._with(one) for one in responses] or [self], several and bool(responses))

    def _with(self, one: ScoredResponse) -> ResponsePrediction:
        if one.finished is None:
            return replace(self, response=one.text, score=one.score)
        return replace(self, response=one.text, log_prob=one.score, truncated=not one.finished)

    def __str__(self) -> str:
        return self.response or ""

    def to_dict(self) -> dict[str, Any]:
        row = {"context": list(self.context), **self.output_fields(), "known": self.known}
        return {**row, "n_best": [one.output_fields() for one in self.n_best]} if self.n_best else row

    def output_fields(self) -> dict[str, Any]:
        if self.truncated is None:
            return {"response": self.response, "score": self.score}
        return {"response": self.response, "log_prob": self.log_prob, "truncated": self.truncated}

    def row_fields(self) -> dict[str, Any]:
        row: dict[str, Any] = {"context": f" {END_OF_TURN} ".join(self.context), "response": str(self)}
        score = {"score": self.score} if self.truncated is None else {"log_prob": self.log_prob}
        return {**row, **score} if self.scores else row
