"""What a conversation is to a model: what was said so far, and what may be said next. Knows nothing of files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from catena.data.examples import SourceLocation


@dataclass(frozen=True, slots=True)
class Exchange:
    """A context and its responses.

    Args:
        context: the turns so far, the oldest first.
        responses: what fits as the next turn, each by itself; none where only wrong ones are known.
        place: where it was read.
        own: for each turn of the context, whether it was said by the one who responds.
        wrong: responses that do not fit: those labeled so, or the distractors of a test file.
        hard: responses that do not fit though they share words with the context (adversarial ones).
    """

    context: tuple[str, ...]
    responses: tuple[str, ...]
    place: SourceLocation
    own: tuple[bool, ...] = ()
    wrong: tuple[str, ...] = ()
    hard: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.own:
            object.__setattr__(self, "own", alternating(len(self.context)))


def alternating(n: int) -> tuple[bool, ...]:
    """Who said each of ``n`` turns before a response, when two people speak in turn: True for the one who responds."""
    return tuple((n - i) % 2 == 0 for i in range(n))


def to_exchanges(turns: Sequence[str], speakers: Sequence[str], place: SourceLocation) -> list[Exchange]:
    """Every turn of a dialogue but the first, as the response to those before it.

    ``speakers`` are who said each turn; where they are not known, it is empty and two people speak in turn.
    """
    found = []
    for i in range(1, len(turns)):
        own = tuple(speaker == speakers[i] for speaker in speakers[:i]) if speakers else ()
        found.append(Exchange(tuple(turns[:i]), (turns[i],), place, own))
    return found


def inner_exchanges(exchange: Exchange) -> list[Exchange]:
    """The turns of a context, each but the first as the response to those before it."""
    speakers = ["own" if own else "other" for own in exchange.own]
    return to_exchanges(exchange.context, speakers, exchange.place)
