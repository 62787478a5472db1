"""Ranking examples: contexts with a correct response among candidates, the same for every model.

Incorrect candidates (distractors) come from the file, or are correct responses to other contexts, sampled by a seed and
the index of the context.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from catena.data.exchanges import Exchange
from catena.errors import DataError
from catena.randomness import Randomness
from catena.tasks.converse.config import ConverseEvaluationConfig


@dataclass(frozen=True)
class RankingExample:
    """A context and its candidate responses; the first one is correct."""

    exchange: Exchange
    candidates: tuple[str, ...]


Groups = list[list[RankingExample]]
"""The examples of each context, one for each of its correct responses."""


def distractor_kind(part: Sequence[Exchange], settings: ConverseEvaluationConfig) -> str:
    """The kind of distractors, with ``auto`` resolved.

    ``auto`` is ``given`` for a table of distractors or a file with enough incorrect responses for each context, and
    ``random`` otherwise.
    """
    if settings.distractors != "auto":
        return settings.distractors
    enough = all(len(exchange.wrong) >= settings.candidates - 1 for exchange in part if exchange.responses)
    return "given" if enough or any(exchange.has_distractors for exchange in part) else "random"


def build_ranking_examples(
    part: Sequence[Exchange], settings: ConverseEvaluationConfig, more: Sequence[str] = ()
) -> Groups:
    """The ranking examples of a split.

    Args:
        part: the exchanges.
        settings: number and kind of distractors.
        more: further responses to sample from if the split has too few.
    """
    kind = distractor_kind(part, settings)
    answered = [exchange for exchange in part if exchange.responses]
    return _sampled(answered, settings, more) if kind == "random" else _given(answered, kind)


def _given(answered: Sequence[Exchange], kind: str) -> Groups:
    """Examples with the distractors of the file."""
    name = "wrong" if kind == "given" else "hard"
    missing = [exchange for exchange in answered if not getattr(exchange, name)]
    if missing:
        raise DataError(
            f"{missing[0].location} has no distractors for evaluation.distractors = {kind!r}. Set it to 'random' to "
            f"sample them."
        )
    return [
        [RankingExample(exchange, (response, *getattr(exchange, name))) for response in exchange.responses]
        for exchange in answered
    ]


def _sampled(answered: Sequence[Exchange], settings: ConverseEvaluationConfig, more: Sequence[str]) -> Groups:
    """Examples whose distractors are sampled correct responses to other contexts."""
    pool = list(dict.fromkeys(response for exchange in answered for response in exchange.responses))
    randomness = Randomness(settings.seed)
    groups = []
    for i, exchange in enumerate(answered):
        generator = randomness.numpy("distractors", i)
        own = set(exchange.responses)
        others = [text for text in pool if text not in own]
        if len(others) < settings.candidates - 1:
            others = list(dict.fromkeys((*others, *(text for text in more if text not in own))))
        n = min(settings.candidates - 1, len(others))
        group = []
        for response in exchange.responses:
            sampled = generator.choice(len(others), n, replace=False) if n else ()
            group.append(RankingExample(exchange, (response, *(others[int(j)] for j in sampled))))
        groups.append(group)
    if groups and not any(len(example.candidates) > 1 for group in groups for example in group):
        raise DataError("All contexts have the same responses, so there are no distractors to sample. Add contexts.")
    return groups
