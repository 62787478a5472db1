"""The state of a run that is needed to resume, in addition to weights and optimizer, and its best steps.

Tested in tests/training/test_state.py and test_loop.py.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from catena.checkpoint.values import find_misfit
from catena.training.config import TrainingConfig

if TYPE_CHECKING:
    import torch
    from torch import Tensor


@dataclass
class TrainingState:
    """The state of a run after a step, when everything due at that step is done."""

    step: int = 0
    """Number of steps taken."""
    epoch: int = 1
    """The epoch of the next batch."""
    batch: int = 0
    """The index of the next batch in that epoch."""
    tokens: int = 0
    """Tokens read since the start."""
    seconds: float = 0.0
    """Time since the start, without pauses between interruption and resumption."""
    loss_sum: float = 0.0
    """Loss times items since the last evaluation."""
    loss_items: int = 0
    """Items since the last evaluation."""
    best_step: int = -1
    """The step of the best evaluation; -1 before the first."""
    best_scores: dict[str, float | None] = field(default_factory=dict)
    """The scores of the best evaluation; None if one is not finite."""
    stale: int = 0
    """Evaluations since the best."""
    plateau_reached: float = 1.0
    plateau_waited: int = 0
    """See :class:`catena.training.optimize.Plateau`."""
    kept: dict[int, float | None] = field(default_factory=dict)
    """The steps whose checkpoints are kept, with their scores; None if there was no evaluation."""

    def as_json(self) -> dict[str, Any]:
        """Plain values for state.json."""
        return dataclasses.asdict(self) | {"kept": {str(step): score for step, score in self.kept.items()}}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> TrainingState:
        """The state that :meth:`as_json` wrote."""
        misfit = find_misfit(values, _KINDS)
        if misfit:
            raise ValueError(misfit)
        return cls(**{**values, "kept": {int(step): score for step, score in values["kept"].items()}})


_KINDS: dict[str, Any] = {
    **dict.fromkeys(("step", "epoch", "batch", "tokens", "loss_items", "best_step", "stale", "plateau_waited"), int),
    **dict.fromkeys(("seconds", "loss_sum", "plateau_reached"), float),
    **dict.fromkeys(("best_scores", "kept"), dict[str, float | None]),
}
"""The types of the fields of a state in JSON."""


def random_states(device: torch.device) -> dict[str, Tensor]:
    """The states of torch's global generators: CPU and the device in use."""
    import torch

    states = {"cpu": torch.get_rng_state()}
    if device.type == "cuda":
        states["cuda"] = torch.cuda.get_rng_state(device)
    elif device.type == "mps":
        states["mps"] = torch.mps.get_rng_state()
    return states


def restore_random_states(states: Mapping[str, Tensor], device: torch.device) -> None:
    """Restore the states of torch's global generators."""
    import torch

    torch.set_rng_state(states["cpu"])
    if device.type == "cuda" and "cuda" in states:
        torch.cuda.set_rng_state(states["cuda"], device)
    elif device.type == "mps" and "mps" in states:
        torch.mps.set_rng_state(states["mps"])


@contextmanager
def preserve_rng(device: torch.device) -> Iterator[None]:
    """Context that restores the global generators at its end."""
    states = random_states(device)
    try:
        yield
    finally:
        restore_random_states(states, device)


# --- the best evaluation and the checkpoints to keep ------------------------------------------------------------------


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
