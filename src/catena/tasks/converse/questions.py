"""Ranking examples: contexts with a correct response among candidates, the same for every model.

Incorrect candidates (distractors) come from the file, or are correct responses to other contexts, sampled by a seed and
the index of the context.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from catena.data.dialogue import Exchange
from catena.errors import DataError
from catena.metrics.intervals import bootstrap_score_interval
from catena.metrics.measure import Metric, signature
from catena.metrics.ranking import RECIPROCAL_RANK, RankCounts, recall_measure
from catena.randomness import Randomness
from catena.registry import did_you_mean
from catena.tasks.application import EvaluationReport
from catena.tasks.converse.config import ConverseEvaluationConfig


@dataclass(frozen=True)
class RankingExample:
    """A context and its candidate responses; the first one is correct."""

    exchange: Exchange
    candidates: tuple[str, ...]


Groups = list[list[RankingExample]]
"""The examples of each context, one for each of its correct responses."""


def n_distractors(part: Sequence[Exchange], settings: ConverseEvaluationConfig, format: str) -> str:
    """The kind of distractors, with ``auto`` resolved.

    ``auto`` is ``given`` for a table of distractors or a file with enough incorrect responses for each context, and
    ``random`` otherwise.
    """
    if settings.distractors != "auto":
        return settings.distractors
    enough = all(len(exchange.wrong) >= settings.candidates - 1 for exchange in part if exchange.responses)
    return "given" if format == "distractors" or enough else "random"


def build_ranking_examples(
    part: Sequence[Exchange], settings: ConverseEvaluationConfig, format: str, more: Sequence[str] = ()
) -> Groups:
    """The ranking examples of a split.

    Args:
        part: the exchanges.
        settings: number and kind of distractors.
        format: the file format, which resolves ``auto``.
        more: further responses to sample from if the split has too few.
    """
    how = n_distractors(part, settings, format)
    right = [exchange for exchange in part if exchange.responses]
    return _drawn(right, settings, more) if how == "random" else _named(right, how)


def _named(right: Sequence[Exchange], how: str) -> Groups:
    """Examples with the distractors of the file."""
    name = "wrong" if how == "given" else "hard"
    missing = [exchange for exchange in right if not getattr(exchange, name)]
    if missing:
        raise DataError(
            f"{missing[0].place} has no distractors for evaluation.distractors = {how!r}. Set it to 'random' to sample "
            f"them."
        )
    return [
        [RankingExample(exchange, (response, *getattr(exchange, name))) for response in exchange.responses]
        for exchange in right
    ]


def _drawn(right: Sequence[Exchange], settings: ConverseEvaluationConfig, more: Sequence[str]) -> Groups:
    """Examples whose distractors are sampled correct responses to other contexts."""
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
            group.append(RankingExample(exchange, (response, *(others[int(j)] for j in drawn))))
        groups.append(group)
    if groups and not any(len(question.candidates) > 1 for group in groups for question in group):
        raise DataError("All contexts have the same responses, so there are no distractors to sample. Add contexts.")
    return groups


def build_metric(name: str, settings: ConverseEvaluationConfig) -> Metric:
    """The ranking metric with this name: mrr, or recall@k for any k."""
    recall, _, k = name.partition("@")
    if recall == "recall" and k.isdecimal() and int(k):
        return recall_measure(int(k))
    if name != "mrr":
        raise DataError(f"Unknown ranking metric {name!r}: {did_you_mean(name, settings.ranking)}")
    return RECIPROCAL_RANK


def build_metrics(settings: ConverseEvaluationConfig) -> dict[str, Metric]:
    """All ranking metrics by name."""
    return {name: build_metric(name, settings) for name in settings.ranking}


def compute_scores(
    groups: Groups, standings: Sequence[Sequence[RankCounts]], settings: ConverseEvaluationConfig
) -> dict[str, float]:
    """The scores of a ranking."""
    return {name: float(measure(groups, standings)) for name, measure in build_metrics(settings).items()}


def metric_signatures(groups: Groups, settings: ConverseEvaluationConfig, format: str) -> dict[str, str]:
    """The evaluation conditions of each score, as signatures."""
    how = n_distractors([group[0].exchange for group in groups], settings, format)
    sizes = {len(question.candidates) for group in groups for question in group}
    about: dict[str, object] = {
        "candidates": f"{min(sizes)}-{max(sizes)}" if len(sizes) > 1 else min(sizes),
        "distractors": how,
        "questions": sum(map(len, groups)),
    }
    if how == "random":
        about["seed"] = settings.seed
    return {name: signature(measure.name, len(groups), about) for name, measure in build_metrics(settings).items()}


def build_report(
    groups: Groups, standings: Sequence[Sequence[RankCounts]], settings: ConverseEvaluationConfig, format: str
) -> EvaluationReport:
    """The report of the scores with confidence intervals, from a bootstrap over contexts with all their examples."""
    scores, signed = compute_scores(groups, standings, settings), metric_signatures(groups, settings, format)
    generator = Randomness(0).numpy("intervals")
    lines = [f"{len(groups):,} contexts, {sum(map(len, groups)):,} examples"]
    for name, measure in build_metrics(settings).items():
        between = ""
        if len(groups) > 1:
            found = bootstrap_score_interval(measure.statistics(groups, standings), measure.score, generator)
            between = f" ({found.low:.4f} to {found.high:.4f})"
        lines.append(f"{name} {scores[name]:.4f}{between}   {signed[name]}")
    return EvaluationReport(scores, signed, tuple(lines))
