"""The conversation model as an estimator."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from catena.data.conversations import Exchange, split_turns, to_exchanges
from catena.data.examples import SourceLocation
from catena.errors import DataError
from catena.tasks.estimator import Estimator
from catena.tasks.targets import check_same_length


class Responder(Estimator, task="converse"):
    """Conversation model: contexts in, responses out.

    model = Responder("bm25", against="both").fit(["when do you open", "where are you"] * 5, ["at nine", "here"] * 5)
    [p.response for p in model.predict(["when is it open"])]

    A context is a text, with ``__eot__`` between turns, or a list of turns, oldest first; ``y`` has the response to
    each, or a list of alternative responses. Without ``y``, ``x`` has dialogues as lists of turns, and every turn after
    the first is a response.
    """

    def _examples(self, x: Iterable[Any], y: Iterable[Any] | None) -> list[Exchange]:
        contexts = [_turns(one, i) for i, one in enumerate(x, start=1)]
        if y is None:
            return [
                exchange
                for i, turns in enumerate(contexts, start=1)
                for exchange in to_exchanges(turns, (), SourceLocation("fit", i))
            ]
        responses = [_responses(one, i) for i, one in enumerate(y, start=1)]
        check_same_length(contexts, responses, "context", "response")
        pairs = enumerate(zip(contexts, responses, strict=True), start=1)
        return [Exchange(turns, texts, SourceLocation("fit", i)) for i, (turns, texts) in pairs]


def _turns(context: Any, number: int) -> tuple[str, ...]:
    turns = split_turns(context) if isinstance(context, str) else _lines(context, number, "turns")
    if not turns:
        raise DataError(f"context {number} must have a turn, got {context!r:.60}. Remove it.")
    return turns


def _responses(response: Any, number: int) -> tuple[str, ...]:
    return _lines([response] if isinstance(response, str) else response, number, "responses")


def _lines(texts: Any, number: int, what: str) -> tuple[str, ...]:
    """Texts in one line each, without blank ones."""
    if not isinstance(texts, Iterable) or not all(isinstance(text, str) for text in texts):
        raise DataError(f"{what} of item {number} must be strings, got {texts!r:.60}. Pass strings.")
    return tuple(" ".join(text.split()) for text in texts if text.strip())
