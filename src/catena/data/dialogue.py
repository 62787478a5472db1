"""Conversations as pairs of a context and its possible responses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from catena.data.examples import SourceLocation


@dataclass(frozen=True, slots=True)
class Exchange:
    """A context and its responses.

    Args:
        context: the previous turns, oldest first.
        responses: alternative responses; empty if only wrong ones are known.
        location: the source location.
        own: for each turn of the context, whether the responder said it.
        wrong: unsuitable responses: those labeled as wrong, or the distractors of a test file.
        hard: unsuitable responses that have words in common with the context (adversarial).
        has_distractors: whether ``wrong`` are the distractors of a test file, among which the response is ranked.
    """

    context: tuple[str, ...]
    responses: tuple[str, ...]
    location: SourceLocation
    own: tuple[bool, ...] = ()
    wrong: tuple[str, ...] = ()
    hard: tuple[str, ...] = ()
    has_distractors: bool = False

    def __post_init__(self) -> None:
        if not self.own:
            object.__setattr__(self, "own", alternating(len(self.context)))


def alternating(n: int) -> tuple[bool, ...]:
    """For ``n`` turns of two alternating speakers before a response, whether the responder said each."""
    return tuple((n - i) % 2 == 0 for i in range(n))


def to_exchanges(turns: Sequence[str], speakers: Sequence[str], location: SourceLocation) -> list[Exchange]:
    """Every turn of a dialogue except the first, as the response to the turns before it.

    ``speakers`` gives the speaker of each turn. If it is empty, two speakers are assumed to alternate.
    """
    found = []
    for i in range(1, len(turns)):
        own = tuple(speaker == speakers[i] for speaker in speakers[:i]) if speakers else ()
        found.append(Exchange(tuple(turns[:i]), (turns[i],), location, own))
    return found


def inner_exchanges(exchange: Exchange) -> list[Exchange]:
    """The turns of a context except the first, each as the response to the turns before it."""
    speakers = ["own" if own else "other" for own in exchange.own]
    return to_exchanges(exchange.context, speakers, exchange.location)
