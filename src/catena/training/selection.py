"""Selection of the best evaluation and of the checkpoints to keep.

Scores are plain floats. None replaces scores that are not finite; they are worse than any other.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from catena.training.config import TrainingConfig


def finite(scores: Mapping[str, float]) -> dict[str, float | None]:
    """Scores as plain floats, with None for those that are not finite."""
    return {name: float(s) if math.isfinite(s) else None for name, s in scores.items()}


def is_better(
    scores: Mapping[str, float], best: Mapping[str, float | None], metric: str, higher: bool, ties: str = ""
) -> bool:
    """Whether scores are better than the best so far.

    Args:
        scores: the scores of an evaluation.
        best: the best scores so far, as returned by :func:`finite`; empty if there are none.
        metric: the score that decides.
        higher: whether a higher metric is better.
        ties: the score (lower is better) that decides if the metric is equal.
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
    """The steps whose checkpoints are kept: those with the best scores, the newest, and the best of all.

    ``kept`` has the scores of the existing checkpoints, None for those without an evaluation.
    """
    sign = -1 if higher else 1
    scored = [(score * sign, step) for step, score in kept.items() if score is not None]
    best = [step for _, step in sorted(scored)[: settings.keep_best]]
    newest = sorted(kept)[-settings.keep_last :]
    first = [best_step] if best_step in kept else []
    return sorted({*best, *newest, *first})
