"""Questions about responses: which of some candidates was given to a context? The same for every model.

Wrong candidates are those of a file, or right responses to other contexts, drawn by a seed and the context's number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from catena.data.dialogue import Exchange
from catena.errors import DataError
from catena.metrics.intervals import bootstrap_score_interval
from catena.metrics.measure import Measure, signature
from catena.metrics.ranking import RECIPROCAL_RANK, Standing, recall_measure
from catena.randomness import Randomness
from catena.registry import did_you_mean
from catena.tasks.application import Report
from catena.tasks.converse.settings import EvaluationSettings


@dataclass(frozen=True)
class Question:
    """A context and its candidates, of which the first is right."""

    exchange: Exchange
    candidates: tuple[str, ...]


Groups = list[list[Question]]
"""The questions of each context, one for each of its right responses."""


def distractors_of(part: Sequence[Exchange], settings: EvaluationSettings, format: str) -> str:
    """What ``auto`` stands for: the wrong responses of a table of distractors, or of any file that names as many for
    each context as would be drawn."""
    if settings.distractors != "auto":
        return settings.distractors
    enough = all(len(exchange.wrong) >= settings.candidates - 1 for exchange in part if exchange.responses)
    return "given" if format == "distractors" or enough else "random"


def questions_of(
    part: Sequence[Exchange], settings: EvaluationSettings, format: str, more: Sequence[str] = ()
) -> Groups:
    """The questions of a part. ``more`` are responses to draw from where those of the part are too few."""
    how = distractors_of(part, settings, format)
    right = [exchange for exchange in part if exchange.responses]
    return _drawn(right, settings, more) if how == "random" else _named(right, how)


def _named(right: Sequence[Exchange], how: str) -> Groups:
    """Questions whose wrong candidates the file names."""
    name = "wrong" if how == "given" else "hard"
    missing = [exchange for exchange in right if not getattr(exchange, name)]
    if missing:
        raise DataError(f"evaluation.distractors = {how!r}, and {missing[0].place} has none: say 'random' to draw them")
    return [
        [Question(exchange, (response, *getattr(exchange, name))) for response in exchange.responses]
        for exchange in right
    ]


def _drawn(right: Sequence[Exchange], settings: EvaluationSettings, more: Sequence[str]) -> Groups:
    """Questions whose wrong candidates are right responses to other contexts."""
    pool = list(dict.fromkeys(response for exchange in right for response in exchange.responses))
    randomness = Randomness(settings.seed)
    groups = []
    for i, exchange in enumerate(right):
        generator = randomness.numpy("distractors", i)
        own = set(exchange.responses)
        others = [text for text in pool if text not in own]
        if len(others) < settings.candidates - 1:
            others = list(dict.fromkeys((*others, *(text for text in more if text not in own))))
        n = min(settings.candidates - 1, len(others))
        group = []
        for response in exchange.responses:
            drawn = generator.choice(len(others), n, replace=False) if n else ()
            group.append(Question(exchange, (response, *(others[int(j)] for j in drawn))))
        groups.append(group)
    if groups and not any(len(question.candidates) > 1 for group in groups for question in group):
        raise DataError("all contexts have the same responses, so there are no wrong ones to draw: give more of them")
    return groups


def measure_of(name: str, settings: EvaluationSettings) -> Measure:
    """A score of a ranking by its name: mrr, or recall@k with any k."""
    recall, _, k = name.partition("@")
    if recall == "recall" and k.isdecimal() and int(k):
        return recall_measure(int(k))
    if name != "mrr":
        raise DataError(f"a ranking of responses has no {name!r}: {did_you_mean(name, settings.ranking)}")
    return RECIPROCAL_RANK


def measures_of(settings: EvaluationSettings) -> dict[str, Measure]:
    """All scores of a ranking by their names."""
    return {name: measure_of(name, settings) for name in settings.ranking}


def scores_of(
    groups: Groups, standings: Sequence[Sequence[Standing]], settings: EvaluationSettings
) -> dict[str, float]:
    """What a ranking scores."""
    return {name: float(measure(groups, standings)) for name, measure in measures_of(settings).items()}


def signatures_of(groups: Groups, settings: EvaluationSettings, format: str) -> dict[str, str]:
    """What each score depends on beside the model."""
    how = distractors_of([group[0].exchange for group in groups], settings, format)
    sizes = {len(question.candidates) for group in groups for question in group}
    about: dict[str, object] = {
        "candidates": f"{min(sizes)}-{max(sizes)}" if len(sizes) > 1 else min(sizes),
        "distractors": how,
        "questions": sum(map(len, groups)),
    }
    if how == "random":
        about["seed"] = settings.seed
    return {name: signature(measure.name, len(groups), about) for name, measure in measures_of(settings).items()}


def report_of(
    groups: Groups, standings: Sequence[Sequence[Standing]], settings: EvaluationSettings, format: str
) -> Report:
    """Scores with their intervals, in lines for a person. Intervals are of contexts, drawn with all their questions."""
    scores, signed = scores_of(groups, standings, settings), signatures_of(groups, settings, format)
    generator = Randomness(0).numpy("intervals")
    lines = [f"{len(groups):,} contexts, {sum(map(len, groups)):,} questions"]
    for name, measure in measures_of(settings).items():
        between = ""
        if len(groups) > 1:
            found = bootstrap_score_interval(measure.statistics(groups, standings), measure.score, generator)
            between = f" ({found.low:.4f} to {found.high:.4f})"
        lines.append(f"{name} {scores[name]:.4f}{between}   {signed[name]}")
    return Report(scores, signed, tuple(lines))
