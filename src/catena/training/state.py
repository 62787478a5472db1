"""The state of a run that is needed to resume, in addition to weights and optimizer."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

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
    """See :class:`catena.training.schedule.Plateau`."""
    kept: dict[int, float | None] = field(default_factory=dict)
    """The steps whose checkpoints are kept, with their scores; None if there was no evaluation."""

    def as_json(self) -> dict[str, Any]:
        """Plain values for state.json."""
        return dataclasses.asdict(self) | {"kept": {str(step): score for step, score in self.kept.items()}}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> TrainingState:
        """The state that :meth:`as_json` wrote."""
        return cls(**{**values, "kept": {int(step): score for step, score in values["kept"].items()}})


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
