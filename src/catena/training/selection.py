"""Which evaluation is the best, and which checkpoints are worth keeping. Plain numbers; knows nothing of a loop.

Scores are kept as plain numbers, None in place of what is not finite: such a score is worse than any other.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from catena.training.config import TrainingConfig
from catena.training.task import Task

_LOWER_IS_BETTER = ("loss", "perplexity", "error", "bits", "nats", "entropy", "calibration", "ratio", "extra")
"""Words in the name of a score of which less is better."""


def higher_is_better(task: Task, metric: str) -> bool:
    """Whether more of a metric is better: as the task says of its own, by their names for the others."""
    if metric == task.metric:
        return task.higher_is_better
    return not any(word in metric.lower() for word in _LOWER_IS_BETTER)


def finite(scores: Mapping[str, float]) -> dict[str, float | None]:
    """Scores as plain numbers, None in place of what is not finite."""
    return {name: float(s) if math.isfinite(s) else None for name, s in scores.items()}


def is_better(
    scores: Mapping[str, float], best: Mapping[str, float | None], metric: str, higher: bool, ties: str = ""
) -> bool:
    """Whether scores are better than the best so far.

    Args:
        scores: of an evaluation.
        best: the scores of the best one before it, as :func:`finite` gives them; empty if there is none.
        metric: the score that decides.
        higher: whether more of it is better.
        ties: the score, less being better, that decides where the metric is equal.
    """
    if not best:
        return True
    score, before = scores[metric], best[metric]
    if before is None or not math.isfinite(score):
        return before is None and math.isfinite(score)
    if score == before and ties in scores:
        other = best.get(ties)
        return other is not None and scores[ties] < other
    return score > before if higher else score < before


def steps_to_keep(
    kept: Mapping[int, float | None], best_step: int, settings: TrainingConfig, higher: bool
) -> list[int]:
    """The steps whose checkpoints stay: the best ones by their scores, the newest ones, and the best of all.

    ``kept`` has the scores of the checkpoints that are there, None where there was no evaluation.
    """
    sign = -1 if higher else 1
    scored = [(score * sign, step) for step, score in kept.items() if score is not None]
    best = [step for _, step in sorted(scored)[: settings.keep_best]]
    newest = sorted(kept)[-settings.keep_last :]
    first = [best_step] if best_step in kept else []
    return sorted({*best, *newest, *first})
